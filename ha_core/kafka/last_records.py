"""Compares the last record that was copied with the record of the source at its offset.

A source may come back with an earlier log: a broker has lost what its machine had not written yet, or its disk was
restored. Once producers have written on, the copy's next offset is below the source's end again, and nothing looks
wrong. The brokers tell by the leader epoch where a log differs, but a single node that restarts keeps its epoch, and a
restored disk has the epochs of its backup.
"""

from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.brokers import Again, Answers, pages
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.offsets import Leaders, apart, fetched_several
from ha_core.mirror.split import read_records
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import RETRIABLE, name_of
from ha_core.wire.copied_batch import LOG_APPEND_TIME
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.records import batches

COMPARED_AT_ONCE = 200
"""Partitions of one call, so that the first ones need not wait for thousands of others."""
_TIMEOUT_S = 5.0
"""For one request: with the last batches of thousands of partitions, all of them may take minutes."""
_BYTES = 4 << 20
_EACH_BYTES = 16 << 10, 128 << 10, 1 << 20
"""Per partition, in requests for as many as have room in an answer. A batch that is larger is asked for alone: then a
broker sends one of any size."""


class LastCopied(NamedTuple):
    """Where the last copied record is in both logs.

    :ivar source_key: partition of the source.
    :ivar key: partition of the target.
    """

    source_key: Partition
    source: int
    key: Partition
    target: int


class _LogRecord(NamedTuple):
    """A record without its content, which may be large.

    :ivar stamped: whether brokers have set its time, and not its producer.
    """

    time_ms: int
    digest: bytes
    stamped: bool


_Nothing = Literal["nothing"]
_NOTHING: _Nothing = "nothing"
"""The answer had no whole batch of the partition."""


def rewritten(source: Admin, target: Admin, wanted: Collection[LastCopied]) -> dict[Partition, bool | KafkaAdminError]:
    """Partition of the source → whether it has another record at the offset of the last copied one, or why it cannot be
    asked, as where its topic is gone. Where one of the two records is gone, by retention or compaction, or may not be
    read, that cannot be told, and does not count. Partitions whose leaders do not answer are missing.

    :param wanted: at most about `COMPARED_AT_ONCE`.
    """
    by_key = {one.source_key: one for one in wanted}

    def work(keys: list[Partition]) -> dict[Partition, bool]:
        return _rewritten(source, target, [by_key[key] for key in keys])

    return apart(list(by_key), work, KafkaAdminError)


def _rewritten(source: Admin, target: Admin, wanted: Collection[LastCopied]) -> dict[Partition, bool]:
    """
    :raises TopicMissingError: a topic does not exist.
    :raises KafkaAdminError: a cluster does not answer.
    """
    there = _records(target, {one.key: one.target for one in wanted})
    here = _records(source, {one.source_key: one.source for one in wanted if one.key in there})
    return {
        one.source_key: _differ(here[one.source_key], there[one.key])
        for one in wanted
        if one.key in there and one.source_key in here
    }


def _differ(here: _LogRecord | None, there: _LogRecord | None) -> bool:
    if here is None or there is None:
        return False
    timed = not (here.stamped or there.stamped)
    return here.digest != there.digest or (timed and here.time_ms != there.time_ms)


def _records(admin: Admin, places: Mapping[Partition, int]) -> dict[Partition, _LogRecord | None]:
    found: dict[Partition, _LogRecord | None] = {}
    left = dict(places)

    def ask(some: Mapping[Partition, int], each_bytes: int) -> None:
        answers = _asked(admin, some, each_bytes)
        for key in some:
            one = answers.get(key)
            if one == _NOTHING and len(some) > 1:
                continue
            del left[key]
            if key in answers:
                found[key] = one if isinstance(one, _LogRecord) else None

    for each_bytes in _EACH_BYTES:
        for page in pages(list(left), _BYTES // each_bytes):
            ask({key: places[key] for key in page}, each_bytes)
    for key, at in list(left.items()):
        ask({key: at}, _BYTES)
    return found


def _asked(
    admin: Admin, places: Mapping[Partition, int], each_bytes: int
) -> dict[Partition, _LogRecord | _Nothing | None]:
    """The record at each place; None: it is gone, or cannot be read. Places whose leaders do not answer are missing."""
    asking = admin.asking(_TIMEOUT_S)
    leaders = Leaders(asking)

    def ask(node: int, some: list[Partition]) -> Answers[Partition, _LogRecord | _Nothing | None]:
        from_ = {key: (places[key], leaders.epochs[key]) for key in some}
        for key, code, records in fetched_several(asking, node, from_, _BYTES, each_bytes):
            if code in RETRIABLE:
                yield key, Again(name_of(code))
            elif code:
                yield key, None
            else:
                yield key, _at(records, places[key])

    return asking.rounds("read the last copied records", list(places), leaders.locate, ask, partial=True)


def _at(data: bytes, offset: int) -> _LogRecord | _Nothing | None:
    try:
        batch = next(batches(data, 0, len(data)), None)
        if batch is None:
            return _NOTHING
        if batch.magic < 2 or not batch.base_offset <= offset <= batch.last_offset:
            return None
        record = next((one for one in read_records(data, batch) if one.offset == offset), None)
    except RemoteProtocolError:  # the copying loop tells of it when it comes to such a batch
        return None
    if record is None:
        return None
    digest = blake2b(record.rest, digest_size=16).digest()
    return _LogRecord(record.time_ms, digest, bool(batch.attributes & LOG_APPEND_TIME))
