"""Takes over a copy: the target's brokers refuse its earlier writers, and then its end shows how far it is.

`ha_core.mirror.progress` explains the order and why it is safe. Three steps, so that copies that share a partition of
the copy log read it once: `fence` each, `read_notes` of all that are fenced, `settle` each.

**The fence** is an empty aborted transaction, which carries a new epoch to the leaders. END_TXN is answered before the
markers are written, and only the marker fences. A coordinator repeats a marker until it knows that it was written, so
it may be written twice: a second marker between appended batches would look like the end of the copy. So END_TXN is
sent again until the coordinator reports the transaction as completed.

After the last epoch the coordinator assigns another producer id, whose marker does not fence the old id. So no copier
appends in the last epoch: its marker fences earlier epochs, and the takeover is repeated.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from ha_core.kafka.brokers import Again, Answers, Asking
from ha_core.kafka.errors import KafkaAdminError, TopicMissingError
from ha_core.kafka.offsets import DEBUGGER, Leaders, Leadership, Offsets, ends, fetched, listed_offsets
from ha_core.mirror.notes import CopyId, Notes, copy_of, transactional_id
from ha_core.mirror.progress import CopyDamagedError, ForeignRecordsError, Progress, TopicIds, Writer
from ha_core.mirror.recovery import DataEnd, data_end, good_part, recover
from ha_core.mirror.split import fields, read_records
from ha_core.model import Run
from ha_core.model.isolation import Isolation
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.own_requests import LATEST
from ha_core.wire.records import Batch, batches

_BYTES = 4 << 20
_LOG_TIMEOUT_S = 120.0
"""For a partition of the copy log, which many copies may share."""
_AT_ONCE = 24
"""Copies; each mostly waits for markers."""
LAST_EPOCH = (1 << 15) - 2
"""The last epoch that INIT_PRODUCER_ID assigns for a producer id."""
_TRANSACTION = 1
"""Key type of FIND_COORDINATOR."""
_TIMEOUT_MS = 60_000
"""Then the coordinator ends the transaction of a stalled copier, and fences it as a successor would."""
_ADD, _END, _INIT = 3, 3, 4
"""Versions before KIP-890, where transactions begin and end implicitly."""
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}


class CopyPartition(NamedTuple):
    """A partition of the target that is a copy, and the partition of the copy log with its notes.

    :ivar source_topic: name of its topic in the source; "": the copy's own.
    """

    id: CopyId
    log: Partition
    source_topic: str = ""

    @property
    def key(self) -> Partition:
        """In the target."""
        return self.id.topic, self.id.partition

    @property
    def source_key(self) -> Partition:
        """In the source."""
        return self.source_topic or self.id.topic, self.id.partition

    @property
    def anew(self) -> str:
        """How an operator has it copied from the beginning. A flow makes a missing copy by itself."""
        if self.source_topic:
            return f"delete topic {self.id.topic} of the target, and its flow makes it anew"
        return "unlink the mirror, delete the copy and link it anew"

    @property
    def without_topic(self) -> str:
        """The way out if one of its topics is gone."""
        if self.source_topic:
            return "its flow leaves the topic out while it is gone from the source, and makes a missing copy anew"
        return "unlink the mirror, or move the clients to the copy if it was deleted by mistake"


class Fenced(NamedTuple):
    """A copy that only `writer` can write to."""

    copy: CopyPartition
    writer: Writer
    end: int
    """End of the copy, after the marker."""
    topic_id: str


class TakenOver(NamedTuple):
    """The state from which a copier continues."""

    writer: Writer
    end: int
    """End of the copy, after the marker."""
    progress: Progress | None
    """None: nothing was copied yet, and the copy is empty."""
    topic_id: str
    """Topic id of the copy."""
    older: tuple[Run, ...] = ()
    """Runs before those of the progress, if the whole map was requested."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, oldest first."""
        return () if self.progress is None else (*self.older, *self.progress.runs)


class FollowedLog(NamedTuple):
    """
    :ivar end: where the next call goes on.
    :ivar records: key and value of each note, not decoded. Raises `KafkaAdminError`s while it is consumed.
    """

    end: int
    records: Iterator[tuple[bytes, bytes]]


class TakenOverError(KafkaAdminError):
    """Another copier has taken the partition over: this one stops, without a fault."""


class PartlyDamagedError(CopyDamagedError):
    """:ivar good: the part of the copy that is known to match its source."""

    def __init__(self, why: str, good: TakenOver) -> None:
        super().__init__(why)
        self.good = good


