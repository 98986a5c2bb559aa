"""Judges checkpoints by the records of both clusters: which ones would a group read from there on?"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ha_core.flows.records import Checkpoint
from ha_core.mirror_client import MirrorClient


class Judged(NamedTuple):
    """A checkpoint, and what a group that goes on there gets.

    :ivar passed_over: records of the copy that it never reads.
    :ivar again: records that it reads a second time.
    """

    checkpoint: Checkpoint
    passed_over: int
    again: int


def checkpoints(bootstrap: str, alias: str) -> list[Checkpoint]:
    with MirrorClient({"bootstrap.servers": bootstrap}) as client:
        return client.checkpoints(alias)


def newest(found: Iterable[Checkpoint]) -> dict[tuple[str, str, int], Checkpoint]:
    """(group, topic in the target, partition) → its last checkpoint."""
    return {(one.group, one.topic, one.partition): one for one in found}


def judged(
    found: Iterable[Checkpoint],
    sources: Mapping[tuple[str, int], Collection[int]],
    copies: Mapping[tuple[str, int], Collection[int]],
) -> Iterator[Judged]:
    """
    :param sources: (topic in the target, partition) → offsets of the source's committed records, all of which are
        copied, in this order.
    :param copies: likewise → offsets of the copies.
    """
    for one in found:
        key = one.topic, one.partition
        if key in sources:
            due = bisect_left(list(sources[key]), one.upstream_offset)
            given = bisect_left(list(copies[key]), one.downstream_offset)
            yield Judged(one, max(given - due, 0), max(due - given, 0))
