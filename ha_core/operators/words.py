"""What a proposal and a report say to people: lines for the task's log, a table for the one who approves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ha_core.model import HistoryEntry, MoveRequest, Operation
from ha_core.operations.report import Report
from ha_core.operations.switch.proposal import Proposal, preview_lines
from ha_core.plan.verdict import Verdict

MAX_ROWS = 200
"""In the approval's page; the log has them all."""
_MARKS = {"error": "✗", "warning": "!", "info": "·"}


def proposal_lines(proposal: Proposal) -> Iterator[str]:
    """What moves and why, who else uses it, and every verdict with its remedy."""
    yield proposal.title
    yield from _taken_for_dead(proposal.request)
    moves = proposal.moves
    if not moves.topics and not moves.groups:
        yield "no topic and no group moves"
    else:
        yield f"{len(moves.topics)} topics and {len(moves.groups)} groups move:"
    for key, why in sorted(moves.reasons.items()):
        yield f"  {key.replace(':', ' ', 1)}, because {why}"
    for topic, users in sorted(proposal.strangers.items()):
        yield f"  topic {topic} is also used by {', '.join(users)}"
    yield from preview_lines(proposal.preview)
    if not proposal.verdicts:
        yield "objections: none"
    for verdict in proposal.verdicts:
        yield f"{_MARKS[verdict.level]} {verdict.level}: {verdict.about}: {verdict.text} {verdict.remedy}".rstrip()


def proposal_table(proposal: Proposal) -> str:
    """The same as markdown."""
    request = proposal.request
    parts = [f"**{_cell(proposal.title)}**", f"Reason: {_cell(request.reason)}"]
    parts += [f"**{_cell(line)}**" for line in _taken_for_dead(request)]
    reasons = sorted(proposal.moves.reasons.items())
    if reasons:
        parts.append(
            markdown_table(("moves", "because"), ((key.replace(":", " ", 1), why) for key, why in reasons[:MAX_ROWS]))
        )
    if len(reasons) > MAX_ROWS:
        parts.append(f"… and {len(reasons) - MAX_ROWS} more: the log of the task `plan` has them all.")
    if proposal.strangers:
        strangers = sorted(proposal.strangers.items())[:MAX_ROWS]
        parts.append(
            markdown_table(("topic", "also used by"), ((topic, ", ".join(users)) for topic, users in strangers))
        )
    parts += [_cell(line) for line in preview_lines(proposal.preview)]
    if not proposal.verdicts:
        parts.append("Objections: none.")
    else:
        rows = ((v.level, v.about, v.text, v.remedy) for v in proposal.verdicts[:MAX_ROWS])
        parts.append(markdown_table(("verdict", "about", "", "remedy"), rows))
    return "\n\n".join(parts)


def would_words(proposal: Proposal) -> str:
    """The first line of what a dry run has found out."""
    request, moves = proposal.request, proposal.moves
    what = amount(moves.topics, moves.groups)
    return "; ".join([f"would move {what} from {request.origin} to {request.target}", *_taken_for_dead(request)])


def preview_of(proposal: Proposal) -> dict[str, Any]:
    """What stands below that line."""
    return {"objections": objections(proposal.verdicts), "cost": [*preview_lines(proposal.preview)]}


def objections(verdicts: Iterable[Verdict]) -> list[str]:
    """All of them, bounded; `none` where there are none: nobody has to guess whether they were looked for."""
    found = [f"{v.level}: {v.about}: {v.text} {v.remedy}".rstrip() for v in verdicts]
    more = [f"… and {len(found) - MAX_ROWS} more"] if len(found) > MAX_ROWS else []
    return [*found[:MAX_ROWS], *more] or ["none"]


def amount(topics: Collection[str], groups: Collection[str]) -> str:
    """`2 topics and 1 group`."""
    found = [(len(topics), "topic"), (len(groups), "group")]
    words = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in found if count]
    return " and ".join(words) or "bindings only"


def moved_words(operation: Operation, fenced_ms: float | None) -> str:
    """What a switch has done, and what its clients noticed of it."""
    request, moves = operation.request, operation.moves
    if request is None or moves is None:
        return f"{operation.id} has ended"
    waited = [] if fenced_ms is None else [f"clients waited {fenced_ms:.1f} ms behind its fence"]
    what = amount(moves.topics, moves.groups)
    way = f"from {request.origin} to {request.target} in {operation.id}"
    return "; ".join([f"moved {what} {way}", *waited, *_taken_for_dead(request)])


def _taken_for_dead(request: MoveRequest) -> list[str]:
    """What a forced move asks of readers: whoever approves it, or finds it later, is to see it at once."""
    if request.mode != "forced":
        return []
    unread = "skip what they have not read of it" if request.unread == "skip" else "wait for what it holds"
    return [f"{request.origin} is taken for dead, and readers {unread}"]


def fenced_ms_of(history: Iterable[HistoryEntry]) -> float | None:
    """How long the fence of a switch stood."""
    return next((entry.detail["fenced_ms"] for entry in history if "fenced_ms" in entry.detail), None)


def nothing_to_do(proposal: Proposal) -> bool:
    """Whether the only thing wrong with the move is that everything is where it should be."""
    errors = [verdict for verdict in proposal.verdicts if verdict.level == "error"]
    return len(errors) == 1 and errors[0].text.startswith("Nothing is to move")


def report_lines(report: Report) -> Iterator[str]:
    """Result, milliseconds of each step, and where every partition was cut."""
    yield f"operation {report.operation}: {report.result}, revision {report.revision}"
    if report.error:
        yield report.error
    for step in report.steps:
        yield f"  {step.name} {step.ms:.1f} ms"
    for part in report.partitions:
        yield f"  {part.topic}-{part.partition} is written in {part.target} from offset {part.cut} on"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are plain texts."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Names come from clients: no line breaks, no markup."""
    plain = " ".join(text.split())
    return "".join(f"\\{c}" if c in "|`*_[]<>\\" else c for c in plain)
