"""Everything that an operator should know now: problems, one for each cause, and notices, each with its age."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ha_core.model import GatewayRecord, Operation, View
from ha_core.operations.clusters.registered import ClusterState
from ha_core.operations.engine.environment import Environment
from ha_core.operations.overview.health import problems
from ha_core.operations.overview.notices import notices
from ha_core.plan.facts.problem import Problem, folded
from ha_core.store.errors import StoreError


@dataclass(frozen=True, slots=True)
class Assessment:
    """:ivar problems: they do not end by themselves; those that follow from one are folded below it."""

    problems: tuple[Problem, ...]
    notices: tuple[Problem, ...]


def assess(
    environment: Environment,
    view: View,
    clusters: Collection[ClusterState],
    gateways: Collection[GatewayRecord],
    running: Collection[Operation],
) -> Assessment:
    found = problems(environment, view, clusters, gateways, running)
    told = tuple(notices(environment, view, running, found))
    seen = _seen(environment, [problem.key for problem in (*found, *told) if not problem.since])
    dated = [_dated(environment, problem, seen) for problem in found]
    early = [problem for problem in dated if problem.age_s is not None and problem.age_s < problem.patience_s]
    return Assessment(
        tuple(folded(problem for problem in dated if problem not in early)),
        (*early, *(_dated(environment, notice, seen) for notice in told)),
    )


def _seen(environment: Environment, keys: Iterable[str]) -> Mapping[str, str]:
    """Key → first check that saw the problem. A check that may not write knows no times."""
    try:
        return environment.store.note_problems(environment.by, environment.now(), frozenset(keys))
    except StoreError:
        return {}


def _dated(environment: Environment, problem: Problem, seen: Mapping[str, str]) -> Problem:
    since = problem.since or seen.get(problem.key, "")
    if not since:
        return problem
    return replace(problem, since=since, age="stored" if problem.since else "seen", age_s=environment.age_s(since))
