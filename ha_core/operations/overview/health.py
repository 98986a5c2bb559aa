"""Problems that wait for an operator: everything in the state that does not end by itself, each with its remedy.

An alarm calls `switchyard status --check`, whose exit code says whether there are problems.
"""

from collections.abc import Collection, Iterator

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import (
    GatewayRecord,
    KnownTopic,
    LostTail,
    Operation,
    UnreadableDocumentError,
    View,
)
from ha_core.model.gateway import by_gateway
from ha_core.model.usage import MAX_USERS
from ha_core.operations.access.caches import caches
from ha_core.operations.clusters.registered import ClusterState
from ha_core.operations.engine.cluster_admins import answering
from ha_core.operations.engine.creating import QUIET_S, interrupted, quiet_s
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.orphan_recovery import OrphanRecovery
from ha_core.operations.engine.report import Problem
from ha_core.operations.migration.crossing.ends import overdue
from ha_core.operations.mirror.health import lacking, not_in_sync, orphaned, uncopied_mirrors
from ha_core.operations.mirror.pattern_states import pattern_problems
from ha_core.plan.absence.masking import affected, holders_of
from ha_core.plan.absence.reconciled import uncounted
from ha_core.plan.absence.returned import unconfirmed
from ha_core.plan.engine.abandoned import patience_s
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import amount, duration, listed

WAITING_S = 900.0
"""An operation that no client waits for may pause between two tasks, for a slot or for an approval."""
LEFT_S = 3.0
"""Live processes resume an operation that clients wait for within this time; after it the operation is orphaned."""
PAUSE_S = 0.2
MAX_NAMED = 20
MAX_LAG_S = 3.0
"""A gateway may take this long for a new revision; one that lags for longer does not follow."""


def problems(
    environment: Environment,
    view: View,
    clusters: Collection[ClusterState],
    gateways: Collection[GatewayRecord],
    running: Collection[Operation],
) -> tuple[Problem, ...]:
    """All current problems."""
    return (
        *_clusters(view, clusters),
        *_masked(environment, view, clusters),
        *_gateways(environment, view, gateways),
        *_operations(environment, running),
        *_topics(view, running),
        *_ends(environment, view, running),
        *_returned(view, clusters),
        *uncopied_mirrors(environment),
        *orphaned(environment, view),
        *lacking(environment, view),
        *left_behind(environment),
        *not_in_sync(environment),
        *pattern_problems(environment, view),
        *_caches(environment),
        *_usage(environment),
    )


def _usage(environment: Environment) -> Iterator[Problem]:
    users = environment.store.users_with_usage()
    if users >= MAX_USERS:
        yield Problem(
            "usage",
            f"{users} users have usage, and no more are recorded: a move does not know what another user uses.",
            "Withdraw users that clients made up (`switchyard usage list`, `switchyard usage forget USER`), and let "
            "clients log in (authentication.anonymous).",
            "usage-full",
        )


def _caches(environment: Environment) -> Iterator[Problem]:
    for standing in caches(environment):
        if standing.cannot_read:
            failures = ", ".join(f"{gateway} ({why})" for gateway, why in sorted(standing.cannot_read.items()))
            yield Problem(
                f"{standing.cache} of the platform",
                f"They cannot be read by {failures}. The rows that were read last stay in force, whatever their age.",
                "See whether the platform and its database run, and in a gateway's log why it cannot reach it.",
                "platform-unreadable",
            )
        elif standing.lagging:
            yield Problem(
                f"{standing.cache} of the platform",
                f"An older state than the agreed one is in force at {', '.join(standing.lagging)}.",
                f"If it stays so, `switchyard platform reload {standing.cache}`.",
                "platform-behind",
            )


def _clusters(view: View, clusters: Collection[ClusterState]) -> Iterator[Problem]:
    if not view.clusters:
        yield Problem("clusters", "No cluster is registered.", "`switchyard clusters add`", "no-cluster")
    elif view.default_cluster is None:
        yield Problem(
            "clusters",
            "No cluster is the default: clients without a binding are refused.",
            "`switchyard clusters add NAME --bootstrap … --default`",
            "no-default-cluster",
        )
    for state in clusters:
        if not state.facts.reachable and state.cluster.masked is None:
            yield Problem(
                f"cluster {state.cluster.name}",
                f"It {'' if state.facts.answers else 'is '}{state.words}",
                f"Repair it or the way to it; if it stays away, {_ways_on(view, state.cluster.name)}",
                "cluster-away",
            )


