"""Offsets and leaders for a reader of copies: the log ends with the copy."""

from typing import Any

import pytest

from gateway.composed.handlers import Context
from gateway.composed.metadata import metadata
from gateway.composed.offsets import list_offsets, offset_for_leader_epoch
from gateway.model.copies import Copies, merged_reports
from ha_core.model import CopiedMirror, CopiedPartition, Mirror, MirrorCopies, Run, Topic, UserBindings
from ha_core.model.extent import identity
from ha_core.wire.codes import ApiKey
from tests.gateway.composed.described_clusters import ask as ask_metadata
from tests.gateway.composed.described_clusters import cluster
from tests.gateway.composed.logs import EARLIEST, HOLDS, LATEST, ask, log
from tests.gateway.composed.playbook import NodesGranted, Playbook, away, only_partition, only_topic, requested, world

MIRROR = Mirror.of("orders", "east", "west", "l1", "2026-01-01T00:00:00Z", "test")
PINNED = Topic(name="orders", writer="east", partitions={0: identity("east"), 1: identity("east")})


def reads(
    read: str | None = "west", *, level: bool = True, down: str = "", masked: str = "", told: bool = True
) -> Context:
    """A reader of the west's copy, which has [0, 30) of partition 0."""
    copies = Copies()
    copied_partitions = {0: CopiedPartition.of(31, level, [Run(0, 7, 30)])}
    document = MirrorCopies(
        slot=0, job="j", mirrors=(CopiedMirror(mirror=MIRROR.key, link="l1", partitions=copied_partitions),)
    )
    copies.learn(merged_reports([document] if told else [], {}))
    return world(
        east=HOLDS,
        west=HOLDS,
        topics=(PINNED,),
        bindings=() if read is None else (UserBindings(user="alice", read=read),),
        mirrors=(MIRROR,),
        copies=copies,
        down=down,
        masked=masked,
        port=("east", 1),
    )


def answer(context: Context, timestamp: int, replies: dict[str, Any]) -> tuple[int, int]:
    play = Playbook(list_offsets(context, 7, ask(timestamp)))
    play.answers_all(replies)
    partition = only_partition(play.encodes(ApiKey.LIST_OFFSETS, 7))
    return partition["error_code"], partition["offset"]


def test_the_latest_offset_is_the_end_of_the_copy_and_no_cluster_is_asked() -> None:
    assert answer(reads(), LATEST, {}) == (0, 30)


@pytest.mark.parametrize(
    "context",
    [reads(None), reads(level=False), reads(down="west"), reads(masked="west"), reads(told=False)],
    ids=["unbound", "lagging", "the copy is away", "the copy is masked", "no report"],
)
def test_the_latest_offset_is_the_sources_if_the_source_is_read(context: Context) -> None:
    assert answer(context, LATEST, {"east": log(0, 55)}) == (0, 55)


def test_a_lagging_copy_has_the_latest_offset_while_its_source_is_unreachable() -> None:
    assert answer(reads(level=False, down="east"), LATEST, {}) == (0, 30)


def test_the_earliest_offset_is_the_sources() -> None:
    assert answer(reads(), EARLIEST, {"east": log(4, 55)}) == (0, 4)
    assert answer(reads(), EARLIEST, {"east": away("east")})[0] != 0


def test_no_position_is_taken_for_truncated_when_the_copy_ends_below_it() -> None:
    partitions = [{"partition": 0, "current_leader_epoch": 3, "leader_epoch": 3}]
    request = requested(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, topics=[{"topic": "orders", "partitions": partitions}])
    play = Playbook(offset_for_leader_epoch(reads(), 3, request))
    play.answers_all({"east": log(0, 55)})
    assert only_partition(play.result)["end_offset"] == 55


def test_the_leader_is_the_sources_or_the_copys_while_the_source_is_unreachable() -> None:
    replies = {name: cluster(name, orders=1) for name in ("east", "west")}

    def leaders(context: Context) -> list[int]:
        play = NodesGranted(metadata(context, 9, ask_metadata("orders")))
        play.answers_all(replies)
        return [partition["leader_id"] for partition in only_topic(play.result)["partitions"]]

    assert leaders(reads()) == [11]
    assert leaders(reads(down="east")) == [21]
    assert set(leaders(reads(None, down="east"))) == {-1}
