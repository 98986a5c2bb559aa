"""Taking a cluster out of service when it is known who depends on it, and putting it back after a health probe."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Cluster, KnownTopic, Mask, View
from ha_core.model.operation import SingleKind
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.report import Report
from ha_core.operations.sides import answering, no_such_cluster
from ha_core.operations.single import run_single
from ha_core.plan.masking import Affected, affected
from ha_core.plan.returned import unconfirmed
from ha_core.plan.verdict import error, listed

LOOK_S = 10.0


@dataclass(frozen=True, slots=True)
class MaskOutcome:
    """What was done, in words; `report` is None where nothing had to be."""

    words: str
    report: Report | None = None
    depends: Affected = field(default_factory=Affected)
    """Who stands still while the cluster is masked."""


def who_depends(environment: Environment, name: str) -> Affected:
    """What stops while the cluster is masked. Changes nothing.

    :raises RefusedError: unknown cluster.
    """
    _read(environment, name)
    view = environment.store.load()
    return affected(view, environment.store.usage(), name, _holders(environment, view))


def objections(environment: Environment, name: str, change: str, depends: Affected, force: bool = False) -> list[str]:
    """What speaks against the `change` ("mask" or "unmask"), with the way out. Changes nothing."""
    cluster, _ = _read(environment, name)
    if change == "mask" and cluster.masked is None and depends.written and not force:
        return [
            f"{len(depends.written)} topics are written in {name} and nowhere else: {listed(depends.written)}. Move "
            f"them first (`switchyard switch`, or `switchyard migrate-from-fault` if {name} is dead), or say --force "
            f"(in the form *Although it is written*): then nobody can write them until {name} is "
            f"unmasked or they have moved."
        ]
    if change == "unmask" and cluster.masked is not None:
        found = environment.admin(cluster).probe()
        if not found.reachable:
            return [
                f"Cluster {name} stays masked: its health probe failed ({found.error}). Repair it, then unmask again."
            ]
    return []


def stands_already(environment: Environment, name: str, change: str) -> str:
    """Why there is nothing to do for the `change` ("mask" or "unmask"); empty where there is. Changes nothing."""
    cluster, _ = _read(environment, name)
    return _already(cluster) if (cluster.masked is not None) == (change == "mask") else ""


def mask_cluster(environment: Environment, name: str, reason: str, force: bool = False) -> MaskOutcome:
    """Mask the cluster in one revision. Already masked: nothing is done, and that is said.

    :param force: although topics are written there, and stop.
    :raises RefusedError: unknown cluster, no reason, or topics are written there.
    """
    if not reason.strip():
        raise RefusedError(f"Masking cluster {name} needs a reason. Say --reason.")
    cluster, version = _read(environment, name)
    if cluster.masked is not None:
        return MaskOutcome(_already(cluster))
    depends = who_depends(environment, name)
    against = objections(environment, name, "mask", depends, force)
    if against:
        raise RefusedError(f"Nothing was changed. {' '.join(against)}")
    masked = cluster.model_copy(update={"masked": Mask(since=environment.now(), reason=reason, by=environment.by)})
    return _changed(environment, "mask", masked, version, reason, f"Cluster {name} is masked.", depends)


def unmask_cluster(environment: Environment, name: str, reason: str) -> MaskOutcome:
    """Unmask the cluster in one revision, after it has answered. Not masked: nothing is done, and that is said.

    :raises RefusedError: unknown cluster, or it does not answer (it stays masked).
    """
    cluster, version = _read(environment, name)
    if cluster.masked is None:
        return MaskOutcome(_already(cluster))
    against = objections(environment, name, "unmask", Affected())
    if against:
        away = [error("unreachable-cluster", f"cluster {name}", text, cause="away") for text in against]
        raise RefusedError(f"Nothing was changed. {' '.join(against)}", away)
    waiting = {topic for topic, _, extent in unconfirmed(environment.store.load()) if extent.cluster == name}
    words = f"Cluster {name} is back in service."
    if waiting:
        words += f" {len(waiting)} topics took it for dead: `switchyard origins check` finds out what came back."
    back = cluster.model_copy(update={"masked": None})
    return _changed(environment, "unmask", back, version, reason, words, Affected())


def _already(cluster: Cluster) -> str:
    if cluster.masked is None:
        return f"Cluster {cluster.name} is not masked."
    mask = cluster.masked
    return f"Cluster {cluster.name} is masked already, since {mask.since} by {mask.by}: {mask.reason}"


def _changed(
    environment: Environment,
    kind: SingleKind,
    cluster: Cluster,
    version: int,
    reason: str,
    words: str,
    depends: Affected,
) -> MaskOutcome:
    detail: dict[str, Any] = {"cluster": cluster.name, "reason": reason}
    if depends.anything:
        counts = {"written": depends.written, "older": depends.older, "groups": depends.groups, "users": depends.users}
        detail["depends"] = {key: len(value) for key, value in counts.items()}
    key = (Cluster, cluster.name)
    locks = (f"cluster:{cluster.name}",)
    return MaskOutcome(
        words, run_single(environment, kind, reason, locks, (cluster,), (), {key: version}, detail), depends
    )


def _holders(environment: Environment, view: View) -> dict[str, set[str]]:
    """Topic → clusters that have it; of clusters that do not answer, as last seen."""
    up = answering(environment, view.clusters.values())

    def names(cluster: str) -> Collection[str]:
        try:
            if cluster in up:
                found = up[cluster].topics(offsets=False, timeout_s=LOOK_S)
                return [name for name, topic in found.items() if not topic.internal]
        except KafkaAdminError as error:
            environment.say(f"the topics of {cluster} cannot be asked: {error}")
        return environment.store.known(KnownTopic, cluster)

    holders: dict[str, set[str]] = {}
    for cluster, found in zip(view.clusters, environment.pool.map(names, view.clusters), strict=True):
        for name in found:
            holders.setdefault(name, set()).add(cluster)
    return holders


def _read(environment: Environment, name: str) -> tuple[Cluster, int]:
    found = environment.store.read(Cluster, name)
    if found is None:
        raise no_such_cluster(name, environment.store.load().clusters)
    return found
