"""Pre-flight of the groups of a move."""

from __future__ import annotations

from collections.abc import Iterator

from ha_core.model import Group, MoveRequest, MoveSet, View
from ha_core.plan.closure import Closure
from ha_core.plan.effective import coordinator_of, effective
from ha_core.plan.facts import Facts
from ha_core.plan.verdict import Level, Verdict, listed


def group_verdicts(view: View, request: MoveRequest, closure: Closure, facts: Facts) -> Iterator[Verdict]:
    shared: dict[str, list[str]] = {}
    for group, user, instance in closure.shared_groups:
        shared.setdefault(group, []).append(user + (f"+{instance}" if instance else ""))
    moving = set(effective(view, request, closure, facts).groups)
    for group in closure.moves.groups:
        about = f"group {group}"
        coordinator = coordinator_of(view, request, closure, group)
        if group not in moving:
            yield Verdict("info", about, f"Group {group} is coordinated in {request.target} already: it is left out.")
            continue
        if coordinator != request.origin:
            yield Verdict(
                "error",
                about,
                f"Group {group} is coordinated in {coordinator}, not in {request.origin}.",
                f"Move it with --from {coordinator}, or correct the bindings.",
            )
            continue
        if group in shared:
            yield Verdict(
                "error",
                about,
                f"Group {group} has members of {listed(shared[group])} too, who stay: it would be split in two, "
                "and both halves would read everything.",
                "Add them to the scope, for example as user:NAME##GROUP.",
            )
        yield from _group(view.groups.get(group), group, request, closure.moves, facts)


def _group(document: Group | None, group: str, request: MoveRequest, moves: MoveSet, facts: Facts) -> Iterator[Verdict]:
    about, here, there = f"group {group}", facts.group(request.origin, group), facts.group(request.target, group)
    if there is not None and there.members:
        # A group that was here before leaves members behind until their session ends.
        level: Level = "error" if document is None or document.cluster is None else "warning"
        text = f"Group {group} has {len(there.members)} members in {request.target} already."
        yield Verdict(level, about, text, "Stop them, or wait until their session has ended.")
    if here is None:
        text = f"What group {group} committed in {request.origin} cannot be asked."
        yield Verdict("warning", about, text, "Its members begin where the target knows them, or by auto.offset.reset.")
        return
    missing = sorted({topic for topic, _ in here.offsets} - set(moves.topics))
    gone = [t for t in missing if (f := facts.topic(request.origin, t)) is not None and not f.exists]
    refused = [t for t in missing if t not in gone and not ((f := facts.topic(request.target, t)) and f.exists)]
    if refused:
        yield Verdict(
            # A dead origin is not asked to wait for its topics: what cannot be committed in the target is left out.
            "error" if request.mode == "planned" else "warning",
            about,
            f"Group {group} has committed offsets of {listed(refused)}, which {request.target} does not have and "
            "which do not move: it would refuse these commits.",
            "Add these topics to the scope (topic:NAME), or delete the offsets if they are of no use.",
        )
    if here.members and (here.state != "Stable" or here.protocol_type != "consumer"):
        yield Verdict(
            "info",
            about,
            f"Group {group} is {here.state} of type {here.protocol_type or 'unknown'}: its members join once "
            "more after the move.",
        )
    elif here.members and request.mode == "forced":
        yield Verdict("info", about, f"The members of group {group} join once more after a forced move.")
