"""Pre-flight of the groups of a move, and of groups that follow the topics that they read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import Verdicts, amount, error, info, listed, warning
from ha_core.plan.move.closure import users_at
from ha_core.plan.preflight.case import PreflightCase
from ha_core.plan.routing.resolve import at_home, group_homes


def groups(case: PreflightCase) -> Verdicts:
    request = case.request
    shared = grouped((other.name, other.who) for other in case.closure.shared_groups)
    for group in case.closure.moves.groups:
        about = f"group {group}"
        if (pattern := case.view.direct(group)) is not None:
            yield error(
                "direct-group",
                about,
                f"Group {group} is a direct group ({pattern!r}): its commits are offsets of one cluster's log, and as "
                "client offsets they would mean other records.",
                "Leave it out, and withdraw its usage (`switchyard usage forget`). If its consumers use gateways: "
                f"`switchyard direct-groups remove {pattern!r}`.",
            )
            continue
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
        # A group that was here before keeps members here until their session ends.
        level = error if document is None or document.cluster is None else warning
        text = f"Group {group} has {amount(len(there.members), 'member')} in {request.target} already."
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


@dataclass(frozen=True)
class DependentsCase(PreflightCase):
    """Input of rules for dependent groups. Its request names the topics that move, or have moved."""

    readers: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Group → topics of the request that it reads."""
    committed: Mapping[str, Collection[Partition]] = field(default_factory=dict)
    """Group → all partitions that it has committed offsets of."""

    def others(self, group: str) -> list[str]:
        """Topics with commits of the group that do not move."""
        return sorted({topic for topic, _ in self.committed[group]} - set(self.request.scope.topics))


def of_nobody(case: DependentsCase) -> Verdicts:
    """Groups without a known user, and so without a binding to change. Commits that a move left in the origin do not
    count."""
    homes = group_homes(case.view, case.usage.values())
    for name in sorted(case.readers):
        moved = not at_home(homes, name, case.request.origin)
        if not moved and not any(used.groups.get(name) for used in case.usage.values()):
            yield error(
                "unknown-group-user",
                f"group {name}",
                f"Group {name} reads {listed(sorted(case.readers[name]))}, but no user of it is known.",
                f"Declare who uses it: `switchyard usage declare USER --group {name}`.",
            )


def of_super_users(case: DependentsCase) -> Verdicts:
    """Groups of super users, which have to reach their own cluster, so their groups stay."""
    for name in sorted(case.readers):
        users = users_at(case.view, case.usage, name, case.request.origin)
        if users and all(map(case.view.super_user_of, users)):
            yield error(
                "super-user",
                f"group {name}",
                f"Group {name} is used by super users only ({listed(users)}), which have to reach their cluster.",
                "Give its readers a user of their own.",
            )


def beside_a_crossing(case: DependentsCase) -> Verdicts:
    """An undone crossing deletes the topics that it created, and with them the commits that a group has there."""
    crossing = {
        name: topic.crossing.operation for name, topic in case.view.topics.items() if topic.crossing is not None
    }
    for name in sorted(case.readers):
        for other in [other for other in case.others(name) if other in crossing][:1]:
            yield error(
                "topic-crosses",
                f"group {name}",
                f"Group {name} also reads {other}, which crosses over in operation {crossing[other]}.",
                "Move it when that has ended; an operation that moves groups takes it along by itself.",
            )
