"""Problems of the platform: changes that no gateway follows, gateways that lag or cannot read it."""

from collections.abc import Iterator

from ha_core.operations.access.caches import caches, unfollowed
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.problem import Problem

READ_S = 120.0
"""Gateways read the platform once a minute, and its service publishes quotas; until then a change is no problem."""


def platform_problems(environment: Environment) -> Iterator[Problem]:
    for found in unfollowed(environment):
        change = found.change
        where = f" in {change.database}" if change.database else ""
        yield Problem(
            "platform-unfollowed",
            f"{change.kind} of the platform",
            f"{change.by} changed {change.kind}{where}, and that is in force nowhere: {found.why}.",
            "Name that platform in the gateways, or make the change in the database that they follow. If it was meant "
            f"for no gateway: `switchyard platform forget {change.kind}`.",
            f"switchyard platform forget {change.kind}",
            since=found.at,
            causes=("gateways",),
            patience_s=READ_S if found.followed else 0.0,
        )
    for standing in caches(environment):
        about = f"{standing.cache} of the platform"
        reload = f"switchyard platform reload {standing.cache}"
        if standing.cannot_read:
            failures = ", ".join(f"{gateway} ({why})" for gateway, why in sorted(standing.cannot_read.items()))
            yield Problem(
                "platform-unreadable",
                about,
                f"They cannot be read by {failures}. The rows that were read last stay in force, whatever their age.",
                "See whether the platform and its database run, and in a gateway's log why it cannot reach it.",
                reload,
                causes=("gateways",),
            )
        elif standing.lagging:
            yield Problem(
                "platform-behind",
                about,
                f"An older state than the agreed one is in force at {', '.join(standing.lagging)}.",
                f"If it stays so, `{reload}`.",
                reload,
                causes=("gateways",),
            )
