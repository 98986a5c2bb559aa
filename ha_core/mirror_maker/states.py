"""The states of a worker's flows, for operators, metrics and other processes. Unknown numbers are None, never 0."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from ha_core.flows.groups import SkippedGroup
from ha_core.flows.remote_plan import SkippedTopic
from ha_core.kafka.copying import CopyStatus
from ha_core.mirror.notes import CopyId
from ha_core.mirror_maker.duties import Duty
from ha_core.mirror_maker.running_flow import RunningFlow

MAX_NAMED = 20
"""Maximum number of partitions, topics or groups that a state names, the most urgent first; others are only counted."""


@dataclass(frozen=True)
class FlowState:
    """The state of a flow in one worker, over the worker's shares.

    :ivar trouble: why the flow has not started; "": it has started.
    :ivar partitions: state → number of partitions.
    :ivar lag_records: number of offsets that the source has acknowledged and the copies lack; None: unknown for at
        least one partition.
    :ivar lag_ms: the largest lag of a partition; None: unknown for at least one partition.
    :ivar overtaken: number of offsets that retention deleted in the source before they were copied; None: unknown for
        at least one partition.
    :ivar worst: partitions that are not copied, that have most lag, or that retention has overtaken.
    :ivar duties: duty → why its last round failed; "": it succeeded.
    :ivar offsets: precision → number of translated group offsets.
    """

    flow: str
    trouble: str
    topics: int
    partitions: dict[str, int]
    lag_records: int | None
    lag_ms: int | None
    overtaken: int | None
    bytes_s: float
    copied_records: int
    copied_bytes: int
    worst: tuple[dict[str, object], ...]
    skipped_topics: tuple[SkippedTopic, ...]
    skipped_topics_in_all: int
    skipped_groups: tuple[SkippedGroup, ...]
    skipped_groups_in_all: int
    not_committed: tuple[SkippedGroup, ...]
    offsets: dict[str, int]
    duties: dict[str, str]

    def to_json(self) -> dict[str, object]:
        """Named tuples would be lists in JSON, and readers look for their fields."""
        named: dict[str, tuple[SkippedTopic, ...] | tuple[SkippedGroup, ...]] = {
            "skipped_topics": self.skipped_topics,
            "skipped_groups": self.skipped_groups,
            "not_committed": self.not_committed,
        }
        return asdict(self) | {name: [one._asdict() for one in those] for name, those in named.items()}


def state_of(running: RunningFlow) -> FlowState:
    parts = running.parts
    statuses = {} if parts is None else parts.copier.statuses()
    groups = None if parts is None else parts.groups
    skipped = () if parts is None else parts.plan.skipped
    duties: tuple[Duty, ...] = () if parts is None else parts.duties
    return FlowState(
        flow=running.flow.name,
        trouble=running.trouble or ("" if parts is None else parts.copier.fault),
        topics=0 if parts is None else len(parts.plan.copies),
        partitions=dict(Counter(status.state for status in statuses.values())),
        lag_records=_sum(status.lag_records for status in statuses.values()),
        lag_ms=_largest(status.lag_ms for status in statuses.values()),
        overtaken=_sum(status.overtaken for status in statuses.values()),
        bytes_s=sum(status.bytes_s for status in statuses.values()),
        copied_records=0 if parts is None else parts.copier.work.copied_records,
        copied_bytes=0 if parts is None else parts.copier.work.copied_bytes,
        worst=tuple(_worst(statuses)),
        skipped_topics=skipped[:MAX_NAMED],
        skipped_topics_in_all=len(skipped),
        skipped_groups=() if groups is None else tuple(groups.skipped[:MAX_NAMED]),
        skipped_groups_in_all=0 if groups is None else len(groups.skipped),
        not_committed=() if groups is None else tuple(groups.not_committed[:MAX_NAMED]),
        offsets={} if groups is None else groups.precise,
        duties={duty.name: duty.trouble for duty in duties},
    )


def _worst(statuses: Mapping[CopyId, CopyStatus]) -> Iterator[dict[str, object]]:
    def urgency(entry: tuple[CopyId, CopyStatus]) -> tuple[bool, float]:
        _, status = entry
        lag = status.lag_records
        return status.state == "copying", float("-inf") if lag is None else -lag

    for id_, status in sorted(statuses.items(), key=urgency)[:MAX_NAMED]:
        if status.state != "copying" or status.lag_records or status.overtaken:
            yield {
                "topic": id_.topic,
                "partition": id_.partition,
                "state": status.state,
                "reason": status.reason,
                "lag_records": status.lag_records,
                "lag_ms": status.lag_ms,
                "overtaken": status.overtaken,
            }


def _sum(numbers: Iterator[int | None]) -> int | None:
    known = list(numbers)
    return None if any(one is None for one in known) else sum(one for one in known if one is not None)


def _largest(numbers: Iterator[int | None]) -> int | None:
    known = list(numbers)
    return None if any(one is None for one in known) else max((one for one in known if one is not None), default=None)
