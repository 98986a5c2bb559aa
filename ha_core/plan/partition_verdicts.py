"""Pre-flight of single partitions that are to move while the rest of their topic stays."""

from __future__ import annotations

from collections.abc import Iterator

from ha_core.model import MoveRequest, View
from ha_core.plan.facts import Facts
from ha_core.plan.verdict import Verdict, listed


def partition_verdicts(view: View, request: MoveRequest, facts: Facts) -> Iterator[Verdict]:
    """What speaks against the partitions that the scope names."""
    for name, partitions in request.scope.partitions.items():
        about, here, document = f"topic {name}", facts.topic(request.origin, name), view.topics.get(name)
        if request.mode == "forced":
            yield Verdict(
                "error",
                about,
                f"Single partitions of topic {name} are named, and {request.origin} is taken for dead: what stays "
                "there could not be written.",
                f"Move topic {name} as a whole.",
            )
            continue
        if here is None or not here.exists:
            continue
        unknown = [p for p in partitions if p >= here.partitions]
        if unknown:
            yield Verdict(
                "error",
                about,
                f"Topic {name} has partitions 0 to {here.partitions - 1} in {request.origin}; "
                f"{listed(str(p) for p in unknown)} is not among them.",
                "Correct the partitions.",
            )
            continue
        if document is not None and document.mapped:
            away = {p: cluster for p in partitions if (cluster := document.written(p).cluster) != request.origin}
            if away:
                yield Verdict(
                    "error",
                    about,
                    f"Of topic {name}, {listed(f'partition {p} is written in {c}' for p, c in away.items())}, not in "
                    f"{request.origin}.",
                    "Leave them out, or move them with the right --from.",
                )
        if here.transactional and len(partitions) < here.partitions:
            yield Verdict(
                "error",
                about,
                f"Topic {name} has transactional producers: a transaction cannot write to partitions in two clusters.",
                f"Move topic {name} as a whole, with the users that write to it.",
            )
