"""The states of a partition that is copied."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ha_core.kafka.copying.statuses import CopyCoverage, CopyState, CopyStatus, SourceEnds
from ha_core.kafka.last_records import LastCopied
from ha_core.kafka.offsets import Leadership
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.measures import CopyMeasures
from ha_core.mirror.notes import Note
from ha_core.mirror.pace import RateMeter
from ha_core.mirror.partition import Claimed, PartitionCopy
from ha_core.mirror.progress import Progress, RunPage
from ha_core.plan.facts.clusters import Partition

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 30.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 5.0, 60.0
TAKEN_OVER = "another copier has taken it over"
ELSEWHERE = "it is copied elsewhere"
"""Reasons why a partition stops without a fault: it is added again once it is to be copied here."""
IN_FLIGHT = 5
"""Number of batches per producer that a broker remembers."""
OLD_MS = 12 * 3600_000
"""Half of the time that brokers remember a producer after a batch with that timestamp (`producer.id.expiration.ms`, by
default a day)."""
LEVEL_MS = 30_000
"""Readers do not wait for a copy with a larger lag than this."""
UNHEARD_S = 5.0
"""A healthy source reports its ends at least every two seconds."""


class Reached(NamedTuple):
    """How far a partition was copied when the loop ended."""

    source: int
    """Source offset after everything copied or skipped: markers, aborted records, compacted records."""
    progress: Progress
    """Everything that the target has acknowledged."""
    pages: Mapping[int, RunPage]
    """Pages of the copy's map that may be missing in the copy log."""


@dataclass(frozen=True, slots=True)
class AwaitingTakeover:
    """Taken over at `until`."""

    reason: str
    until: float
    tries: int = 0
    """Consecutive failures."""

    def again(self, reason: str, now: float) -> AwaitingTakeover:
        """The next attempt, with a growing pause."""
        return AwaitingTakeover(reason, now + pause_s(self.tries), self.tries + 1)


@dataclass(frozen=True, slots=True)
class RefusedByCluster:
    """A cluster refuses to give or take the next records until a setting or a right is fixed. It is shown as stopped
    and retried at `until`, so a fix needs no further action."""

    reason: str
    until: float
    refusals: int
    """Consecutive refusals."""

    @property
    def tries(self) -> int:
        return 0

    def again(self, _reason: str, now: float) -> RefusedByCluster:
        """Keeps the refusal as the reason: it is more useful than a later failure to take over."""
        return replace(self, until=now + retry_s(self.refusals))


@dataclass(frozen=True, slots=True)
class TakingOver:
    """The takeover runs beside the loop (`takeovers`)."""

    waited: AwaitingTakeover | RefusedByCluster


@dataclass(frozen=True, slots=True)
class StoppedCopy:
    """Needs an operator.

    :ivar foreign: the copy has records, and its copiers have no notes.
    :ivar damaged: the copy is not what its copiers' notes say, when one took over.
    """

    reason: str
    foreign: bool = False
    damaged: bool = False


@dataclass
class Heard:
    """When the source was last asked about partitions that it reports only when they change (`sessions`)."""

    asked_at: float = float("-inf")


