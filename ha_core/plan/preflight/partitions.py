"""Pre-flight of single partitions, and of those that no live broker can lead."""

from collections.abc import Collection

from ha_core.model import Topic
from ha_core.model.scope import format_topic
from ha_core.plan.facts.clusters import TopicFacts
from ha_core.plan.facts.verdict import Verdicts, duration, error, listed, warning
from ha_core.plan.move.partitions import moving
from ha_core.plan.preflight.case import PreflightCase


def named(case: PreflightCase) -> Verdicts:
    """Errors about partitions that the scope names without the rest of their topic."""
    origin = case.request.origin
    for name, partitions in case.request.scope.partitions.items():
        about, here, document = f"topic {name}", case.here(name), case.view.mapped(name)
        if here is None:
            continue
        unknown = [str(p) for p in partitions if p >= here.partitions]
        if unknown:
            last, which = here.partitions - 1, f"{listed(unknown)} is not among them."
            text = f"Topic {name} has partitions 0 to {last} in {origin}; {which}"
            yield error("no-such-partition", about, text, "Correct the partitions.")
            continue
        written = {p: document.written(p).cluster for p in partitions} if document is not None else {}
        away = [f"partition {p} is written in {cluster}" for p, cluster in written.items() if cluster != origin]
        if away:
            text = f"Topic {name}: {listed(away)}, not in {origin}."
            yield error("partition-elsewhere", about, text, "Leave them out, or move them with the right --from.")
        if here.transactional and len(partitions) < here.partitions:
            yield error(
                "split-transactions",
                about,
                f"Topic {name} has transactional producers: a transaction cannot write to partitions in two clusters.",
                f"Move topic {name} as a whole, with the users that write to it.",
            )


def by_force(case: PreflightCase) -> Verdicts:
    """Known facts about partitions that leave by force, and the fate of the other partitions of their topics."""
    request, origin = case.request, case.request.origin
    if request.mode != "forced":
        return
    for name, partitions in request.scope.partitions.items():
        about, here, document = f"topic {name}", case.here(name), case.view.mapped(name)
        if document is not None and document.crossing is not None:
            operation = document.crossing.operation
            yield error(
                "migrating",
                about,
                f"Topic {name} is crossing over in operation {operation}: no partition can leave it meanwhile.",
                f"`switchyard resume {operation} --without-origin --unread wait|skip --force` ends the crossing "
                f"at its cuts, also for partitions without a leader in {origin}.",
            )
            continue
        text = f"Topic {name}: {_numbered(partitions, 'moves', 'move')} alone; "
        text += "; ".join(_last_seen(here, p) for p in partitions) + ". "
        left = [] if here is None else [p for p in range(here.partitions) if p not in partitions]
        left = [p for p in left if document is None or document.written(p).cluster == origin]
        led = [p for p in left if here is not None and here.age_s is None and p not in here.leaderless]
        if led:
            text += f"{_numbered(led, 'stays', 'stay')} in {origin}. "
        if waiting := [p for p in left if p not in led]:
            text += f"{_numbered(waiting, 'waits', 'wait')} for {origin}, and cannot be written. "
        yield warning(
            "moves-alone",
            about,
            f"{text}Transactions cannot span clusters, and a dead leader cannot tell whether any write to the topic.",
            f"Move topic {name} as a whole if {origin} does not come back soon." if waiting or here is None else "",
            number=len(partitions),
            unit="partitions",
        )


def leaderless(case: PreflightCase) -> Verdicts:
    """Partitions whose log end a planned move cannot learn."""
    request = case.request
    if request.mode != "planned":
        return
    for name, here in case.in_origin():
        document = case.view.mapped(name) or Topic(name=name)
        moved = moving(request, document, range(here.partitions))
        # A barrier needs the log ends of the partitions that move, a cut ahead those of the whole topic.
        wanted = range(here.partitions) if name in case.ahead else moved
        if lost := [p for p in wanted if p in here.leaderless]:
            which = format_topic(name, tuple(lost))
            barrier = "" if set(lost) & set(moved) else " Or use --cut barrier, which moves the others without them."
            yield error(
                "leaderless",
                f"topic {name}",
                f"Topic {name}: {_numbered(lost, 'has', 'have')} no leader in {request.origin}, because all "
                "in-sync replicas are on dead brokers.",
                f"Bring their brokers back; if these are lost, `switchyard migrate-from-fault {which} --from "
                f"{request.origin} --to {request.target} --unread wait|skip --reason …` moves these partitions alone."
                f"{barrier}",
                "away",
                number=len(lost),
                unit="partitions",
            )


def _last_seen(here: TopicFacts | None, partition: int) -> str:
    """The last known log end of a partition, in words."""
    end = age_s = None
    if here is not None and here.age_s is not None:
        end, age_s = here.ends.get(partition), here.age_s
    elif here is not None:
        if partition in here.ends:
            return f"{partition} ends at {here.ends[partition]}, as its leader says"
        end, age_s = here.leaderless.get(partition), here.leaderless_age_s
    if end is None or age_s is None:
        return f"the end of {partition} is unknown, so its cut is 2^40 offsets higher"
    return f"{partition} ended at {end} when it was last seen, {duration(age_s)} ago"


def _numbered(partitions: Collection[int], one: str, many: str) -> str:
    numbers = listed(map(str, partitions))
    return f"Partition {numbers} {one}" if len(partitions) == 1 else f"Partitions {numbers} {many}"
