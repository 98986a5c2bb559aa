"""The state in numbers, for metrics: operations, migrations, approvals, and problems (`switchyard status --check`).

The process that records facts on behalf of one gateway looks, so the numbers exist once in a fleet.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ha_core.model import Mirror, Operation, View
from ha_core.operations.clusters.registered import cluster_states, running_operations
from ha_core.operations.engine.environment import Environment
from ha_core.operations.migration.listing import TopicMigration, migrations
from ha_core.operations.overview.health import problems
from ha_core.plan.facts.problem import Problem, folded
from ha_core.plan.migration.status import status_of

log = logging.getLogger(__name__)

EVERY_S = 15.0
LEAST_PAUSE = 10
"""A pause takes at least so many times as long as the look before: a look reads the whole state."""


class RunningOperations(NamedTuple):
    """Operations of one kind that are in one state."""

    kind: str
    state: str
    number: int
    oldest_s: float


class CrossingPartitions(NamedTuple):
    """Partitions of topics that cross over now.

    :ivar unknown: their log ends could not be read.
    :ivar missing_records: until the cuts of those that are short, all together.
    """

    reached: int
    short: int
    unknown: int
    missing_records: int


@dataclass(frozen=True, slots=True)
class StateMeasures:
    """
    :ivar migrations: topics that were moved, by the status of their last migration.
    :ivar approvals_oldest_s: None: no run waits for an approval.
    :ivar problems: by code, as `switchyard status --check` lists them: without those that follow from another one.
    """

    operations: tuple[RunningOperations, ...]
    migrations: Mapping[str, int]
    crossing: CrossingPartitions
    approvals: int
    approvals_oldest_s: float | None
    problems: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "operations": [one._asdict() for one in self.operations],
            "crossing": self.crossing._asdict(),
        }


def measure(environment: Environment) -> StateMeasures:
    """One look."""
    store = environment.store
    view = store.load(left_out=(Mirror,))
    running = running_operations(environment)
    found = folded(problems(environment, view, cluster_states(environment), store.gateways(), running))
    crossing = migrations(environment, running_only=True) if _crosses(view) else ()
    waiting = list(_waiting_s(environment))
    return StateMeasures(
        tuple(_operations(environment, running)),
        dict(_migrations(view, crossing)),
        _crossing(crossing),
        len(waiting),
        max(waiting, default=None),
        _by_code(found),
    )


def measure_always(environment: Environment, told: Callable[[dict[str, Any] | None, float], bool]) -> None:
    """Look again and again.

    :param told: is called after each look with its result, or with None if it failed, and the time in seconds after
        which the next look has ended if it takes as long; False ends the loop.
    """
    failing = False
    while True:
        begun = environment.monotonic()
        found: dict[str, Any] | None = None
        try:
            found = measure(environment).to_json()
            failing = False
        except Exception as error:
            # A look needs many parts of the state. The facts are recorded whatever one of them is like.
            if not failing:
                log.warning("the state could not be measured, and its metrics are absent: %s", error)
            failing = True
        took_s = environment.monotonic() - begun
        # A look that failed has waited for an answer, and read nothing: alarms must not be blind for ten times as long.
        pause_s = EVERY_S if found is None else max(EVERY_S - took_s, LEAST_PAUSE * took_s)
        if not told(found, pause_s + took_s):
            return
        environment.sleep(pause_s)


def _operations(environment: Environment, running: Iterable[Operation]) -> Iterator[RunningOperations]:
    ages: dict[tuple[str, str], list[float]] = {}
    for operation in running:
        ages.setdefault((operation.kind, operation.state), []).append(environment.age_s(operation.started))
    for (kind, state), found in sorted(ages.items()):
        yield RunningOperations(kind, state, len(found), max(found))


def _crosses(view: View) -> bool:
    return any(topic.crossing is not None for topic in view.topics.values())


def _migrations(view: View, crossing: Iterable[TopicMigration]) -> Counter[str]:
    looked_at = {one.status.topic: one.status for one in crossing}
    found = (looked_at.get(name) or status_of(topic) for name, topic in view.topics.items() if topic.mapped)
    return Counter(status.status for status in found if status is not None)


def _crossing(crossing: Iterable[TopicMigration]) -> CrossingPartitions:
    missing = [row.missing for one in crossing for row in one.status.partitions if row.crosses]
    known = [records for records in missing if records is not None]
    return CrossingPartitions(
        sum(records == 0 for records in known),
        sum(records > 0 for records in known),
        len(missing) - len(known),
        sum(known),
    )


def _waiting_s(environment: Environment) -> Iterator[float]:
    """How long each run has waited for its approval; Airflow rejects it in the end."""
    now = datetime.fromisoformat(environment.now())
    for approval in environment.store.waiting_approvals():
        if datetime.fromisoformat(approval.answer_by) > now:
            yield environment.age_s(approval.since)


def _by_code(found: Iterable[Problem]) -> dict[str, int]:
    return dict(Counter(str(problem.code) for problem in found))
