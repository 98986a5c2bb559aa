"""Takes over a copy: the target's brokers refuse its earlier writers, and then its end shows how far it is.

`ha_core.mirror.progress` explains the order and why it is safe. Three steps, so that copies that share a partition of
the copy log read it once: `fence_copies` (`fencing`), `read_notes` of all that are fenced, `settle_copies`. Each step
asks for many copies at once, and a copy that cannot be taken over has its error in place of a result.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

from ha_core.kafka.errors import (
    KafkaAdminError,
    TakenOverError,
    TopicMissingError,
)
from ha_core.kafka.fencing import fence_all
from ha_core.kafka.notes_of_logs import KnownLogs
from ha_core.kafka.offsets import Offsets, apart
from ha_core.kafka.tails import fetch_each, log_end, log_ends, or_raise, raw_notes, take_below
from ha_core.mirror.notes import CopyId, NotedCopies, Notes, copy_of, is_page, key_prefix, prefix_of, transactional_id
from ha_core.mirror.progress import CopyDamagedError, ForeignRecordsError, Progress, TopicIds, Writer
from ha_core.mirror.recovery import DataEnd, data_end, good_part, recover
from ha_core.model import Run
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.records import Batch

T = TypeVar("T")
_LOG_TIMEOUT_S = 120.0
"""For a partition of the copy log, which many copies may share."""


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


class PartlyDamagedError(CopyDamagedError):
    """:ivar good: the part of the copy that is known to match its source."""

    def __init__(self, why: str, good: TakenOver) -> None:
        super().__init__(why)
        self.good = good


class Takeover(Offsets):
    def take_over(
        self, copies: Iterable[CopyPartition], timeout_s: float | None = None, whole_map: bool = False
    ) -> dict[CopyId, TakenOver | CopyDamagedError]:
        """Fences earlier copiers of these copies and finds out how far each is. Damaged copies, which hold records of
        no copier, get an error instead.

        :param whole_map: include all runs, also those that no progress holds any more.
        :raises TakenOverError: another process took one over later.
        :raises TopicMissingError: a copy or the copy log does not exist.
        """
        all_fenced = [or_raise(fenced) for fenced in self.fence_copies(list(copies), timeout_s).values()]
        by_log: dict[Partition, list[CopyId]] = {}
        for fenced in all_fenced:
            by_log.setdefault(fenced.copy.log, []).append(fenced.copy.id)
        notes = self.notes_of_logs(by_log, whole_map)
        damaged = {id_: found for id_, found in notes.items() if isinstance(found, CopyDamagedError)}
        sound = [(one, found) for one in all_fenced if not isinstance(found := notes[one.copy.id], CopyDamagedError)]
        settled: dict[CopyId, TakenOver | CopyDamagedError] = {}
        for id_, result in self.settle_copies(sound, timeout_s).items():
            settled[id_] = result if isinstance(result, CopyDamagedError) else or_raise(result)
        return damaged | settled

    def fence(self, copy: CopyPartition, timeout_s: float | None = None) -> Fenced:
        """
        :raises TakenOverError: another process fenced later.
        :raises TopicMissingError: the copy or the copy log does not exist.
        """
        return or_raise(self.fence_copies([copy], timeout_s)[copy.id])

    def fence_copies(
        self, copies: Sequence[CopyPartition], timeout_s: float | None = None
    ) -> dict[CopyId, Fenced | KafkaAdminError]:
        """Fences all of them; those that cannot be fenced now have an error, and do not delay the others long."""
        found: dict[CopyId, Fenced | KafkaAdminError] = {}
        if not copies:
            return found
        leaders = self.leaderships([key for copy in copies for key in (copy.key, copy.log)], timeout_s)
        there = dict[str, CopyPartition]()
        for copy in copies:
            missing = [key for key in (copy.key, copy.log) if key not in leaders]
            if missing:
                (topic, partition), *_ = missing
                text = f"topic {topic} has no partition {partition}, or does not exist."
                found[copy.id] = TopicMissingError(self.cluster.name, text)
            else:
                there[transactional_id(copy.id)] = copy
        asking = self.asking(timeout_s)
        writers = fence_all(asking, {name: (copy.key, copy.log) for name, copy in there.items()})
        keys = [copy.key for name, copy in there.items() if isinstance(writers[name], Writer)]
        # Only now: the ends have to be after the markers.
        log_ends = apart(keys, partial(self._log_ends, timeout_s=timeout_s), KafkaAdminError)
        for name, copy in there.items():
            writer = writers[name]
            if isinstance(writer, KafkaAdminError):
                found[copy.id] = writer
                continue
            end = log_ends[copy.key]
            found[copy.id] = Fenced(copy, writer, end, leaders[copy.key].topic_id) if isinstance(end, int) else end
        return found

    def _log_ends(self, keys: list[Partition], timeout_s: float | None) -> dict[Partition, int | KafkaAdminError]:
        return {**log_ends(self.asking(timeout_s), keys)}

    def notes_of_logs(
        self, copies: Mapping[Partition, Collection[CopyId]], whole_map: bool, timeout_s: float = _LOG_TIMEOUT_S
    ) -> dict[CopyId, Notes | CopyDamagedError]:
        """Current notes of these copies, by the partition of the copy log that has them; an error for a damaged one.
        Reads only what was appended since the last call."""
        if not copies:
            return {}
        leaders = self.leaderships(copies, timeout_s)
        return self._known_logs.read(self.asking(timeout_s), leaders, copies, whole_map)

    @cached_property
    def _known_logs(self) -> KnownLogs:
        return KnownLogs()

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
        :raises CopyDamagedError: a note cannot be read.
        """
        found: dict[CopyId, Notes] = {}
        for copy, notes in self.read_notes_of_each(log, since, whole_map, timeout_s).items():
            if isinstance(notes, CopyDamagedError):
                raise notes
            found[copy] = notes
        return found

    def read_notes_of_each(
        self,
        log: Partition,
        since: Mapping[CopyId, int],
        whole_map: bool = False,
        timeout_s: float = _LOG_TIMEOUT_S,
        noted: NotedCopies | None = None,
    ) -> dict[CopyId, Notes | CopyDamagedError]:
        """As `read_notes`; an unreadable note is damage of its copy, and one without a recognisable copy of all.

        :param noted: from earlier calls for this log; it saves reading the log from its start for new copies.
        """
        noted = noted or NotedCopies()
        wanted: dict[bytes, CopyId | None] = {key_prefix(copy): copy for copy in since}
        newest: dict[CopyId, dict[bytes, bytes]] = {copy: {} for copy in since}
        firsts = {copy: noted.first(copy) for copy in since}
        start = min((max(at, firsts[copy]) for copy, at in since.items()), default=0)
        try:
            followed = self.notes_from(log, start, timeout_s)
            for key, value in followed.records:
                prefix = prefix_of(key)
                if prefix not in wanted:
                    copy_of(key)  # raises if no copy can be told
                    wanted[prefix] = None
                copy = wanted[prefix]
                if copy is not None and (whole_map or not is_page(key)):
                    newest[copy][key] = value  # the last one counts: most are replaced, and need no decoding
        except CopyDamagedError as error:
            return dict.fromkeys(since, error)
        noted.read(start, followed.end, wanted)
        found: dict[CopyId, Notes | CopyDamagedError] = {}
        without: dict[CopyId, int] = {}
        for copy, records in newest.items():
            try:
                notes = Notes(copy, whole_map)
                for key, value in records.items():
                    notes.add(key, value)
            except CopyDamagedError as error:
                found[copy] = error
                continue
            found[copy] = notes
            if notes.progress is None and since[copy] > firsts[copy]:
                without[copy] = 0
        return found | self.read_notes_of_each(log, without, whole_map, timeout_s, noted) if without else found

    def notes_from(self, log: Partition, start: int, timeout_s: float = _LOG_TIMEOUT_S) -> FollowedLog:
        """The notes of a partition of the copy log from an offset up to its current end.

        :param start: 0, or the end of an earlier call. Above the current end, the log is read from its start.
        """
        asking = self.asking(timeout_s)
        end = log_end(asking, log)
        return FollowedLog(end, raw_notes(asking, log, start if start < end else 0, end) if start != end else iter(()))

    def settle_copies(
        self, fenced: Sequence[tuple[Fenced, Notes]], timeout_s: float | None = None
    ) -> dict[CopyId, TakenOver | KafkaAdminError | CopyDamagedError]:
        """How far each copy is, from its notes, which were read after it was fenced.

        A copy that holds records of no copier, or is not the topic that was copied to, has a CopyDamagedError; one that
        another process has taken over since, a TakenOverError.
        """
        found: dict[CopyId, TakenOver | KafkaAdminError | CopyDamagedError] = {}
        above: dict[Partition, tuple[int, int]] = {}
        for one, notes in fenced:
            try:
                above[one.copy.key] = self._to_read(one, notes), one.end
            except (KafkaAdminError, CopyDamagedError) as error:
                found[one.copy.id] = error
        tails = self._tails(above, timeout_s)
        for one, notes in fenced:
            if one.copy.id in found:
                continue
            tail = tails[one.copy.key]
            try:
                found[one.copy.id] = tail if isinstance(tail, Exception) else self._settled(one, notes, tail)
            except CopyDamagedError as error:
                found[one.copy.id] = error
        return found

    def _to_read(self, fenced: Fenced, notes: Notes) -> int:
        """The offset from which the copy's records tell how far it is."""
        copy, writer, end, topic_id = fenced
        progress, cluster = notes.progress, self.cluster.name
        if progress is None:
            return 0
        if writer.is_before(progress.writer):
            raise TakenOverError(cluster, f"{copy.id} was taken over by a later copier.")
        check_id(progress.topics.target, topic_id, copy, copy.key, cluster)
        if progress.target > end:
            recover(progress, (), DataEnd(end))  # raises an error that explains it
        return min(progress.target, progress.last_record) if progress.last_record >= 0 else progress.target

    def _settled(self, fenced: Fenced, notes: Notes, tail: list[Batch]) -> TakenOver:
        """:raises CopyDamagedError: it holds records of no copier."""
        copy, writer, end, topic_id = fenced
        progress = notes.progress
        if progress is None:
            _check_empty(tail, end, copy, self.cluster.name)
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

    def _tails(
        self, wanted: Mapping[Partition, tuple[int, int]], timeout_s: float | None
    ) -> dict[Partition, list[Batch] | KafkaAdminError | CopyDamagedError]:
        """The batches of each partition between two offsets."""
        tails: dict[Partition, list[Batch] | KafkaAdminError | CopyDamagedError] = {key: [] for key in wanted}
        at = {key: start for key, (start, end) in wanted.items() if start < end}
        while at:
            ends_ = {key: wanted[key][1] for key in at}
            read = partial(self._fetch_each, at=dict(at), ends_=ends_, timeout_s=timeout_s)
            results = apart(list(at), read, CopyDamagedError)
            for key, result in results.items():
                if isinstance(result, Exception):
                    tails[key] = result
                    del at[key]
                    continue
                tail = tails[key]
                assert isinstance(tail, list)
                at[key] = take_below(result, ends_[key], tail)
                if at[key] >= ends_[key]:
                    del at[key]
        return tails

    def _fetch_each(
        self,
        keys: list[Partition],
        at: Mapping[Partition, int],
        ends_: Mapping[Partition, int],
        timeout_s: float | None,
    ) -> dict[Partition, tuple[int, bytes] | KafkaAdminError]:
        return fetch_each(self.asking(timeout_s), keys, at, ends_)


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
