"""Moves and migrations: proposals, results of dry runs, and results of operations."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ha_core.model import HistoryEntry, MoveOperation, MoveRequest
from ha_core.model.scope import format_topic
from ha_core.operations.engine.creating import StartableProposal
from ha_core.operations.engine.report import Report
from ha_core.operations.migration.planning import MigrationBatch, MigrationProposal
from ha_core.operations.move.outcome import CUT_OVER
from ha_core.operations.move.switch_mirrors import compared_words
from ha_core.operations.proposal.proposal import Preview, Proposal
from ha_core.operations.running.whole_cluster import ClusterProposal
from ha_core.plan.facts.verdict import Level, Verdict, amount, listed
from ha_core.present.page import MAX_ROWS, Mark, Marked, Page, Table

OVER_A_HOLE = (
    "running consumers skip them in one step; to move a stopped group over one: kafka-consumer-groups.sh "
    "--bootstrap-server GATEWAY --group GROUP --topic TOPIC:PARTITION --reset-offsets --to-offset BELOW --execute"
)
_MARKS: dict[Level, Mark] = {"error": "error", "warning": "warning", "info": "dim"}


def startable_page(proposal: StartableProposal) -> Page:
    """For kinds without a page of their own."""
    yield Marked(proposal.title, "strong")
    yield f"reason: {proposal.request.reason}"
    if proposal.moves.topics:
        yield Table((proposal.THINGS,), [(name,) for name in proposal.moves.topics], line="{}".format)
    yield from verdicts_page(proposal.verdicts)


def proposal_page(proposal: Proposal) -> Page:
    yield Marked(proposal.title, "strong")
    yield from (Marked(line, "strong") for line in _would_take_for_dead(proposal))
    yield f"reason: {proposal.request.reason}"
    if proposal.moves.reasons:
        rows = [(key.replace(":", " ", 1), why) for key, why in sorted(proposal.moves.reasons.items())]
        yield Table(("moves", "because"), rows, line="{}, because {}".format)
    else:
        yield "no topic and no group moves"
    if proposal.other_users:
        other_users = [(topic, ", ".join(users)) for topic, users in sorted(proposal.other_users.items())]
        yield Table(("topic", "also used by"), other_users, title="used outside of the scope")
    if proposal.preview is not None:
        yield from preview_lines(proposal.preview)
    yield from verdicts_page(proposal.verdicts)


def cluster_page(proposal: ClusterProposal) -> Page:
    yield Marked(proposal.title, "strong")
    yield f"reason: {proposal.reason}"
    if proposal.batches:
        rows = [
            (b.number, len(b.request.scope.named_users), len(b.moves.topics), len(b.moves.groups), _scope(b))
            for b in proposal.batches
        ]
        yield Table(("operation", "users", "topics", "groups", "which"), rows, max_rows=MAX_ROWS)
        yield f"expected fence of each: {proposal.expected_fence}"
    yield from verdicts_page(proposal.verdicts)


def _scope(batch: MigrationBatch) -> str:
    return listed(batch.request.scope.entries)


def would_move_cluster(proposal: ClusterProposal) -> str:
    """The first line of a dry run's result."""
    topics = sum(len(batch.moves.topics) for batch in proposal.batches)
    groups = sum(len(batch.moves.groups) for batch in proposal.batches)
    what = (
        f"would move {_things(topics, groups)} from {proposal.origin} to {proposal.target}, in "
        f"{amount(len(proposal.batches), 'operation')}"
    )
    lacked = _lacked(proposal.verdicts) if proposal.mode == "forced" else ""
    dead = f"{proposal.origin} is taken for dead" if lacked else ""
    return "; ".join(filter(None, (what, dead, lacked)))


def migration_page(proposal: MigrationProposal) -> Page:
    yield Marked(proposal.title, "strong")
    yield f"reason: {proposal.reason}"
    if proposal.batches:
        batches = [(b.number, b.moves.topics, b.request.cut) for b in proposal.batches if b.moves.topics]
        which = [(number, len(names), cut, f"{names[0]} to {names[-1]}") for number, names, cut in batches]
        yield Table(("batch", "topics", "cut", "which"), which)
    if proposal.partitions:
        planned = proposal.partitions
        rows = [(p.topic, p.partition, p.end, f"{p.rate_per_s:.1f}", p.rate_from, p.cut, p.reached) for p in planned]
        columns = ("topic", "partition", "end", "records/s at most", "rate from", "cut", "reached")
        yield Table(columns, rows, title=f"predicted cuts; rates: {proposal.rates_from}", max_rows=MAX_ROWS)
    if proposal.batches:
        yield from _migration_cost(proposal)
    yield _groups_come_along(proposal)
    if proposal.dependents:
        along = proposal.dependents
        groups = [(g.group, g.members, listed(g.users), listed(g.reads), listed(g.reads_too)) for g in along]
        yield Table(("group", "members", "users", "reads", "reads too"), groups, max_rows=MAX_ROWS)
    if proposal.left_out:
        yield Table(("left out", "because"), sorted(proposal.left_out.items()), line="{} is left out: {}".format)
    yield from verdicts_page(proposal.verdicts)


