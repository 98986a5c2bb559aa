"""Copies may be deleted when their mirrors end, unless readers, groups or operators need them."""

import pytest

from ha_core.model import LostTail, Tail, Topic, UserBindings, View
from ha_core.model.extent import Extent
from ha_core.plan.mirror.unlinking import needed
from tests.kit.operations import a_tail

IDENTITY = Topic(
    name="orders", writer="east", partitions={0: (Extent(cluster="east", start=0, end=None, base=0, writer_epoch=0),)}
)
HELD = Topic(
    name="orders",
    writer="east",
    partitions={
        0: (
            Extent(cluster="west", start=0, end=5, base=0, writer_epoch=0),
            Extent(cluster="east", start=5, end=None, base=0, writer_epoch=1),
        )
    },
)


def view(*topics: Topic, bindings: tuple[UserBindings, ...] = ()) -> View:
    return View(
        0,
        topics={topic.name: topic for topic in topics},
        bindings={user_bindings.user: user_bindings for user_bindings in bindings},
    )


def tail(cluster: str, counted: str | None) -> LostTail:
    return a_tail("orders", cluster, "east", partitions={0: Tail(mirrored=5, client=5)}, counted=counted)


BOUND = UserBindings(user="ann", topics={"orders": "west"})
ELSEWHERE = UserBindings(user="bob", cluster="west", read="west", topics={"orders": "east", "bills": "west"})
WHEN = "2026-01-02T00:00:00Z"


def test_a_copy_may_be_deleted_if_all_users_are_routed_to_the_source() -> None:
    tails = [tail("west", WHEN), tail("east", None)]
    assert needed(view(IDENTITY, bindings=(ELSEWHERE,)), "orders", "west", tails, ()) == ""


@pytest.mark.parametrize(
    ("state", "tails", "groups", "why"),
    [
        (view(), [], (), "its map is gone"),
        (view(HELD), [], (), "its map names west: records of it are read or written there"),
        (view(IDENTITY), [tail("west", None)], (), "that are not counted yet: `switchyard mirror reconcile west`"),
        (view(IDENTITY, bindings=(BOUND,)), [], (), "ann#orders is bound to west"),
        (view(IDENTITY), [], ("tills",), "group tills commits offsets of it there"),
    ],
)
def test_a_needed_copy_stays_with_the_reason(
    state: View, tails: list[LostTail], groups: tuple[str, ...], why: str
) -> None:
    assert why in needed(state, "orders", "west", tails, groups)
