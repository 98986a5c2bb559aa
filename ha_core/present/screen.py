"""`status --watch`: the installation on one screen of at most 100 columns.

Names and ids are never cut off: what is too long for its line goes on below. A value that is not known is left out.
"""

import textwrap
from collections.abc import Iterator, Sequence

from ha_core.model.shown import shown
from ha_core.operations.overview.fleet import Fleet
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount, listed
from ha_core.present.fleet import Section, fleet_sections
from ha_core.present.page import Marked
from ha_core.present.problems import age

WIDTH = 100
MAX_ROWS = 12
"""Notices; the rest is counted."""
_GAP = "  "


def screen(fleet: Fleet, width: int = WIDTH) -> list[str]:
    """Lines of at most `width` columns; those that are `Marked` have a colour."""
    lines: list[str] = []
    for line in _lines(fleet, min(width, WIDTH)):
        # Names come from clients: their control characters are replaced before lines are measured.
        text = Marked(shown(line), line.mark) if isinstance(line, Marked) else shown(line)
        lines += wrapped(text, min(width, WIDTH))
    return lines


def wrapped(line: str, width: int) -> list[str]:
    """The line, continued below with an indent; no character is lost but the spaces at the breaks."""
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    parts = textwrap.wrap(
        line,
        width,
        subsequent_indent=indent,
        drop_whitespace=True,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return [Marked(part, line.mark) for part in parts] if isinstance(line, Marked) else parts


def _lines(fleet: Fleet, width: int) -> Iterator[str]:
    now = fleet.picture
    problems, notices = now.assessment.problems, now.assessment.notices
    yield Marked(f"switchyard  {now.at}  revision {now.revision}", "strong")
    if problems:
        yield Marked(f"{amount(len(problems), 'problem', 'waits', 'wait')} for an operator", "bad")
        for problem in problems:
            yield from _problem(problem)
    else:
        yield Marked("nothing waits for an operator", "good")
    for notice in notices[:MAX_ROWS]:
        yield Marked(f"  {notice.code}{age(notice)}: {notice.about}", "warning")
        yield f"    $ {notice.command}"
    if len(notices) > MAX_ROWS:
        yield f"  … and {len(notices) - MAX_ROWS} more"
    yield ""
    for section in fleet_sections(fleet):
        yield from _table(section, width)


def _problem(problem: Problem) -> Iterator[str]:
    yield Marked(f"  {problem.code}{age(problem)}: {problem.about}", "bad")
    yield f"    {problem.text}"
    yield f"    $ {problem.command}"
    if problem.follows:
        names = listed(f"{one.about} ({one.code})" for one in problem.follows)
        yield f"    with it: {names}"


def _table(section: Section, width: int) -> Iterator[str]:
    """A title, a head and the first rows. Columns without any value are left out."""
    columns, rows = section.columns, section.rows[: section.max_rows]
    yield Marked(section.title, "strong")
    shown = [at for at in range(len(columns)) if any(row[at] for _, row in rows)]
    if not shown:
        yield "  none"
        return
    # A long name does not push the columns of all other rows to the right.
    widths = [
        max(
            len(columns[at]),
            *(length for _, row in rows if (length := len(row[at])) <= width // 3),
            0,
        )
        for at in shown
    ]

    def joined(cells: Sequence[str]) -> str:
        parts = [cells[at].ljust(length) for at, length in zip(shown, widths, strict=True)]
        return f"  {_GAP.join(parts)}".rstrip()

    yield Marked(joined(columns), "dim")
    for mark, row in rows:
        yield Marked(joined(row), mark)
    if len(section.rows) > len(rows):
        yield f"  … and {len(section.rows) - len(rows)} more"
    yield ""
