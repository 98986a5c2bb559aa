"""Taking a cluster out of service, and putting it back after a look at its health."""

from __future__ import annotations

from dataclasses import dataclass

from ha_core.model import Cluster, Mask
from ha_core.moves.context import Environment
from ha_core.moves.errors import RefusedError
from ha_core.moves.report import Report
from ha_core.moves.single import run_single


@dataclass(frozen=True, slots=True)
class MaskOutcome:
    """What was done, in words; `report` is None where nothing had to be."""

    words: str
    report: Report | None = None


def mask_cluster(environment: Environment, name: str, reason: str) -> MaskOutcome:
    """Mask the cluster in one revision. Already masked: nothing is done, and that is said.

    :raises RefusedError: unknown cluster or no reason.
    """
    if not reason.strip():
        raise RefusedError(f"Masking cluster {name} needs a reason. Say --reason.")
    cluster, version = _read(environment, name)
    if cluster.masked is not None:
        return MaskOutcome(
            f"Cluster {name} is masked already, since {cluster.masked.since} by {cluster.masked.by}: "
            f"{cluster.masked.reason}"
        )
    masked = cluster.model_copy(update={"masked": Mask(since=environment.now(), reason=reason, by=environment.by)})
    report = run_single(
        environment,
        "mask",
        reason,
        (f"cluster:{name}",),
        (masked,),
        (),
        {(Cluster, name): version},
        {"cluster": name, "reason": reason},
    )
    return MaskOutcome(f"Cluster {name} is masked.", report)


def unmask_cluster(environment: Environment, name: str, reason: str) -> MaskOutcome:
    """Unmask the cluster in one revision, after it has answered. Not masked: nothing is done, and that is said.

    :raises RefusedError: unknown cluster, or it does not answer (it stays masked).
    """
    cluster, version = _read(environment, name)
    if cluster.masked is None:
        return MaskOutcome(f"Cluster {name} is not masked.")
    found = environment.admin(cluster).probe()
    if not found.reachable:
        raise RefusedError(
            f"Cluster {name} stays masked: its health probe failed ({found.error}). Repair it, then unmask again."
        )
    report = run_single(
        environment,
        "unmask",
        reason,
        (f"cluster:{name}",),
        (cluster.model_copy(update={"masked": None}),),
        (),
        {(Cluster, name): version},
        {"cluster": name, "reason": reason},
    )
    return MaskOutcome(f"Cluster {name} is back in service.", report)


def _read(environment: Environment, name: str) -> tuple[Cluster, int]:
    found = environment.store.read(Cluster, name)
    if found is None:
        known = ", ".join(sorted(environment.store.load().clusters)) or "none"
        raise RefusedError(f"There is no cluster {name!r} (known: {known}). Check the name.")
    return found
