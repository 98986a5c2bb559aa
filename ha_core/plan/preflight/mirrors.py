"""Pre-flight of moves to copies: whether a mirrored topic may move there, the copy's lag, and missing records."""

from collections.abc import Iterator, Mapping

from ha_core.model import LostTail, MoveRequest, View
from ha_core.model.extent import Extents, identity
from ha_core.model.mirror import begins_at, copied_between
from ha_core.model.topic import client_end
from ha_core.plan.facts.clusters import CopyFacts, Partition
from ha_core.plan.facts.verdict import Unit, Verdict, Verdicts, amount, duration, error, info, listed, warning
from ha_core.plan.mirror.held_copies import MAX_EXTENTS_AT_ONCE, client_offset, fitting, left_to_origin
from ha_core.plan.mirror.mirrored_topics import is_chained
from ha_core.plan.mirror.standby import copied_extents, switched
from ha_core.plan.preflight.case import PreflightCase
from ha_core.plan.preflight.copy_lag import UNREPORTED, CopyLagBound, by_notes, lag_bound


def mirrored(case: PreflightCase) -> Verdicts:
    """A topic with a mirror moves only to its copy; otherwise copiers would copy a source that gets no more records."""
    request = case.request
    for mirror in case.view.mirrors.values():
        name = mirror.topic
        if name not in case.moves.topics or case.to_copies.get(name) is mirror:
            continue
        if name in case.to_copies or is_chained(case.view, mirror):
            continue  # see `further_mirrors`; and a mirror of a copy follows that
        about, end = f"topic {name}", f"`switchyard mirror unlink {name} --to {mirror.target}`"
        since = f"Topic {name} of {mirror.source} is mirrored to {mirror.target}, since {mirror.since}"
        if (mirror.source, mirror.target) != (request.origin, request.target):
            what, way = "can be moved there, to its copy, and nowhere else", f"Move it to {mirror.target}"
        elif name in request.scope.partitions:
            what, way = "goes to its copy as a whole", f"Move topic {name} as a whole"
        else:
            what, way = "goes to its copy under a fence", f"Use `switchyard switch topic:{name}`, or --cut barrier"
        yield error("mirrored", about, f"{since}: it {what}.", f"{way}, or end the mirror first: {end}.")


def to_copies(case: PreflightCase) -> Verdicts:
    """Verdicts on topics whose copies become their logs."""
    target = case.request.target
    for name in sorted(case.to_copies):
        about, there = f"topic {name}", case.facts.topic(target, name)
        if there is not None and not there.exists:
            yield error(
                "deleted-in-target",
                about,
                f"Topic {name} is mirrored to {target}, and its copy there was deleted.",
                f"`switchyard mirror unlink {name} --to {target}`; then it moves like a topic without a mirror.",
            )
        elif wholly_unbegun(case, name):
            continue  # see `not_begun`
        elif case.request.mode == "forced":
            yield _behind(case, name)
        else:
            yield _to_level(case, name)


def _to_level(case: PreflightCase, name: str) -> Verdict:
    """Records that a planned switch copies first, as far as reported."""
    about, mirror = f"topic {name}", case.to_copies[name]
    bound, text = lag_bound(case, mirror), f"Topic {name} goes to its copy in {mirror.target}"
    if bound.unknown:
        records, noted = by_notes(case, name)
        text += f"{_how_far(bound)}{noted}: the switch copies missing records before clients wait."
        way = "Start the mirror job first, if much may be missing."
        return _unknown(case, about, text, way, records, bound)
    text += f", which lacked {bound.lacked}."
    way = f"Nothing. Missing records are copied first; afterwards {mirror.source} has the copy."
    return info("goes-to-copy", about, text, way, number=bound.records, unit="records")


def _behind(case: PreflightCase, name: str) -> Verdict:
    """Records that a forced switch loses, as far as reported."""
    origin, target = case.request.origin, case.request.target
    about, text = f"topic {name}", f"Topic {name} continues at its copy in {target}"
    way = f"Nothing. Records beyond it stay in {origin}: `switchyard mirror reconcile {origin}` counts them later."
    bound = lag_bound(case, case.to_copies[name])
    if bound.unknown:
        records, noted = by_notes(case, name)
        lost = _lost(origin, records) if noted else f"what {origin} acknowledged beyond it is lost"
        text = f"{text}{_how_far(bound)}{noted}: {lost} for readers."
        return _unknown(case, about, text, way, records, bound)
    text = f"{text}, which lacked {bound.lacked}; {_lost(origin, bound.records)}."
    level = warning if bound.records else info
    return level("goes-to-copy", about, text, way, number=bound.records, unit="records")


def _lost(origin: str, records: int | None) -> str:
    """:param records: that the copy lacked; 0, None: none are known."""
    return f"that, and what {origin} got since, is lost" if records else f"what {origin} got since is lost"


