"""Pre-flight: everything that is wrong with a move, found before anything was changed. Each verdict has its way out.

A rule is a generator of verdicts on a `PreflightCase`, and is listed in one of the tables below, or in that of its kind
(`plan/mirror/linking`). Rules for groups that follow topics get a `DependentsCase`, rules for chosen cuts a `Cuts`.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ha_core.plan.facts.verdict import Verdict, Verdicts, by_level, refused
from ha_core.plan.preflight import (
    clients,
    clusters,
    cuts,
    further_mirrors,
    groups,
    mirrors,
    partitions,
    scope,
    settings,
    sizes,
    topics,
)
from ha_core.plan.preflight.case import PreflightCase

__all__ = ["CUT_RULES", "DEPENDENT_RULES", "REVISION_RULES", "PreflightCase", "judge", "preflight"]

NAME_RULES = (clusters.registered, clusters.two_clusters, topics.damaged)
CLUSTER_RULES = (clusters.planned_origin, clusters.forced_origin, clusters.target)
RULES = (
    scope.super_users,
    scope.users,
    scope.bindings,
    scope.local_names,
    scope.dormant,
    scope.locks,
    topics.of_the_cluster,
    topics.placed,
    topics.in_target,
    topics.against_the_map,
    topics.lost,
    topics.compacted,
    clients.producers,
    clients.open_ones,
    topics.lowered,
    settings.not_taken,
    settings.made_explicit,
    settings.differing_there,
    partitions.named,
    partitions.by_force,
    partitions.leaderless,
    topics.other_users,
    topics.in_sync,
    mirrors.mirrored,
    further_mirrors.further,
    mirrors.to_copies,
    mirrors.lagging,
    mirrors.standing_still,
    mirrors.not_begun,
    mirrors.begins_later,
    mirrors.no_room_in_map,
    mirrors.tails_in_copies,
    mirrors.beyond_copies,
    mirrors.not_brought_over,
    clusters.last_seen,
    clusters.limits,
    groups.groups,
    clients.versions,
    clusters.gateways,
    cuts.holes,
    cuts.rates,
    cuts.old_gateways,
    cuts.barriers,
    cuts.migrating,
    cuts.less_safe,
    settings.unsafe_origin,
    cuts.compacted,
)
END_RULES = (scope.nothing_to_move,)
REVISION_RULES = (sizes.too_large,)
"""For a move whose cut is one revision."""
DEPENDENT_RULES = (groups.of_nobody, groups.of_super_users, groups.beside_a_crossing, groups.groups)
"""For groups that move with their topics, each in a revision of its own."""
CUT_RULES = (cuts.asked_for, cuts.idle)

C = TypeVar("C")


def judge(rules: Iterable[Callable[[C], Verdicts]], case: C) -> list[Verdict]:
    return [verdict for rule in rules for verdict in rule(case)]


def preflight(
    case: PreflightCase,
    *more: Callable[[PreflightCase], Verdicts],
    rules: Iterable[Callable[[PreflightCase], Verdicts]] = RULES,
) -> list[Verdict]:
    """Verdicts of all tables and of `more` rules, errors first.

    :param rules: applied once names and clusters are valid.

    An error in one table ends the pre-flight: without two clusters that answer, the others have no facts.
    """
    verdicts: list[Verdict] = []
    for table in (NAME_RULES, CLUSTER_RULES, (*rules, *more), END_RULES):
        if not refused(verdicts):
            verdicts += judge(table, case)
    return by_level(verdicts)
