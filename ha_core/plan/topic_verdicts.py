"""Pre-flight of the topics of a move."""

from __future__ import annotations

from collections.abc import Iterator

from ha_core.model import MoveRequest, MoveSet, Topic, View
from ha_core.plan.closure import Closure
from ha_core.plan.crossing_stages import crossings
from ha_core.plan.crossing_without_origin import crossing_out
from ha_core.plan.effective import writer_of
from ha_core.plan.facts import Facts, TopicFacts
from ha_core.plan.verdict import Verdict, listed


def topic_verdicts(view: View, request: MoveRequest, closure: Closure, facts: Facts) -> Iterator[Verdict]:
    named = {*request.scope.topics, *(topic for _, topic in request.scope.user_topics)}
    for topic in closure.moves.topics:
        about = f"topic {topic}"
        writer = writer_of(view, request, closure, facts, topic)
        if writer is None:
            if topic in named:
                yield Verdict("error", about, f"Topic {topic} exists in no cluster.", "Correct the name.")
            else:
                yield Verdict(
                    "warning",
                    about,
                    f"Topic {topic} was used, but exists in no cluster: it is left out.",
                    "Nothing, if it was deleted on purpose.",
                )
        elif writer == request.target:
            yield Verdict("info", about, f"Topic {topic} is written in {writer} already: it is left out.")
        elif writer != request.origin:
            yield Verdict(
                "error",
                about,
                f"Topic {topic} is written in {writer}, not in {request.origin}.",
                f"Move it with --from {writer}, or leave it out.",
            )
        elif (operation := crossing_out(request, view.topics.get(topic))) is not None:
            yield _crossing(view.topics[topic], operation, request)
        else:
            yield from _target_topic(view.topics.get(topic), topic, request, facts)
            yield from _origin_topic(topic, request, facts)


def _crossing(topic: Topic, operation: str, request: MoveRequest) -> Verdict:
    there = next(target.cluster for _, _, target in crossings(topic))
    about, text = f"topic {topic.name}", f"Topic {topic.name} crosses over to {there} in operation {operation}"
    if there != request.target:
        return Verdict(
            "error",
            about,
            f"{text}, and what lies above its cut is written there already.",
            f"Use --to {there}; from there it can be moved on.",
        )
    return Verdict(
        "warning",
        about,
        f"{text}: that is ended without {request.origin}. Its cut stays, and {there} goes on from there; records below "
        f"it that {request.origin} alone has cannot be read until it returns.",
        "Prefer to let it end (`switchyard settle`) when the origin can be repaired soon.",
    )


def _target_topic(document: Topic | None, topic: str, request: MoveRequest, facts: Facts) -> Iterator[Verdict]:
    origin, target, about = request.origin, request.target, f"topic {topic}"
    there, here = facts.topic(target, topic), facts.topic(origin, topic)
    count = here.partitions if here is not None and here.exists else None
    if count is None and document is not None and document.mapped:
        count = max(document.partitions) + 1
    if there is None:
        yield Verdict(
            "error",
            about,
            f"It is not known whether topic {topic} exists in {target}.",
            f"Look at what {target} answers, then try again.",
        )
        return
    held = _held(document, target)
    if not there.exists:
        if held:
            yield Verdict(
                "error",
                about,
                f"Topic {topic} was deleted in {target}, but its map says that records of it lie there.",
                f"Restore it in {target}, or choose another target.",
            )
        elif count is None:
            yield Verdict(
                "error",
                about,
                f"{origin} cannot say how many partitions topic {topic} has, and {target} does not have it.",
                f"Create it in {target} with the same number of partitions, then run this again.",
            )
        return
    if count is not None and there.partitions != count:
        yield Verdict(
            "error",
            about,
            f"Topic {topic} has {there.partitions} partitions in {target}, and {count} here.",
            "Give both the same number of partitions: a key has to stay in its partition.",
        )
        return
    # Where a map was and its extents are aged, an emptied log is no data; without a map it shows a foreign writer.
    mapped = document is not None and document.mapped
    starts = {p: there.starts.get(p, 0) for p in there.ends}
    foreign = {p: end for p, end in there.ends.items() if end > (starts[p] if mapped else 0) and p not in held}
    if foreign:
        records = sum(end - starts[p] for p, end in foreign.items())
        parts = listed(f"partition {p}" for p in sorted(foreign))
        yield Verdict(
            "error",
            about,
            f"Topic {topic} has data of its own in {target}: {records} offsets in {parts}, unknown to any map.",
            f"Delete it in {target} if nobody needs it, or choose another target.",
        )
    yield from _kept(topic, target, held, there)
    yield from _lost(document, topic, target, there)