def _how_far(bound: CopyLagBound) -> str:
    if not bound.reported:
        why = {why for why in bound.unknown.values() if why != UNREPORTED}
        return ". No copier reports its lag" if not why else f". Its lag is unknown ({listed(why)})"
    return f", which lacked {bound.lacked}; {bound.unknown_words}"


def _unknown(case: PreflightCase, about: str, text: str, way: str, records: int | None, bound: CopyLagBound) -> Verdict:
    """An unknown lag: an error if the operator has set a bound, else a warning."""
    request = case.request
    records = None if records is None else max(records, bound.records)
    unit: Unit = "" if records is None else "records"
    if not _bounded(request):
        return warning("copy-unknown", about, text, way, number=records, unit=unit)
    start = "Start the mirror job" if UNREPORTED in bound.unknown.values() else "Resolve the given reason"
    way = f"{start}, or leave out --refuse-lag-records and --refuse-lag-ms."
    return error("copy-unknown", about, text, way, number=records, unit=unit)


def _bounded(request: MoveRequest) -> bool:
    """Whether the operator has set a bound above which a copy's lag refuses the switch."""
    return request.refuse_lag_records is not None or request.refuse_lag_ms is not None


def lagging(case: PreflightCase) -> Verdicts:
    """Copies whose lag exceeds the operator's bounds."""
    request = case.request
    for name, mirror in sorted(case.to_copies.items()):
        copy_lag_bound = lag_bound(case, mirror)
        if not copy_lag_bound.reported:
            continue
        bounds: tuple[tuple[Unit, int | None, int | None, int], ...] = (
            ("records", copy_lag_bound.records, request.refuse_lag_records, request.warn_lag_records),
            ("ms", copy_lag_bound.ms, request.refuse_lag_ms, request.warn_lag_ms),
        )
        for unit, lag, refuse_above, much in bounds:
            refused = refuse_above is not None and (lag is None or lag > refuse_above)
            if not refused and lag is not None and lag <= much:
                continue
            bound = f"--{'refuse' if refused else 'warn'}-lag-{unit} {refuse_above if refused else much}"
            text = (
                f"The copy of topic {name} in {mirror.target} lagged by {lag:,} {unit}"
                if lag is not None
                else (
                    f"The copy of topic {name} in {mirror.target} lacked "
                    f"{amount(copy_lag_bound.records, 'record')} of unknown age"
                )
            )
            yield (error if refused else warning)(
                "copy-lags",
                f"topic {name}",
                f"{text} as of {duration(copy_lag_bound.age_s)} ago, {'and' if lag is None else 'more than'} {bound} "
                f"{'requires it' if lag is None else 'allows'}.",
                "Let it catch up (`switchyard mirrors`), or give a higher bound.",
                number=lag,
                unit=unit if lag is not None else "",
            )


def standing_still(case: PreflightCase) -> Verdicts:
    """Copies that are not copied: a planned switch could not catch up, a forced one goes on without them."""
    for name, mirror in sorted(case.to_copies.items()):
        lags = {partition: lag for (key, partition), lag in sorted(case.lags.items()) if key == mirror.key}
        for state in ("stopped", "waiting"):
            halted = {partition: lag for partition, lag in lags.items() if lag.state == state}
            if not halted:
                continue
            why = listed(f"partition {partition} ({lag.reason or 'no reason'})" for partition, lag in halted.items())
            text = f"The copy of topic {name} in {mirror.target} has {state} partitions: {why}."
            if state == "stopped":
                way = (
                    "Resolve the given reason; `switchyard mirrors` shows it. To do without this copy: `switchyard "
                    f"mirror unlink {name} --to {mirror.target}`."
                )
            elif case.answers(mirror.source):
                way = "Wait until it is copied again (`switchyard mirrors`)."
            else:
                way = f"Nothing, while {mirror.source} does not answer: it is copied again after that is back."
            refuses = state == "stopped" and case.request.mode == "planned"
            level = error if refuses else warning
            yield level("copy-stopped", f"topic {name}", text, way, number=len(halted), unit="partitions")


