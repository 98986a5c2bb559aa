"""Progress of a crossing's logs: ends on both sides, the cuts, and the records in between."""

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import ClusterUnreachableError, NotReadyError
from ha_core.kafka.facts import LogEnds
from ha_core.model import MigrateOperation, Operation, Topic
from ha_core.model.scope import format_topic
from ha_core.model.topic import client_end
from ha_core.operations.engine.cluster_admins import admin_of, described
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import StepFailedError
from ha_core.plan.facts.clusters import Partition, PartitionEnds
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.migration.crossing import added
from ha_core.plan.migration.crossing_stages import Stage, crossing_partitions, crossings, stages, went_back
from ha_core.plan.migration.cuts import reached_words

ENDS_S = 30.0
NAMED = 5
MIN_MEASURED_S = 5.0
"""A crossing that is open for this long has a measured rate, which is better than the planned one."""


@dataclass(frozen=True, slots=True)
class EndsOfBoth:
    """Log ends of both clusters."""

    origin: Mapping[Partition, LogEnds]
    target: Mapping[Partition, LogEnds]

    @property
    def ends(self) -> dict[Partition, PartitionEnds]:
        """With all appended records."""
        return {key: PartitionEnds(self.target[key].log_end, one.log_end) for key, one in self.origin.items()}

    @property
    def replicated(self) -> dict[Partition, PartitionEnds]:
        """With the origin's records that no leader change can remove."""
        return {key: PartitionEnds(self.target[key].log_end, ends.high_watermark) for key, ends in self.origin.items()}


def read_sides(
    environment: Environment, operation: MigrateOperation, topics: Collection[str], timeout_s: float = ENDS_S
) -> EndsOfBoth:
    """Ends of all partitions of `topics`, the target's before the origin's.

    :raises StepFailedError: a topic is missing, or has different numbers of partitions on both sides.
    """
    origin, target = _admins(environment, operation)
    here, there = described(origin, topics, ENDS_S), described(target, topics, ENDS_S)
    keys: list[Partition] = []
    for name in topics:
        count = here[name].partitions
        if there[name].partitions != count:
            raise StepFailedError(
                f"Topic {name} has {amount(count, 'partition')} in {origin.cluster.name}, and "
                f"{there[name].partitions} in "
                f"{target.cluster.name}. Give both the same number."
            )
        keys += [(name, partition) for partition in range(count)]
    return read_ends(environment, operation, keys, timeout_s)


def read_ends(
    environment: Environment, operation: MigrateOperation, partitions: Collection[Partition], timeout_s: float = ENDS_S
) -> EndsOfBoth:
    """As `read_sides`, for partitions that are known to exist on both sides, as those of a crossing do. Saves requests,
    which matters under a fence."""
    origin, target = _admins(environment, operation)
    there = target.ends(partitions, timeout_s=timeout_s)
    return EndsOfBoth(origin.ends(partitions, timeout_s=timeout_s), there)


def as_clients(topics: Mapping[str, Topic], ends: Mapping[Partition, int]) -> dict[Partition, int]:
    """The origin's ends as client offsets."""
    return {(name, p): client_end(topics.get(name), p, end) for (name, p), end in ends.items()}


def _admins(environment: Environment, operation: MigrateOperation) -> tuple[Admin, Admin]:
    request = operation.request
    return admin_of(environment, request.origin), admin_of(environment, request.target)


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """Client offsets at the time of the look."""

    topic: str
    partition: int
    end: int
    cut: int
    rate_per_s: float = 0.0
    """Growth of the log."""
    rate_from: str = ""

    @property
    def reached(self) -> bool:
        return self.end >= self.cut

    @property
    def missing(self) -> int:
        return max(0, self.cut - self.end)

    @property
    def lacks(self) -> str:
        """The missing records and the expected time, for people."""
        when = reached_words(self.missing, self.rate_per_s, self.rate_from)
        return f"lacks {self.missing}, reached {when}"


@dataclass(frozen=True, slots=True)
class CrossingProgress:
    """One look at a crossing."""

    operation: MigrateOperation
    stages: Mapping[str, Stage]
    partitions: tuple[PartitionProgress, ...] = ()
    added: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """topic → partitions that were added since its cuts were proposed: they remain in the origin."""
    went_back: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Open topic → partitions whose log had reached its cut and ends below it now."""

    @property
    def reached(self) -> int:
        return sum(partition.reached for partition in self.partitions)

    @property
    def at(self) -> tuple[object, ...]:
        """Equal as long as no log and no stage has changed."""
        return *self.stages.items(), *(
            (partition.topic, partition.partition, partition.end, partition.cut) for partition in self.partitions
        )

    @property
    def ready(self) -> tuple[str, ...]:
        """Open topics all of whose partitions have reached their cuts."""
        missing = {row.topic for row in self.partitions if not row.reached}
        return tuple(name for name, stage in self.stages.items() if stage == "open" and name not in missing)

    @property
    def words(self) -> str:
        """One line for people."""
        text = f"{self.reached} of {len(self.partitions)} partitions have reached their cuts"
        if done := sum(stage == "settled" for stage in self.stages.values()):
            text += f", {done} of {len(self.stages)} topics have crossed over"
        missing = sorted((row for row in self.partitions if not row.reached), key=lambda row: -row.missing)
        if missing:
            named = "; ".join(f"{row.topic}-{row.partition} {row.lacks}" for row in missing[:NAMED])
            text += f"; {named}" + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
        if self.went_back:
            text += f"; {went_back_words(self.operation, self.went_back)}"
        if self.added:
            text += f"; {withheld_words(self.operation, self.added)}"
        return text


def read_progress(environment: Environment, operation: MigrateOperation) -> CrossingProgress:
    """The progress of the operation's crossing. Changes nothing, and takes nothing over."""
    found = environment.pool.map(lambda name: environment.store.read(Topic, name), operation.moves.topics)
    topics = {one[0].name: one[0] for one in found if one is not None}
    return progress_of(environment, operation, topics)


