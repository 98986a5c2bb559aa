"""Takes partitions over beside the loop, several at a time. Those that share a partition of the copy log read it once.
A cluster that does not answer delays only its own partitions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying.background import BackgroundWork, Outcome
from ha_core.kafka.errors import KafkaAdminError, NotReadyError, TopicMissingError
from ha_core.kafka.offsets import Leadership
from ha_core.kafka.takeover import CopyPartition, Fenced, TakenOver, check_id, topic_ids
from ha_core.mirror.notes import CopyId, Notes
from ha_core.mirror.progress import TopicIds
from ha_core.plan.facts.clusters import Partition

_AT_ONCE = 8
_COMPANY_S = 0.5
"""How long a fenced copy waits for others that share its partition of the copy log."""


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


@dataclass
class _Entry:
    copy: CopyPartition
    since: int
    source_id: str = ""
    fenced: Fenced | None = None
    fenced_at: float = 0.0


class Takeovers:
    """
    :param still_ours: True while a partition is still to be copied here; called beside the loop, before and after each
        takeover's fence.
    :param entered: receives the result.
    """

    def __init__(
        self,
        source: Admin,
        target: Admin,
        beside: BackgroundWork,
        still_ours: Callable[[CopyId], bool],
        entered: Callable[[CopyId, Outcome[TakenOverPartition]], None],
        clock: Callable[[], float],
    ) -> None:
        self._source, self._target, self._beside = source, target, beside
        self._still_ours, self._entered, self._clock = still_ours, entered, clock
        self._waiting: dict[CopyId, _Entry] = {}
        self._fencing: dict[CopyId, _Entry] = {}
        self._fenced: dict[Partition, dict[CopyId, _Entry]] = {}
        self._reading = set[Partition]()

    def add(self, copy: CopyPartition, since: int) -> None:
        """
        :param since: offset of the copy log below which notes no longer matter; 0: unknown.
        """
        self._waiting[copy.id] = _Entry(copy, since)

    def step(self, now: float) -> None:
        while self._waiting and len(self._fencing) < _AT_ONCE:
            id_, entry = self._waiting.popitem()
            self._fencing[id_] = entry
            self._beside.start(partial(self._fence, entry), partial(self._is_fenced, entry))
        pending = {entry.copy.log for entry in (*self._waiting.values(), *self._fencing.values())}
        for log, entries in list(self._fenced.items()):
            first = min(entry.fenced_at for entry in entries.values())
            if log not in self._reading and (log not in pending or now - first >= _COMPANY_S):
                self._read(log, self._fenced.pop(log))

    def _fence(self, entry: _Entry) -> tuple[str, Fenced]:
        """Checks the source first, so that an unreachable source costs the copy no marker."""
        self._require_ours(entry.copy.id)
        leader = _leader(self._source, entry.copy, entry.copy.source_key)
        return leader.topic_id, self._target.fence(entry.copy)

    def _require_ours(self, id_: CopyId) -> None:
        source = self._source.cluster.name
        try:
            ours = self._still_ours(id_)
        except Exception as error:  # the store of assignments does not answer
            raise NotReadyError(source, f"cannot tell whether {id_} is still to be copied here: {error}") from error
        if not ours:
            raise NotOursError(source, f"{id_} is copied elsewhere.")

    def _is_fenced(self, entry: _Entry, found: Outcome[tuple[str, Fenced]]) -> None:
        del self._fencing[entry.copy.id]
        if not isinstance(found, tuple):
            self._entered(entry.copy.id, found)
            return
        entry.source_id, entry.fenced = found
        entry.fenced_at = self._clock()
        self._fenced.setdefault(entry.copy.log, {})[entry.copy.id] = entry

    def _read(self, log: Partition, entries: dict[CopyId, _Entry]) -> None:
        self._reading.add(log)
        since = {id_: entry.since for id_, entry in entries.items()}
        self._beside.start(partial(self._target.read_notes, log, since), partial(self._is_read, log, entries))

    def _is_read(self, log: Partition, entries: dict[CopyId, _Entry], found: Outcome[dict[CopyId, Notes]]) -> None:
        self._reading.discard(log)
        for id_, entry in entries.items():
            if isinstance(found, dict):
                self._beside.start(partial(self._settle, entry, found[id_]), partial(self._entered, id_))
            else:
                self._entered(id_, found)

    def _settle(self, entry: _Entry, notes: Notes) -> TakenOverPartition:
        assert entry.fenced is not None
        copy = entry.copy
        # A final takeover is announced before its fence. A copier that fences later, after standing still since it was
        # assigned the copy, learns of it here, before it appends to a log that clients may write to by now.
        self._require_ours(copy.id)
        takeover = self._target.settle(entry.fenced, notes)
        topics = topic_ids(takeover.progress, entry.source_id, takeover.topic_id)
        check_id(topics.source, entry.source_id, copy, copy.source_key, self._source.cluster.name)
        target_node, log_node = (_leader(self._target, copy, key).node for key in (copy.key, copy.log))
        start = 0 if takeover.progress is not None else self._source.ends([copy.source_key])[copy.source_key].start
        return TakenOverPartition(takeover, topics, entry.source_id, target_node, log_node, start)


def _leader(admin: Admin, copy: CopyPartition, key: Partition) -> Leadership:
    topic, partition = key
    leader = admin.leaderships([key]).get(key)
    name = admin.cluster.name
    if leader is None:
        raise TopicMissingError(
            name, f"topic {topic} has no partition {partition}, or does not exist: {copy.without_topic}."
        )
    if leader.node < 0:
        raise NotReadyError(name, f"{topic}-{partition}: {leader.trouble}.")
    return leader
