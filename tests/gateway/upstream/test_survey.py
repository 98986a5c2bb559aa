"""Topologies from METADATA answers."""

from typing import Any

import pytest

from gateway.model.topology import ClusterTopology
from gateway.upstream.cluster import survey_pause_s
from gateway.upstream.decoding import learn
from ha_core.model.cluster import parse_bootstrap

BEFORE = ClusterTopology("east", True, {1: ("h", 1)}, {"a": {0: 1}, "b": {0: 1}}, {3: (0, 12)}, "")


def answer(*topics: dict[str, Any], controller: int = 1) -> dict[str, Any]:
    return {
        "brokers": [{"node_id": 1, "host": "h", "port": 1}],
        "controller_id": controller,
        "cluster_id": None,
        "topics": [{"error_code": 0, "partitions": []} | topic for topic in topics],
    }


def led(name: str, leader: int) -> dict[str, Any]:
    return {"name": name, "partitions": [{"partition_index": 0, "leader_id": leader, "replica_nodes": [1]}]}


def test_an_answer_without_changes_returns_the_same_topology_object() -> None:
    assert learn(BEFORE, answer(led("a", 1)), complete=False) is BEFORE
    assert learn(BEFORE, answer(led("b", 1), led("a", 1)), complete=True) is BEFORE


@pytest.mark.parametrize(
    ("told", "complete", "topics"),
    [
        ([led("a", 2), led("c", 1)], False, {"a": {0: 2}, "b": {0: 1}, "c": {0: 1}}),
        ([led("b", 1)], True, {"b": {0: 1}}),
        ([{"name": "a", "error_code": 3}, {"name": "b", "error_code": 5}], True, {"b": {0: 1}}),
    ],
    ids=["some leave the others", "all remove missing ones", "unknown ones go, those not described now stay"],
)
def test_topics_are_learned_from_an_answer(told: list[dict[str, Any]], complete: bool, topics: Any) -> None:
    after = learn(BEFORE, answer(*told), complete=complete)
    assert (after.topics, after.api_versions) == (topics, BEFORE.api_versions)


def test_another_controller_does_not_publish_a_topology() -> None:
    assert learn(BEFORE, answer(led("a", 1), controller=2), complete=False) is BEFORE


def test_bootstrap_servers_are_parsed_with_names_and_addresses() -> None:
    assert parse_bootstrap("a:1, 10.0.0.1:2,[::1]:3") == (("a", 1), ("10.0.0.1", 2), ("::1", 3))


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a:1,b"])
def test_invalid_bootstrap_servers_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(text)


def test_the_id_that_brokers_tell_is_learned_and_kept_where_an_answer_has_none() -> None:
    after = learn(BEFORE, answer() | {"cluster_id": "4L6g3nShT"}, complete=False)

    assert after.cluster_id == "4L6g3nShT"
    assert learn(after, answer(), complete=False) is after


def test_a_broker_with_replicas_that_left_the_metadata_is_away_until_it_is_back_or_has_none() -> None:
    # Given a topic with replicas on brokers 1 and 2, of which only 1 is live, and a partition that only 2 could lead
    partitions = [
        {"partition_index": 0, "leader_id": 1, "replica_nodes": [1, 2]},
        {"partition_index": 1, "leader_id": -1, "replica_nodes": [2]},
    ]
    after = learn(BEFORE, answer({"name": "a", "partitions": partitions}, led("b", 1)), complete=True)

    assert (after.brokers_away, after.leaderless) == (frozenset({2}), 1)
    # An answer about some topics for a client does not know of the others
    assert learn(after, answer(led("b", 1)), complete=False).brokers_away == {2}
    # Nor does one about all topics say so any more when the replicas have moved
    moved = learn(after, answer(led("a", 1), led("b", 1)), complete=True)
    assert (moved.brokers_away, moved.leaderless) == (frozenset(), 0)


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.01, 10.0), (0.5, 10.0), (1.0, 20.0), (9.0, 30.0)])
def test_a_cluster_whose_survey_takes_long_is_surveyed_more_rarely(took_s: float, pause_s: float) -> None:
    assert survey_pause_s(took_s) == pause_s
