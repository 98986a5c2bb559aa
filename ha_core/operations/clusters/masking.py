"""Masking a cluster, after a check of its dependents, and unmasking it after a health probe."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Cluster, KnownTopic, Mask, View
from ha_core.model.operation import SingleKind
from ha_core.operations.engine.cluster_admins import answering, no_such_cluster
from ha_core.operations.engine.creating import JUDGED
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import Expected, run_single
from ha_core.plan.absence.masking import Affected, affected, holders_of
from ha_core.plan.absence.returned import unconfirmed
from ha_core.plan.facts.judged import judgement
from ha_core.plan.facts.verdict import Verdict, amount, error, listed, warning

LOOK_S = 10.0
MAX_KEPT = 50
"""Names of each kind in the history."""


@dataclass(frozen=True, slots=True)
class MaskOutcome:
    """The result in words; `report` is None if there was nothing to do."""

    words: str
    report: Report | None = None
    depends: Affected = field(default_factory=Affected)
    """Topics, users and groups that stall while the cluster is masked."""


def dependents_of(environment: Environment, name: str) -> Affected:
    """The dependents that stall while the cluster is masked. Changes nothing.

    :raises RefusedError: unknown cluster.
    """
    return _dependents(environment, environment.store.load(), name)


def move_first(name: str) -> str:
    """The way out for topics that are written in the cluster."""
    return f"Move them first (`switchyard switch`, or `switchyard migrate-from-fault` if {name} is dead)"


def objections(environment: Environment, name: str, change: str, depends: Affected, force: bool = False) -> str:
    """Reasons against the `change` ("mask" or "unmask"), with the way out. Changes nothing."""
    cluster, _ = _read(environment, name)
    if change == "mask" and cluster.masked is None and depends.written and not force:
        return (
            f"{amount(len(depends.written), 'topic', 'is', 'are')} written in {name} and nowhere else: "
            f"{listed(depends.written)}. "
            f"{move_first(name)}, or give --force: then no client can write them until {name} is unmasked or they have "
            "moved."
        )
    if change == "unmask" and cluster.masked is not None:
        probe = environment.admin(cluster).probe()
        if not probe.reachable:
            return (
                f"Cluster {name} stays masked: its health probe failed ({probe.error}). Repair it, then unmask again."
            )
    return ""


def already_done(environment: Environment, name: str, change: str) -> str:
    """Why the `change` ("mask" or "unmask") has nothing to do; empty if it has. Changes nothing."""
    mask = _read(environment, name)[0].masked
    if (mask is None) == (change == "mask"):
        return ""
    if mask is None:
        return f"Cluster {name} is not masked."
    return f"Cluster {name} is masked already, since {mask.since} by {mask.by}: {mask.reason}"


def mask_cluster(environment: Environment, name: str, reason: str, force: bool = False) -> MaskOutcome:
    """Mask the cluster in one revision. If it is masked already, nothing is done, and the outcome says so.

    :param force: even if topics are written there, which stall then.
    :raises RefusedError: unknown cluster, no reason, or topics are written there.
    """
    if not reason.strip():
        raise RefusedError(f"Masking cluster {name} needs a reason. Give --reason.")
    mask = Mask(since=environment.now(), reason=reason, by=environment.by)
    return _change(environment, name, mask, reason, force)


def unmask_cluster(environment: Environment, name: str, reason: str) -> MaskOutcome:
    """Unmask the cluster in one revision, after it has answered. If it is not masked, the outcome says so.

    :raises RefusedError: unknown cluster, or it does not answer (it stays masked).
    """
    return _change(environment, name, None, reason)


def _change(environment: Environment, name: str, mask: Mask | None, reason: str, force: bool = False) -> MaskOutcome:
    change: SingleKind = "unmask" if mask is None else "mask"
    before, version = _read(environment, name)
    if done := already_done(environment, name, change):
        return MaskOutcome(done)
    view = environment.store.load()
    depends = Affected() if mask is None else _dependents(environment, view, name)
    if against := objections(environment, name, change, depends, force):
        away = [error("unreachable-cluster", f"cluster {name}", against, cause="away")] if mask is None else []
        raise unchanged(f"{against}", away)
    words = f"Cluster {name} is {'back in service' if mask is None else 'masked'}."
    if mask is None:
        back = {topic for topic, _, extent in unconfirmed(view) if extent.cluster == name}
        if back:
            words += f" {amount(len(back), 'topic')} took it for dead: `switchyard origins check` checks their records."
    detail: dict[str, Any] = {"cluster": name, "reason": reason}
    if mask is not None:
        found = [*_stalling(name, depends)]
        judged = judgement(environment.now(), view.revision, found)
        detail |= {"force": force, "depends": _kept(depends), JUDGED: [judged.model_dump(mode="json")]}
    expected: Expected = {(Cluster, name): version}
    report = run_single(environment, change, reason, (before.model_copy(update={"masked": mask}),), expected, detail)
    return MaskOutcome(words, report, depends)


def _dependents(environment: Environment, view: View, name: str) -> Affected:
    if name not in view.clusters:
        raise no_such_cluster(name, view.clusters)
    return affected(view, environment.store.usage(), name, _holders(environment, view))


def _kept(depends: Affected) -> dict[str, Any]:
    """For the history: the number of each kind of dependents, and the first names."""
    return {
        what: {"count": len(several), "names": sorted(several)[:MAX_KEPT]}
        for what, several in depends.to_json().items()
        if several
    }


def _stalling(name: str, depends: Affected) -> Iterator[Verdict]:
    """Things that stall while the cluster is masked; the operator saw them before."""
    about = f"cluster {name}"
    for thing, (one, many), what, names in (
        ("topic", ("is", "are"), "written there and nowhere else, so no client can write", depends.written),
        ("topic", ("has", "have"), "older records there, whose readers wait", depends.older),
        ("group", ("is", "are"), "coordinated there, and can neither be joined nor commit", depends.groups),
        ("user", ("is", "are"), "bound there, or uses what stalls", tuple(depends.users)),
        ("mirror", ("is", "are"), "from it or to it; settings, rights and groups are not synced", depends.mirrors),
    ):
        if names:
            text = f"{amount(len(names), thing, one, many)} {what}: {listed(sorted(names))}."
            yield warning("masked-origin", about, text, number=len(names))


def _holders(environment: Environment, view: View) -> dict[str, list[str]]:
    """Topic → clusters that have it; for clusters that do not answer, as last seen."""
    up = answering(environment, view.clusters.values())

    def names(cluster: str) -> Collection[str]:
        try:
            if cluster in up:
                topics = up[cluster].topics(offsets=False, timeout_s=LOOK_S)
                return {name for name, topic in topics.items() if not topic.internal} - view.copy_logs
        except KafkaAdminError as error:
            environment.say(f"the topics of {cluster} cannot be listed: {error}")
        return environment.store.known_names(KnownTopic, cluster) - view.copy_logs

    return holders_of(dict(zip(view.clusters, environment.pool.map(names, view.clusters), strict=True)))


def _read(environment: Environment, name: str) -> tuple[Cluster, int]:
    found = environment.store.read(Cluster, name)
    if found is None:
        raise no_such_cluster(name, environment.store.load().clusters)
    return found
