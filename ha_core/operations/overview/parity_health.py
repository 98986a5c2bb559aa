"""Problems of clusters that stand in for each other: differences, and checks that are overdue."""

from collections.abc import Iterator

from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount

OVERDUE_S = 900.0
"""Age of the last result after which a pair that was compared once is overdue: its check runs every 2 minutes."""


def parity_problems(environment: Environment) -> Iterator[Problem]:
    for parity in environment.store.parities():
        again = f"switchyard parity check {parity.source} {parity.target}"
        about = f"parity of {parity.target} with {parity.source}"
        if parity.count:
            first = parity.drifts[0]
            yield Problem(
                "parity-drift",
                about,
                f"{amount(parity.count, 'difference')}, for example {first.kind} {first.about} {first.what}".rstrip()
                + ".",
                f"`{again}` shows each with the command that mends it.",
                again,
                since=parity.since,
            )
        if environment.age_s(parity.at) > OVERDUE_S:
            yield Problem(
                "parity-overdue",
                about,
                "It was not compared for a quarter of an hour.",
                "See why the DAG `check_parity` does not run, or compare it now.",
                again,
                since=parity.at,
            )
