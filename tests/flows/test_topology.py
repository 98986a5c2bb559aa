"""Paths of topics through flows: copies of copies, topics with two writers, diamonds and cycles."""

from itertools import permutations

import pytest

from ha_core.flows.errors import FlowError
from ha_core.flows.filters import NameFilter, Patterns, parts
from ha_core.flows.policies import DefaultPolicy, IdentityPolicy, ReplicationPolicy
from ha_core.flows.topology import FlowRoute, check_cycles, diamonds, local_topics, name_conflicts, walk


def route(name: str, topics: str = ".*", policy: ReplicationPolicy | None = None, heartbeats: bool = True) -> FlowRoute:
    source, target = name.split("->")
    names = NameFilter(Patterns.of("topics", parts(topics)), Patterns.of("x", parts(r"mm2.*\.internal,__.*")))
    return FlowRoute(source, target, policy or DefaultPolicy(), names, heartbeats)


def made(routes: list[FlowRoute], **topics: list[str]) -> dict[str, list[str]]:
    """Cluster → its remote topics, sorted."""
    found: dict[str, list[str]] = {}
    for copy in walk(routes, topics):
        found.setdefault(copy.target, []).append(copy.remote_topic)
    return {cluster: sorted(its) for cluster, its in sorted(found.items())}


def test_active_clusters_copy_each_others_topic_with_the_same_name() -> None:
    assert made([route("A->B"), route("B->A")], A=["t"], B=["t"]) == {"A": ["B.t"], "B": ["A.t"]}


def test_topics_fan_in_to_a_cluster_and_are_copied_on() -> None:
    assert made([route("A->C"), route("B->C"), route("C->D")], A=["t"], B=["t"], C=[]) == {
        "C": ["A.t", "B.t"],
        "D": ["C.A.t", "C.B.t"],
    }


def test_a_ring_does_not_copy_a_topic_back_to_its_own_cluster() -> None:
    assert made([route("A->B"), route("B->C"), route("C->A")], A=["t"]) == {"B": ["A.t"], "C": ["B.A.t"]}


def test_in_a_mesh_each_name_has_an_alias_at_most_once() -> None:
    names = "ABCD"
    found = made([route(f"{a}->{b}") for a, b in permutations(names, 2)], A=["t"])
    assert all(len(set(topic.split("."))) == len(topic.split(".")) for its in found.values() for topic in its)
    assert found["D"] == ["A.t", "B.A.t", "B.C.A.t", "C.A.t", "C.B.A.t"]


def test_filters_apply_to_each_hop_and_internal_topics_are_not_copied() -> None:
    routes = [route("A->B", "orders.*"), route("B->C", r"A\.orders")]
    assert made(routes, A=["orders", "orders2", "other", "__x", "mm2-offsets.A.internal"]) == {
        "B": ["A.orders", "A.orders2"],
        "C": ["B.A.orders"],
    }


@pytest.mark.parametrize(("heartbeats", "found"), [(True, {"B": ["A.heartbeats"]}), (False, {})])
def test_heartbeats_are_copied_past_the_filter_unless_that_is_disabled(
    heartbeats: bool, found: dict[str, list[str]]
) -> None:
    assert made([route("A->B", "orders", heartbeats=heartbeats)], A=["heartbeats"]) == found


def test_a_diamond_is_reported_with_the_names_of_both_copies() -> None:
    routes = [route("A->B"), route("B->C"), route("A->C")]
    assert [tuple(ways) for ways in diamonds(walk(routes, {"A": ["t", "heartbeats"]}))] == [
        ("t", "A", "C", ("A.t", "B.A.t"))
    ]


def test_a_topic_that_local_producers_and_a_flow_would_write_is_found() -> None:
    keep = IdentityPolicy(source_alias="A")
    found = list(walk([route("A->B", policy=keep)], {"A": ["t", "u"], "B": ["t"]}))
    assert [tuple(name) for name in name_conflicts(found, {"B": ["t"]})] == [
        ("B", "t", ("A->B (t)", "local producers"))
    ]


def test_two_flows_that_would_write_one_topic_are_found() -> None:
    routes = [route(f"{alias}->C", policy=IdentityPolicy(source_alias=alias)) for alias in "AB"]
    found = list(walk(routes, {"A": ["t"], "B": ["t"]}))
    assert [name.writers for name in name_conflicts(found, {})] == [("A->C (t)", "B->C (t)")]


def test_topics_that_a_flow_would_have_created_are_not_local() -> None:
    routes = [route("A->B", "t.*"), route("B->A")]
    listed = {"A": ["t", "B.x"], "B": ["A.t1", "A.other", "own"]}
    assert local_topics(routes, listed) == {"A": {"t"}, "B": {"A.other", "own"}}


@pytest.mark.parametrize(
    ("names", "cycle"),
    [
        (["A->B", "B->A"], "A -> B -> A"),
        (["A->B", "B->C", "C->A"], "A -> B -> C -> A"),
        (["X->A", "A->B", "B->A"], "A -> B -> A"),
    ],
)
def test_a_cycle_of_flows_that_keep_names_is_refused(names: list[str], cycle: str) -> None:
    with pytest.raises(FlowError, match=f"the flows {cycle} form a cycle"):
        check_cycles(route(name, policy=IdentityPolicy()) for name in names)


def test_flows_that_keep_names_without_a_cycle_are_accepted() -> None:
    check_cycles(route(name, policy=IdentityPolicy()) for name in ("A->B", "B->C", "A->C", "D->C"))
    check_cycles([route("A->B"), route("B->A")])


def test_a_flow_to_its_own_cluster_is_refused() -> None:
    with pytest.raises(FlowError, match="flow A->A has one cluster on both sides"):
        check_cycles([route("A->A")])
