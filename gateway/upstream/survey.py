"""Reads a cluster's answer: its topology, and errors that mean that another broker has to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.composed.ask import Controller, Coordinator, Message
from gateway.model.topology import ClusterTopology
from gateway.runtime.offload import heavy, offload
from ha_core.wire.codes import ErrorCode

ALL_TOPICS: Message = {"topics": None, "allow_auto_topic_creation": False}


def learn(before: ClusterTopology, metadata: Message, *, complete: bool) -> ClusterTopology:
    """The topology after a METADATA answer; `complete`: the answer covered all topics, so that missing ones are gone.

    Returns `before` itself if the answer brings nothing new: most answers for clients do not, and comparing whole
    topologies would cost more than the answer.
    """
    named = {topic["name"]: topic for topic in metadata["topics"]}
    brokers = {b["node_id"]: (b["host"], b["port"]) for b in metadata["brokers"]} or before.brokers
    news: dict[str, Mapping[int, int]] = {}
    gone = {name for name in before.topics if name not in named} if complete else set[str]()
    for name, topic in named.items():
        if topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if name in before.topics:
                gone.add(name)
        elif topic["partitions"]:  # without any it exists, but cannot be described at the moment
            leaders = {p["partition_index"]: p["leader_id"] for p in topic["partitions"]}
            if leaders != before.topics.get(name):
                news[name] = leaders
    if not (news or gone):
        return before if brokers == before.brokers else replace(before, brokers=brokers)
    topics = {name: leaders for name, leaders in before.topics.items() if name not in gone} | news
    return replace(before, brokers=brokers, topics=topics)


MOVED = {
    Controller: frozenset({ErrorCode.NOT_CONTROLLER}),
    Coordinator: frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}),
}
LEADER_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


async def has_error(answer: Message, codes: frozenset[ErrorCode]) -> bool:
    """True if an answer, or any element down to the partitions, has one of these errors."""
    if not codes:
        return False
    return await offload(_carries, answer, codes) if heavy(answer) else _carries(answer, codes)


def _carries(answer: Message, codes: frozenset[ErrorCode]) -> bool:
    layer: list[Any] = [answer]
    for _ in range(3):
        if any(item.get("error_code") in codes for item in layer):
            return True
        layer = [
            item
            for holder in layer
            for value in holder.values()
            if isinstance(value, list)
            for item in value
            if isinstance(item, dict)
        ]
    return False