def _ways_on(view: View, gone: str) -> str:
    """Ways to continue without a cluster; topics with a copy continue at once."""
    new_home = (
        "`switchyard mask` spares clients the waiting, also for commits that no other cluster can confirm, and "
        "`switchyard migrate-from-fault` moves its topics to another cluster."
    )
    copies = grouped((mirror.target, mirror.topic) for mirror in view.mirrors.values() if mirror.source == gone)
    if not copies:
        return new_home
    ways = "; ".join(
        f"{len(topics)} of its topics have a copy in {target} ({listed(sorted(topics))}); their clients continue there "
        f"after `switchyard switch user:NAME --from {gone} --to {target} --mode forced --unread wait --reason …`"
        for target, topics in sorted(copies.items())
    )
    return f"{ways}. For the others, {new_home}"


def _masked(environment: Environment, view: View, clusters: Collection[ClusterState]) -> Iterator[Problem]:
    """Masked clusters without which topics cannot be written, as far as is known without asking any cluster."""
    masked = [state.cluster.name for state in clusters if state.cluster.masked is not None]
    if not masked:
        return
    known = {cluster: environment.store.known_names(KnownTopic, cluster) for cluster in view.clusters}
    holders = holders_of({cluster: names - view.copy_logs for cluster, names in known.items()})
    usage = environment.store.usage()
    for name in masked:
        written = affected(view, usage, name, holders).written
        if written:
            yield Problem(
                f"cluster {name}",
                f"It is masked, and {amount(len(written), 'topic', 'is', 'are')} written there and nowhere "
                f"else: {listed(written)}. "
                "No client can write them.",
                f"`switchyard unmask {name}` when it is healthy, or `switchyard migrate-from-fault` moves them to "
                "another cluster.",
                "masked-writer",
            )


def _gateways(environment: Environment, view: View, gateways: Collection[GatewayRecord]) -> Iterator[Problem]:
    live = {gateway.gateway for gateway in gateways}
    for name, expected in sorted(environment.store.expected_gateways().items()):
        if name not in live:
            ago = duration(max(0.0, environment.age_s(expected.since)))
            yield Problem(
                f"gateway {name}",
                f"It is not registered. It was started {ago} ago at {expected.host}:{expected.port} and was not "
                "stopped: it has died, or does not reach ZooKeeper.",
                f"Start it again, or look at its log. If it is gone for good: `switchyard gateways forget {name}`.",
                "gateway-died",
            )
    if not gateways:
        yield Problem("gateways", "No gateway is alive: no client is served.", "Start them.", "no-gateway")
        return
    for name in sorted(_lagging(environment, view, gateways)):
        yield Problem(
            f"gateway {name}",
            f"It does not follow: it serves less than revision {view.revision}. Moves wait for it.",
            "Look at its log; stop it if it hangs: clients go to another one.",
            "gateway-behind",
        )
    for name, workers in by_gateway(gateways).items():
        missing = max(gateway.workers for gateway in workers) - len(workers)
        if missing > 0:
            yield Problem(
                f"gateway {name}",
                f"{missing} of its {missing + len(workers)} workers {'is' if missing == 1 else 'are'} away: dead, or "
                "hanging. The others serve its clients.",
                "Look at its log, which names the worker and the reason; stop one that hangs: it is started again.",
                "worker-away",
            )
    if not any(gateway.records_facts for gateway in gateways):
        yield Problem(
            "gateways",
            "None records facts about clusters, which a forced move needs when one dies.",
            "Set record_facts_s in a gateway, or run `switchyard facts record --every 60`.",
            "no-facts-recorder",
        )


def _lagging(environment: Environment, view: View, gateways: Collection[GatewayRecord]) -> set[str]:
    """Gateways that have not caught up with the view after `BEHIND_S` either."""
    lagging = {gateway.id for gateway in gateways if gateway.revision < view.revision}
    deadline = environment.monotonic() + MAX_LAG_S
    while lagging and environment.monotonic() < deadline:
        environment.sleep(PAUSE_S)
        lagging = {
            gateway.id
            for gateway in environment.store.gateways()
            if gateway.id in lagging and gateway.revision < view.revision
        }
    return lagging