@dataclass(eq=False)
class CopyLane:
    """A partition that is copied.

    :ivar leader: in the source; None: unknown.
    :ivar look_at: earliest time of the next search for the leader.
    :ivar missed: consecutive attempts that did not find the leader.
    :ivar trouble: reason why nothing comes from the source.
    :ivar proven: whether the source's leader has the last copied record, so that copying may go on.
    :ivar source_id: topic id in the source; "": the brokers have none.
    :ivar lags: True if the source has more.
    :ivar log_sequence: sequence of the writer's next note.
    :ivar to_append: batches whose intent is in the copy log.
    :ivar noted_at: (number of an intent, its offset in the copy log) for intents not yet covered by a written progress.
    :ivar since: offset of the copy log below which notes no longer matter.
    """

    copy: CopyPartition
    partition: PartitionCopy
    begun: float
    bytes: RateMeter
    lag_tracker: LagTracker
    target_node: int
    log_node: int
    tries: int
    source_id: str = ""
    leader: Leadership | None = None
    look_at: float = 0.0
    missed: int = 0
    missing_since: float | None = None
    trouble: str = ""
    proven: bool = False
    lags: bool = True
    ends: SourceEnds | None = None
    source_start: int | None = None
    seen_at: float = 0.0
    """Time at which `ends` were requested; see `heard_at`."""
    heard: Heard | None = None
    """The session that reports this partition when it changes: until then, `ends` are as they were."""
    newest_ms: int = -1
    log_sequence: int = 0
    appending: deque[int] = field(default_factory=deque)
    """Newest timestamps of the batches in flight to the target."""
    measures: CopyMeasures = field(default_factory=CopyMeasures)
    appended_ms: int | None = None
    """Newest timestamp of the last appended batch; None: the copy ends with the marker of the takeover."""
    writing: Progress | None = None
    """In flight to the copy log."""
    to_note: deque[Note] = field(default_factory=deque)
    to_append: deque[Claimed] = field(default_factory=deque)
    noted_at: deque[tuple[int, int]] = field(default_factory=deque)
    since: int = 0
    recorded: float = 0.0
    """Time of the last written progress."""
    refused: str = ""
    """Reason of the last refusal, until something is appended."""
    refusals: int = 0
    """Consecutive refusals."""
    coverage: tuple[object, CopyCoverage] | None = None
    """The last one that was reported, and what it follows from."""

    @property
    def key(self) -> Partition:
        """In the target."""
        return self.copy.key

    @property
    def source_key(self) -> Partition:
        """In the source."""
        return self.copy.source_key

    @property
    def last_copied(self) -> LastCopied | None:
        """None: nothing was copied yet."""
        last = self.partition.last_run
        if last is None:
            return None
        return LastCopied(self.source_key, last.after - 1, self.key, last.target + last.records - 1)

    def may_append(self, now_ms: int) -> bool:
        """True if the next batch may be sent before the last one is acknowledged.

        Brokers judge the age of a producer by the timestamps of its batches. After an old one the broker may forget the
        copier and then accept any sequence: with two batches in flight it may take the second after refusing the first.
        """
        if len(self.appending) >= IN_FLIGHT or not self.to_append:
            return False
        times = [*self.appending, self.to_append[0].newest_ms]
        if self.appended_ms is not None:
            times.append(self.appended_ms)
        return not self.appending or now_ms - min(times) < OLD_MS

    def recorded_as(self, progress: Progress, offset: int, now: float) -> None:
        """Records that the copy log has this progress at this offset."""
        self.partition.recorded(progress)
        self.writing, self.recorded = None, now
        while self.noted_at and self.noted_at[0][0] <= progress.number:
            self.noted_at.popleft()
        self.since = min([offset, *(at for _, at in self.noted_at)])

    @property
    def heard_at(self) -> float:
        """Time of the last request whose answer says that the source ends at `ends`. From any thread."""
        heard = self.heard
        return self.seen_at if heard is None else max(self.seen_at, heard.asked_at)

    def settle_heard(self) -> None:
        """Nothing reports any more that the ends are as they were."""
        self._settle()
        self.heard = None

    def _settle(self) -> None:
        at = self.heard_at
        if self.ends is not None and at > self.seen_at:
            self.seen_at = at
            self.lag_tracker.saw(at, self.ends.acknowledged, self.partition.source)

    def hear(self, ends: SourceEnds, asked_at: float) -> None:
        """Records the ends of the source: it had acknowledged that much at `asked_at` or later."""
        self._settle()
        self.ends, self.seen_at = ends, asked_at
        self.lag_tracker.saw(asked_at, ends.acknowledged, self.partition.source)
        self.lags = self.partition.next_offset < ends.copyable

    def status(self, now: float, now_ms: int) -> CopyStatus:
        """:param now_ms: wall-clock time."""
        partition, ends = self.partition, self.ends
        source = partition.source
        rpo_s = self._rpo_s(now, now_ms)
        silent_s = now - self.heard_at
        unheard_s = silent_s if ends is not None and silent_s >= UNHEARD_S else None
        lag_ms = self._lag_ms(rpo_s)
        if lag_ms is not None and unheard_s is not None:
            lag_ms += round(1000 * unheard_s)
        state: CopyState = "waiting" if self.trouble else "copying"
        if refused := self.refused if ends is None or source < ends.copyable else "":
            state = "stopped"
        left = None if ends is None else self.lag_tracker.bytes_of(max(ends.acknowledged - partition.next_offset, 0))
        return CopyStatus(
            state,
            source,
            ends,
            refused or self.trouble,
            lag_ms,
            None if left is None else partition.bytes + left,
            rpo_s,
            self.bytes.per_s(now),
            self.bytes.total,
            unheard_s,
            self.source_start,
            overtaken=partition.overtaken,
        )

    def _lag_ms(self, rpo_s: float | None) -> int | None:
        partition, ends = self.partition, self.ends
        if ends is not None and ends.acknowledged <= partition.source:
            return 0
        if ends is not None and ends.copyable <= partition.source:
            return None if rpo_s is None else round(1000 * rpo_s)
        if partition.copied_ms >= 0 and self.newest_ms >= 0:
            return max(self.newest_ms - partition.copied_ms, partition.seen_ms - partition.copied_ms, 0)
        return None

    def _rpo_s(self, now: float, now_ms: int) -> float | None:
        """Age of the oldest record that the copy lacks. Until the copy has reached the first end seen here, its last
        record says how new it is: the RPO is then the age of that record, and at least the age of the first end."""
        source = self.partition.source
        since, first = self.lag_tracker.since(source), self.lag_tracker.first_asked_at
        if self.ends is not None and self.ends.acknowledged <= source and self.heard is not None:
            since = max(self.heard_at, float("-inf") if since is None else since)
        if since is not None:
            return max(now - since, 0.0)
        if self.partition.copied_ms < 0 or first is None:
            return None
        return max((now_ms - self.partition.copied_ms) / 1000, now - first)

    def known(self, most_runs: int, now: float, now_ms: int) -> CopyCoverage:
        """The coverage for readers of the copy; called in the loop's thread."""
        partition = self.partition
        level = self._is_level(now, now_ms)
        made_of = level, partition.source, partition.target, partition.source_base, self.source_start, most_runs
        if self.coverage is None or self.coverage[0] != made_of:
            runs = partition.newest_runs(most_runs)
            found = CopyCoverage(
                partition.source, level, runs, self.source_start, partition.target, partition.source_base
            )
            self.coverage = made_of, found
        return self.coverage[1]

    def _is_level(self, now: float, now_ms: int) -> bool:
        calm = not self.trouble and not self.refused and now - self.heard_at < UNHEARD_S
        if calm and self.ends is not None and self.ends.acknowledged <= self.partition.source:
            return True  # most of thousands of partitions
        status = self.status(now, now_ms)
        return status.state == "copying" and status.lag_ms is not None and status.lag_ms <= LEVEL_MS


