"""A topic's name means its only mirror, and a user reads the copy of the gateway's zone; nothing is guessed."""

import pytest

from ha_core.model import Cluster, Mirror, UserBindings, View
from ha_core.plan.mirror.mirrored_topics import NoSuchMirrorError, fed_by, is_chained, named, read_from


def mirror(topic: str, target: str) -> Mirror:
    return Mirror.of(topic, "east", target, "link", "2026-01-01T00:00:00Z", "test")


MIRRORS = [mirror("orders", "west"), mirror("orders", "north"), mirror("bills", "west"), mirror("orders-old", "west")]


@pytest.mark.parametrize(
    ("topics", "target", "keys"),
    [
        (["bills"], "", ["bills@west"]),
        (["orders"], "north", ["orders@north"]),
        (["orders*"], "", ["orders-old@west", "orders@north", "orders@west"]),
        (["orders*", "orders"], "west", ["orders-old@west", "orders@west"]),
        ([], "", ["bills@west", "orders-old@west", "orders@north", "orders@west"]),
        ([], "north", ["orders@north"]),
    ],
)
def test_names_and_patterns_mean_their_mirrors(topics: list[str], target: str, keys: list[str]) -> None:
    assert [one.key for one in named(MIRRORS, topics, target)] == keys


@pytest.mark.parametrize(
    ("topics", "target", "why"),
    [
        (["orders"], "", "Topic orders has mirrors in north, west. Name one of them with --to."),
        (["nothing"], "", "Topic nothing has no mirror. `switchyard mirrors` lists them."),
        (
            ["bills"],
            "north",
            "Topic bills has no mirror in north (there is one in west). `switchyard mirrors` lists them.",
        ),
        (["x*"], "", "Topic x* has no mirror. `switchyard mirrors` lists them."),
        ([], "south", "Topic * has no mirror in south (there is one in north, west)."),
    ],
)
def test_a_topic_without_a_mirror_or_with_several_is_named(topics: list[str], target: str, why: str) -> None:
    with pytest.raises(NoSuchMirrorError) as refused:
        named(MIRRORS, topics, target)
    assert why in str(refused.value)


def test_without_any_mirror_all_of_them_are_none() -> None:
    assert named([], []) == []


@pytest.mark.parametrize(
    ("read", "zone", "target"),
    [
        (None, "b", None),
        ("west", "", "west"),
        ("south", "", None),
        ("nearest", "", None),
        ("nearest", "b", "west"),
        ("nearest", "c", "north"),
        ("nearest", "a", None),
    ],
)
def test_a_user_reads_the_copy_that_it_names_or_that_of_the_gateways_zone(
    read: str | None, zone: str, target: str | None
) -> None:
    clusters = {"east": "a", "west": "b", "north": "c", "south": "a"}
    view = View(
        1,
        {name: Cluster(name=name, bootstrap="h:1", zone=where) for name, where in clusters.items()},
        {"ann": UserBindings(user="ann", read=read)},
        mirrors={one.key: one for one in MIRRORS},
    )
    found = read_from(view, "ann", "orders", zone)
    assert (found.target if found else None) == target
    assert read_from(view, "bob", "orders", zone) is None


def test_the_copy_of_a_copy_is_known_by_its_way_and_read_by_no_one() -> None:
    # Given copies one behind the other
    chained = mirror("orders", "north").changed(source="west", key="orders@north")
    bindings = {"ann": UserBindings(user="ann", read="north"), "bob": UserBindings(user="bob", read="west")}
    view = View(1, bindings=bindings, mirrors={one.key: one for one in (mirror("orders", "west"), chained)})
    # Then their records come from the writer over the first
    assert fed_by(view, "orders", "north") == ("east", "west")
    assert fed_by(view, "orders", "west") == ("east",)
    assert fed_by(view, "orders", "east") == fed_by(view, "bills", "west") == ()
    assert [is_chained(view, one) for one in (chained, mirror("orders", "west"))] == [True, False]
    # And readers are led to the first only
    assert read_from(view, "ann", "orders", "") is None
    assert read_from(view, "bob", "orders", "") == mirror("orders", "west")
    # And a circle, which no link makes, has an end
    circle = View(mirrors={one.key: one for one in (chained, mirror("orders", "west").changed(source="north"))})
    assert len(fed_by(circle, "orders", "west")) == 2


def test_a_copy_that_an_operation_holds_is_not_read() -> None:
    held = mirror("orders", "west").changed(held="switch-1")
    view = View(1, bindings={"ann": UserBindings(user="ann", read="west")}, mirrors={held.key: held})
    assert read_from(view, "ann", "orders", "") is None