def _operations(environment: Environment, running: Collection[Operation]) -> Iterator[Problem]:
    left = _left(environment)
    for operation in running:
        about, way = f"operation {operation.id}", f"`switchyard resume {operation.id}`"
        patience = patience_s(operation, {})
        silent_s = WAITING_S if patience is None else max(patience, QUIET_S)
        if operation.id in left or interrupted(environment, operation, silent_s):
            stands = " Its fence stands: clients wait." if operation.state == "fenced" else ""
            last = f"its last step was {duration(quiet_s(environment, operation))} ago"
            text = f"It was interrupted: no executor works on it, {last}; it is {operation.state}.{stands}"
            yield Problem(about, text, f"{way}, or `switchyard undo {operation.id}`", "operation-abandoned")
        elif overdue(environment, operation):
            yield Problem(
                about, "It should have crossed over by now.", f"{way} --finish-with-barrier", "crossing-overdue"
            )


def _left(environment: Environment) -> frozenset[str]:
    """Operations that clients wait for, without executor, and that no process resumes."""
    recovery = OrphanRecovery(environment)
    deadline = environment.monotonic() + LEFT_S
    found = recovery.find()
    while recovery.waiting and environment.monotonic() < deadline:
        environment.sleep(PAUSE_S)
        found = recovery.find()
    return frozenset(found)


def _topics(view: View, running: Collection[Operation]) -> Iterator[Problem]:
    alive = {operation.id for operation in running}
    for name, topic in sorted(view.topics.items()):
        for fence in (topic.fence, topic.transaction_fence):
            if fence is not None and fence.operation not in alive:
                yield Problem(
                    f"topic {name}",
                    f"A fence of operation {fence.operation}, which has ended, stands on it: clients wait.",
                    f"`switchyard resume {fence.operation}`",
                    "fence-left",
                )
    marked = grouped(
        ((extent.cluster, extent.found_end > extent.end), name)
        for name, _, extent in unconfirmed(view)
        if extent.found_end is not None and extent.end is not None
    )
    for (cluster, more), names in sorted(marked.items()):
        about, of = f"cluster {cluster}", listed(dict.fromkeys(names))
        accept = "`switchyard origins check TOPIC --accept-loss`."
        if more:
            text = f"It returned with records of {of} above the cut, which no reader gets, and readers wait."
            yield Problem(about, text, f"Copy those that matter from {cluster}, then {accept}", "origin-has-more")
        else:
            text = f"It returned with less than it held: records of {of} are missing, and readers wait."
            yield Problem(about, text, f"Restore them, or {accept}", "origin-lacks-records")


def _ends(environment: Environment, view: View, running: Collection[Operation]) -> Iterator[Problem]:
    """Topics that are deleted, wholly or in part, while their names stay taken."""
    if names := gone(environment, view):
        yield Problem(
            f"topics {listed(names)}",
            f"No cluster has {amount(len(names), 'topic')} of which a map is left: deleted past the gateways. "
            "To clients they are unknown, and none of their names can be created.",
            f"`switchyard topics delete {' '.join(names[:MAX_NAMED])} --reason …` forgets the maps.",
            "topics-gone",
        )
    for name, operation, since in half_deleted(view, {one.id for one in running}):
        yield Problem(
            f"topic {name}",
            f"Clients see it as deleted since {since}, and operation {operation} could not delete it in every cluster. "
            "Its name stays taken.",
            f"`switchyard topics delete {name} --reason …` when the clusters answer; `switchyard history {operation}` "
            "names them.",
            "deletion-incomplete",
        )
    if names := waiting(environment):
        yield Problem(
            f"topics {listed(names)}",
            "Clients have asked for their deletion, and no gateway deletes them.",
            "See why no gateway recovers orphans, or run `switchyard topics delete`.",
            "deletion-waits",
        )


def _returned(view: View, clusters: Collection[ClusterState]) -> Iterator[Problem]:
    """Clusters that were dead at a cut and answer again, while readers wait for their records."""
    back = {state.cluster.name for state in clusters if state.facts.reachable and state.cluster.masked is None}
    unread = grouped(
        (extent.cluster, name)
        for name, _, extent in unconfirmed(view)
        if extent.cluster in back and extent.found_end is None and not extent.ignored
    )
    for cluster, names in sorted(unread.items()):
        yield Problem(
            f"cluster {cluster}",
            f"It was dead at a cut and answers again. Readers of {listed(dict.fromkeys(names))} that are below the cut "
            "wait until it is known where its logs end.",
            "`switchyard origins check` (in Airflow the DAG `check_origins` does it every 5 minutes)",
            "origin-unchecked",
        )