def verdicts_page(verdicts: Collection[Verdict]) -> Page:
    """All of them; a line says so if there are none, so that a missing check is not taken for none."""
    if not verdicts:
        yield "objections: none"
        return
    rows = [(Marked(v.level, _MARKS[v.level]), v.code, v.about, v.amount, v.text, v.remedy) for v in verdicts]
    yield Table(("verdict", "code", "about", "how much", "", "remedy"), rows, line="{0}: {2}: {4} {5} ({1})".format)


def report_page(report: Report) -> Page:
    if report.error:
        yield Marked(report.error, "error")
    if report.verdicts:
        yield from verdicts_page(report.verdicts)
    if report.steps:
        yield Table(("step", "ms"), [(s.name, f"{s.ms:.1f}") for s in report.steps], line="{} {} ms".format)
    if report.partitions:
        rows = [(p.topic, p.partition, p.cut, p.origin, p.target) for p in report.partitions]
        line = "{0}-{1} is written in {4} from offset {2} on".format
        yield Table(("topic", "partition", "cut", "from", "to"), rows, line=line)
    if holes := [(p.topic, p.partition, f"{p.hole:,}", p.cut) for p in report.partitions if p.hole]:
        text = "{0}-{1} has no record at the {2} offsets below {3}"
        columns = ("topic", "partition", "offsets without a record", "below")
        yield Table(columns, holes, line=text.format, title=f"holes below the cut; {OVER_A_HOLE}", max_rows=MAX_ROWS)
    if (copies := report.compared) is not None:
        yield (
            f"copies compared with their sources before ({copies.verify}): {amount(copies.records, 'record')} in "
            f"{copies.ranges:,} of {copies.of_ranges:,} ranges, all equal"
        )
    if report.stayed:
        yield Table(("stayed", "why its copy is damaged"), sorted(report.stayed.items()), line="{} stayed: {}".format)
    if report.kept_out:
        ended = sorted(report.kept_out.items())
        yield Table(("mirror", "why it has ended"), ended, line="the mirror {} has ended: {}".format)
    yield result_line(report)


def batches_page(reports: Sequence[Report], groups: Mapping[str, str]) -> Page:
    """:param groups: operation → the result for its groups."""
    rows = [
        (report.operation, report.result, report.revision, report.error or groups.get(report.operation, ""))
        for report in reports
    ]
    yield Table(("operation", "result", "revision", ""), rows)
    if any(report.result == "crossing" for report in reports):
        yield (
            "They cross over by themselves. `switchyard migrations` shows their progress; `switchyard settle`, the "
            "scheduled DAG settle_migrations or --wait ends them."
        )


def single_page(report: Report) -> Page:
    yield result_line(report)
    if report.error:
        yield Marked(report.error, "error")


def result_line(report: Report) -> str:
    served = f", revision {report.revision}" if report.revision else ""
    return f"{report.operation}: {report.result}{served}"


def preview_lines(preview: Preview) -> Iterator[str]:
    yield _created(preview.creates)
    known_lags = {group: lag for group, lag in preview.lag_records.items() if lag is not None}
    if known_lags:
        furthest = sorted(known_lags, key=lambda group: -known_lags[group])
        lags = (f"{group} {amount(known_lags[group], 'record')}" for group in furthest)
        yield f"lag of its groups: {listed(lags)}"
    rate = "unknown" if preview.records_per_s is None else f"{preview.records_per_s:.1f} records/s"
    yield f"rate: {rate} ({preview.rate_from})"
    yield f"expected fence: {preview.expected_fence}"


def would_move(proposal: Proposal) -> str:
    """The first line of a dry run's result."""
    request, moves = proposal.request, proposal.moves
    what = _things(len(moves.topics), len(moves.groups))
    return "; ".join([f"would move {what} from {request.origin} to {request.target}", *_would_take_for_dead(proposal)])


