"""Pre-flight of the topics of a move."""

from collections.abc import Iterator, Mapping

from ha_core.model import LostTail, Topic
from ha_core.plan.facts.clusters import TopicFacts
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.similar import did_you_mean
from ha_core.plan.facts.verdict import Verdict, Verdicts, amount, error, info, listed, warning
from ha_core.plan.migration.crossing_stages import crossings
from ha_core.plan.mirror.mirrored_topics import internal_topics
from ha_core.plan.move.partitions import left_in
from ha_core.plan.preflight.case import PreflightCase


def damaged(case: PreflightCase) -> Verdicts:
    """Maps without a valid writer for each partition."""
    for name in case.closure.moves.topics:
        topic = case.view.topics.get(name)
        if topic is not None and not topic.sound:
            text = f"The map of topic {name} is damaged: it has no writer for some partition."
            way = f"Restore its document (`switchyard topic {name} --json` shows it), or leave the topic out."
            yield error("damaged-map", f"topic {name}", text, way)


def of_the_cluster(case: PreflightCase) -> Verdicts:
    """Internal topics of a cluster neither move nor have mirrors."""
    request = case.request
    named = {*request.scope.topics, *(topic for _, topic in request.scope.user_topics)}
    for topic in sorted(internal_topics(case.view).intersection(case.closure.moves.topics)):
        text = f"Topic {topic} is a cluster's own: another cluster would take it for its own state."
        if topic in named:
            yield error("internal-topic", f"topic {topic}", text, "Leave it out.")
        else:
            yield info("internal-topic", f"topic {topic}", f"{text} It is left out.")


def placed(case: PreflightCase) -> Verdicts:
    """Writers of the topics now."""
    request = case.request
    named = {*request.scope.topics, *(topic for _, topic in request.scope.user_topics)}
    for topic in case.closure.moves.topics:
        about, writer = f"topic {topic}", case.source(topic)
        if writer is None and topic in named and case.view.deleted(topic):
            text = f"Topic {topic} is being deleted in all clusters."
            yield error("deleted-topic", about, text, f"Leave it out; `switchyard topics delete {topic}` completes it.")
        elif writer is None and topic in named:
            known = sorted({*case.view.topics, *case.known, *(name for _, name in case.facts.topics)})
            way = f"Correct the name.{did_you_mean(topic, known)}"
            yield error("unknown-topic", about, f"Topic {topic} exists in no cluster.", way)
        elif writer is None:
            text = f"Topic {topic} was used, but exists in no cluster: it is left out."
            yield warning("deleted-topic", about, text, "Nothing, if it was deleted on purpose.")
        elif writer == request.target:
            yield info("written-in-target", about, f"Topic {topic} is written in {writer} already: it is left out.")
        elif writer != request.origin:
            text = f"Topic {topic} is written in {writer}, not in {request.origin}."
            yield error("written-elsewhere", about, text, f"Move it with --from {writer}, or leave it out.")
        elif (operation := case.crossing_out(topic)) is not None:
            yield _crossing(case, case.view.topics[topic], operation)


def _crossing(case: PreflightCase, topic: Topic, operation: str) -> Verdict:
    origin, there = case.request.origin, next(target.cluster for _, _, target in crossings(topic))
    about, text = f"topic {topic.name}", f"Topic {topic.name} crosses over to {there} in operation {operation}"
    if there != case.request.target:
        text += ", and records above its cut are written there already."
        return error("crossing-elsewhere", about, text, f"Use --to {there}; from there it can be moved again.")
    return warning(
        "crossing-ends",
        about,
        f"{text}: that is ended without {origin}. Its cut stays, and {there} is the writer from there on; records "
        f"below it that only {origin} has cannot be read until it returns.",
        "Prefer to let it end (`switchyard settle`) when the origin can be repaired soon.",
    )


def in_target(case: PreflightCase) -> Verdicts:
    """Topics of these names in the target."""
    for topic in case.moves.topics:
        yield from _in_target(case, topic)


def _has_grown_unseen(case: PreflightCase, topic: str) -> bool:
    """Whether its copy may have the best partition count, because the origin does not answer."""
    here = case.here(topic)
    return topic in case.to_copies and case.request.mode == "forced" and (here is None or here.age_s is not None)


