"""Takes partitions over beside the loop, all at once that wait for the same partition of the copy log: each of their
requests is one for many, and the log is read once. A cluster that does not answer delays only its own partitions.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying.background import BackgroundWork, Outcome
from ha_core.kafka.errors import KafkaAdminError, NotReadyError, TopicMissingError
from ha_core.kafka.offsets import Leadership
from ha_core.kafka.takeover import CopyPartition, Fenced, TakenOver, check_id, topic_ids
from ha_core.mirror.notes import CopyId, NotedCopies, Notes
from ha_core.mirror.progress import CopyDamagedError, TopicIds
from ha_core.plan.facts.clusters import Partition

_AT_ONCE = 8
"""Partitions of the copy log; others wait."""
_MOST = 1_000
"""Copies of one partition of the copy log."""
StillOurs: TypeAlias = Callable[[Collection[CopyId]], Collection[CopyId]]
"""Those of these copies that are still to be copied here, read afresh."""


def all_ours(copies: Collection[CopyId]) -> Collection[CopyId]:
    return copies


class NotOursError(KafkaAdminError):
    """Another task copies the partition now."""


class TakenOverPartition(NamedTuple):
    """A partition that can be copied."""

    taken_over: TakenOver
    topics: TopicIds
    source_id: str
    target_node: int
    log_node: int
    source_start: int
    """Log start of the source if copying has never begun; else 0."""


class _Entry(NamedTuple):
    copy: CopyPartition
    since: int


class Takeovers:
    """
    :param still_ours: called beside the loop, before and after the fences.
    :param entered: receives the result.
    """

    def __init__(
        self,
        source: Admin,
        target: Admin,
        beside: BackgroundWork,
        still_ours: StillOurs,
        entered: Callable[[CopyId, Outcome[TakenOverPartition]], None],
    ) -> None:
        self._source, self._target, self._beside = source, target, beside
        self._still_ours, self._entered = still_ours, entered
        self._waiting: dict[Partition, dict[CopyId, _Entry]] = {}
        self._running = set[Partition]()
        self._noted: dict[Partition, NotedCopies] = {}

    def add(self, copy: CopyPartition, since: int) -> None:
        """
        :param since: offset of the copy log below which notes no longer matter; 0: unknown.
        """
        self._waiting.setdefault(copy.log, {})[copy.id] = _Entry(copy, since)

    def step(self) -> None:
        for log in [log for log in self._waiting if log not in self._running]:
            if len(self._running) >= _AT_ONCE:
                return
            waiting = self._waiting.pop(log)
            entries = dict(islice(waiting.items(), _MOST))
            if left := {id_: entry for id_, entry in waiting.items() if id_ not in entries}:
                self._waiting[log] = left
            self._running.add(log)
            self._beside.start(partial(self._take_over, log, entries), partial(self._are_taken_over, log, entries))

    def _are_taken_over(
        self,
        log: Partition,
        entries: Mapping[CopyId, _Entry],
        found: Outcome[dict[CopyId, Outcome[TakenOverPartition]]],
    ) -> None:
        self._running.discard(log)
        for id_ in entries:
            self._entered(id_, found[id_] if isinstance(found, dict) else found)

    def _take_over(self, log: Partition, entries: Mapping[CopyId, _Entry]) -> dict[CopyId, Outcome[TakenOverPartition]]:
        """Looks at the source first, so that an unreachable source costs the copies no marker.

        A final takeover is announced before its fence. A copier that fences later, after standing still since it was
        assigned the copy, learns of it by its second question, before it appends to a log that clients may write to by
        now.
        """
        found: dict[CopyId, Outcome[TakenOverPartition]] = {}
        ours = self._ours(entries, found)
        source_ids: dict[CopyId, str] = {}
        leaders = self._source.leaderships([entries[id_].copy.source_key for id_ in ours])
        for id_ in ours:
            copy = entries[id_].copy
            leader = _leader(self._source, copy, copy.source_key, leaders)
            if isinstance(leader, Leadership):
                source_ids[id_] = leader.topic_id
            else:
                found[id_] = leader
        fenced: dict[CopyId, Fenced] = {}
        for id_, one in self._target.fence_copies([entries[id_].copy for id_ in source_ids]).items():
            if isinstance(one, Fenced):
                fenced[id_] = one
            else:
                found[id_] = one
        noted: dict[CopyId, Notes] = {}
        if fenced:
            since = {id_: entries[id_].since for id_ in fenced}
            known = self._noted.setdefault(log, NotedCopies())
            of_log = self._target.leaderships([log]).get(log)
            # A log that lost records has another leader epoch since.
            known.of_log(f"{of_log.topic_id} {of_log.epoch}" if of_log and of_log.topic_id else "")
            for id_, notes in self._target.read_notes_of_each(log, since, noted=known).items():
                if isinstance(notes, Notes):
                    noted[id_] = notes
                else:
                    found[id_] = notes
        settled: dict[CopyId, TakenOver] = {}
        still = self._ours(noted, found)
        for id_, taken in self._target.settle_copies([(fenced[id_], noted[id_]) for id_ in still]).items():
            if isinstance(taken, TakenOver):
                settled[id_] = taken
            else:
                found[id_] = taken
        return found | self._ready({id_: entries[id_].copy for id_ in settled}, settled, source_ids)

    def _ready(
        self,
        copies: Mapping[CopyId, CopyPartition],
        settled: Mapping[CopyId, TakenOver],
        source_ids: Mapping[CopyId, str],
    ) -> dict[CopyId, Outcome[TakenOverPartition]]:
        found: dict[CopyId, Outcome[TakenOverPartition]] = {}
        leaders = self._target.leaderships([key for copy in copies.values() for key in (copy.key, copy.log)])
        new = [copy for id_, copy in copies.items() if settled[id_].progress is None]
        starts = self._starts(new)
        for id_, copy in copies.items():
            taken = settled[id_]
            nodes = [_leader(self._target, copy, key, leaders) for key in (copy.key, copy.log)]
            start = 0 if taken.progress is not None else starts[copy.source_key]
            troubles = [one for one in (*nodes, start) if isinstance(one, KafkaAdminError)]
            if troubles:
                found[id_] = troubles[0]
                continue
            topics = topic_ids(taken.progress, source_ids[id_], taken.topic_id)
            try:
                check_id(topics.source, source_ids[id_], copy, copy.source_key, self._source.cluster.name)
            except CopyDamagedError as error:
                found[id_] = error
                continue
            target_node, log_node = (one.node for one in nodes if isinstance(one, Leadership))
            assert isinstance(start, int)
            found[id_] = TakenOverPartition(taken, topics, source_ids[id_], target_node, log_node, start)
        return found

    def _starts(self, copies: Iterable[CopyPartition]) -> dict[Partition, int | KafkaAdminError]:
        keys = [copy.source_key for copy in copies]
        return {
            key: ends if isinstance(ends, KafkaAdminError) else ends.start
            for key, ends in self._source.ends_of_each(keys).items()
        }

    def _ours(self, copies: Collection[CopyId], found: dict[CopyId, Outcome[TakenOverPartition]]) -> list[CopyId]:
        """Those that are still to be copied here; `found` gets the reason of the others."""
        source = self._source.cluster.name
        try:
            ours = set(self._still_ours(copies)) if copies else set()
        except Exception as error:  # the store of assignments does not answer
            text = f"cannot tell whether partitions are still to be copied here: {error}"
            raise NotReadyError(source, text) from error
        found |= {id_: NotOursError(source, f"{id_} is copied elsewhere.") for id_ in copies if id_ not in ours}
        return [id_ for id_ in copies if id_ in ours]


def _leader(
    admin: Admin, copy: CopyPartition, key: Partition, leaders: Mapping[Partition, Leadership]
) -> Leadership | KafkaAdminError:
    topic, partition = key
    leader = leaders.get(key)
    name = admin.cluster.name
    if leader is None:
        return TopicMissingError(
            name, f"topic {topic} has no partition {partition}, or does not exist: {copy.without_topic}."
        )
    if leader.node < 0:
        return NotReadyError(name, f"{topic}-{partition}: {leader.trouble}.")
    return leader
