"""Who depends on a cluster is known before it is masked."""

from __future__ import annotations

from ha_core.model import Cluster, Group, Topic, Usage, Use, UserBindings, View
from ha_core.model.extent import identity
from ha_core.plan.masking import Affected, affected
from tests.plan.maps import cut

CLUSTERS = {name: Cluster(name=name, bootstrap=f"{name}:1", default=name == "east") for name in ("east", "west")}
MOVED = cut(identity("east"), 10, "west", 0)


def use(instance: str = "app") -> tuple[Use, ...]:
    return (Use(instance=instance, how="produce", since="2026-01-01T00:00:00Z"),)


def test_a_cluster_on_which_nothing_depends_affects_nobody() -> None:
    assert affected(View(clusters=CLUSTERS), {}, "west", {"orders": {"east"}}) == Affected()


def test_topics_are_counted_where_they_are_written_and_where_their_older_records_lie() -> None:
    view = View(clusters=CLUSTERS, topics={"moved": Topic(name="moved", writer="west", partitions={0: MOVED})})
    holders = {"moved": {"east", "west"}, "orders": {"east"}, "both": {"east", "west"}}

    assert affected(view, {}, "east", holders) == Affected(written=("both", "orders"), older=("moved",))
    assert affected(view, {}, "west", holders) == Affected(written=("moved",))


def test_what_readers_skip_anyway_is_not_missed() -> None:
    skipped = (MOVED[0].model_copy(update={"ignored": True}), MOVED[1])
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


def test_users_are_affected_by_the_finest_binding_that_applies() -> None:
    view = View(
        clusters=CLUSTERS,
        bindings={
            "ann": UserBindings(user="ann", cluster="east", instances={"app": "west"}, groups={"billing": "east"})
        },
        groups={"carried": Group(name="carried", cluster="west")},
    )
    usage = {"ann": Usage(user="ann", topics={"both": use()}, groups={"billing": use()})}

    found = affected(view, usage, "west", {"both": {"east", "west"}})

    assert found == Affected(written=("both",), groups=("carried",), users={"ann": ("topic both",)})


def test_a_user_that_is_bound_there_is_named_even_if_no_use_of_it_is_known() -> None:
    view = View(clusters=CLUSTERS, bindings={"bob": UserBindings(user="bob", cluster="west")})

    assert affected(view, {}, "west", {}) == Affected(users={"bob": ()})


def test_a_topic_that_does_not_exist_yet_stops_nobody() -> None:
    usage = {"ann": Usage(user="ann", topics={"planned": use()})}

    assert affected(View(clusters=CLUSTERS), usage, "east", {}) == Affected()


def test_who_depends_is_said_in_lists_which_pages_show_as_they_are() -> None:
    depends = Affected(written=("orders",), users={"alice": ("topic orders",)})

    assert depends.to_json() == {"written": ["orders"], "older": [], "groups": [], "users": {"alice": ["topic orders"]}}