def _held(document: Topic | None, cluster: str) -> dict[int, int]:
    """Partition → end, in `cluster`'s own offsets, of what the map says lies there."""
    held: dict[int, int] = {}
    if document is None or not document.mapped:
        return held
    for partition, extents in document.partitions.items():
        ends = [end for e in extents if e.cluster == cluster and (end := e.physical_end) is not None and not e.ignored]
        if ends:
            held[partition] = max(ends)
        elif any(e.cluster == cluster for e in extents):
            held[partition] = 0
    return held


def _kept(topic: str, target: str, held: dict[int, int], there: TopicFacts) -> Iterator[Verdict]:
    about = f"topic {topic}"
    for partition, end in sorted(held.items()):
        log_end = there.ends.get(partition)
        if log_end is None or end == 0:
            continue
        if log_end > end and there.starts.get(partition, 0) < log_end:
            yield Verdict(
                "warning",
                about,
                f"Partition {partition} of topic {topic} got {log_end - end} offsets in {target} past the end of "
                "its map: they are surplus of a migration with a predicted cut, or went around the gateways. They are "
                "not part of the topic.",
                "Nothing, after such a migration. Else find out who writes there directly, and copy what matters.",
            )
        elif log_end < end:
            yield Verdict(
                "warning",
                about,
                f"Partition {partition} of topic {topic} ends at {log_end} in {target}, and the map says {end}: "
                "the reserve of a forced move, or records that were lost there.",
                "If no forced move was made, find out what happened to the records.",
            )


def _lost(document: Topic | None, topic: str, target: str, there: TopicFacts) -> Iterator[Verdict]:
    """A cluster that comes back with less than it had must not be written before somebody has accepted that: the new
    records would get the places of the lost ones."""
    if document is None:
        return
    for partition, extents in sorted(document.partitions.items()):
        for extent in extents:
            log_end = there.ends.get(partition)
            if extent.cluster != target or extent.known_end is None or log_end is None:
                continue
            known = extent.to_physical(extent.known_end)
            if log_end < known:
                yield Verdict(
                    "error",
                    f"topic {topic}",
                    f"Partition {partition} of topic {topic} ends at {log_end} in {target}, and held {known} offsets "
                    "before that cluster died: records were lost there.",
                    f"Restore them, or do without: `switchyard origins check {topic} --accept-loss`.",
                )


def _origin_topic(topic: str, request: MoveRequest, facts: Facts) -> Iterator[Verdict]:
    about, here = f"topic {topic}", facts.topic(request.origin, topic)
    if here is None or not here.exists:
        return
    there, target = facts.topic(request.target, topic), facts.clusters.get(request.target)
    if "compact" in here.config.get("cleanup.policy", ""):
        yield Verdict(
            "warning",
            about,
            f"Topic {topic} is compacted: its offsets have holes, and records before the cut are compacted in "
            f"{request.origin} by themselves, apart from newer ones of the same key in {request.target}.",
            "Readers that build a table see the newest record of a key last, as always.",
        )
    if here.transactional:
        yield Verdict(
            "warning",
            about,
            f"Topic {topic} has transactional producers: the move waits for their open transactions, and after it the "
            "next one of each gets INVALID_PRODUCER_ID_MAPPING.",
            "Give --drain-timeout longer than transactions take. Java and librdkafka abort one and initialise again by "
            "themselves, other clients have to be restarted. Move the users too: a transaction cannot write to a topic "
            "in another cluster than its user's.",
            code="transactions_wait",
        )
    brokers = len(target.brokers) if target is not None else 0
    if there is not None and not there.exists and brokers:
        if here.replication > brokers:
            yield Verdict(
                "info",
                about,
                f"Its replication factor is lowered from {here.replication} to {brokers}: "
                f"{request.target} has no more brokers.",
            )
        insync = here.config.get("min.insync.replicas", "1")
        if insync.isdigit() and int(insync) > brokers:
            yield Verdict(
                "info",
                about,
                f"Its min.insync.replicas is lowered from {insync} to {brokers}: {request.target} has no more brokers.",
            )


def stranger_verdicts(request: MoveRequest, closure: Closure, moves: MoveSet) -> Iterator[Verdict]:
    by_topic: dict[str, list[str]] = {}
    for stranger in closure.strangers:
        if stranger.topic in moves.topics:
            who = stranger.user + (f"+{stranger.instance}" if stranger.instance else "")
            by_topic.setdefault(stranger.topic, []).append(f"{who} (since {stranger.since})")
    for topic, users in by_topic.items():
        text = f"Topic {topic} is also used by {listed(users)}, outside of the scope."
        if request.include_followers:
            yield Verdict("info", f"topic {topic}", f"{text} They follow the topic.")
        else:
            yield Verdict(
                "error",
                f"topic {topic}",
                text,
                "Add them to the scope, or say that they follow the topic: --include-followers.",
            )
