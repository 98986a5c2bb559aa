"""One pass over the mirrors of a cluster in another, by the job or on request; its result is stored for all readers."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MirrorSync, SyncFinding, View
from ha_core.operations.copies.syncing.copy_maps import CopyMaps
from ha_core.operations.copies.syncing.groups import Memory, sync_groups
from ha_core.operations.copies.syncing.pair import MirrorPair, SyncChange, Synced
from ha_core.operations.copies.syncing.rights import sweep
from ha_core.operations.copies.syncing.topics import sync_topics
from ha_core.operations.engine.cluster_admins import answering, mirrors_by_route
from ha_core.operations.engine.environment import Environment
from ha_core.store.store import Store

Part = Literal["topics", "groups"]
PARTS: tuple[Part, ...] = get_args(Part)


def sync(
    store: Store,
    clusters: tuple[Admin, Admin],
    part: Part,
    at: str,
    memory: Memory,
    topics: Collection[str] | None = None,
    dry_run: bool = False,
    copies: bool = False,
) -> Synced:
    """Sync one part of mirrors to the target. Harmless at any time, and concurrently with other passes.

    :param clusters: source and target.
    :param at: the current time: UTC, ISO 8601.
    :param topics: the mirrored topics; None: all from the one cluster to the other.
    :param dry_run: change nothing.
    :param copies: the accounts of `clusters` are those of the copy job.
    :raises StoreError: without the store nothing was, or is, changed.
    """
    pair = MirrorPair(store, *clusters, at, None if topics is None else frozenset(topics), dry_run, copies)
    return sync_topics(pair) if part == "topics" else sync_groups(pair, memory)


def keep(store: Store, synced: Synced) -> MirrorSync:
    """Store the result for a whole pair."""
    document = as_document(synced)
    store.keep_mirror_sync(document)
    return document


def as_document(synced: Synced) -> MirrorSync:
    part = synced.part, synced.at, synced.looked_at
    return MirrorSync.of(synced.source, synced.target, *part, synced.findings, synced.kinds)


@dataclass(frozen=True, slots=True)
class MirrorsSynced:
    """The result for all parts of all pairs."""

    parts: tuple[Synced, ...]
    dry_run: bool

    @property
    def stops(self) -> tuple[SyncFinding, ...]:
        """Findings that wait for an operator."""
        return tuple(finding for part in self.parts for finding in part.findings if finding.stop)

    @property
    def changes(self) -> tuple[SyncChange, ...]:
        return tuple(change for part in self.parts for change in part.changes)

    def to_json(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "parts": [
                {
                    "from": part.source,
                    "to": part.target,
                    "part": part.part,
                    "looked_at": part.looked_at,
                    "kinds": dict(part.kinds),
                    "changes": [
                        {"what": change.what, "about": change.about, "text": change.text} for change in part.changes
                    ],
                    "findings": [finding.model_dump() for finding in part.findings],
                }
                for part in self.parts
            ],
        }


def sync_mirrors(
    environment: Environment, topics: Collection[str], target: str = "", dry_run: bool = False
) -> MirrorsSynced:
    """Sync the mirrors of `topics`, see `ha_core.plan.mirror.mirrored_topics`, with their sources. Without names,
    guards of topics that are no copies any more are removed in all clusters, too.

    :param dry_run: change nothing.
    :raises RefusedError: a topic has no mirror, or several and no `target` is given; a cluster is not registered.
    """
    view = environment.store.load()
    chosen = mirrors_by_route(view, topics, target)
    syncs: list[Synced] = []
    for (source, other), some in sorted(chosen.items()):
        clusters = environment.admin(view.clusters[source]), environment.admin(view.clusters[other])
        memory = Memory(maps=CopyMaps(patient=False))
        for part in PARTS:
            names = [mirror.topic for mirror in some]
            synced = sync(environment.store, clusters, part, environment.now(), memory, names, dry_run)
            if not dry_run and not topics:
                keep(environment.store, synced)
            syncs.append(synced)
    if not topics:
        syncs += _swept(environment, view, dry_run)
        if not dry_run:
            environment.store.forget_ended_checkpoints({(one.source, one.target) for one in view.mirrors.values()})
    return MirrorsSynced(tuple(syncs), dry_run)


def _swept(environment: Environment, view: View, dry_run: bool) -> Iterator[Synced]:
    """Removed guards, and clusters whose guards are not known."""
    reachable = [cluster.name for cluster in view.clusters.values() if cluster.masked is None]
    there = answering(environment, [view.clusters[name] for name in reachable])
    for name in reachable:
        if name not in there:
            yield _unknown(environment, name, "it does not answer now. Run it again when it does")
            continue
        try:
            synced = sweep(environment.store, there[name], environment.now(), dry_run)
        except KafkaAdminError as error:
            synced = _unknown(environment, name, str(error))
        if synced.changes or synced.findings:
            yield synced


def _unknown(environment: Environment, cluster: str, why: str) -> Synced:
    reason = f"whether rules keep writers out of topics that are no copies there is not known: {why}"
    finding = SyncFinding(what="rights", about=f"cluster {cluster}", reason=reason)
    return Synced(cluster, cluster, "topics", environment.now(), 0, findings=(finding,))
