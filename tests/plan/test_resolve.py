import itertools
from collections.abc import Callable, Collection

import pytest

from ha_core.model import Cluster, Extent, Fence, Identity, Topic, UserBindings, View
from ha_core.plan.routing.resolve import Resolved, cluster_for_group, cluster_for_topic, cluster_for_user

CLUSTERS = {
    name: Cluster(name=name, bootstrap="h:1", default=name == "home") for name in ("home", "east", "west", "north")
}
ALICE = Identity("alice", "app-1")


def existing(**holders: Collection[str]) -> Callable[[str], Collection[str]]:
    return lambda topic: holders.get(topic, ())


def view(bindings: UserBindings | None = None, topic: Topic | None = None) -> View:
    return View(
        clusters=CLUSTERS,
        bindings={bindings.user: bindings} if bindings else {},
        topics={topic.name: topic} if topic else {},
    )


ALL_LEVELS = UserBindings(
    user="alice", cluster="east", instances={"app-1": "west"}, topics={"t": "north"}, groups={"g": "north"}
)


def test_a_map_wins_over_every_binding() -> None:
    moved = Topic(name="t", writer="east", partitions={0: (Extent(cluster="east", start=0, base=0, writer_epoch=1),)})

    assert cluster_for_topic(view(ALL_LEVELS, moved), ALICE, "t", existing(t=["west"])) == Resolved(
        "east", "map", False
    )


def test_a_fence_alone_is_no_map() -> None:
    fenced = Topic(name="t", fence=Fence(operation="op"))

    assert cluster_for_topic(view(ALL_LEVELS, fenced), ALICE, "t", existing()).level == "user#topic"


@pytest.mark.parametrize("have", list(itertools.product([False, True], repeat=3)))
def test_the_finest_binding_that_exists_decides_for_a_topic(have: tuple[bool, bool, bool]) -> None:
    # Given a user with any of the three bindings that apply to a topic
    topic, instance, user = have
    bindings = UserBindings(
        user="alice",
        topics={"t": "north"} if topic else {},
        instances={"app-1": "west"} if instance else {},
        cluster="east" if user else None,
    )
    # When the topic is resolved
    resolved = cluster_for_topic(view(bindings), ALICE, "t", existing())
    # Then the finest of them decides
    expected = [
        ("north", "user#topic", topic),
        ("west", "user+instance", instance),
        ("east", "user", user),
        ("home", "default", True),
    ]
    assert (resolved.cluster, resolved.level) == next((c, level) for c, level, there in expected if there)


def test_bindings_of_others_do_not_count() -> None:
    other = Identity("bob", "app-1")

    assert cluster_for_topic(view(ALL_LEVELS), other, "t", existing()).cluster == "home"
    assert cluster_for_group(view(ALL_LEVELS), other, "g") == "home"
    assert cluster_for_user(view(ALL_LEVELS), other) == "home"


def test_another_instance_of_the_user_follows_the_user() -> None:
    other = Identity("alice", "app-2")

    assert cluster_for_topic(view(ALL_LEVELS), other, "u", existing()).cluster == "east"


def test_the_topic_hint_of_a_client_id_decides_for_topics_and_transactions_but_not_for_groups() -> None:
    hinted = Identity("alice", "HA#alice#t", topic_hint="t")

    assert cluster_for_topic(view(ALL_LEVELS), hinted, "t", existing()) == Resolved("north", "user#topic", False)
    assert cluster_for_topic(view(ALL_LEVELS), hinted, "other", existing()) == Resolved("north", "hint", False)
    assert cluster_for_user(view(ALL_LEVELS), hinted) == "north"
    assert cluster_for_group(view(ALL_LEVELS), hinted, "g2") == "east"


def test_a_topic_hint_without_a_binding_changes_nothing() -> None:
    hinted = Identity("alice", "HA#alice#z", topic_hint="z")

    assert cluster_for_topic(view(ALL_LEVELS), hinted, "u", existing()).level == "user"


def test_a_bound_topic_that_exists_only_elsewhere_is_served_there_and_reported_as_different() -> None:
    bound = UserBindings(user="alice", cluster="west")

    assert cluster_for_topic(view(bound), ALICE, "t", existing(t=["east"])) == Resolved("east", "user", True)
    assert cluster_for_topic(view(bound), ALICE, "t", existing(t=["north", "home"])) == Resolved("home", "user", True)
    assert cluster_for_topic(view(bound), ALICE, "t", existing(t=["east", "west"])) == Resolved("west", "user", False)
    assert cluster_for_topic(view(bound), ALICE, "t", existing()) == Resolved("west", "user", False)


def test_a_topic_without_a_binding_is_served_where_it_exists() -> None:
    assert cluster_for_topic(view(), ALICE, "t", existing(t=["east"])) == Resolved("east", "topic", False)
    assert cluster_for_topic(view(), ALICE, "t", existing(t=["east", "home"])) == Resolved("home", "topic", False)
    assert cluster_for_topic(view(), ALICE, "t", existing()) == Resolved("home", "default", False)


def test_every_gateway_serves_a_topic_of_several_clusters_from_the_same_one() -> None:
    for order in itertools.permutations(["west", "east", "north"]):
        assert cluster_for_topic(view(), ALICE, "t", existing(t=order)) == Resolved("east", "topic", True)


def test_groups_resolve_by_group_then_instance_then_user_then_default() -> None:
    assert cluster_for_group(view(ALL_LEVELS), ALICE, "g") == "north"
    assert cluster_for_group(view(ALL_LEVELS), ALICE, "h") == "west"
    assert cluster_for_group(view(ALL_LEVELS), Identity("alice", "app-2"), "h") == "east"
    assert cluster_for_group(view(UserBindings(user="alice")), ALICE, "h") == "home"


def test_transactions_resolve_by_instance_then_user_then_default() -> None:
    assert cluster_for_user(view(ALL_LEVELS), ALICE) == "west"
    assert cluster_for_user(view(ALL_LEVELS), Identity("alice", "app-2")) == "east"
    assert cluster_for_user(view(), ALICE) == "home"


def test_nothing_resolves_without_a_binding_and_a_default_cluster() -> None:
    undecided = View(clusters={name: CLUSTERS[name] for name in ("east", "west")})

    assert cluster_for_topic(undecided, ALICE, "t", existing()) == Resolved(None, "default", False)
    assert cluster_for_group(undecided, ALICE, "g") is None
    assert cluster_for_user(undecided, ALICE) is None


def test_a_binding_of_an_instance_holds_for_each_of_its_client_ids() -> None:
    bound = UserBindings(user="alice", cluster="east", instances={"till": "west"}, client_ids=("streams",))
    started = Identity("alice", "till-0b5fa0f2-2b6e-4a5c-8a0e-3f0c5b8f2d11-StreamThread-1-consumer")

    assert cluster_for_group(view(bound), started, "g") == "west"
    assert cluster_for_topic(view(bound), started, "t", existing()).level == "user+instance"
    assert cluster_for_user(view(bound.changed(client_ids=())), started) == "east"


def test_a_user_with_local_names_is_served_no_topic_of_another_cluster() -> None:
    bindings = UserBindings(user="alice", cluster="east", local_names="A")

    assert cluster_for_topic(view(bindings), ALICE, "t", existing(t=["west"])) == Resolved("east", "user", False)
    assert cluster_for_topic(view(UserBindings(user="alice", local_names="A")), ALICE, "t", existing(t=["west"])) == (
        Resolved("home", "default", False)
    )