def _in_target(case: PreflightCase, topic: str) -> Verdicts:
    origin, target, about = case.request.origin, case.request.target, f"topic {topic}"
    there, here, document = case.facts.topic(target, topic), case.here(topic), case.view.mapped(topic)
    count = here.partitions if here is not None else max(document.partitions) + 1 if document is not None else None
    held = _held(document, target) if document is not None else {}
    if there is None:
        text = f"It is not known whether topic {topic} exists in {target}."
        yield error("unknown-in-target", about, text, f"Check the answers of {target}, then try again.")
    elif not there.exists and held:
        text = f"Topic {topic} was deleted in {target}, but by its map records of it are there."
        yield error("deleted-in-target", about, text, f"Restore it in {target}, or choose another target.")
    elif not there.exists and count is None:
        yield error(
            "unknown-partitions",
            about,
            f"{origin} does not report how many partitions topic {topic} has, and {target} does not have it.",
            f"Create it in {target} with the same number of partitions, then run this again.",
        )
    elif there.exists and count is not None and there.partitions > count and _has_grown_unseen(case, topic):
        yield warning(
            "partition-count",
            about,
            f"Topic {topic} has {amount(there.partitions, 'partition')} in {target}, its copy, and had {count} "
            f"when {origin} was "
            "last seen. A copy grows after its source: the others move too.",
            f"Nothing, if {origin} had as many. Else partitions were added to the copy: keys change their partitions.",
            number=there.partitions,
            unit="partitions",
        )
    elif there.exists and count is not None and there.partitions != count:
        yield error(
            "partition-count",
            about,
            f"Topic {topic} has {amount(there.partitions, 'partition')} in {target}, and {count} here.",
            "Give both the same number of partitions: a key has to stay in its partition.",
            number=there.partitions,
            unit="partitions",
        )
    elif there.exists and topic not in case.to_copies:
        # With a map whose extents have aged, an emptied log has no data; without a map it shows a foreign writer.
        starts = {p: there.starts.get(p, 0) for p in there.ends}
        foreign = {p: end for p, end in there.ends.items() if end > (starts[p] if document else 0) and p not in held}
        if foreign:
            tail = left_in(case.request, topic, case.tails)
            yield _foreign(case, topic, foreign, starts) if tail is None else _own_tail(case, tail, there)


def _foreign(case: PreflightCase, topic: str, foreign: Mapping[int, int], starts: Mapping[int, int]) -> Verdict:
    origin, target = case.request.origin, case.request.target
    records = sum(end - starts[p] for p, end in foreign.items())
    parts = listed(f"partition {p}" for p in sorted(foreign))
    text = f"Topic {topic} has data of its own in {target}: {amount(records, 'offset')} in {parts}, unknown to any map."
    way = f"Delete it in {target} if it is not needed, or choose another target."
    if any((tail.topic, tail.cluster) == (topic, target) for tail in case.tails):
        text += f" It is the log that a forced move left when {target} did not answer."
        way = (
            f"`switchyard mirror reconcile {target}` makes it the copy again, and then the topic can move back. Delete "
            f"it there only while {origin} answers and has all records that you need."
        )
    elif case.request.mode == "forced":
        way = (
            f"Choose another target. Do not delete it while {origin} may be gone for good: it may be the last log of "
            "this topic."
        )
    return error("foreign-data", f"topic {topic}", text, way, number=records, unit="offsets")


def _own_tail(case: PreflightCase, tail: LostTail, there: TopicFacts) -> Verdict:
    """The last complete live log: its cluster is back and not reconciled, and its copy is dead."""
    origin, target, topic = case.request.origin, case.request.target, tail.topic
    ends = {p: (end, tail.partitions[p]) for p, end in there.ends.items() if p in tail.partitions}
    beyond = sum(max(0, end - part.mirrored) for end, part in ends.values())
    short = [p for p, (end, part) in sorted(ends.items()) if end < part.mirrored or part.differs_at is not None]
    text = (
        f"Topic {topic} returns to the log that it left by force in operation {tail.operation}, and that was not made "
        f"a copy since. Mirrored records are read there again; {amount(beyond, 'offset')} beyond stay lost; records "
        f"that only {origin} has received since wait for it."
    )
    if short:
        text += f" In {listed(f'partition {p}' for p in short)} it lacks mirrored records: all wait for {origin}."
    return warning(
        "own-tail",
        f"topic {topic}",
        text,
        f"Nothing, if {origin} does not come back soon. When both answer, `switchyard mirror reconcile {target}` "
        "counts the lost records.",
        number=beyond,
        unit="offsets",
    )


def _held(document: Topic, cluster: str) -> dict[int, int]:
    """Partition → physical end in `cluster` by the map."""
    held: dict[int, int] = {}
    for partition, extent in document.all_extents():
        if extent.cluster == cluster:
            end = 0 if extent.ignored else extent.physical_end or 0
            held[partition] = max(end, held.get(partition, 0))
    return held


def _both(case: PreflightCase) -> Iterator[tuple[Topic, TopicFacts]]:
    """Topics with a map and facts in the target, except copies."""
    for name in case.moves.topics:
        document, there = case.view.mapped(name), case.facts.topic(case.request.target, name)
        if document is not None and there is not None and name not in case.to_copies:
            yield document, there