State = AwaitingTakeover | TakingOver | RefusedByCluster | StoppedCopy | CopyLane


def not_copied(
    state: AwaitingTakeover | TakingOver | RefusedByCluster | StoppedCopy, lag_tracker: LagTracker, now: float
) -> CopyStatus:
    """Status of a partition that is not being copied. Its lag is unknown, but its age may be known."""
    known = state.waited if isinstance(state, TakingOver) else state
    since = lag_tracker.since(-1)
    return CopyStatus(
        "waiting" if isinstance(known, AwaitingTakeover) else "stopped",
        None,
        None,
        known.reason,
        rpo_s=None if since is None else max(now - since, 0.0),
        foreign=isinstance(known, StoppedCopy) and known.foreign,
        damaged=isinstance(known, StoppedCopy) and known.damaged,
    )


def pause_s(tries: int) -> float:
    """Pause after consecutive failures. None after the first: a moved leader is available at once."""
    return min(_FIRST_PAUSE_S * 2.0 ** (tries - 1), _LONGEST_PAUSE_S) if tries else 0.0


def retry_s(refusals: int) -> float:
    """Pause after consecutive refusals. Each attempt writes a marker, and a fix takes effect within this time."""
    return min(_FIRST_RETRY_S * 2.0 ** min(refusals, 10), _LONGEST_RETRY_S)
