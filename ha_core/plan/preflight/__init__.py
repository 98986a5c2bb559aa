"""Pre-flight: everything that is wrong with a move, found before anything was changed. Each verdict has its way out.

A rule is a generator of verdicts on a `Case`, and stands in one of the tables below. Rules that need more than a case
(those of cuts that lie ahead, and of sizes) are functions of their own.
"""

from __future__ import annotations

from ha_core.plan.preflight import clusters, groups, scope, topics
from ha_core.plan.preflight.case import Case, outside_topics
from ha_core.plan.verdict import Verdict, by_level, error, listed, refused

__all__ = ["Case", "Verdict", "outside_topics", "preflight"]

CLUSTER_RULES = (
    clusters.registered,
    clusters.two_clusters,
    clusters.planned_origin,
    clusters.forced_origin,
    clusters.target,
)
"""An error of these ends the pre-flight: nothing else could be asked."""
RULES = (
    scope.users,
    scope.bindings,
    scope.locks,
    topics.topics,
    topics.single_partitions,
    topics.strangers,
    clusters.last_seen,
    groups.groups,
    clusters.gateways,
)


def preflight(case: Case) -> list[Verdict]:
    """All verdicts, errors first."""
    found = [verdict for rule in CLUSTER_RULES for verdict in rule(case)]
    if not refused(found):
        found += [verdict for rule in RULES for verdict in rule(case)]
        if not refused(found) and scope.is_done(case):
            about = listed(scope.entries(case.request.scope)) or "scope"
            text = f"Nothing is to move from {case.request.origin} to {case.request.target}."
            way = "Check the scope, --from and --to; `switchyard status` helps."
            found.append(error("nothing-to-move", about, text, way))
    return by_level(found)