class Takeover(Offsets):
    def take_over(
        self, copies: Iterable[CopyPartition], timeout_s: float | None = None, whole_map: bool = False
    ) -> dict[CopyId, TakenOver | CopyDamagedError]:
        """Fences earlier copiers of these copies and finds out how far each is, several at a time. Damaged copies,
        which hold records of no copier, get an error instead.

        :param whole_map: include all runs, also those that no progress holds any more.
        :raises TakenOverError: another process took one over later.
        :raises TopicMissingError: a copy or the copy log does not exist.
        """
        wanted = list(copies)
        if not wanted:
            return {}
        leaders = self.leaderships([key for copy in wanted for key in (copy.key, copy.log)], timeout_s)
        # Not this object's pool, which the work on each copy uses.
        with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)), f"take-over-{self.cluster.name}") as pool:
            by_log: dict[Partition, list[Fenced]] = {}
            for one in pool.map(partial(self.fence, timeout_s=timeout_s, leaders=leaders), wanted):
                by_log.setdefault(one.copy.log, []).append(one)

            def read(log: Partition) -> dict[CopyId, Notes | CopyDamagedError]:
                return self._notes_of_each(log, [one.copy.id for one in by_log[log]], whole_map)

            def settle(one: Fenced) -> TakenOver | CopyDamagedError:
                found = notes[one.copy.id]
                try:
                    return found if isinstance(found, CopyDamagedError) else self.settle(one, found, timeout_s)
                except CopyDamagedError as error:
                    return error

            notes = {id_: found for several in pool.map(read, by_log) for id_, found in several.items()}
            fenced = [one for several in by_log.values() for one in several]
            return {one.copy.id: found for one, found in zip(fenced, pool.map(settle, fenced), strict=True)}

    def _notes_of_each(
        self, log: Partition, copies: Collection[CopyId], whole_map: bool
    ) -> dict[CopyId, Notes | CopyDamagedError]:
        """An unreadable note is damage of its copy; one without a recognisable copy is damage of all of them."""
        try:
            return {**self.read_notes(log, dict.fromkeys(copies, 0), whole_map)}
        except CopyDamagedError as error:
            if len(copies) == 1:
                return dict.fromkeys(copies, error)
        found = [self._notes_of_each(log, [copy], whole_map) for copy in copies]
        return {id_: notes for one in found for id_, notes in one.items()}

    def fence(
        self, copy: CopyPartition, timeout_s: float | None = None, leaders: Mapping[Partition, Leadership] | None = None
    ) -> Fenced:
        """
        :param leaders: leaders of copy and copy log, if already known.
        :raises TakenOverError: another process fenced later.
        :raises TopicMissingError: the copy or the copy log does not exist.
        """
        leaders = self.leaderships([copy.key, copy.log], timeout_s) if leaders is None else leaders
        for topic, partition in (copy.key, copy.log):
            if (topic, partition) not in leaders:
                raise TopicMissingError(
                    self.cluster.name, f"topic {topic} has no partition {partition}, or does not exist."
                )
        asking = self.asking(timeout_s)
        writer = fence(asking, transactional_id(copy.id), (copy.key, copy.log))
        return Fenced(copy, writer, _log_end(asking, copy.key), leaders[copy.key].topic_id)

    def read_notes(
        self,
        log: Partition,
        since: Mapping[CopyId, int],
        whole_map: bool = False,
        timeout_s: float = _LOG_TIMEOUT_S,
    ) -> dict[CopyId, Notes]:
        """Current notes of these copies in a partition of the copy log.

        :param since: offsets of the log below which notes no longer matter; 0: unknown. If no progress is found above,
            the log is read from its start.
        """
        found = {copy: Notes(copy, whole_map) for copy in since}
        start = min(since.values(), default=0)
        for key, value in self.notes_from(log, start, timeout_s).records:
            if (notes := found.get(copy_of(key))) is not None:
                notes.add(key, value)
        without = {copy: 0 for copy, notes in found.items() if notes.progress is None and since[copy]}
        return found | self.read_notes(log, without, whole_map, timeout_s) if without else found

    def notes_from(self, log: Partition, start: int, timeout_s: float = _LOG_TIMEOUT_S) -> FollowedLog:
        """The notes of a partition of the copy log from an offset up to its current end.

        :param start: 0, or the end of an earlier call. Above the current end, the log is read from its start.
        """
        asking = self.asking(timeout_s)
        end = _log_end(asking, log)
        return FollowedLog(end, _raw_notes(asking, log, start if start < end else 0, end) if start != end else iter(()))

    def settle(self, fenced: Fenced, notes: Notes, timeout_s: float | None = None) -> TakenOver:
        """How far the copy is.

        :param notes: read after the copy was fenced.
        :raises CopyDamagedError: it holds records of no copier, or is not the topic that was copied to.
        :raises TakenOverError: another process has taken it over since.
        """
        asking = self.asking(timeout_s)
        copy, writer, end, topic_id = fenced
        progress = notes.progress
        if progress is not None:
            if writer.is_before(progress.writer):
                raise TakenOverError(asking.cluster, f"{copy.id} was taken over by a later copier.")
            check_id(progress.topics.target, topic_id, copy, copy.key, asking.cluster)
            if progress.target > end:
                recover(progress, (), DataEnd(end))  # raises an error that explains it
        tail = list[Batch]()
        start = 0 if progress is None else progress.target
        if progress is not None and progress.last_record >= 0:
            start = min(start, progress.last_record)
        for data in _read(asking, copy.key, start, end):
            tail += batches(data, 0, len(data))
        if progress is None:
            _check_empty(tail, end, copy, asking.cluster)
            return TakenOver(writer, end, None, topic_id)
        older = notes.runs[: -len(progress.runs) or None] if notes.whole_map else ()
        try:
            found = recover(progress, notes.intents.values(), data_end(tail, progress, end))
        except CopyDamagedError as damage:
            good = good_part(progress, notes.intents.values(), tail, end)
            if good is None:
                raise
            taken = TakenOver(writer, end, good.taken_over(writer, end), topic_id, older)
            raise PartlyDamagedError(str(damage), taken) from damage
        return TakenOver(writer, end, found.taken_over(writer, end), topic_id, older)