def _led_away(environment: Environment, tails: Collection[LostTail]) -> str:
    """The switches that moved clients out of a cluster that was away, when, and where its topics are now."""
    names, since = sorted({tail.topic for tail in tails}), min(tail.since for tail in tails)
    begun = {tail.operation: environment.operation(tail.operation) for tail in tails}
    who = listed(
        f"{name} of {operation.by}" if operation is not None else name for name, operation in sorted(begun.items())
    )
    forced = any(operation is not None and operation.forced for operation in begun.values())
    where = listed(sorted({tail.target for tail in tails}))
    are, copies = ("topic {} is", "its copy was") if len(names) == 1 else ("topics {} are", "their copies were")
    ago = duration(max(0.0, environment.age_s(since)))
    moved = f"{are.format(listed(names))} written in {where} since, where {copies}"
    return f"Clients were moved away from it {ago} ago, by a {'forced ' if forced else ''}switch ({who}): {moved}"


def left_behind(environment: Environment) -> Iterator[Problem]:
    """Lost clusters whose lost tails no operator has reconciled yet."""
    try:
        lost = environment.store.lost_tails()
    except UnreadableDocumentError as error:
        yield Problem(
            LostTail.FOLDER,
            "This version cannot read all lost tails of forced switches.",
            str(error),
            "tails-unreadable",
        )
        return
    for cluster, tails in uncounted(lost).items():
        yield Problem(
            f"cluster {cluster}",
            f"{_led_away(environment, tails)}. It is no standby of that yet, and the records that it had acknowledged "
            "and no copy had are not counted: no client gets them.",
            f"`switchyard mirror reconcile {cluster} --reason …` when it is back (in Airflow the DAG "
            "`reconcile_returned_cluster`): they are counted, and it becomes the standby. If it is gone for good, with "
            "--accept-loss and the topics.",
            "not-reconciled",
        )
        for tail in tails:
            parts = sorted(tail.partitions.items())
            if other := [
                f"partition {p} at offset {part.differs_at}" for p, part in parts if part.differs_at is not None
            ]:
                yield Problem(
                    f"topic {tail.topic}",
                    f"Below the end of the copy in {tail.target}, {cluster} has other records than the copy: "
                    f"{listed(other)}. It gets no copy of new records.",
                    f"`switchyard mirror reconcile {cluster} {tail.topic} --verify full --reason …` compares all. "
                    f"When none of its records is needed, delete the topic in {cluster}, link it again, and reconcile "
                    "it with --accept-loss.",
                    "tail-differs",
                )


WAITS_S = 60.0
"""A client's request for a deletion is normally taken up within a second."""


def gone(environment: Environment, view: View) -> tuple[str, ...]:
    """Topics with a map that no cluster has, as all of them answer now.

    Clusters are asked only about topics that none was last seen to have: nearly always none.
    """
    store = environment.store
    mapped = {name for name, topic in view.topics.items() if topic.mapped}
    for cluster in view.clusters if mapped else ():
        mapped -= store.known_names(KnownTopic, cluster)
    if not mapped:
        return ()
    up = answering(environment, view.clusters.values())
    if view.clusters.keys() - up.keys():
        return ()  # the others may have them

    def there(cluster: str) -> Collection[str]:
        try:
            return up[cluster].topic_ids(mapped).keys()
        except KafkaAdminError:
            return mapped

    return tuple(sorted(mapped.difference(*environment.pool.map(there, up))))


def half_deleted(view: View, running: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """(topic, operation, since) of topics that are deleted for clients, while no operation continues the deletion.

    :param running: ids of operations.
    """
    for name, topic in sorted(view.topics.items()):
        if topic.deletion is not None and topic.deletion.operation not in running:
            yield name, topic.deletion.operation, topic.deletion.since


def waiting(environment: Environment) -> tuple[str, ...]:
    """Topics that clients want deleted, and whose request waits for more than `WAITS_S`."""
    requests = environment.store.requested_deletions()
    late = (request.name for request in requests if not request.refused and environment.age_s(request.at) > WAITS_S)
    return tuple(sorted(late))
