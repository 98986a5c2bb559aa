"""The states of a partition that is to be copied, and what is told of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ha_core.kafka.leadership import Leadership
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.notes import Note
from ha_core.mirror.pace import RateMeter
from ha_core.mirror.partition import Claimed, PartitionCopy
from ha_core.mirror.progress import Progress, RunPage
from ha_core.model import Run
from ha_core.plan.facts.clusters import Partition

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 30.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 5.0, 60.0
TAKEN_OVER = "another copier has taken it over"
ELSEWHERE = "it is copied elsewhere"
"""Reasons why a partition has stopped that is well: it is added again where it is to be copied here."""
IN_FLIGHT = 5
"""As many batches of a producer as a broker knows again."""
OLD_MS = 12 * 3600_000
"""Half of what brokers keep of a producer behind a batch with such a time (`producer.id.expiration.ms`: a day)."""
LEVEL_MS = 30_000
"""A copy that lags by more is not waited for by readers who are ahead of it."""
UNHEARD_S = 5.0
"""A source that answers is heard of at least every two seconds."""
StandingState = Literal["copying", "waiting", "stopped"]


class SourceEnds(NamedTuple):
    """The ends of a partition of the source, as its leader said them in one answer."""

    committed: int
    """Readers of committed records get no further (last stable offset)."""
    acknowledged: int
    """All in-sync replicas have what lies below (high watermark), also behind a transaction that is open."""


class CopyStatus(NamedTuple):
    """How a partition stands, for people and metrics. None is unknown, which is never shown as 0."""

    state: StandingState
    source: int | None
    """The next source offset to copy."""
    ends: SourceEnds | None
    """As the source said them last."""
    reason: str = ""
    lag_ms: int | None = None
    """Between the last record that is copied and the newest one that the source has shown; where all that is committed
    is copied and an open transaction keeps back more, how long that has been so. What the source has not been heard of
    since comes on top."""
    lag_bytes: int | None = None
    """What is fetched and not appended, and the rest as large as what was fetched of late; None: nothing was."""
    rpo_s: float | None = None
    """An estimate: if the source were lost now, what was acknowledged there in so many seconds would be. None: not
    known."""
    bytes_s: float = 0.0
    copied_bytes: int = 0
    """Since this task has the partition."""
    unheard_s: float | None = None
    """How long the source has said no end; None: it does, or has never done so here."""
    source_start: int | None = None
    """Where the source's log starts."""

    @property
    def lag_records(self) -> int | None:
        """Offsets that the source has acknowledged and the copy has not: with the source they would be lost."""
        return None if self.source is None or self.ends is None else max(self.ends.acknowledged - self.source, 0)

    @property
    def to_copy(self) -> int | None:
        """Those of them that can be copied now: no open transaction keeps them back."""
        return None if self.source is None or self.ends is None else max(self.ends.committed - self.source, 0)

    def has(self, end: int) -> bool:
        """Whether all that the source has below `end` is known to be in the copy."""
        return self.source is not None and self.source >= end

    def within(self, records: int) -> bool:
        """Whether it is known to lack no more."""
        return self.lag_records is not None and self.lag_records <= records


@dataclass
class CopyTotals:
    """What was done of a pair of clusters, by one loop after the other. Counted by one thread, read by any."""

    copied_bytes: int = 0
    copied_records: int = 0
    takeovers: int = 0


class Reached(NamedTuple):
    """How far a partition was copied when the loop had ended."""

    source: int
    """The source offset behind all that was copied or skipped: markers, aborted records, what compaction took."""
    progress: Progress
    """All that the target has acknowledged."""
    pages: Mapping[int, RunPage]
    """Of its map, those of which nobody knows whether the copy log has them."""


class CopyCoverage(NamedTuple):
    """What of a partition lies in its copy. Offsets are the source's."""

    end: int
    level: bool
    """Nothing is wrong, and the copy is not far behind."""
    runs: tuple[Run, ...]
    """The newest."""
    start: int | None = None
    """Where the source's log starts."""