def move_preview(proposal: Proposal) -> dict[str, Any]:
    cost = [*preview_lines(proposal.preview)] if proposal.preview is not None else []
    return {"objections": objections(proposal.verdicts), "cost": cost}


def would_migrate(proposal: MigrationProposal) -> str:
    """The first line of a dry run's result."""
    ahead = sum(len(batch.moves.topics) for batch in proposal.batches if batch.request.cut == "predicted")
    fenced = len(proposal.topics) - ahead
    cuts = [f"{fenced} under a fence" if fenced else "", f"{ahead} with cuts ahead" if ahead else ""]
    what = _things(len(proposal.topics), len(proposal.dependents))
    return f"would move {what} from {proposal.origin} to {proposal.target}, {', '.join(filter(None, cuts))}"


def migration_preview(proposal: MigrationProposal) -> dict[str, Any]:
    return {"objections": objections(proposal.verdicts), "cost": [*_migration_cost(proposal)]}


def objections(verdicts: Collection[Verdict]) -> list[str]:
    """All of them, bounded; `none` if there are none."""
    found = [f"{v.level}: {v.words}" for v in verdicts]
    more = [f"… and {len(found) - MAX_ROWS} more"] if len(found) > MAX_ROWS else []
    return [*found[:MAX_ROWS], *more] or ["none"]


def moved(operation: MoveOperation, history: Iterable[HistoryEntry]) -> str:
    request, moves = operation.request, operation.moves
    waited = _fenced_ms(history)
    topics = len(moves.topics) - len(operation.evidence.stayed)
    what = f"moved {_things(topics, len(moves.groups))} from {request.origin} to {request.target}"
    fence = "" if waited is None else f"clients waited {waited:.1f} ms under its fence"
    dead = f"{request.origin} is taken for dead" if request.mode == "forced" else ""
    if dead and len(operation.evidence.went_to_copies) < topics:  # else the result says that they continue at copies
        dead = _taken_for_dead(request, topics, len(operation.evidence.went_to_copies))[0]
    # There is little room for it beside a task: required actions come first, the id for looking it up last.
    return "; ".join(filter(None, (what, fence, dead, _left_to_do(operation), f"operation {operation.id}")))


def _left_to_do(operation: MoveOperation) -> str:
    """Its result, without what is usual; the run's result has the comparison below its first line."""
    text = operation.result
    for words in (CUT_OVER, compared_words(operation)):
        text = text.removeprefix(words).removeprefix("; ")
    return text


def moved_in_parts(operations: Sequence[MoveOperation], histories: Sequence[Iterable[HistoryEntry]]) -> str:
    """The first line of the result of a whole cluster's switch.

    :param histories: of the operations, in their order.
    """
    request = operations[0].request
    topics = sum(len(operation.moves.topics) - len(operation.evidence.stayed) for operation in operations)
    groups = sum(len(operation.moves.groups) for operation in operations)
    route = f"from {request.origin} to {request.target} in {amount(len(operations), 'operation')}"
    waited = [ms for history in histories if (ms := _fenced_ms(history)) is not None]
    fence = f"clients waited {max(waited):.1f} ms at most under a fence" if waited else ""
    dead = f"{request.origin} is taken for dead" if request.mode == "forced" else ""
    left = dict.fromkeys(filter(None, map(_left_to_do, operations)))
    return "; ".join(filter(None, (f"moved {_things(topics, groups)} {route}", fence, dead, *left)))


def stays_moved(operations: Sequence[MoveOperation]) -> str:
    """The parts of a whole cluster that have moved before one of them failed."""
    topics = sum(len(operation.moves.topics) - len(operation.evidence.stayed) for operation in operations)
    groups = sum(len(operation.moves.groups) for operation in operations)
    target = operations[0].request.target
    parts = amount(len(operations), "part", f"is in {target} and stays there", f"are in {target} and stay there")
    return f"{parts}: {_things(topics, groups)}"


def _fenced_ms(history: Iterable[HistoryEntry]) -> float | None:
    """How long its clients waited; None: unknown."""
    return next((entry.detail["fenced_ms"] for entry in history if "fenced_ms" in entry.detail), None)


def crossed(operations: Sequence[MoveOperation]) -> str:
    topics = sum(len(operation.moved) for operation in operations)
    way = f" from {operations[0].request.origin} to {operations[0].request.target}" if operations else ""
    return f"moved {_things(topics, 0)}{way} in {amount(len(operations), 'operation')}"