def not_begun(case: PreflightCase) -> Verdicts:
    """Copies that no copier has begun: a forced switch moves these partitions like those of a topic without a copy."""
    request, origin = case.request, case.request.origin
    for name, mirror in sorted(case.to_copies.items()) if request.mode == "forced" else ():
        partitions = sorted(partition for topic, partition in case.not_begun if topic == name)
        if not partitions:
            continue
        here = case.here(name)
        known = here is not None and here.ends.keys() >= {*partitions}
        records = sum(here.ends[p] - here.starts.get(p, 0) for p in partitions) if here is not None and known else None
        if records == 0:
            continue
        what = "It moves" if wholly_unbegun(case, name) else f"Partitions {listed(map(str, partitions))} of it move"
        has = "all records" if records is None else amount(records, "record")
        text = f"No copier has begun the copy of topic {name} in {mirror.target}. {what} as without a copy: readers "
        if request.unread == "wait":
            text += f"below the cut wait for {origin}, which has {has} of it that the copy lacks."
            way = (
                f"Nothing, if {origin} comes back. `switchyard origins give-up {origin}` ends the wait, and loses them."
            )
        else:
            text += f"skip {has} that {origin} has."
            way = f"--unread wait lets readers below the cut wait for {origin}."
        if _bounded(request):
            way = "Leave out --refuse-lag-records and --refuse-lag-ms."
        unit: Unit = "" if records is None else "records"
        yield (error if _bounded(request) else warning)(
            "copy-empty", f"topic {name}", text, way, number=records, unit=unit
        )


def wholly_unbegun(case: PreflightCase, name: str) -> bool:
    """Whether a forced switch goes on without the copy, because no copier has begun any of its partitions."""
    noted = {key for key in case.noted if key[0] == name}
    return case.request.mode == "forced" and bool(noted) and noted <= {*case.not_begun}


def begins_later(case: PreflightCase) -> Verdicts:
    """Records that copies have deleted and the origin has not. The source's log start decides: by its own log start a
    copy is always complete, even after its retention has deleted records."""
    origin, target = case.request.origin, case.request.target
    for name in sorted(case.to_copies):
        there = case.facts.topic(target, name)
        deleted = {(name, p) for p, start in (there.starts.items() if there is not None else ()) if start}
        unknown = (deleted - case.noted.keys()) | (deleted.intersection(case.later) - case.copies.keys())
        gone = sum(_gone(case, key, case.copies[key]) for key in deleted & case.copies.keys())
        if not gone and not unknown:
            continue
        prefix, has = ("", "still has") if case.request.mode == "planned" else ("at most ", "had")
        text = (
            f"The copy of topic {name} in {target} begins later than its source: {prefix}"
            f"{amount(gone, 'record', 'was', 'were')} deleted there that {origin} {has}"
            if gone
            else f"The copy of topic {name} in {target} has deleted records; how many of them {origin} still has is "
            "unknown"
        )
        yield _read_in_origin(case, name, text, gone or None)


def _read_in_origin(case: PreflightCase, name: str, text: str, gone: int | None) -> Verdict:
    request, origin = case.request, case.request.origin
    if request.mode == "planned":
        text += f". After the switch readers get them from {origin}."
        way = (
            f"Keep {origin} until they have aged (`switchyard age {name}`). For a complete copy, give the topic the "
            f"retention of its source in {request.target}, `switchyard mirror unlink {name} --to {request.target}`, "
            "delete the copy, and link it again."
        )
    elif request.unread == "skip":
        text += ". Readers skip them."
        way = f"Nothing, if no reader needs them. --unread wait keeps readers below them until {origin} is back."
    else:
        text += f". They cannot be read before {origin} is back."
        way = f"Nothing, if {origin} comes back; giving it up would lose them for readers."
    return warning("copy-begins-later", f"topic {name}", text, way, number=gone, unit="" if gone is None else "records")


def _gone(case: PreflightCase, key: Partition, copy: CopyFacts) -> int:
    """Records that a copy has deleted and its source is known to have."""
    begins = begins_at(copy.runs, case.log_start(case.request.target, key))
    return copied_between(copy.runs, case.log_start(case.request.origin, key), begins)


def no_room_in_map(case: PreflightCase) -> Verdicts:
    """Records of copies that the map has no room for: readers get them only from their source."""
    origin, target = case.request.origin, case.request.target
    max_extents = fitting(case.copies, MAX_EXTENTS_AT_ONCE)
    for name in sorted(case.to_copies):
        left = sum(_left(case, key, copy, max_extents) for key, copy in case.copies.items() if key[0] == name)
        if not left:
            continue
        text = (
            f"The copy of topic {name} in {target} has more gaps than the map of a switch holds (runs per "
            f"partition: {max_extents:,}): its oldest records ({left:,}) are read from {origin} after the switch, not "
            "from the copy"
        )
        if case.request.mode == "planned":
            text, way = f"{text}.", f"Keep {origin} until they have aged (`switchyard age {name}`)."
        else:
            text = f"{text}, and cannot be read before that is back."
            way = f"Nothing, if {origin} comes back; giving it up would lose them for readers."
        yield warning("no-room-in-map", f"topic {name}", text, way, number=left, unit="records")


