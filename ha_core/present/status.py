"""`status` for people: clusters, gateways, operations, locks, platform; and a sentence for each column."""

from collections.abc import Callable, Collection, Mapping, Sequence

from ha_core.model import ExpectedGateway, ExpectedNumber, GatewayRecord, Lock, Operation
from ha_core.model.gateway import by_gateway
from ha_core.operations.access.caches import CacheStanding
from ha_core.operations.clusters.registered import ClusterState
from ha_core.plan.facts.verdict import amount, duration
from ha_core.present.page import Page, Table

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "clusters": {
        "cluster": "its name",
        "bootstrap": "brokers that are asked first",
        "health": "whether it answers, and with how many brokers",
        "out of service": "since when, by whom and why an operator has masked it",
    },
    "gateways": {
        "gateway": "its id, and with several processes how many of them are there",
        "bootstrap": "the address for clients",
        "version": "the release that it runs",
        "revision": "the newest change of the state that it serves",
        "revisions behind": "how many changes it has still to follow, for which moves wait",
        "lease ms": "for how long it may write without a new answer of ZooKeeper",
        "fences applied": "operations whose topics have no request in flight there any more",
    },
    "expected gateways": {
        "gateway": "its id",
        "state": "whether it is there, or how it went",
        "expected because": "why it is missed: an operator has declared it, or it registered and was not stopped",
    },
    "served as last known": {
        "gateway": "the gateway that cannot reach the cluster",
        "cluster": "the cluster that does not answer it",
        "known at": "the time of the metadata that it serves meanwhile",
    },
    "running operations": {
        "operation": "its id, for `history`, `resume` and `undo`",
        "kind": "switch, migrate, mask …",
        "state": "running (before the fence), fenced (clients wait), cut (the new writer is published), crossing (its "
        "cuts lie ahead), or undoing",
        "for": "time since it began",
        "by": "who began it",
        "reason": "why",
    },
    "locks": {
        "lock": "the topic, group, user or cluster that no other operation changes",
        "operation": "the operation that holds it",
        "by": "who began that",
        "since": "when",
    },
    "platform": {
        "entries": "users, rules or settings of the platform",
        "in force as of": "the time of the change up to which all gateways serve them",
        "gateways": "how many follow them",
        "gateways behind": "those that serve an older state",
        "cannot read them": "those that do not reach the platform",
    },
}
"""Table of `status` → column → its meaning."""


def columns_help() -> str:
    """The meaning of each column, for `--help`."""
    return "\n\n".join(
        f"Table *{table}*: " + "; ".join(f"{column}: {meaning}" for column, meaning in columns.items()) + "."
        for table, columns in COLUMNS.items()
    ).replace("*", "")


def status_page(
    revision: int,
    clusters: Collection[ClusterState],
    gateways: Collection[GatewayRecord],
    running: Collection[Operation],
    locks: Collection[Lock],
    age_s: Callable[[str], float],
) -> Page:
    yield f"revision {revision}"
    yield _table("clusters", [(s.cluster.name, s.cluster.bootstrap, s.words, s.mask_words) for s in clusters])
    yield _table("gateways", [_gateway_row(revision, name, workers) for name, workers in by_gateway(gateways).items()])
    # For each worker of a gateway that reports it: brokers may be unreachable from one of them only.
    old = [(g.id, cluster, at) for g in gateways for cluster, at in g.out_of_date.items()]
    if old:
        yield _table("served as last known", old)
    if running:
        rows = [(o.id, o.kind, o.state, duration(age_s(o.started)), o.by, o.reason) for o in running]
        yield _table("running operations", rows)
    if locks:
        yield _table("locks", [(lock.key, lock.operation, lock.by, lock.since) for lock in locks])


def _table(title: str, rows: Sequence[Sequence[object]]) -> Table:
    return Table(tuple(COLUMNS[title]), rows, title=title)


def _gateway_row(revision: int, name: str, workers: Sequence[GatewayRecord]) -> Sequence[object]:
    """A gateway is as far as its slowest worker, and has drained what all of them have."""
    gateway, oldest = workers[0], min(worker.revision for worker in workers)
    drained = [operation for operation in gateway.drained if all(operation in worker.drained for worker in workers)]
    named = f"{name} ({of_workers(workers)})" if gateway.worker_of else name
    return (
        named,
        f"{gateway.host}:{gateway.port}",
        gateway.version,
        oldest,
        max(0, revision - oldest),
        gateway.lease_ms,
        ", ".join(drained),
    )


def gateways_page(
    revision: int,
    gateways: Collection[GatewayRecord],
    expected: Mapping[str, ExpectedGateway],
    number: ExpectedNumber | None,
) -> Page:
    live = by_gateway(gateways)
    yield _table("gateways", [_gateway_row(revision, name, workers) for name, workers in live.items()])
    rows = [
        (one.gateway, "alive" if one.gateway in live else _away(one), "by name" if one.declared else "it registered")
        for _, one in sorted(expected.items())
    ]
    if rows:
        yield _table("expected gateways", rows)
    if number is not None:
        yield f"{len(live)} of {number.number} expected gateways are alive, as {number.by} declared at {number.since}"


def _away(expected: ExpectedGateway) -> str:
    if expected.stopped:
        return f"stopped on purpose at {expected.stopped}"
    return "away: it has died, or does not reach ZooKeeper" if expected.since else "never seen"


def of_workers(workers: Sequence[GatewayRecord]) -> str:
    """A worker that hangs or is away has no record."""
    there, all_of_them = len(workers), max(worker.workers for worker in workers)
    return f"{there} of {all_of_them} workers" if there < all_of_them else amount(there, "worker")


def caches_page(caches: Collection[CacheStanding], gateways: Collection[GatewayRecord]) -> Page:
    if not caches:
        return
    whole = {gateway.id: gateway.gateway for gateway in gateways}
    rows = [
        (
            standing.cache,
            standing.committed,
            len({whole.get(node, node) for node in standing.gateways}),  # each worker is a node of its own
            ", ".join(standing.lagging),
            ", ".join(sorted(standing.cannot_read)),
        )
        for standing in caches
    ]
    yield _table("platform", rows)
