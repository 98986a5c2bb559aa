"""All migrations: topics that have moved or cross over now, their progress, and obstacles."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Crossing, MigrateOperation, MoveOperation, Operation, Topic, View
from ha_core.operations.clusters.registered import MAX_LISTED
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError
from ha_core.operations.migration.crossing.ends import CrossingProgress, PartitionProgress, overdue, progress_of
from ha_core.operations.move.dependents import failure, words
from ha_core.plan.absence.returned import dead_at_the_cut
from ha_core.plan.engine.revision import MoveDamagedError
from ha_core.plan.facts.verdict import amount
from ha_core.plan.migration.status import TopicStatus, status_of

NAMED = 3


@dataclass(frozen=True, slots=True)
class TopicMigration:
    """A topic that was moved, or moves."""

    status: TopicStatus
    operation: MoveOperation | None
    """The last operation that moved it; None if it is not among the newest operations."""
    age_s: float | None
    """Since that operation was started."""
    blocks: tuple[str, ...] = ()
    """Obstacles, in words with the way out."""
    groups: str = ""
    """The result of moving its groups; empty if no request asked for that."""

    @property
    def cut(self) -> str:
        """The kind of its cut."""
        if self.operation is None:
            return ""
        request = self.operation.request
        return "forced" if request.mode == "forced" else request.cut

    @property
    def progress(self) -> str:
        return f"{self.status.reached}/{len(self.status.partitions)}"

    def to_json(self) -> dict[str, Any]:
        first = self.status.partitions[0]
        return {
            "topic": self.status.topic,
            "status": self.status.status,
            "originClusterId": first.origin or None,
            "targetClusterId": first.target,
            "cut": self.cut,
            "operation": self.operation.id if self.operation else None,
            "groups": self.groups,
            "age_s": self.age_s,
            "reached": self.status.reached,
            "blocks": list(self.blocks),
            "partitions": [partition.to_json(self.status.status) for partition in self.status.partitions],
        }


def migrations(environment: Environment, running_only: bool = False) -> tuple[TopicMigration, ...]:
    """Every topic that was moved or moves, by name. Clusters that do not answer leave their ends unknown.

    :param running_only: only topics that cross over now.
    """
    store, view = environment.store, environment.store.load()
    chosen = {
        name: topic for name, topic in view.topics.items() if topic.mapped and (topic.crossing or not running_only)
    }
    operations = store.running() if running_only else store.operations(MAX_LISTED)
    looks, last = dict(_looks(environment, operations, chosen)), _last_operations(operations)
    found = []
    for name, topic in sorted(chosen.items()):
        look, crossing = None, topic.crossing
        if crossing is not None:
            look = looks.get(crossing.operation, "its operation is not among the newest")
        seen = look.partitions if isinstance(look, CrossingProgress) else ()
        rows = [row for row in seen if row.topic == name]
        status = status_of(topic, {row.partition: row.end for row in rows})
        if status is None:
            continue
        operation, age_s, blocks = last.get(name), None, list[str]()
        if operation is not None:
            age_s = round(environment.age_s(operation.started), 1)
            blocks += filter(None, [failure(operation, view)])
        if crossing is None:
            blocks += dead_at_the_cut(topic, view.masked)
        elif isinstance(look, str):
            blocks.append(f"its log ends cannot be read: {look}")
        else:
            late = operation is not None and overdue(environment, operation)
            blocks += _held_up(topic, crossing, rows, late)
        found.append(TopicMigration(status, operation, age_s, tuple(blocks), _groups(operation, view)))
    return tuple(found)


def _looks(
    environment: Environment, operations: Iterable[Operation], topics: Mapping[str, Topic]
) -> Iterator[tuple[str, CrossingProgress | str]]:
    """Operation → its progress, or why that is not known."""
    crossing = {topic.crossing.operation for topic in topics.values() if topic.crossing is not None}
    for operation in operations:
        if operation.id in crossing and isinstance(operation, MigrateOperation):
            try:
                yield operation.id, progress_of(environment, operation, topics)
            except (KafkaAdminError, MoveError, MoveDamagedError) as error:
                yield operation.id, str(error)


def _groups(operation: MoveOperation | None, view: View) -> str:
    if operation is None or operation.request.groups == "leave":
        return ""
    if operation.request.scope.user_groups:
        return f"{amount(len(operation.moves.groups), 'group')} in the same revision"
    if failure(operation, view) or operation.state == "failed":
        return "did not follow"
    return words(operation, view) or "come along when the topics have crossed over"


def _last_operations(operations: Iterable[Operation]) -> dict[str, MoveOperation]:
    """Topic → the newest operation that has moved it, or moves it."""
    move_operations: dict[str, MoveOperation] = {}
    for operation in operations:
        if isinstance(operation, MoveOperation):
            for name in operation.moving:
                move_operations.setdefault(name, operation)
    return move_operations


def _held_up(topic: Topic, crossing: Crossing, rows: Sequence[PartitionProgress], late: bool) -> Iterator[str]:
    resume_command = f"`switchyard resume {crossing.operation}"
    if topic.fence is not None:
        yield f"a fence was left on it: {resume_command}`"
    if crossing.state == "proposed":
        yield f"its cuts are proposed only, and producers wait when they are reached: {resume_command}`"
        return
    missing = [row for row in rows if not row.reached]
    if not missing:
        yield f"it is to be settled: {resume_command}`, or the next scheduled run"
        return
    named = "; ".join(f"{row.partition} {row.lacks}" for row in missing[:NAMED])
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    yield f"partition {named}{more}; {resume_command} --finish-with-barrier` ends it now"
    if len(missing) == len(rows):
        yield f"`switchyard rollback {crossing.operation}` takes it back, as long as no partition has crossed over"
    if late:
        yield "it should have ended by now: the next scheduled run ends it under a fence"
