"""The outcome of a run on one page: its line, the people behind it, what moves, and at the end the next step, whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ha_core.model import Operation, Provenance
from ha_core.operations.audit.answers import commands_in, next_commands, way_back
from ha_core.present.page import Marked, Page, Table

AGAIN = "Trigger ▸ Trigger again with this config"
"""Airflow's button on the page of a run. Its form has all fields of that run."""
UNTICK = f"{AGAIN}, untick Dry run"
MENDED = f"{AGAIN}, when the cause is mended"
MAX_STEPS = 10


@dataclass(frozen=True, slots=True)
class NextSteps:
    """:ivar next: commands in backticks, or words about Airflow's page; all of them are whole.
    :ivar back: the command that takes the move back; empty: there is none.
    """

    next: tuple[str, ...] = ()
    back: str = ""

    @property
    def line(self) -> str:
        return f"Next: {'; or '.join(self.next)}" if self.next else ""


def steps_after_dry_run() -> NextSteps:
    return NextSteps((UNTICK,))


def steps_of(line: str, operations: Sequence[Operation], *, failed: bool) -> NextSteps:
    """The steps after a run that has tried to change something.

    :param line: its outcome; commands in it come first.
    """
    named = [*commands_in(line)]
    backs = [back for operation in operations if (back := way_back(operation))]
    for operation in operations:
        named += [one for one in next_commands(operation) if one not in backs]
    commands = [f"`{one}`" for one in dict.fromkeys(named)][:MAX_STEPS]
    if failed and not commands:
        commands = [MENDED]
    return NextSteps(tuple(commands), backs[0] if len(backs) == 1 else "")


def run_page(line: str, people: Provenance, shown: Iterable[Page], steps: NextSteps) -> Iterator[str | Table]:
    """:param shown: pages of the run's tasks, that of the proposal first."""
    yield Marked(line, "strong")
    if people.approved_by:
        yield f"Approved by {people.approved_by}" + (f" at {people.approved_at}" if people.approved_at else "")
    for page in shown:
        yield from page
    if steps.back:
        yield f"Way back: `{steps.back}`"
    for one in steps.next:
        yield Marked(f"Next: {one}", "strong")