def _things(topics: int, groups: int) -> str:
    counts = [(topics, "topic"), (groups, "group")]
    return " and ".join(amount(count, thing) for count, thing in counts if count) or "bindings only"


def _would_take_for_dead(proposal: Proposal) -> list[str]:
    if proposal.refused:  # copies were not looked at, and nothing would be done
        return []
    to_copies = {verdict.about for verdict in proposal.verdicts if verdict.code in _TO_COPIES}
    dead = _taken_for_dead(proposal.request, len(proposal.moves.topics), len(to_copies))
    lacked = _lacked(proposal.verdicts) if dead else ""
    return [*dead, *([lacked] if lacked else [])]


def _lacked(verdicts: Iterable[Verdict]) -> str:
    """The records that a dead origin takes with it because copies lack them; empty: no topic goes to a copy."""
    found = [verdict for verdict in verdicts if verdict.code in _TO_COPIES]
    unknown = sum(verdict.code == "copy-unknown" or verdict.number is None for verdict in found)
    records = sum(verdict.number or 0 for verdict in found)
    if unknown == len(found) and not records:
        return "how many of its records copies lack is not known" if found else ""
    rest = f", and for {amount(unknown, 'topic')} it is not known" if unknown else ""
    return f"copies lack {amount(records, 'record')} of it, as far as is known{rest}"


_TO_COPIES = frozenset({"goes-to-copy", "copy-unknown"})
"""Codes of verdicts about topics that go to their copies."""


def _taken_for_dead(request: MoveRequest, topics: int, to_copies: int) -> list[str]:
    """The effect of a forced move on readers: operators who approve or find it have to see that at once. Readers of a
    copy do not wait, and records that were not copied are lost for them."""
    if request.mode != "forced":
        return []
    unread = "skip its records that they have not read" if request.unread == "skip" else "wait for its records"
    readers = []
    if to_copies:
        which = "" if to_copies >= topics else f" of {amount(to_copies, 'topic')}"
        readers.append(f"readers{which} continue at copies, without the records that these lack")
    if not to_copies or to_copies < topics:
        readers.append(f"readers of the others {unread}" if to_copies else f"readers {unread}")
    leave = [_DAMAGED[request.damaged_copies]] if request.damaged_copies in _DAMAGED else []
    named = [format_topic(name, some) for name, some in request.scope.partitions.items()]
    alone = named and set(request.scope.topics) == request.scope.partitions.keys()
    dead = f"{request.origin} is taken for dead" + (f" in {listed(named)}" if alone else "")
    return [f"{dead}, and {', and '.join(readers)}", *leave]


_DAMAGED = {
    "leave": "topics whose copies are damaged stay there",
    "good-part": "topics whose copies are damaged continue at the good part of these",
}


def _created(creates: dict[str, int]) -> str:
    made = listed(f"{name} with {amount(count, 'partition')}" for name, count in creates.items())
    return f"created in the target: {made or 'nothing'}"


def _migration_cost(proposal: MigrationProposal) -> Iterator[str]:
    yield _created(proposal.creates)
    if proposal.partitions:
        when = "the cuts are reached when each of them is written to; some are idle"
        if all(p.rate_per_s > 0 for p in proposal.partitions):
            earliest_s = max((p.cut - p.end) / p.rate_per_s for p in proposal.partitions)
            when = f"at that rate the last cut is reached after {earliest_s:,.0f} s, at the one expected as above"
        total = sum(p.rate_per_s for p in proposal.partitions)
        yield f"rate at most: {total:.1f} records/s ({proposal.rates_from}); {when}"
        yield f"written to both clusters: {proposal.cost}"
    if any(batch.request.cut == "barrier" for batch in proposal.batches) or proposal.dependents:
        yield f"expected fence: {proposal.expected_fence}"


def _groups_come_along(proposal: MigrationProposal) -> str:
    if proposal.groups == "leave":
        return (
            "groups stay with their coordinators, unless --groups is `move`: then those that read the topics come along"
        )
    if not proposal.dependents:
        return "no group comes along"
    at_once = any(batch.moves.groups for batch in proposal.batches)
    when = "in the same revision" if at_once else "under a fence of some milliseconds, when their topics are over"
    count = len(proposal.dependents)
    return f"{amount(count, 'group')} {'comes' if count == 1 else 'come'} along {when}"
