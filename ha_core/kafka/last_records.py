"""Compares the last record that was copied with the record of the source at its offset.

A source may come back with an earlier log: a broker has lost what its machine had not written yet, or its disk was
restored. Once producers have written on, the copy's next offset is below the source's end again, and nothing looks
wrong. The brokers tell by the leader epoch where a log differs, but a single node that restarts keeps its epoch, and a
restored disk has the epochs of its backup.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.brokers import Again, Answers, Asking, pages
from ha_core.kafka.offsets import Leaders, fetched_several
from ha_core.mirror.split import Record, read_records
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import RETRIABLE, name_of
from ha_core.wire.copied_batch import LOG_APPEND_TIME
from ha_core.wire.records import batches

_TIMEOUT_S = 10.0
_AT_ONCE = 200
_SMALL_BYTES, _BYTES = 16 << 10, 4 << 20
"""Per partition, in a request for many, and alone: a broker sends one batch of any size, if nothing else."""


class LastCopied(NamedTuple):
    """Where the last copied record is in both logs.

    :ivar source_key: partition of the source.
    :ivar key: partition of the target.
    """

    source_key: Partition
    source: int
    key: Partition
    target: int


class _Found(NamedTuple):
    record: Record
    stamped: bool
    """Whether brokers have stamped it, and not its producer."""


def rewritten(source: Admin, target: Admin, wanted: Collection[LastCopied]) -> frozenset[Partition]:
    """Partitions of the source that have another record at the offset of the last copied one. Where one of the two
    records is gone, by retention or compaction, or may not be read, nothing can be said.

    :raises KafkaAdminError: a cluster does not answer.
    """
    there = _records(target.asking(_TIMEOUT_S), {one.key: one.target for one in wanted})
    here = _records(
        source.asking(_TIMEOUT_S), {one.source_key: one.source for one in wanted if there[one.key] is not None}
    )
    return frozenset(
        one.source_key
        for one in wanted
        if (mine := there[one.key]) is not None
        and (its := here[one.source_key]) is not None
        and _content(its, mine) != _content(mine, its)
    )


def _content(found: _Found, other: _Found) -> tuple[int, bytes]:
    stamped = found.stamped or other.stamped
    return 0 if stamped else found.record.time_ms, found.record.rest


def _records(asking: Asking, places: Mapping[Partition, int]) -> dict[Partition, _Found | None]:
    many = _fetched(asking, places, _SMALL_BYTES)
    # A batch that was too large beside others comes alone.
    alone = {key: places[key] for key, data in many.items() if data == b""}
    for key, at in alone.items():
        many |= _fetched(asking, {key: at}, _BYTES)
    return {key: None if data is None else _at(data, places[key]) for key, data in many.items()}


def _fetched(asking: Asking, places: Mapping[Partition, int], partition_bytes: int) -> dict[Partition, bytes | None]:
    """Records from each place on; empty: none fitted; None: they cannot be read."""
    leaders = Leaders(asking)

    def ask(node: int, some: list[Partition]) -> Answers[Partition, bytes | None]:
        for page in pages(some, _AT_ONCE):
            from_ = {key: (places[key], leaders.epochs[key]) for key in page}
            for key, code, records in fetched_several(asking, node, from_, _BYTES, partition_bytes):
                yield key, Again(name_of(code)) if code in RETRIABLE else None if code else bytes(records)

    return asking.rounds("read the last copied records", list(places), leaders.locate, ask) if places else {}


def _at(data: bytes, offset: int) -> _Found | None:
    for batch in batches(data, 0, len(data)):
        if batch.magic == 2 and batch.base_offset <= offset <= batch.last_offset:
            stamped = bool(batch.attributes & LOG_APPEND_TIME)
            return next((_Found(one, stamped) for one in read_records(data, batch) if one.offset == offset), None)
    return None
