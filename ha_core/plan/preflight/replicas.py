"""Pre-flight of the replicas of topics that exist in the target."""

from __future__ import annotations

from ha_core.plan.facts.verdict import Verdicts, error, listed, warning
from ha_core.plan.preflight.case import PreflightCase


def in_sync(case: PreflightCase) -> Verdicts:
    """With too few replicas in sync, producers with acks=all are refused, and readers see no new records."""
    target = case.request.target
    for name in case.moves.topics:
        there, about = case.facts.topic(target, name), f"topic {name}"
        if there is None or not there.exists:
            continue
        few = {p: one for p, one in there.replicas.items() if one.in_sync < there.min_in_sync}
        behind = {p: one for p, one in there.replicas.items() if one.in_sync < one.assigned and p not in few}
        if few:
            which = listed(f"partition {p} has {one.in_sync}" for p, one in sorted(few.items()))
            yield (error if case.request.mode == "planned" else warning)(
                "not-in-sync",
                about,
                f"Topic {name} demands {there.min_in_sync} replicas in sync in {target}, and {which}: producers with "
                "acks=all would be refused there.",
                f"Bring the brokers of {target} up and let the replicas catch up.",
                number=len(few),
                unit="partitions",
            )
        if behind:
            which = listed(f"partition {p} {one.in_sync} of {one.assigned}" for p, one in sorted(behind.items()))
            yield warning(
                "under-replicated",
                about,
                f"Not all replicas of topic {name} are in sync in {target}: {which}.",
                f"Let the brokers of {target} catch up, if the move can wait.",
                number=len(behind),
                unit="partitions",
            )
