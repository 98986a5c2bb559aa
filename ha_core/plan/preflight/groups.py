"""Pre-flight of the groups of a move."""

from __future__ import annotations

from ha_core.plan.facts.verdict import Verdicts, error, info, listed, warning
from ha_core.plan.preflight.case import PreflightCase


def groups(case: PreflightCase) -> Verdicts:
    request = case.request
    shared: dict[str, list[str]] = {}
    for other in case.closure.shared_groups:
        shared.setdefault(other.name, []).append(other.who)
    for group in case.closure.moves.groups:
        about = f"group {group}"
        coordinator = case.coordinator(group)
        if coordinator == request.target:
            text = f"Group {group} is coordinated in {coordinator} already: it is left out."
            yield info("coordinated-in-target", about, text)
            continue
        if coordinator != request.origin:
            yield error(
                "coordinated-elsewhere",
                about,
                f"Group {group} is coordinated in {coordinator}, not in {request.origin}.",
                f"Move it with --from {coordinator}, or correct the bindings.",
            )
            continue
        if group in shared:
            yield error(
                "shared-group",
                about,
                f"Group {group} also has members of {listed(shared[group])}, which stay: it would be split in two, "
                "and both halves would read everything.",
                "Add them to the scope, for example as user:NAME##GROUP.",
            )
        yield from _group(case, group)


def _group(case: PreflightCase, group: str) -> Verdicts:
    request, facts, document = case.request, case.facts, case.view.groups.get(group)
    about, here, there = f"group {group}", facts.group(request.origin, group), facts.group(request.target, group)
    if there is not None and there.members:
        # A group that was here before leaves members behind until their session ends.
        level = error if document is None or document.cluster is None else warning
        text = f"Group {group} has {len(there.members)} members in {request.target} already."
        way, count = "Stop them, or wait until their session has ended.", len(there.members)
        yield level("members-in-target", about, text, way, number=count, unit="members")
    if here is None:
        text = f"The commits of group {group} in {request.origin} cannot be read."
        way = "Its members begin at commits that the target has, or by auto.offset.reset."
        yield warning("unknown-offsets", about, text, way)
        return
    missing = sorted({topic for topic, _ in here.offsets} - set(case.closure.moves.topics))
    gone = [t for t in missing if (f := facts.topic(request.origin, t)) is not None and not f.exists]
    refused = [t for t in missing if t not in gone and not ((f := facts.topic(request.target, t)) and f.exists)]
    if refused:
        # A forced move does not wait for these topics: commits that the target would refuse are left out.
        yield (error if request.mode == "planned" else warning)(
            "refused-offsets",
            about,
            f"Group {group} has committed offsets of {listed(refused)}, which {request.target} does not have and "
            "which do not move: it would refuse these commits.",
            "Add these topics to the scope (topic:NAME), or delete the offsets if they are of no use.",
        )
    if here.members and (here.state != "Stable" or here.protocol_type != "consumer"):
        yield info(
            "joins-again",
            about,
            f"Group {group} is {here.state} of type {here.protocol_type or 'unknown'}: its members join once "
            "more after the move.",
        )
    elif here.members and request.mode == "forced":
        yield info("joins-again", about, f"The members of group {group} join once more after a forced move.")
