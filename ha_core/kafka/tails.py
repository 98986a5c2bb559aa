"""Reads the ends of several partitions, and the records from an offset up to such an end."""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from ha_core.kafka.brokers import Again, Answers, Asking, pages
from ha_core.kafka.errors import KafkaAdminError, NotReadyError
from ha_core.kafka.offsets import DEBUGGER, Leaders, ends, fetched_several, listed_offsets
from ha_core.mirror.progress import CopyDamagedError
from ha_core.mirror.split import fields, read_records
from ha_core.model.isolation import Isolation
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ErrorCode
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.own_requests import LATEST
from ha_core.wire.records import Batch, batches

T = TypeVar("T")
_BYTES = 4 << 20
_PARTITIONS_AT_ONCE = 200
"""Partitions of one request: nearly all have a few hundred bytes to read."""


def or_raise(found: T | KafkaAdminError) -> T:
    if isinstance(found, KafkaAdminError):
        raise found
    return found


def log_ends(asking: Asking, keys: Collection[Partition]) -> dict[Partition, int | KafkaAdminError]:
    """The leaders' log ends: all acknowledged records are below them.

    :raises TopicMissingError: one of the partitions does not exist.
    """
    leaders = Leaders(asking)

    def ask(node: int, some: Collection[Partition]) -> Answers[Partition, int]:
        reading = DEBUGGER, Isolation.UNCOMMITTED, LATEST
        for key, part in listed_offsets(asking, node, some, leaders.epochs, reading):
            yield key, asking.again(f"read the end of {key[0]}-{key[1]}", part["error_code"]) or part["offset"]

    found = asking.rounds("read the end", keys, leaders.locate, ask, partial=len(keys) > 1)
    return {key: found.get(key, _silent(asking, key)) for key in keys}


def _silent(asking: Asking, key: Partition) -> NotReadyError:
    text = (
        f"{key[0]}-{key[1]} was not read within {asking.deadline.seconds:g} s. Try again once its brokers are healthy."
    )
    return NotReadyError(asking.cluster, text)


def log_end(asking: Asking, key: Partition) -> int:
    return or_raise(log_ends(asking, [key])[key])


def _read(asking: Asking, key: Partition, start: int, end: int) -> Iterator[bytes]:
    """The batches of a partition from `start` to `end`, in pieces; waits for those that are not replicated yet.

    :raises CopyDamagedError: the log ends before `end`.
    """
    at = start
    while at < end:
        result = or_raise(fetch_each(asking, [key], {key: at}, {key: end})[key])
        kept = list[Batch]()
        at = take_below(result, end, kept)
        if kept:
            yield result[1][: kept[-1].end]


def take_below(fetched_part: tuple[int, bytes], end: int, into: list[Batch]) -> int:
    """Takes the batches below `end`; returns the offset that is read next."""
    at, data = fetched_part
    for batch in batches(data, 0, len(data)):
        if batch.base_offset >= end:  # the rest below it was compacted away
            return end
        into.append(batch)
        at = batch.last_offset + 1
    return at


def raw_notes(asking: Asking, log: Partition, start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    for data in _read(asking, log, start, end):
        yield from notes_in(data)


def notes_in(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each record that has both."""
    for batch in batches(data, 0, len(data)):
        if batch.attributes & CONTROL:
            continue
        for record in read_records(data, batch):
            key, value, _ = fields(record.rest)
            if key is not None and value is not None:
                yield key, value


def fetch_each(
    asking: Asking, keys: Collection[Partition], at: Mapping[Partition, int], ends_: Mapping[Partition, int]
) -> dict[Partition, tuple[int, bytes] | KafkaAdminError]:
    """Records of each partition from its offset on; or the next offset that has records, and b"" for none.

    :raises CopyDamagedError: a log ends before its offset.
    """
    leaders = Leaders(asking)

    def ask(node: int, some: list[Partition]) -> Answers[Partition, tuple[int, bytes]]:
        for page in pages(some, _PARTITIONS_AT_ONCE):
            places = {key: (at[key], leaders.epochs[key]) for key in page}
            for key, code, records in fetched_several(asking, node, places, _BYTES):
                topic, partition = key
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    found = ends(asking, [key])[key]
                    if found.start <= at[key]:
                        raise CopyDamagedError(
                            f"{topic}-{partition} of {asking.cluster} ends at {found.log_end}, before offset "
                            f"{at[key]}, up to which records were acknowledged there: its brokers have lost them, as "
                            "an unclean leader does"
                        )
                    yield key, (min(found.start, ends_[key]), b"")
                elif again := asking.again(f"read {topic}-{partition} from offset {at[key]}", code):
                    yield key, again
                elif records:
                    yield key, (at[key], records)
                else:
                    yield key, Again(f"offset {at[key]} is not on all in-sync replicas yet")

    found = asking.rounds("read the copy", keys, leaders.locate, ask, partial=len(keys) > 1)
    return {key: found.get(key, _silent(asking, key)) for key in keys}
