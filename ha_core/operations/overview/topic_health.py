"""Problems of topics: fences that were left, deletions that did not end, and clusters that readers wait for."""

from collections.abc import Collection, Iterator

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import KnownTopic, LostTail, Operation, UnreadableDocumentError, View
from ha_core.operations.clusters.registered import ClusterState
from ha_core.operations.engine.cluster_admins import answering
from ha_core.operations.engine.environment import Environment
from ha_core.plan.absence.reconciled import uncounted
from ha_core.plan.absence.returned import unconfirmed
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount, duration, listed

MAX_NAMED = 20
WAITS_S = 60.0
"""A client's request for a deletion is normally taken up within a second."""


def topic_problems(view: View, running: Collection[Operation]) -> Iterator[Problem]:
    alive = {operation.id for operation in running}
    for name, topic in sorted(view.topics.items()):
        for fence in (topic.fence, topic.transaction_fence):
            if fence is not None and fence.operation not in alive:
                resume = f"switchyard resume {fence.operation}"
                text = f"A fence of operation {fence.operation}, which has ended, stands on it: clients wait."
                yield Problem("fence-left", f"topic {name}", text, f"`{resume}`", resume)
    marked = grouped(
        ((extent.cluster, extent.found_end > extent.end), name)
        for name, _, extent in unconfirmed(view)
        if extent.found_end is not None and extent.end is not None
    )
    for (cluster, more), names in sorted(marked.items()):
        about, of = f"cluster {cluster}", listed(dict.fromkeys(names))
        accept = "`switchyard origins check TOPIC --accept-loss`."
        check = f"switchyard origins check {' '.join(list(dict.fromkeys(names))[:MAX_NAMED])}"
        if more:
            text = f"It returned with records of {of} above the cut, which no reader gets, and readers wait."
            remedy = f"Copy those that matter from {cluster}, then {accept}"
            yield Problem("origin-has-more", about, text, remedy, check)
        else:
            text = f"It returned with less than it held: records of {of} are missing, and readers wait."
            yield Problem("origin-lacks-records", about, text, f"Restore them, or {accept}", check)


def deletion_problems(environment: Environment, view: View, running: Collection[Operation]) -> Iterator[Problem]:
    """Topics that are deleted, wholly or in part, while their names stay taken."""
    if names := gone(environment, view):
        delete = f"switchyard topics delete {' '.join(names[:MAX_NAMED])} --reason"
        yield Problem(
            "topics-gone",
            f"topics {listed(names)}",
            f"No cluster has {amount(len(names), 'topic')} of which a map is left: deleted past the gateways. "
            "To clients they are unknown, and none of their names can be created.",
            f"`{delete} …` forgets the maps.",
            f"{delete} topics-gone",
        )
    for name, operation, since in half_deleted(view, {one.id for one in running}):
        yield Problem(
            "deletion-incomplete",
            f"topic {name}",
            f"Clients see it as deleted since {since}, and operation {operation} could not delete it in every cluster. "
            "Its name stays taken.",
            f"`switchyard topics delete {name} --reason …` when the clusters answer; `switchyard history {operation}` "
            "names them.",
            f"switchyard topics delete {name} --reason deletion-incomplete",
            since=since,
        )
    if names := waiting(environment):
        yield Problem(
            "deletion-waits",
            f"topics {listed(names)}",
            "Clients have asked for their deletion, and no gateway deletes them.",
            "See why no gateway recovers orphans, or run `switchyard topics delete`.",
            f"switchyard topics delete {' '.join(names[:MAX_NAMED])} --reason deletion-waits",
            causes=("gateways",),
        )


def returned_clusters(view: View, clusters: Collection[ClusterState]) -> Iterator[Problem]:
    """Clusters that were dead at a cut and answer again, while readers wait for their records."""
    back = {state.cluster.name for state in clusters if state.facts.reachable and state.cluster.masked is None}
    unread = grouped(
        (extent.cluster, name)
        for name, _, extent in unconfirmed(view)
        if extent.cluster in back and extent.found_end is None and not extent.ignored
    )
    for cluster, names in sorted(unread.items()):
        yield Problem(
            "origin-unchecked",
            f"cluster {cluster}",
            f"It was dead at a cut and answers again. Readers of {listed(dict.fromkeys(names))} that are below the cut "
            "wait until it is known where its logs end.",
            "`switchyard origins check` (in Airflow the DAG `check_origins` does it every 5 minutes)",
            "switchyard origins check",
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
        text = "This version cannot read all lost tails of forced switches."
        yield Problem("tails-unreadable", LostTail.FOLDER, text, str(error), "switchyard status --json")
        return
    for cluster, tails in uncounted(lost).items():
        reconcile, since = f"switchyard mirror reconcile {cluster}", min(tail.since for tail in tails)
        yield Problem(
            "not-reconciled",
            f"cluster {cluster}",
            f"{_led_away(environment, tails)}. It is no standby of that yet, and the records that it had acknowledged "
            "and no copy had are not counted: no client gets them.",
            f"`{reconcile} --reason …` when it is back (in Airflow the DAG "
            "`reconcile_returned_cluster`): they are counted, and it becomes the standby. If it is gone for good, with "
            "--accept-loss and the topics.",
            f"{reconcile} --reason not-reconciled",
            since=since,
            causes=(f"cluster {cluster}",),
        )
        for tail in tails:
            parts = sorted(tail.partitions.items())
            if other := [
                f"partition {p} at offset {part.differs_at}" for p, part in parts if part.differs_at is not None
            ]:
                yield Problem(
                    "tail-differs",
                    f"topic {tail.topic}",
                    f"Below the end of the copy in {tail.target}, {cluster} has other records than the copy: "
                    f"{listed(other)}. It gets no copy of new records.",
                    f"`{reconcile} {tail.topic} --verify full --reason …` compares all. "
                    f"When none of its records is needed, delete the topic in {cluster}, link it again, and reconcile "
                    "it with --accept-loss.",
                    f"{reconcile} {tail.topic} --verify full --reason tail-differs",
                    since=tail.since,
                    causes=(f"cluster {cluster}",),
                )


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
