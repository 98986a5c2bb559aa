"""Pre-flight of the topics of a move, and of single partitions."""

from __future__ import annotations

from collections.abc import Iterator

from ha_core.model import Topic
from ha_core.plan.crossing_stages import crossings
from ha_core.plan.facts import TopicFacts
from ha_core.plan.preflight.case import Case
from ha_core.plan.verdict import Verdict, error, info, listed, warning


def topics(case: Case) -> Iterator[Verdict]:
    request = case.request
    named = {*request.scope.topics, *(topic for _, topic in request.scope.user_topics)}
    for topic in case.closure.moves.topics:
        about, writer = f"topic {topic}", case.writer(topic)
        if writer is None and topic in named:
            yield error("unknown-topic", about, f"Topic {topic} exists in no cluster.", "Correct the name.")
        elif writer is None:
            text = f"Topic {topic} was used, but exists in no cluster: it is left out."
            yield warning("deleted-topic", about, text, "Nothing, if it was deleted on purpose.")
        elif writer == request.target:
            yield info("written-in-target", about, f"Topic {topic} is written in {writer} already: it is left out.")
        elif writer != request.origin:
            yield error(
                "written-elsewhere",
                about,
                f"Topic {topic} is written in {writer}, not in {request.origin}.",
                f"Move it with --from {writer}, or leave it out.",
            )
        elif (operation := case.crossing_out(topic)) is not None:
            yield _crossing(case, case.view.topics[topic], operation)
        else:
            yield from _in_target(case, topic)
            yield from _in_origin(case, topic)


def _crossing(case: Case, topic: Topic, operation: str) -> Verdict:
    origin, there = case.request.origin, next(target.cluster for _, _, target in crossings(topic))
    about, text = f"topic {topic.name}", f"Topic {topic.name} crosses over to {there} in operation {operation}"
    if there != case.request.target:
        return error(
            "crossing-elsewhere",
            about,
            f"{text}, and what lies above its cut is written there already.",
            f"Use --to {there}; from there it can be moved on.",
        )
    return warning(
        "crossing-ends",
        about,
        f"{text}: that is ended without {origin}. Its cut stays, and {there} goes on from there; records below "
        f"it that {origin} alone has cannot be read until it returns.",
        "Prefer to let it end (`switchyard settle`) when the origin can be repaired soon.",
    )


def _in_target(case: Case, topic: str) -> Iterator[Verdict]:
    origin, target, about = case.request.origin, case.request.target, f"topic {topic}"
    there, here, document = case.facts.topic(target, topic), case.here(topic), case.mapped(topic)
    count = here.partitions if here is not None else max(document.partitions) + 1 if document is not None else None
    if there is None:
        yield error(
            "unknown-in-target",
            about,
            f"It is not known whether topic {topic} exists in {target}.",
            f"Look at what {target} answers, then try again.",
        )
        return
    held = _held(document, target) if document is not None else {}
    if not there.exists:
        if held:
            yield error(
                "deleted-in-target",
                about,
                f"Topic {topic} was deleted in {target}, but its map says that records of it lie there.",
                f"Restore it in {target}, or choose another target.",
            )
        elif count is None:
            yield error(
                "unknown-partitions",
                about,
                f"{origin} cannot say how many partitions topic {topic} has, and {target} does not have it.",
                f"Create it in {target} with the same number of partitions, then run this again.",
            )
        return
    if count is not None and there.partitions != count:
        yield error(
            "partition-count",
            about,
            f"Topic {topic} has {there.partitions} partitions in {target}, and {count} here.",
            "Give both the same number of partitions: a key has to stay in its partition.",
        )
        return
    # Where a map was and its extents are aged, an emptied log is no data; without a map it shows a foreign writer.
    starts = {p: there.starts.get(p, 0) for p in there.ends}
    foreign = {p: end for p, end in there.ends.items() if end > (starts[p] if document else 0) and p not in held}
    if foreign:
        records = sum(end - starts[p] for p, end in foreign.items())
        parts = listed(f"partition {p}" for p in sorted(foreign))
        yield error(
            "foreign-data",
            about,
            f"Topic {topic} has data of its own in {target}: {records} offsets in {parts}, unknown to any map.",
            f"Delete it in {target} if nobody needs it, or choose another target.",
        )
    yield from _against_the_map(topic, target, held, there)
    if document is not None:
        yield from _lost(document, target, there)


def _held(document: Topic, cluster: str) -> dict[int, int]:
    """Partition → end, in `cluster`'s own offsets, of what the map says lies there."""
    held: dict[int, int] = {}
    for partition, extents in document.partitions.items():
        own = [extent for extent in extents if extent.cluster == cluster]
        if own:
            held[partition] = max((e.physical_end or 0 for e in own if not e.ignored), default=0)
    return held