def _left(case: PreflightCase, key: Partition, copy: CopyFacts, max_extents: int) -> int:
    """Records of the copy that a map of `max_extents` of its extents leaves to the origin."""
    request, before = case.request, _extents(case.view, case.request.origin, key)
    if len(copied_extents(before, request.origin, request.target, copy.runs, max_extents + 1)) <= max_extents:
        return 0
    at, base = client_offset(before, request.origin, copy.mirrored), copy.runs[-1].target + copy.runs[-1].records
    after = switched(before, request.origin, request.target, copy.runs, at, base, max_extents, whole=copy.whole)
    return left_to_origin(after, request.origin, copy.runs).no_room


def _extents(view: View, origin: str, key: Partition) -> Extents:
    topic = view.mapped(key[0])
    return identity(origin) if topic is None else topic.extents(key[1])


def tails_in_copies(case: PreflightCase) -> Verdicts:
    """Copies of compacted topics with records that were never mirrored, from when their cluster was the writer: see
    `mirror/reversing`. Such a log does not become a copy, but a topic may be compacted later."""
    for tail in case.tails_in_copies:
        still = dict(_still_there(case, tail))
        if not still:
            continue
        name, cluster = tail.topic, tail.cluster
        where = listed(f"partition {partition} {records:,}" for partition, records in sorted(still.items()))
        yield (error if case.request.mode == "planned" else warning)(
            "tail-in-copy",
            f"topic {name}",
            f"Topic {name} is compacted, and its copy in {cluster} has records that were never mirrored, from before "
            f"operation {tail.operation}: {where}. Because of them {cluster} compacts mirrored records with their "
            "keys, which readers would miss there.",
            f"Fetch those that you need (`switchyard mirror reconcile {cluster} --dry-run` shows how), `switchyard "
            f"mirror unlink {name} --to {cluster}`, delete the topic there, and link it again.",
            number=sum(still.values()),
            unit="records",
        )


def _still_there(case: PreflightCase, tail: LostTail) -> Iterator[tuple[int, int]]:
    """(partition, records), unless copied records are in their place: then the topic was created again."""
    there = case.facts.topic(tail.cluster, tail.topic)
    for partition, part in tail.partitions.items():
        copy = case.copies.get((tail.topic, partition))
        runs = () if copy is None else copy.runs
        end = None if there is None else there.ends.get(partition)
        if not part.records or part.start is None or part.end is None or (end is not None and end <= part.start):
            continue
        if not any(run.target < part.end and part.start < run.target + run.records for run in runs):
            yield partition, part.records


def beyond_copies(case: PreflightCase) -> Verdicts:
    """Groups that have read records in the dead origin that no copy has: they continue at the cut."""
    request = case.request
    if request.mode == "planned":
        return  # all records are copied before the groups' offsets
    for group in case.moves.groups:
        group_facts = case.facts.group(request.origin, group)
        beyond = dict(_beyond(case, group_facts.offsets)) if group_facts is not None else {}
        if beyond:
            where = listed(f"{topic}-{partition} by {n:,}" for (topic, partition), n in sorted(beyond.items()))
            yield warning(
                "beyond-copy",
                f"group {group}",
                f"Group {group} has committed offsets beyond what the copies in {request.target} had when that was "
                f"reported: {where}. It has read records that no other group will get.",
                f"Nothing, if that is acceptable: it continues at the cut. These records can be fetched from "
                f"{request.origin} when that is back: `switchyard mirror reconcile {request.origin}`.",
                number=sum(beyond.values()),
                unit="offsets",
            )


def _beyond(case: PreflightCase, offsets: Mapping[Partition, int]) -> Iterator[tuple[Partition, int]]:
    for (topic, partition), committed in offsets.items():
        mirror = case.to_copies.get(topic)
        lag = None if mirror is None else case.lags.get((mirror.key, partition))
        if lag is not None and lag.reached is not None:
            end = client_end(case.view.mapped(topic), partition, lag.reached)
            if committed > end:
                yield (topic, partition), committed - end


def not_brought_over(case: PreflightCase) -> Verdicts:
    """Differences of the target to the origin other than records, from the last sync."""
    request = case.request
    moving = {f"group {name}" for name in case.moves.groups} | {f"topic {name}" for name in case.to_copies}
    for finding in case.findings if case.to_copies else ():
        if finding.about not in moving:
            continue
        text = f"Not in {request.target} as in {request.origin} ({finding.what}): {finding.reason.rstrip('.')}."
        if finding.what == "offsets" and request.mode == "planned":
            yield info("not-brought-over", finding.about, text, "Nothing: the switch copies offsets under its fence.")
        elif finding.what == "offsets":
            way = "It continues at its last recorded commits in the origin, which `switchyard group` shows."
            yield warning("not-brought-over", finding.about, text, way)
        else:
            yield warning("not-brought-over", finding.about, text, "`switchyard mirror sync` tries again at once.")