def progress_of(environment: Environment, operation: MigrateOperation, topics: Mapping[str, Topic]) -> CrossingProgress:
    """`read_progress`, with documents that were read already."""
    request, at = operation.request, stages(operation, topics)
    crossing = [name for name, one in at.items() if one in {"proposed", "open"}]
    if not crossing:
        return CrossingProgress(operation, at)
    try:
        sides = read_ends(environment, operation, crossing_partitions(topics, crossing))
        counts = admin_of(environment, request.origin).partition_counts(crossing)
    except (ClusterUnreachableError, NotReadyError) as error:
        if error.cluster != request.origin:
            raise
        raise StepFailedError(f"{error} {way_on(operation)}") from error
    rows = tuple(_rows(environment, operation, (topics[name] for name in crossing), sides.replicated))
    grown = {name: new for name in crossing if (new := added(request, topics[name], counts))}
    kept, opened = operation.evidence.below, [name for name in crossing if at[name] == "open"]
    back = {name: some for name in opened if (some := went_back(topics[name], sides.ends, kept.get(name, ())))}
    return CrossingProgress(operation, at, rows, grown, back)


def _rows(
    environment: Environment,
    operation: MigrateOperation,
    topics: Iterable[Topic],
    ends: Mapping[Partition, PartitionEnds],
) -> Iterable[PartitionProgress]:
    evidence = operation.evidence
    open_s = environment.age_s(evidence.opened) if evidence.opened is not None else 0.0
    for topic in topics:
        for partition, _, target in crossings(topic):
            log_end = ends[topic.name, partition].origin
            assert log_end is not None
            end = client_end(topic, partition, log_end)
            planned = evidence.rates.get(topic.name, {}).get(partition, 0.0)
            rate, source = evidence.expected.get(topic.name, {}).get(partition, planned), "as planned"
            begun = evidence.opened_at.get(topic.name, {}).get(partition)
            if begun is not None and open_s >= MIN_MEASURED_S:
                rate, source = max(0.0, end - begun) / open_s, "measured since it was opened"
            yield PartitionProgress(topic.name, partition, end, target.start, rate, source if rate else "")


def withheld_words(operation: MigrateOperation, grown: Mapping[str, Collection[int]]) -> str:
    """A sentence about partitions that were added to topics during their crossing."""
    origin = operation.request.origin
    named = listed(format_topic(name, tuple(new)) for name, new in grown.items())
    seen = (
        f"were added in {origin} meanwhile: clients see them when the crossing has ended, and they remain in {origin}"
    )
    return f"{named} {seen}"


def went_back_words(operation: MigrateOperation, partitions: Mapping[str, Collection[int]]) -> str:
    """Names the logs of the origin that were truncated during a crossing, with the commands to use."""
    named, names = listed(format_topic(name, tuple(some)) for name, some in partitions.items()), " ".join(partitions)
    return (
        f"the log of {named} in {operation.request.origin} had reached its cut and ends below it now: its brokers have "
        f"lost acknowledged records (by an unclean election, or with a disk). Readers below the cut wait: `switchyard "
        f"origins check {names}` counts the missing records, and with `--accept-loss` readers continue"
    )


def remaining_words(operation: MigrateOperation) -> str:
    """A sentence about partitions that were added meanwhile and remain in the origin, and how to move them; else
    empty."""
    request, remaining = operation.request, operation.evidence.remaining
    if not remaining:
        return ""
    some = [shlex.quote(format_topic(name, new)) for name, new in list(remaining.items())[:NAMED]]
    more = f" (and so on, {amount(len(remaining), 'topic')} in all)" if len(remaining) > NAMED else ""
    return (
        f"{amount(sum(map(len, remaining.values())), 'partition')} that were added meanwhile remain in "
        f"{request.origin}: "
        f"`switchyard migrate {' '.join(some)} --from {request.origin} --to {request.target}`{more} brings them after"
    )


def way_on(operation: MigrateOperation) -> str:
    """The way out if the origin of a crossing does not answer."""
    origin = operation.request.origin
    return (
        f"If {origin} is lost: `switchyard resume {operation.id} --without-origin --unread wait|skip`, or "
        f"`switchyard migrate-from-fault`, ends the crossing without it (with --force if part of it answers)."
    )


def overdue(environment: Environment, operation: Operation) -> bool:
    """Whether the operation should have ended by now."""
    return operation.ends_at is not None and datetime.fromisoformat(environment.now()) >= operation.ends_at