def fence(asking: Asking, name: str, partitions: tuple[Partition, ...]) -> Writer:
    """Makes brokers refuse all earlier writers to these partitions with the transactional id `name`.

    :raises TakenOverError: another process fenced later.
    :raises NotReadyError: markers cannot be written, for example because too few replicas are in sync.
    """
    writer = _fence_once(asking, name, partitions)
    return writer if writer.epoch < LAST_EPOCH else _fence_once(asking, name, partitions)


def _fence_once(asking: Asking, name: str, partitions: tuple[Partition, ...]) -> Writer:
    begin = {"transactional_id": name, "transaction_timeout_ms": _TIMEOUT_MS}
    started = _at_coordinator(asking, name, ApiKey.INIT_PRODUCER_ID, begin, _INIT)
    begun = time.monotonic()
    writer = Writer(started["producer_id"], started["producer_epoch"])
    mine = {"transactional_id": name, "producer_id": writer.producer_id, "producer_epoch": writer.epoch}
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    added = [{"name": topic, "partitions": several} for topic, several in topics.items()]
    try:
        _at_coordinator(asking, name, ApiKey.ADD_PARTITIONS_TO_TXN, {**mine, "topics": added}, _ADD)
        for _ in ("begins to end", "has ended"):
            _at_coordinator(asking, name, ApiKey.END_TXN, {**mine, "committed": False}, _END)
    except TakenOverError as error:
        if time.monotonic() - begun < _TIMEOUT_MS / 2000:
            raise
        raise KafkaAdminError(asking.cluster, f"{name} stood still in the middle of a take-over.") from error
    return writer


def _at_coordinator(
    asking: Asking, name: str, api: ApiKey, message: Mapping[str, Any], max_version: int
) -> dict[str, Any]:
    what = f"take over {name} ({api.name})"

    def locate(_: set[str]) -> Answers[str, int]:
        found = asking.call(None, ApiKey.FIND_COORDINATOR, {"key": name, "key_type": _TRANSACTION}, 3)
        if again := asking.again(f"find the coordinator of {name}", found["error_code"], found["error_message"]):
            yield name, again
            return
        if found["node_id"] not in asking.nodes:
            asking.metadata()
        yield name, found["node_id"]

    def ask(node: int, _: list[str]) -> Answers[str, dict[str, Any]]:
        answer = asking.call(node, api, message, max_version)
        parts = [part for topic in answer.get("results_by_topic", ()) for part in topic["results_by_partition"]]
        codes = {part["partition_error_code"] for part in parts}
        codes = (codes | {answer.get("error_code", 0)}) - {ErrorCode.OPERATION_NOT_ATTEMPTED, 0} or {0}
        for code in sorted(codes):
            if code in _FENCED:
                raise TakenOverError(asking.cluster, f"{name} was taken over by a later copier.")
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                yield name, Again("markers are not written yet; are enough replicas in sync?")
                return
            if again := asking.again(what, code):
                yield name, again
                return
        yield name, answer

    return asking.rounds(what, [name], locate, ask)[name]


