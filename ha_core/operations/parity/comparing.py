"""Compares clusters that stand in for each other, and keeps the result for `status --check`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import View
from ha_core.model.parity import MAX_DRIFTS, Drift, DriftKind, Parity, pair_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.parity.registry import RegistryError, schemas_of
from ha_core.plan.parity.drifts import ClusterContents, drifts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParityOrder:
    """:ivar topics: names or patterns; empty: all that are written in the source.
    :ivar ignored: settings, by names or patterns, that may differ; None: those of the last comparison.
    :ivar registries: base URLs of the source's and the target's schema registries; empty: schemas are not compared;
        None: those of the last comparison.
    """

    source: str
    target: str
    topics: tuple[str, ...] = ()
    ignored: tuple[str, ...] | None = None
    registries: tuple[str, str] | None = None


def pairs_of(environment: Environment) -> list[tuple[str, str]]:
    """(source, target) of all mirrors, and of all pairs of registered clusters that were compared once."""
    view = environment.store.load()
    compared = {(one.source, one.target) for one in environment.store.parities()}
    standing = {pair for pair in compared if view.clusters.keys() >= {*pair}}
    return sorted({(mirror.source, mirror.target) for mirror in view.mirrors.values()} | standing)


def compare(environment: Environment, order: ParityOrder, dry_run: bool = False) -> Parity:
    """Compare two clusters and store the result.

    :param dry_run: store nothing.
    :raises RefusedError: a cluster is not registered, or does not answer.
    """
    view = environment.store.load()
    for name in (order.source, order.target):
        if name not in view.clusters:
            raise unchanged(f"Cluster {name} is not registered. `switchyard clusters list` shows those that are.")
    if order.source == order.target:
        raise unchanged(f"{order.source} and {order.target} are one cluster: name two.")
    before = next(
        (one for one in environment.store.parities() if one.pair == pair_of(order.source, order.target)), None
    )
    ignored = order.ignored if order.ignored is not None else before.ignored if before is not None else ()
    last = before.registries if before is not None else ("", "")
    registries = last if order.registries is None else order.registries
    source, not_read = _contents(environment, view, order, order.source, registries[0])
    target, not_there = _contents(environment, view, order, order.target, registries[1])
    mirrors = [one for one in view.mirrors.values() if (one.source, one.target) == (order.source, order.target)]
    mirrored = {one.topic for one in mirrors}
    of_syncs, not_synced = _of_syncs(environment, order)
    found = [*drifts(source, target, ignored, mirrored), *of_syncs]
    now = environment.now()
    result = Parity(
        pair=pair_of(order.source, order.target),
        source=order.source,
        target=order.target,
        at=now,
        since="" if not found else before.since if before is not None and before.since else now,
        drifts=tuple(found[:MAX_DRIFTS]),
        left_out=max(0, len(found) - MAX_DRIFTS),
        not_compared=tuple(sorted({*not_read, *not_there, *not_synced})),
        ignored=ignored,
        registries=registries,
        topics=len(source.topics.keys() & target.topics.keys()),
    )
    if not dry_run:
        environment.store.write_parity(result)
    return result


def _contents(
    environment: Environment, view: View, order: ParityOrder, name: str, registry: str
) -> tuple[ClusterContents, list[str]]:
    """Contents of the cluster, and the parts that could not be read."""
    admin, not_read = environment.admin(view.clusters[name]), list[str]()

    def read(what: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except (KafkaAdminError, RegistryError) as error:
            not_read.append(f"{what} of {name}: {error}")
            return None

    try:
        topics = _topics(admin, view, order, name)
    except KafkaAdminError as error:
        raise RefusedError(f"{name} cannot be compared: {error}") from error
    # Copies have settings and rights of their own on purpose; the sync of mirrors compares them.
    alone = [topic for topic in topics if not any(one.topic == topic for one in view.mirrors.values())]
    settings = read("settings", lambda: admin.settings(alone)) if alone else {}
    schemas = read("schemas", lambda: schemas_of(registry)) if registry else None
    if not registry:
        not_read.append("schemas: no registry is named")
    contents = ClusterContents(
        name=name,
        bootstrap=view.clusters[name].bootstrap,
        topics=topics,
        settings=settings,
        rights=read("rights", admin.access_rules),
        quotas=read("quotas", admin.client_quotas),
        schemas=schemas,
    )
    return contents, not_read


def _topics(admin: Admin, view: View, order: ParityOrder, cluster: str) -> dict[str, int]:
    """Topics in question: of the source those that it writes."""
    listed = admin.list_topics()
    known = admin.topics([*listed], offsets=False)
    found = {name: topic.partitions for name, topic in known.items() if not topic.internal}
    chosen = {
        name: count
        for name, count in found.items()
        if name not in view.copy_logs and (not order.topics or any(fnmatchcase(name, one) for one in order.topics))
    }
    if cluster == order.target:
        return chosen
    elsewhere = {name for name, topic in view.topics.items() if topic.mapped and cluster not in topic.writers}
    return {name: count for name, count in chosen.items() if name not in elsewhere}


def _of_syncs(environment: Environment, order: ParityOrder) -> tuple[list[Drift], list[str]]:
    """Findings of the mirrors' syncs that an operator has to act on; and parts that a sync could not compare, because a
    cluster did not answer it or refused it."""
    syncs = environment.store.mirror_syncs()
    findings = [
        finding
        for sync in syncs
        if (sync.source, sync.target) == (order.source, order.target)
        for finding in sync.findings
        if finding.stop
    ]
    whole = [
        f"{one.what} of mirrors, {one.about}: {one.reason}" for one in findings if one.about.startswith("cluster ")
    ]
    found = [
        Drift(
            kind=_KINDS[one.what],
            about=one.about,
            source=one.reason,
            command=f"switchyard mirror sync --to {order.target}",
        )
        for one in findings
        if not one.about.startswith("cluster ")
    ]
    return found, whole


_KINDS: dict[str, DriftKind] = {
    "partitions": "partitions",
    "settings": "setting",
    "rights": "right",
    "offsets": "offsets",
}
"""Subject of a sync's finding → kind of drift."""
