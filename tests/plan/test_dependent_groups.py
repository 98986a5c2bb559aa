"""Who follows a topic: what members were assigned, and which users' groups are coordinated where."""

from __future__ import annotations

import struct

import pytest

from ha_core.model import Cluster, Crossing, Topic, Usage, Use, UserBindings, View
from ha_core.plan.dependents import assigned_topics, crossing_for, has_user, users_at

SINCE = "2026-01-01T00:00:00Z"


def assignment(*topics: tuple[str, int]) -> bytes:
    """Version 0: topics with so many partitions each, and user data."""
    parts = [struct.pack(">hi", 0, len(topics))]
    for name, count in topics:
        parts.append(struct.pack(">h", len(name)) + name.encode())
        parts.append(struct.pack(f">i{count}i", count, *range(count)))
    return b"".join(parts) + struct.pack(">i", -1)


def test_an_assignment_names_the_topics_that_a_member_has_partitions_of() -> None:
    assert assigned_topics(assignment(("orders", 3), ("none", 0), ("refunds", 1))) == {"orders", "refunds"}


@pytest.mark.parametrize("cut", range(len(assignment(("orders", 3)))))
def test_bytes_that_are_no_assignment_name_nothing(cut: int) -> None:
    found = assigned_topics(assignment(("orders", 3))[:cut])
    # The user data at the end are nobody's business
    assert found == ({"orders"} if cut >= len(assignment(("orders", 3))) - 4 else set())
    assert assigned_topics(b"\xff" * 40) == set()


def test_a_group_belongs_to_users_whose_binding_leads_to_its_coordinator() -> None:
    # Given four users of a group, each with another binding
    use = Use(instance="i-1", how="commit", since=SINCE)
    usage = {name: Usage(user=name, groups={"billing": (use,)}) for name in ("alice", "bob", "carol", "dave")}
    view = View(
        clusters={
            "east": Cluster(name="east", bootstrap="h:1", default=True),
            "west": Cluster(name="west", bootstrap="h:2"),
        },
        bindings={
            "bob": UserBindings(user="bob", cluster="west"),
            "carol": UserBindings(user="carol", cluster="west", groups={"billing": "east"}),
            "dave": UserBindings(user="dave", instances={"i-1": "west"}),
        },
    )
    # When its users are asked for
    # Then each cluster has those whose binding leads there
    assert users_at(view, usage, "billing", "east") == ("alice", "carol")
    assert users_at(view, usage, "billing", "west") == ("bob", "dave")
    assert users_at(view, usage, "audit", "east") == ()
    assert has_user(usage, "billing")
    assert not has_user(usage, "audit")


def test_topics_that_cross_over_are_named_with_their_operation() -> None:
    crossing = Topic(name="orders", crossing=Crossing(operation="m-1", state="open"))
    view = View(topics={"orders": crossing, "refunds": Topic(name="refunds")})
    assert crossing_for(view, ["refunds", "orders", "unknown"]) == {"orders": "m-1"}