def check_id(known: str, found: str, copy: CopyPartition, key: Partition, cluster: str) -> None:
    """
    :param key: its partition in this cluster.
    :raises CopyDamagedError: the topic was deleted and created again.
    """
    if known and found and known != found:
        raise CopyDamagedError(
            f"topic {key[0]} of {cluster} was deleted and re-created since copying began (its id was {known}, and is "
            f"{found}): {copy.anew}"
        )


def topic_ids(progress: Progress | None, source: str, target: str) -> TopicIds:
    """Topic ids to write down: known ids stay."""
    ids = TopicIds() if progress is None else progress.topics
    return TopicIds(ids.source or source, ids.target or target)


def _check_empty(tail: list[Batch], end: int, copy: CopyPartition, cluster: str) -> None:
    """:raises ForeignRecordsError: the copy has no notes, but has or had records."""
    at = 0
    for batch in tail:
        if batch.attributes & CONTROL and batch.base_offset == at:
            at = batch.last_offset + 1
    if at < end:
        raise ForeignRecordsError(
            f"topic {copy.id.topic} partition {copy.id.partition} of {cluster} holds records, from offset {at} on, "
            "that were not copied there, or held some. Delete the topic if it is not needed."
        )


def _log_end(asking: Asking, key: Partition) -> int:
    """The leader's log end: all acknowledged records are below it."""
    leaders = Leaders(asking)

    def ask(node: int, keys: Collection[Partition]) -> Answers[Partition, int]:
        reading = DEBUGGER, Isolation.UNCOMMITTED, LATEST
        for found, part in listed_offsets(asking, node, keys, leaders.epochs, reading):
            yield found, asking.again(f"read the end of {key[0]}-{key[1]}", part["error_code"]) or part["offset"]

    return asking.rounds("read the end", [key], leaders.locate, ask)[key]


def _read(asking: Asking, key: Partition, start: int, end: int) -> Iterator[bytes]:
    """The batches of a partition from `start` to `end`, in pieces; waits for those that are not replicated yet.

    :raises CopyDamagedError: the log ends before `end`.
    """
    at = start
    while at < end:
        at, data = _fetch(asking, key, at, end)
        kept = 0
        for batch in batches(data, 0, len(data)):
            if batch.base_offset >= end:  # the rest below it was compacted away
                at = end
                break
            at, kept = batch.last_offset + 1, batch.end
        if kept:
            yield data[:kept]


def _raw_notes(asking: Asking, log: Partition, start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    for data in _read(asking, log, start, end):
        for batch in batches(data, 0, len(data)):
            if batch.attributes & CONTROL:
                continue
            for record in read_records(data, batch):
                key, value, _ = fields(record.rest)
                if key is not None and value is not None:
                    yield key, value


def _fetch(asking: Asking, key: Partition, at: int, end: int) -> tuple[int, bytes]:
    """Records from `at` on; or the next offset that has records, and b"" for none."""
    leaders = Leaders(asking)
    topic, partition = key

    def ask(node: int, _: list[Partition]) -> Answers[Partition, tuple[int, bytes]]:
        code, part = fetched(asking, node, key, at, leaders.epochs[key], _BYTES)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            found = ends(asking, [key])[key]
            if found.start <= at:
                raise CopyDamagedError(
                    f"{topic}-{partition} of {asking.cluster} ends at {found.log_end}, before offset {at}, up to which "
                    "records were acknowledged there: its brokers have lost them, as an unclean leader does"
                )
            yield key, (min(found.start, end), b"")
        elif again := asking.again(f"read {topic}-{partition} from offset {at}", code):
            yield key, again
        elif part and part["records"]:
            yield key, (at, part["records"])
        else:
            yield key, Again(f"offset {at} is not on all in-sync replicas yet")

    return asking.rounds(f"read {topic}-{partition}", [key], leaders.locate, ask)[key]
