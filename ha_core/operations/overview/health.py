"""Problems that wait for an operator: everything in the state that does not end by itself, each with its remedy.

An alarm calls `switchyard status --check`, whose exit code says whether there are problems.
"""

from collections.abc import Collection, Iterator, Mapping

from ha_core.model import GatewayRecord, KnownTopic, Operation, Usage, View
from ha_core.model.usage import MAX_USERS
from ha_core.operations.clusters.registered import ClusterState
from ha_core.operations.engine.environment import Environment
from ha_core.operations.mirror.health import lacking, not_in_sync, orphaned, uncopied_mirrors
from ha_core.operations.mirror.pattern_states import pattern_problems
from ha_core.operations.overview.drill_health import drill_problems
from ha_core.operations.overview.gateway_health import gateway_problems
from ha_core.operations.overview.operation_health import operation_problems
from ha_core.operations.overview.parity_health import parity_problems
from ha_core.operations.overview.platform_health import platform_problems
from ha_core.operations.overview.topic_health import (
    deletion_problems,
    left_behind,
    returned_clusters,
    topic_problems,
)
from ha_core.plan.absence.masking import Affected, affected, holders_of
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount, listed

MAX_NAMED = 20


def problems(
    environment: Environment,
    view: View,
    clusters: Collection[ClusterState],
    gateways: Collection[GatewayRecord],
    running: Collection[Operation],
) -> tuple[Problem, ...]:
    """All current problems."""
    return (
        *_zookeeper(environment),
        *_clusters(environment, view, clusters),
        *gateway_problems(environment, view, gateways),
        *operation_problems(environment, running),
        *topic_problems(view, running),
        *deletion_problems(environment, view, running),
        *returned_clusters(view, clusters),
        *uncopied_mirrors(environment),
        *orphaned(environment, view),
        *lacking(environment, view),
        *left_behind(environment),
        *not_in_sync(environment),
        *pattern_problems(environment, view),
        *drill_problems(environment),
        *parity_problems(environment),
        *platform_problems(environment),
        *_usage(environment),
    )


def _zookeeper(environment: Environment) -> Iterator[Problem]:
    for member in environment.store.tree.members_away():
        host, _, port = member.address.rpartition(":")
        yield Problem(
            "zookeeper-member-away",
            f"zookeeper {member.address}",
            f"It {member.why}. The other members serve; clients stop when a majority of all members is lost.",
            "Start it again, or repair the way to it; its log has the reason.",
            f"echo srvr | nc -w 2 {host.strip('[]')} {port}",
        )


def _usage(environment: Environment) -> Iterator[Problem]:
    users = environment.store.users_with_usage()
    if users >= MAX_USERS:
        yield Problem(
            "usage-full",
            "usage",
            f"Usage of {amount(users, 'user')} is recorded, and of no more: a move does not know what another uses.",
            "Withdraw users that clients made up (`switchyard usage list`, `switchyard usage forget USER`), and let "
            "clients log in (authentication.anonymous).",
            "switchyard usage list",
        )


def _clusters(environment: Environment, view: View, clusters: Collection[ClusterState]) -> Iterator[Problem]:
    if not view.clusters:
        add = "switchyard clusters add NAME --bootstrap HOST:PORT --default"
        yield Problem("no-cluster", "clusters", "No cluster is registered.", f"`{add}`", add)
    elif view.default_cluster is None:
        first = view.clusters[min(view.clusters)]
        add = f"switchyard clusters add {first.name} --bootstrap {first.bootstrap} --security {first.security}"
        yield Problem(
            "no-default-cluster",
            "clusters",
            "No cluster is the default: clients without a binding are refused.",
            "`switchyard clusters add NAME --bootstrap … --default`",
            f"{add} --default",
        )
    away = [state for state in clusters if not state.facts.reachable and state.cluster.masked is None]
    masked = [state for state in clusters if state.cluster.masked is not None]
    if not away and not masked:
        return
    # Without asking any cluster: only topics of which it is known.
    known = {cluster: environment.store.known_names(KnownTopic, cluster) for cluster in view.clusters}
    holders = holders_of({cluster: names - view.copy_logs for cluster, names in known.items()})
    usage = environment.store.usage()
    for state in away:
        yield _away(view, state, affected(view, usage, state.cluster.name, holders))
    for state in masked:
        yield from _masked(view, usage, state, holders)


def _away(view: View, state: ClusterState, stopped: Affected) -> Problem:
    """A cluster that does not answer, and the ways to continue without it: topics with a copy continue at once.

    :param stopped: topics, groups and users that stop with it, as far as is known.
    """
    name, written = state.cluster.name, stopped.written
    new_home = (
        "`switchyard mask` spares clients the waiting, also for commits that no other cluster can confirm, and "
        "`switchyard migrate-from-fault` moves its topics to another cluster."
    )
    mask = f"switchyard mask {name} --reason cluster-away"
    copies = grouped((mirror.target, mirror.topic) for mirror in view.mirrors.values() if mirror.source == name)
    text = f"It {'' if state.facts.answers else 'is '}{state.words}"
    if not copies and not (written or stopped.groups or stopped.users or name == view.default_cluster):
        # After a failover: to mask it would help no client, and the records left in it are `not-reconciled`.
        waiting = f" Readers of older records of {listed(stopped.older)} wait for it." if stopped.older else ""
        ways = f"Repair it or the way to it. No topic is written there, and no group commits there.{waiting}"
        return Problem("cluster-away", f"cluster {name}", text, ways, "switchyard clusters")
    if not copies:
        ways = f"Repair it or the way to it; if it stays away, {new_home}"
        return Problem("cluster-away", f"cluster {name}", text, ways, f"{mask} --force" if written else mask)
    command, parts = "", []
    for target, topics in sorted(copies.items(), key=lambda item: (-len(item[1]), item[0])):
        named = sorted(topics)
        forced = f"--from {name} --to {target} --mode forced --unread wait"
        parts.append(
            f"{amount(len(topics), 'topic', 'has a copy', 'have copies')} in {target} ({listed(named)}); clients "
            "continue there "
            f"after `switchyard switch user:NAME {forced} --reason …`"
        )
        scope = " ".join(f"topic:{topic}" for topic in named[:MAX_NAMED])
        command = command or f"switchyard switch {scope} {forced} --include-other-users --reason cluster-away"
    alone = sorted({*written} - {topic for topics in copies.values() for topic in topics})
    if alone:
        parts.append(f"{amount(len(alone), 'topic', 'has', 'have')} no copy and cannot be written: {listed(alone)}")
    ways = f"Repair it or the way to it; if it stays away, {'; '.join(parts)}. For the others, {new_home}"
    return Problem("cluster-away", f"cluster {name}", text, ways, command)


def _masked(
    view: View, usage: Mapping[str, Usage], state: ClusterState, holders: Mapping[str, Collection[str]]
) -> Iterator[Problem]:
    """A masked cluster without which topics cannot be written, as far as is known."""
    name, masked = state.cluster.name, state.cluster.masked
    written = affected(view, usage, name, holders).written
    if written and masked is not None:
        unmask = f"switchyard unmask {name}"
        yield Problem(
            "masked-writer",
            f"cluster {name}",
            f"It is masked, and {amount(len(written), 'topic', 'is', 'are')} written there and nowhere "
            f"else: {listed(written)}. "
            "No client can write them.",
            f"`{unmask}` when it is healthy, or `switchyard migrate-from-fault` moves them to another cluster.",
            unmask,
            since=masked.since,
        )
