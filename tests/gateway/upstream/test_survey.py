"""Topologies from METADATA answers."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.model.topology import ClusterTopology
from gateway.upstream.decoding import learn
from ha_core.model.cluster import parse_bootstrap

BEFORE = ClusterTopology("east", True, {1: ("h", 1)}, {"a": {0: 1}, "b": {0: 1}}, {3: (0, 12)}, "")


def answer(*topics: dict[str, Any], controller: int = 1) -> dict[str, Any]:
    return {
        "brokers": [{"node_id": 1, "host": "h", "port": 1}],
        "controller_id": controller,
        "topics": [{"error_code": 0, "partitions": []} | topic for topic in topics],
    }


def led(name: str, leader: int) -> dict[str, Any]:
    return {"name": name, "partitions": [{"partition_index": 0, "leader_id": leader}]}


def test_an_answer_without_changes_returns_the_same_topology_object() -> None:
    assert learn(BEFORE, answer(led("a", 1)), complete=False) is BEFORE
    assert learn(BEFORE, answer(led("b", 1), led("a", 1)), complete=True) is BEFORE


def test_an_answer_about_some_topics_leaves_the_others() -> None:
    after = learn(BEFORE, answer(led("a", 2), led("c", 1)), complete=False)

    assert after.topics == {"a": {0: 2}, "b": {0: 1}, "c": {0: 1}}
    assert after.api_versions == BEFORE.api_versions


def test_an_answer_about_all_topics_removes_missing_ones() -> None:
    assert learn(BEFORE, answer(led("b", 1)), complete=True).topics == {"b": {0: 1}}


def test_an_unknown_topic_is_removed_and_one_that_cannot_be_described_now_is_kept() -> None:
    after = learn(BEFORE, answer({"name": "a", "error_code": 3}, {"name": "b", "error_code": 5}), complete=True)

    assert after.topics == {"b": {0: 1}}


def test_another_controller_is_no_change() -> None:
    assert learn(BEFORE, answer(led("a", 1), controller=2), complete=False) is BEFORE


def test_bootstrap_servers_are_parsed_with_names_and_addresses() -> None:
    assert parse_bootstrap("a:1, 10.0.0.1:2,[::1]:3") == (("a", 1), ("10.0.0.1", 2), ("::1", 3))


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a:1,b"])
def test_invalid_bootstrap_servers_are_named(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(text)
