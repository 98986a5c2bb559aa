"""Mirrors brought in sync because somebody asks for it: by command, or by a DAG."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ha_core.model import SyncFinding
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.syncing.groups import Memory
from ha_core.operations.syncing.pair import SyncChange, Synced
from ha_core.operations.syncing.passes import PARTS, keep, sync
from ha_core.plan.mirrored import NoSuchMirrorError, named


@dataclass(frozen=True, slots=True)
class MirrorsSynced:
    """What came of all parts of all pairs."""

    parts: tuple[Synced, ...]
    dry_run: bool

    @property
    def stops(self) -> tuple[SyncFinding, ...]:
        """What waits for somebody."""
        return tuple(one for part in self.parts for one in part.findings if one.stop)

    @property
    def changes(self) -> tuple[SyncChange, ...]:
        return tuple(one for part in self.parts for one in part.changes)

    def to_json(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "parts": [
                {
                    "from": part.source,
                    "to": part.target,
                    "part": part.part,
                    "looked_at": part.looked_at,
                    "changes": [{"what": one.what, "about": one.about, "text": one.text} for one in part.changes],
                    "findings": [one.model_dump() for one in part.findings],
                }
                for part in self.parts
            ],
        }


def sync_mirrors(
    environment: Environment, topics: Collection[str], target: str = "", dry_run: bool = False
) -> MirrorsSynced:
    """Bring the mirrors of `topics`, see `ha_core.plan.mirrored`, in sync with their sources.

    :param dry_run: only find out.
    :raises RefusedError: a topic has no mirror, or several and none is named; a cluster is not registered.
    """
    view = environment.store.load()
    try:
        mirrors = named(view.mirrors.values(), topics, target)
    except NoSuchMirrorError as error:
        raise RefusedError(str(error)) from error
    chosen: dict[tuple[str, str], list[str]] = {}
    for mirror in mirrors:
        chosen.setdefault((mirror.source, mirror.target), []).append(mirror.topic)
        for side in (mirror.source, mirror.target):
            if side not in view.clusters:
                raise RefusedError(f"Cluster {side} of the mirror {mirror.key} is not registered. Add it.")
    found: list[Synced] = []
    for (source, other), some in sorted(chosen.items()):
        clusters = environment.admin(view.clusters[source]), environment.admin(view.clusters[other])
        for part in PARTS:
            one = sync(environment.store, clusters, part, environment.now(), Memory(), some, dry_run)
            if not dry_run and not topics:
                keep(environment.store, one)
            found.append(one)
    return MirrorsSynced(tuple(found), dry_run)