def against_the_map(case: PreflightCase) -> Verdicts:
    target = case.request.target
    for topic, there in _both(case):
        for partition, end in sorted(_held(topic, target).items()):
            log_end, what = there.ends.get(partition), f"Partition {partition} of topic {topic.name}"
            if log_end is None or end == 0:
                continue
            if log_end > end and there.starts.get(partition, 0) < log_end:
                yield warning(
                    "beyond-map",
                    f"topic {topic.name}",
                    f"{what} has {amount(log_end - end, 'offset')} in {target} above the end of its map: surplus of a "
                    "migration with a predicted cut, or records of a client that bypasses gateways. The topic does not "
                    "have them.",
                    "Nothing, after such a migration. Else find the client that bypasses gateways; copy what matters.",
                    number=log_end - end,
                    unit="offsets",
                )
            elif log_end < end:
                yield warning(
                    "below-map",
                    f"topic {topic.name}",
                    f"{what} ends at {log_end} in {target}, but at {end} in its map: the reserve of a forced move, or "
                    "records that were lost there.",
                    "If no forced move was made, find out what happened to the records.",
                    number=end - log_end,
                    unit="offsets",
                )


def lost(case: PreflightCase) -> Verdicts:
    """Clusters that have returned with fewer records: until an operator has accepted that they must not be written,
    because new records would get the offsets of the lost ones."""
    target = case.request.target
    for topic, there in _both(case):
        for partition, extent in topic.all_extents():
            log_end = there.ends.get(partition)
            if extent.cluster != target or extent.known_end is None or log_end is None:
                continue
            known = extent.to_physical(extent.known_end)
            if log_end < known:
                yield error(
                    "lost-records",
                    f"topic {topic.name}",
                    f"Partition {partition} of topic {topic.name} ends at {log_end} in {target}, and held offsets "
                    f"up to {known} before that cluster died: records were lost there.",
                    f"Restore them, or accept the loss: `switchyard origins check {topic.name} --accept-loss`.",
                    number=known - log_end,
                    unit="offsets",
                )


def compacted(case: PreflightCase) -> Verdicts:
    for topic, here in case.in_origin():
        if here.compacted and topic not in case.to_copies:
            yield warning(
                "compacted",
                f"topic {topic}",
                f"Topic {topic} is compacted: its offsets have holes, and records before the cut are compacted in "
                f"{case.request.origin} by themselves, apart from newer ones of the same key in {case.request.target}.",
                "Readers that build a table see the newest record of a key last, as always.",
            )


def lowered(case: PreflightCase) -> Verdicts:
    """Topics to be created for whose settings the target has too few brokers."""
    target = case.request.target
    facts = case.facts.clusters.get(target)
    brokers = len(facts.brokers) if facts is not None else 0
    for topic, here in case.in_origin():
        there = case.facts.topic(target, topic)
        if there is None or there.exists or not brokers:
            continue
        few, insync = f"to {brokers}: {target} has no more brokers.", here.own_min_in_sync or 1
        if here.replication > brokers:
            text = f"Its replication factor is lowered from {here.replication} {few}"
            yield info("fewer-replicas", f"topic {topic}", text)
        if insync > brokers:
            yield info("fewer-in-sync", f"topic {topic}", f"Its min.insync.replicas is lowered from {insync} {few}")


def other_users(case: PreflightCase) -> Verdicts:
    """Users outside of the scope whose topics move."""
    moving = (other for other in case.closure.other_users if other.name in case.moves.topics)
    for topic, users in grouped((other.name, f"{other.who} (since {other.since})") for other in moving).items():
        text = f"Topic {topic} is also used by {listed(users)}, outside of the scope."
        if case.request.include_other_users:
            yield info("other-users", f"topic {topic}", f"{text} They move too.")
        else:
            way = "Add them to the scope, or take them along: --include-other-users."
            yield error("other-users", f"topic {topic}", text, way)


def in_sync(case: PreflightCase) -> Verdicts:
    """With too few replicas in sync, producers with acks=all are refused, and readers see no new records."""
    target = case.request.target
    for name in case.moves.topics:
        there, about = case.facts.topic(target, name), f"topic {name}"
        if there is None or not there.exists:
            continue
        few = {p: replicas for p, replicas in there.replicas.items() if replicas.in_sync < there.min_in_sync}
        lagging = {
            p: replicas
            for p, replicas in there.replicas.items()
            if replicas.in_sync < replicas.assigned and p not in few
        }
        if few:
            which = listed(f"partition {p} has {replicas.in_sync}" for p, replicas in sorted(few.items()))
            yield (error if case.request.mode == "planned" else warning)(
                "not-in-sync",
                about,
                f"Topic {name} demands {there.min_in_sync} replicas in sync in {target}, and {which}: producers with "
                "acks=all would be refused there.",
                f"Bring the brokers of {target} up and let the replicas catch up.",
                number=len(few),
                unit="partitions",
            )
        if lagging:
            which = listed(
                f"partition {p} {replicas.in_sync} of {replicas.assigned}" for p, replicas in sorted(lagging.items())
            )
            yield warning(
                "under-replicated",
                about,
                f"Not all replicas of topic {name} are in sync in {target}: {which}.",
                f"Let the brokers of {target} catch up, if the move can wait.",
                number=len(lagging),
                unit="partitions",
            )
