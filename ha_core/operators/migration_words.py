"""What a migration says to people: lines for the task's log, a table for the one who approves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ha_core.model import Operation
from ha_core.operations.migration.planning import MigrationProposal
from ha_core.operators.words import MAX_ROWS, amount, markdown_table, objections
from ha_core.plan.verdict import listed

_MARKS = {"error": "✗", "warning": "!", "info": "·"}


def migration_lines(proposal: MigrationProposal) -> Iterator[str]:
    """Batches, every partition's end, rate and cut, the cost, and the verdicts with their remedies."""
    yield proposal.title
    for batch in proposal.batches:
        names = batch.moves.topics
        yield f"batch {batch.number}: {len(names)} topics with a {batch.request.cut} cut, {names[0]} to {names[-1]}"
    if proposal.partitions:
        yield f"rates: {proposal.rates_from}"
    for part in proposal.partitions:
        source = f" ({part.rate_from})" if part.rate_from else ""
        yield (
            f"  {part.topic}-{part.partition} ends at {part.end}, {part.rate_per_s:.1f} records/s at most{source}: "
            f"cut {part.cut}, reached {part.reached}"
        )
    if proposal.doubled:
        yield f"written to both clusters: {proposal.cost}"
    yield _groups(proposal)
    for one in proposal.followers:
        more = f", and {listed(one.reads_too)} too" if one.reads_too else ""
        yield f"  group {one.group} of {listed(one.users)}, {one.members} members, reads {listed(one.reads)}{more}"
    for name, why in sorted(proposal.left_out.items()):
        yield f"  {name} is left out: {why}"
    for v in proposal.verdicts:
        yield f"{_MARKS[v.level]} {v.level}: {v.about}: {v.text} {v.remedy}".rstrip()


def migration_table(proposal: MigrationProposal) -> str:
    """The same as markdown, bounded."""
    parts = [f"**{proposal.title}**", f"Reason: {proposal.reason}"]
    if proposal.partitions:
        rows = [
            (p.topic, str(p.partition), str(p.end), f"{p.rate_per_s:.1f}", p.rate_from, str(p.cut), p.reached)
            for p in proposal.partitions[:MAX_ROWS]
        ]
        parts.append(
            markdown_table(("topic", "partition", "end", "records/s at most", "rate from", "cut", "reached"), rows)
        )
        parts.append(f"Rates: {proposal.rates_from}. Written to both clusters: {proposal.cost}.")
    barrier = [name for batch in proposal.batches if batch.request.cut == "barrier" for name in batch.moves.topics]
    if barrier:
        parts.append(f"Behind a fence of some milliseconds: {len(barrier)} topics.")
    parts.append(f"{_groups(proposal)}.")
    if proposal.followers:
        groups = (
            (one.group, str(one.members), listed(one.users), listed(one.reads), listed(one.reads_too))
            for one in proposal.followers[:MAX_ROWS]
        )
        parts.append(markdown_table(("group", "members", "users", "reads", "reads too"), groups))
    if proposal.verdicts:
        verdicts = ((v.level, v.about, v.text, v.remedy) for v in proposal.verdicts[:MAX_ROWS])
        parts.append(markdown_table(("verdict", "about", "", "remedy"), verdicts))
    return "\n\n".join(parts)


def migration_would(proposal: MigrationProposal) -> str:
    """The first line of what a dry run has found out."""
    what = amount(proposal.topics, [one.group for one in proposal.followers])
    return f"would move {what} from {proposal.origin} to {proposal.target}, {_cuts(proposal)}"


def migration_preview(proposal: MigrationProposal) -> dict[str, Any]:
    """What stands below that line."""
    created = [f"{name} with {count} partitions" for name, count in proposal.creates.items()]
    cost = [f"created in the target: {listed(created) or 'nothing'}"]
    if proposal.partitions:
        slowest = max((_seconds(p.cut - p.end, p.rate_per_s) for p in proposal.partitions), default=0.0)
        when = (
            f"within {slowest:,.0f} s" if slowest < float("inf") else "when each of them is written to; some are idle"
        )
        total = sum(p.rate_per_s for p in proposal.partitions)
        cost.append(f"rate: {total:.1f} records/s ({proposal.rates_from}); the cuts are reached {when}")
        cost.append(f"written to both clusters: {proposal.cost}")
    if any(batch.request.cut == "barrier" for batch in proposal.batches) or proposal.followers:
        cost.append(f"expected fence: {proposal.expected_fence}")
    return {"objections": objections(proposal.verdicts), "cost": cost}


def crossed_words(operations: Sequence[Operation]) -> str:
    """What a run of migrations has done."""
    topics = [name for one in operations if one.moves is not None for name in one.moves.topics]
    request = operations[0].request if operations else None
    way = f" from {request.origin} to {request.target}" if request is not None else ""
    return f"moved {amount(topics, ())}{way} in {len(operations)} operations"


def _cuts(proposal: MigrationProposal) -> str:
    ahead = sum(len(batch.moves.topics) for batch in proposal.batches if batch.request.cut == "predicted")
    fenced = len(proposal.topics) - ahead
    parts = [f"{fenced} behind a fence" if fenced else "", f"{ahead} with cuts ahead" if ahead else ""]
    return ", ".join(part for part in parts if part)


def _seconds(records: int, rate_per_s: float) -> float:
    return records / rate_per_s if rate_per_s > 0 else float("inf")


def _groups(proposal: MigrationProposal) -> str:
    if proposal.groups == "leave":
        return "Groups stay with their coordinators"
    return f"{len(proposal.followers)} groups come along"
