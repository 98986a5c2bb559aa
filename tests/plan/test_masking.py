"""Dependents of a cluster are known before it is masked."""

import pytest

from ha_core.model import Cluster, Group, Mirror, Topic, Usage, Use, UserBindings, View
from ha_core.model.extent import identity
from ha_core.plan.absence.masking import Affected, affected
from tests.plan.maps import cut

CLUSTERS = {name: Cluster(name=name, bootstrap=f"{name}:1", default=name == "east") for name in ("east", "west")}
MOVED = cut(identity("east"), 10, "west", 0)


def use(instance: str = "app") -> tuple[Use, ...]:
    return (Use(instance=instance, how="produce", since="2026-01-01T00:00:00Z"),)


def test_masking_a_cluster_without_dependents_affects_no_user() -> None:
    assert affected(View(clusters=CLUSTERS), {}, "west", {"orders": {"east"}}) == Affected()


def test_masking_affects_topics_written_there_and_topics_with_older_records_there() -> None:
    view = View(clusters=CLUSTERS, topics={"moved": Topic(name="moved", writer="west", partitions={0: MOVED})})
    holders = {"moved": {"east", "west"}, "orders": {"east"}, "both": {"east", "west"}}

    assert affected(view, {}, "east", holders) == Affected(written=("both", "orders"), older=("moved",))
    assert affected(view, {}, "west", holders) == Affected(written=("moved",))


def test_masking_does_not_affect_extents_that_readers_skip() -> None:
    skipped = (MOVED[0].changed(ignored=True), MOVED[1])
    view = View(clusters=CLUSTERS, topics={"moved": Topic(name="moved", writer="west", partitions={0: skipped})})

    assert affected(view, {}, "east", {}) == Affected()


def test_a_topic_in_both_clusters_is_written_where_its_users_are_bound() -> None:
    view = View(clusters=CLUSTERS, bindings={"ann": UserBindings(user="ann", cluster="west")})
    usage = {"ann": Usage(user="ann", topics={"both": use()}, groups={"billing": use()})}
    holders = {"both": {"east", "west"}}

    assert affected(view, usage, "east", holders) == Affected()
    assert affected(view, usage, "west", holders) == Affected(
        written=("both",), groups=("billing",), users={"ann": ("group billing", "topic both")}
    )


def test_the_finest_binding_decides_whether_a_user_is_affected() -> None:
    # Given a user with bindings of three levels, and a group that a move has carried to west
    view = View(
        clusters=CLUSTERS,
        bindings={
            "ann": UserBindings(user="ann", cluster="east", instances={"app": "west"}, groups={"billing": "east"})
        },
        groups={"carried": Group(name="carried", cluster="west")},
    )
    usage = {"ann": Usage(user="ann", topics={"both": use()}, groups={"billing": use()})}
    # When west is to be masked
    found = affected(view, usage, "west", {"both": {"east", "west"}})
    # Then topics and groups with the finest bindings to it are affected
    assert found == Affected(written=("both",), groups=("carried",), users={"ann": ("topic both",)})


def test_a_user_bound_to_the_cluster_is_affected_even_without_known_use() -> None:
    view = View(clusters=CLUSTERS, bindings={"bob": UserBindings(user="bob", cluster="west")})

    assert affected(view, {}, "west", {}) == Affected(users={"bob": ()})


def test_a_topic_that_does_not_exist_affects_no_user() -> None:
    usage = {"ann": Usage(user="ann", topics={"planned": use()})}

    assert affected(View(clusters=CLUSTERS), usage, "east", {}) == Affected()


def test_affected_topics_groups_and_users_are_lists_in_json() -> None:
    depends = Affected(written=("orders",), users={"alice": ("topic orders",)})

    assert depends.to_json() == {
        "written": ["orders"],
        "older": [],
        "groups": [],
        "mirrors": [],
        "users": {"alice": ["topic orders"]},
    }


@pytest.mark.parametrize(
    ("masked", "expected"),
    [
        ("east", ("topic orders to north", "topic orders to west")),
        ("west", ("topic orders to west",)),
        ("south", ()),
    ],
)
def test_mirrors_from_or_to_the_masked_cluster_are_named(masked: str, expected: tuple[str, ...]) -> None:
    # Given a topic of east with a standby in west and one in north
    both = [Mirror.of("orders", "east", target, f"east-{target}", "now", "test") for target in ("west", "north")]
    view = View(clusters=CLUSTERS, mirrors={mirror.key: mirror for mirror in both})
    # When a cluster is to be masked
    found = affected(view, {}, masked, {})
    # Then the mirrors that it is a side of are named
    assert found == Affected(mirrors=expected)
    assert found.anything == bool(expected)


def test_a_partition_without_a_known_writer_counts_for_no_masked_cluster() -> None:
    # Given a topic of two partitions, one of which has a damaged map that ends in east
    (stay,) = identity("east")
    maps = {0: (stay.changed(end=10),), 1: identity("west")}
    view = View(clusters=CLUSTERS, topics={"broken": Topic(name="broken", writer="west", partitions=maps)})
    # When either cluster is to be masked
    east, west = (affected(view, {}, cluster, {}) for cluster in ("east", "west"))
    # Then the topic is written where the sound one is, and older records of it are in the other
    assert (east, west) == (Affected(older=("broken",)), Affected(written=("broken",)))
