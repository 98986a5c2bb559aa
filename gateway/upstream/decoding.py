"""Reads brokers' answers. Long ones are decoded off the event loop, and an unchanged METADATA answer only once. They
show a cluster's topology, and errors that mean that another broker has to be asked."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.composed.ask import Controller, Coordinator, Message
from gateway.model.topology import Address, ClusterTopology
from gateway.runtime.offload import LARGE_BYTES, DeferredFreeList, heavy, offload
from ha_core.wire import codec
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.header import response_body_at
from ha_core.wire.limits import WireLimits

_INT = 4


class Decoder:
    """Shared by all brokers of a cluster, which return the same topics.

    Decoding a list of fifty thousand topics takes seconds, and between two surveys it has mostly not changed. So the
    last long METADATA answer is kept as bytes, and an answer with the same bytes gets the same list object: callers
    that have processed that list see by identity that it is unchanged. Only the controller may differ, since KRaft
    brokers name any of their brokers at random.
    """

    def __init__(self, limits: WireLimits) -> None:
        self.limits = replace(limits, max_string=limits.max_response_bytes)
        """A broker's string may be as long as its answer, which has arrived already."""
        self._version = -1
        self._head = self._tail = b""
        """Bytes before and after the controller in the known answer."""
        self._known: Message = {}
        self._reading = asyncio.Lock()

    async def decode(self, api_key: int, version: int, frame: bytes) -> Message:
        """:raises WireError: the answer is malformed."""
        at = response_body_at(api_key, version, frame, 0)
        if len(frame) < LARGE_BYTES:
            return codec.decode(api_key, version, "response", frame, at, self.limits)
        if api_key != ApiKey.METADATA:
            return await offload(codec.decode, api_key, version, "response", frame, at, self.limits)
        async with self._reading:  # of twenty equal answers that arrive together only the first is decoded
            if not self._same(version, frame, at):
                found = await offload(codec.decode, api_key, version, "response", frame, at, self.limits)
                controller_at = at + _controller_at(version, found)
                self._head, self._tail = frame[at:controller_at], frame[controller_at + _INT :]
                self._version, self._known = version, {**found, "topics": DeferredFreeList(found["topics"])}
            controller = frame[at + len(self._head) :][:_INT]
            return {**self._known, "controller_id": int.from_bytes(controller, "big", signed=True)}

    def _same(self, version: int, frame: bytes, at: int) -> bool:
        length = len(self._head) + _INT + len(self._tail)
        same = version == self._version and len(frame) == at + length
        return same and frame.startswith(self._head, at) and frame.endswith(self._tail)


def _controller_at(version: int, message: Message) -> int:
    """Position of the controller in the body of a METADATA answer: the first byte in which two answers differ that have
    only different controllers."""
    one, other = (
        codec.encode(ApiKey.METADATA, version, "response", {**message, "topics": [], "controller_id": controller})
        for controller in (0, -1)
    )
    return next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)


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
    cluster_id = metadata["cluster_id"] or before.cluster_id
    away, leaderless = _missing(metadata, brokers) if complete else (before.brokers_away, before.leaderless)
    if not (news or gone):
        found = replace(before, brokers=brokers, cluster_id=cluster_id, brokers_away=away, leaderless=leaderless)
        return before if found == before else found
    topics = {name: leaders for name, leaders in before.topics.items() if name not in gone} | news
    return replace(
        before, brokers=brokers, topics=topics, cluster_id=cluster_id, brokers_away=away, leaderless=leaderless
    )


def _missing(metadata: Message, brokers: Mapping[int, Address]) -> tuple[frozenset[int], int]:
    """Brokers with replicas that are not live, and the number of partitions without a leader."""
    partitions = [partition for topic in metadata["topics"] for partition in topic["partitions"]]
    replicas = {node for partition in partitions for node in partition["replica_nodes"]}
    return frozenset(replicas - brokers.keys()), sum(partition["leader_id"] < 0 for partition in partitions)


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