def _against_the_map(topic: str, target: str, held: dict[int, int], there: TopicFacts) -> Iterator[Verdict]:
    for partition, end in sorted(held.items()):
        log_end = there.ends.get(partition)
        if log_end is None or end == 0:
            continue
        if log_end > end and there.starts.get(partition, 0) < log_end:
            yield warning(
                "beyond-map",
                f"topic {topic}",
                f"Partition {partition} of topic {topic} got {log_end - end} offsets in {target} past the end of "
                "its map: they are surplus of a migration with a predicted cut, or went around the gateways. They are "
                "not part of the topic.",
                "Nothing, after such a migration. Else find out who writes there directly, and copy what matters.",
            )
        elif log_end < end:
            yield warning(
                "below-map",
                f"topic {topic}",
                f"Partition {partition} of topic {topic} ends at {log_end} in {target}, and the map says {end}: "
                "the reserve of a forced move, or records that were lost there.",
                "If no forced move was made, find out what happened to the records.",
            )


def _lost(document: Topic, target: str, there: TopicFacts) -> Iterator[Verdict]:
    """A cluster that comes back with less than it had must not be written before somebody has accepted that: the new
    records would get the places of the lost ones."""
    topic = document.name
    for partition, extent in document.stays():
        log_end = there.ends.get(partition)
        if extent.cluster != target or extent.known_end is None or log_end is None:
            continue
        known = extent.to_physical(extent.known_end)
        if log_end < known:
            yield error(
                "lost-records",
                f"topic {topic}",
                f"Partition {partition} of topic {topic} ends at {log_end} in {target}, and held {known} offsets "
                "before that cluster died: records were lost there.",
                f"Restore them, or do without: `switchyard origins check {topic} --accept-loss`.",
            )


def _in_origin(case: Case, topic: str) -> Iterator[Verdict]:
    about, here, target = f"topic {topic}", case.here(topic), case.request.target
    if here is None:
        return
    if here.compacted:
        yield warning(
            "compacted",
            about,
            f"Topic {topic} is compacted: its offsets have holes, and records before the cut are compacted in "
            f"{case.request.origin} by themselves, apart from newer ones of the same key in {target}.",
            "Readers that build a table see the newest record of a key last, as always.",
        )
    if here.transactional:
        yield warning(
            "transactional",
            about,
            f"Topic {topic} has transactional producers: the move waits for their open transactions, and after it the "
            "next one of each gets INVALID_PRODUCER_ID_MAPPING.",
            "Give --drain-timeout longer than transactions take. Java and librdkafka abort one and initialise again by "
            "themselves, other clients have to be restarted. Move the users too: a transaction cannot write to a topic "
            "in another cluster than its user's.",
        )
    there, known = case.facts.topic(target, topic), case.facts.clusters.get(target)
    brokers = len(known.brokers) if known is not None else 0
    if there is None or there.exists or not brokers:
        return
    insync = here.config.get("min.insync.replicas", "1")
    if here.replication > brokers:
        yield info(
            "fewer-replicas",
            about,
            f"Its replication factor is lowered from {here.replication} to {brokers}: {target} has no more brokers.",
        )
    if insync.isdigit() and int(insync) > brokers:
        yield info(
            "fewer-in-sync",
            about,
            f"Its min.insync.replicas is lowered from {insync} to {brokers}: {target} has no more brokers.",
        )


def single_partitions(case: Case) -> Iterator[Verdict]:
    """What speaks against the partitions that the scope names, while the rest of their topic stays."""
    origin = case.request.origin
    for name, partitions in case.request.scope.partitions.items():
        about, here, document = f"topic {name}", case.here(name), case.mapped(name)
        if case.request.mode == "forced":
            yield error(
                "partition-of-dead-origin",
                about,
                f"Single partitions of topic {name} are named, and {origin} is taken for dead: what stays "
                "there could not be written.",
                f"Move topic {name} as a whole.",
            )
            continue
        if here is None:
            continue
        unknown = [p for p in partitions if p >= here.partitions]
        if unknown:
            yield error(
                "no-such-partition",
                about,
                f"Topic {name} has partitions 0 to {here.partitions - 1} in {origin}; "
                f"{listed(str(p) for p in unknown)} is not among them.",
                "Correct the partitions.",
            )
            continue
        away = {p: cluster for p in partitions if document and (cluster := document.written(p).cluster) != origin}
        if away:
            yield error(
                "partition-elsewhere",
                about,
                f"Of topic {name}, {listed(f'partition {p} is written in {c}' for p, c in away.items())}, not in "
                f"{origin}.",
                "Leave them out, or move them with the right --from.",
            )
        if here.transactional and len(partitions) < here.partitions:
            yield error(
                "split-transactions",
                about,
                f"Topic {name} has transactional producers: a transaction cannot write to partitions in two clusters.",
                f"Move topic {name} as a whole, with the users that write to it.",
            )


def strangers(case: Case) -> Iterator[Verdict]:
    """Users outside of the scope whose topics move."""
    by_topic: dict[str, list[str]] = {}
    for stranger in case.closure.strangers:
        if stranger.topic in case.moves.topics:
            by_topic.setdefault(stranger.topic, []).append(f"{stranger.who} (since {stranger.since})")
    for topic, users in by_topic.items():
        text = f"Topic {topic} is also used by {listed(users)}, outside of the scope."
        if case.request.include_followers:
            yield info("strangers", f"topic {topic}", f"{text} They follow the topic.")
        else:
            way = "Add them to the scope, or say that they follow the topic: --include-followers."
            yield error("strangers", f"topic {topic}", text, way)
