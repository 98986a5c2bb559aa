"""`status --watch`: the installation on one screen of at most 100 columns.

Names and ids are never cut off: what is too long for its line goes on below. A value that is not known is left out.
"""

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

from ha_core.model.gateway import by_gateway
from ha_core.model.shown import shown
from ha_core.operations.overview.picture import ClientTraffic, Picture
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount, duration, listed
from ha_core.present.page import Mark, Marked, size
from ha_core.present.problems import age
from ha_core.present.status import of_workers

WIDTH = 100
MAX_ROWS = 12
"""Rows of one table; the rest is counted."""
_GAP = "  "
Rates = Mapping[str, tuple[float, float]]
"""Gateway → bytes per second from and to its clients."""


def screen(
    now: Picture, clients: ClientTraffic | None, rates: Rates, ages: Mapping[str, float], width: int = WIDTH
) -> list[str]:
    """Lines of at most `width` columns; those that are `Marked` have a colour.

    :param ages: time in the picture → its age in seconds.
    """
    lines: list[str] = []
    for line in _lines(now, clients, rates, ages, min(width, WIDTH)):
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


def _lines(
    now: Picture, clients: ClientTraffic | None, rates: Rates, ages: Mapping[str, float], width: int
) -> Iterator[str]:
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
    yield from _more(notices)
    yield ""
    yield from _clusters(now, clients, width)
    yield from _gateways(now, clients, rates, width)
    yield from _operations(now, ages, width)
    yield from _mirrors(now, width)


def _problem(problem: Problem) -> Iterator[str]:
    yield Marked(f"  {problem.code}{age(problem)}: {problem.about}", "bad")
    yield f"    {problem.text}"
    yield f"    $ {problem.command}"
    if problem.follows:
        names = listed(f"{one.about} ({one.code})" for one in problem.follows)
        yield f"    with it: {names}"


def _clusters(now: Picture, clients: ClientTraffic | None, width: int) -> Iterator[str]:
    counted = None if clients is None else clients.clusters
    rows = []
    for state in now.clusters:
        masked = f"; masked {state.mask_words}" if state.mask_words else ""
        using = [] if counted is None else [str(counted.get(state.cluster.name, 0))]
        mark: Mark = "good" if state.facts.reachable else "bad"
        rows.append((mark, [state.cluster.name, *using, state.words + masked]))
    yield from _table("clusters", ["cluster", *([] if counted is None else ["clients"]), "health"], rows, width)


def _gateways(now: Picture, clients: ClientTraffic | None, rates: Rates, width: int) -> Iterator[str]:
    live = by_gateway(now.gateways)
    known = {} if clients is None else clients.gateways
    rows: list[tuple[Mark, list[str]]] = []
    for name, workers in live.items():
        oldest = min(worker.revision for worker in workers)
        behind = f"{now.revision - oldest} revisions behind" if oldest < now.revision else "follows"
        state = f"{behind}, {of_workers(workers)}" if workers[0].worker_of else behind
        rate = [f"{size(round(one))}/s" for one in rates[name]] if name in rates else ["", ""]
        row = [name, workers[0].version, str(known[name]) if name in known else "", *rate, state]
        rows.append(("good" if oldest >= now.revision else "warning", row))
    for name, expected in sorted(now.expected.items()):
        if name not in live:
            state = f"stopped on purpose at {expected.stopped}" if expected.stopped else "expected, and not there"
            rows.append(("warning" if expected.stopped else "bad", [name, "", "", "", "", state]))
    wanted = f"{len(live)} of {now.number.number if now.number else len({*live, *now.expected})} expected"
    columns = ["gateway", "version", "clients", "from them", "to them", "state"]
    yield from _table(f"gateways: {wanted}", columns, rows, width)


def _operations(now: Picture, ages: Mapping[str, float], width: int) -> Iterator[str]:
    rows: list[tuple[Mark, list[str]]] = [
        (
            "bad" if operation.state == "fenced" else "warning",
            [operation.id, operation.state, _age(ages, operation.started), operation.by, operation.reason],
        )
        for operation in now.running
    ]
    if rows:
        yield from _table("operations under way", ["operation", "state", "for", "by", "reason"], rows, width)
    asked: list[tuple[Mark, list[str]]] = [
        ("warning", [one.run, _age(ages, one.since), one.by or "the schedule", one.link or one.reason])
        for one in now.approvals
    ]
    if asked:
        yield from _table("approvals waiting", ["run", "for", "asked by", "page or reason"], asked, width)


def _mirrors(now: Picture, width: int) -> Iterator[str]:
    if not now.mirrors.totals:
        return
    worst = sorted(
        now.mirrors.totals,
        key=lambda pair: (pair[1].stopped, pair[1].unknown, pair[1].rpo_s or 0, pair[1].lag_records or 0),
        reverse=True,
    )
    rows: list[tuple[Mark, list[str]]] = []
    for mirror, total in worst[:MAX_ROWS]:
        lag = "" if total.lag_records is None else f"{total.lag_records:,} records"
        rpo = "" if total.rpo_s is None else duration(total.rpo_s)
        states = [(total.copying, "copying"), (total.waiting, "waiting"), (total.stopped, "stopped")]
        words = ", ".join(f"{count} {state}" for count, state in states if count) or "no copier reports it"
        mark: Mark = "bad" if total.stopped else "good" if total.copying == total.partitions > 0 else "warning"
        rows.append((mark, [mirror.topic, f"{mirror.source} → {mirror.target}", lag, rpo, words]))
    title = f"mirrors: {len(now.mirrors.totals)}, the worst first"
    yield from _table(title, ["topic", "way", "lag", "could lose", "partitions"], rows, width)
    yield from _more(now.mirrors.totals)


def _table(title: str, columns: Sequence[str], rows: Sequence[tuple[Mark, Sequence[str]]], width: int) -> Iterator[str]:
    """A title, a head and the rows. Columns without any value are left out."""
    yield Marked(title, "strong")
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
    yield ""


def _more(things: Collection[object]) -> Iterator[str]:
    if len(things) > MAX_ROWS:
        yield f"  … and {len(things) - MAX_ROWS} more"


def _age(ages: Mapping[str, float], at: str) -> str:
    return duration(ages[at]) if at in ages else ""