@dataclass(frozen=True, slots=True)
class AwaitingTakeover:
    """It is taken over at `until`."""

    reason: str
    until: float
    tries: int = 0
    """How often that has failed, one after the other."""

    def again(self, reason: str, now: float) -> AwaitingTakeover:
        """Later and later."""
        return AwaitingTakeover(reason, now + pause_s(self.tries), self.tries + 1)


@dataclass(frozen=True, slots=True)
class RefusedByCluster:
    """A cluster does not take, or give, what comes next, until somebody has mended a setting or a right. It is told as
    stopped, and tried again at `until`: nobody has to say that it is mended."""

    reason: str
    until: float
    refusals: int
    """How often it was refused, one after the other."""

    @property
    def tries(self) -> int:
        return 0

    def again(self, _reason: str, now: float) -> RefusedByCluster:
        """It could not be taken over: why it was refused tells more."""
        return replace(self, until=now + retry_s(self.refusals))


@dataclass(frozen=True, slots=True)
class TakingOver:
    """Work goes on beside the loop (`entering`)."""

    waited: AwaitingTakeover | RefusedByCluster


@dataclass(frozen=True, slots=True)
class StoppedCopy:
    """Somebody has to look first."""

    reason: str


@dataclass(eq=False)
class CopyLane:
    """A partition that is copied.

    :ivar leader: in the source; None: it is being looked for.
    :ivar look_at: when it may be looked for again.
    :ivar missed: how often its leader was not where it was looked for, one after the other.
    :ivar trouble: why nothing comes from the source.
    :ivar source_id: of the topic in the source; "": the brokers have none.
    :ivar lags: whether the source has more.
    :ivar log_sequence: of the writer's next note.
    :ivar to_append: batches whose intent is in the copy log.
    :ivar noted_at: (number of an intent, its offset in the copy log) of those that no written progress has taken in.
    :ivar since: what lies below in the copy log does not count.
    """

    copy: CopyPartition
    partition: PartitionCopy
    begun: float
    bytes: RateMeter
    behind: LagTracker
    target_node: int
    log_node: int
    tries: int
    source_id: str = ""
    leader: Leadership | None = None
    look_at: float = 0.0
    missed: int = 0
    missing_since: float | None = None
    trouble: str = ""
    lags: bool = True
    ends: SourceEnds | None = None
    source_start: int | None = None
    seen_at: float = 0.0
    """When they were asked for."""
    newest_ms: int = -1
    log_sequence: int = 0
    appending: deque[int] = field(default_factory=deque)
    """The newest times of the batches that are in flight to the target."""
    appended_ms: int | None = None
    """The newest time of the batch that was appended last; None: the marker of the take-over comes last."""
    writing: Progress | None = None
    """That is on its way to the copy log."""
    to_note: deque[Note] = field(default_factory=deque)
    to_append: deque[Claimed] = field(default_factory=deque)
    noted_at: deque[tuple[int, int]] = field(default_factory=deque)
    since: int = 0
    recorded: float = 0.0
    """When the last progress was written."""
    refused: str = ""
    """Why what comes next was refused before, until something is appended."""
    refusals: int = 0
    """How often, one after the other."""

    @property
    def key(self) -> Partition:
        return self.copy.key

    def may_append(self, now_ms: int) -> bool:
        """Whether the next batch may be sent before the last one is acknowledged.

        Brokers judge the age of a producer by the times of its batches. Behind an old one the broker may forget the
        copier, and takes any sequence then: of two batches in flight the second, where it has refused the first.
        """
        if len(self.appending) >= IN_FLIGHT or not self.to_append:
            return False
        times = [*self.appending, self.to_append[0].newest_ms]
        if self.appended_ms is not None:
            times.append(self.appended_ms)
        return not self.appending or now_ms - min(times) < OLD_MS

    def recorded_as(self, progress: Progress, offset: int, now: float) -> None:
        """The copy log has this progress at this offset."""
        self.partition.recorded(progress)
        self.writing, self.recorded = None, now
        while self.noted_at and self.noted_at[0][0] <= progress.number:
            self.noted_at.popleft()
        self.since = min([offset, *(at for _, at in self.noted_at)])

    def hear(self, ends: SourceEnds, asked_at: float) -> None:
        """The source has said its ends, and had acknowledged that much when it was asked, or later."""
        self.ends, self.seen_at = ends, asked_at
        self.behind.saw(asked_at, ends.acknowledged, self.partition.source)
        self.lags = self.partition.next_offset < ends.committed

    def standing(self, now: float, now_ms: int) -> CopyStatus:
        """:param now_ms: by the clock on the wall."""
        partition, ends = self.partition, self.ends
        source = partition.source
        rpo_s = self._rpo_s(now, now_ms)
        silent_s = now - self.seen_at
        unheard_s = silent_s if ends is not None and silent_s >= UNHEARD_S else None
        lag_ms = self._lag_ms(rpo_s)
        if lag_ms is not None and unheard_s is not None:
            lag_ms += round(1000 * unheard_s)
        state: StandingState = "waiting" if self.trouble else "copying"
        if refused := self.refused if ends is None or source < ends.committed else "":
            state = "stopped"
        left = None if ends is None else self.behind.bytes_of(max(ends.acknowledged - partition.next_offset, 0))
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
        )

    def _lag_ms(self, rpo_s: float | None) -> int | None:
        partition, ends = self.partition, self.ends
        if ends is not None and ends.acknowledged <= partition.source:
            return 0
        if ends is not None and ends.committed <= partition.source:
            return None if rpo_s is None else round(1000 * rpo_s)
        if partition.copied_ms >= 0 and self.newest_ms >= 0:
            return max(self.newest_ms - partition.copied_ms, partition.seen_ms - partition.copied_ms, 0)
        return None

    def _rpo_s(self, now: float, now_ms: int) -> float | None:
        """Until the copy has come to the first end that was seen here, it has what was written up to the time of its
        last record: the age of that counts, and it is no less than the age of the first end."""
        since, first = self.behind.since(self.partition.source), self.behind.first_asked_at
        if since is not None:
            return max(now - since, 0.0)
        if self.partition.copied_ms < 0 or first is None:
            return None
        return max((now_ms - self.partition.copied_ms) / 1000, now - first)

    def known(self, most_runs: int, now: float, now_ms: int) -> CopyCoverage:
        """What readers of the copy may know; for the loop's thread."""
        standing, runs = self.standing(now, now_ms), self.partition.newest_runs(most_runs)
        near = standing.lag_ms is not None and standing.lag_ms <= LEVEL_MS
        return CopyCoverage(self.partition.source, standing.state == "copying" and near, runs, self.source_start)


State = AwaitingTakeover | TakingOver | RefusedByCluster | StoppedCopy | CopyLane


def not_copied(
    state: AwaitingTakeover | TakingOver | RefusedByCluster | StoppedCopy, behind: LagTracker, now: float
) -> CopyStatus:
    """A partition that is no lane: how far it is nobody looks, but since when the copy has not had all may be known."""
    known = state.waited if isinstance(state, TakingOver) else state
    since = behind.since(-1)
    return CopyStatus(
        "waiting" if isinstance(known, AwaitingTakeover) else "stopped",
        None,
        None,
        known.reason,
        rpo_s=None if since is None else max(now - since, 0.0),
    )


def pause_s(tries: int) -> float:
    """After so many failures. The first costs nothing: a leader that has moved is there already."""
    return min(_FIRST_PAUSE_S * 2.0 ** (tries - 1), _LONGEST_PAUSE_S) if tries else 0.0


def retry_s(refusals: int) -> float:
    """After so many refusals of the same. Each try writes a marker, and somebody's mend waits no longer than this."""
    return min(_FIRST_RETRY_S * 2.0 ** min(refusals, 10), _LONGEST_RETRY_S)
