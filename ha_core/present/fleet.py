"""Tables of the fleet, for the screen of `status --watch` and for the page *Fleet*. Unknown values are left out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ha_core.model.gateway import by_gateway
from ha_core.operations.overview.fleet import Fleet
from ha_core.plan.facts.verdict import amount, duration
from ha_core.present.page import Mark, Marked, Page, Table, size
from ha_core.present.status import of_workers

Row = tuple[Mark, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A table whose rows have a mark each. Columns without any value are not shown.

    :ivar max_rows: rows on a terminal; None: all of them.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    max_rows: int | None = None


def fleet_sections(fleet: Fleet) -> Iterator[Section]:
    yield _clusters(fleet)
    yield _gateways(fleet)
    for section in (_operations(fleet), _approvals(fleet), _mirrors(fleet)):
        if section.rows:
            yield section


def sections_page(sections: Iterator[Section]) -> Page:
    """As tables: the mark stands on the row's last cell."""
    for section in sections:
        shown = [at for at in range(len(section.columns)) if any(cells[at] for _, cells in section.rows)]
        if not shown:
            yield Marked(section.title, "strong")
            yield "none"
            continue
        rows = [
            [Marked(cells[at], mark) if at == shown[-1] else cells[at] for at in shown] for mark, cells in section.rows
        ]
        yield Table([section.columns[at] for at in shown], rows, title=section.title)


def _clusters(fleet: Fleet) -> Section:
    using = None if fleet.clients is None else fleet.clients.clusters
    rows: list[Row] = []
    for state in fleet.picture.clusters:
        name = state.cluster.name
        masked = f"; masked {state.mask_words}" if state.mask_words else ""
        mark: Mark = "good" if state.facts.reachable else "bad"
        clients = "" if using is None else str(using.get(name, 0))
        rows.append((mark, [name, clients, *_rate(fleet.rates.clusters, name), state.words + masked]))
    return Section("clusters", ["cluster", "clients", "from them", "to them", "health"], rows)


def _gateways(fleet: Fleet) -> Section:
    now, live = fleet.picture, by_gateway(fleet.picture.gateways)
    known = {} if fleet.clients is None else fleet.clients.gateways
    rows: list[Row] = []
    for name, workers in live.items():
        oldest = min(worker.revision for worker in workers)
        follows = f"{amount(now.revision - oldest, 'revision')} behind" if oldest < now.revision else "follows"
        state = f"{follows}, {of_workers(workers)}" if workers[0].worker_of else follows
        row = [name, workers[0].version, str(known.get(name, "")), *_rate(fleet.rates.gateways, name), state]
        rows.append(("good" if oldest >= now.revision else "warning", row))
    for name, expected in sorted(now.expected.items()):
        if name not in live:
            state = f"stopped on purpose at {expected.stopped}" if expected.stopped else "expected, and not there"
            rows.append(("warning" if expected.stopped else "bad", [name, "", "", "", "", state]))
    wanted = f"{len(live)} of {now.number.number if now.number else len({*live, *now.expected})} expected"
    columns = ["gateway", "version", "clients", "from them", "to them", "state"]
    return Section(f"gateways: {wanted}", columns, rows)


def _operations(fleet: Fleet) -> Section:
    rows: list[Row] = [
        (
            "bad" if operation.state == "fenced" else "warning",
            [operation.id, _age(fleet.ages, operation.started), operation.by, operation.reason, operation.state],
        )
        for operation in fleet.picture.running
    ]
    return Section("operations under way", ["operation", "for", "by", "reason", "state"], rows)


def _approvals(fleet: Fleet) -> Section:
    rows: list[Row] = [
        ("warning", [one.run, _age(fleet.ages, one.since), one.by or "the schedule", one.reason, one.link])
        for one in fleet.picture.approvals
    ]
    return Section("approvals waiting", ["run", "for", "asked by", "reason", "page"], rows)


def _mirrors(fleet: Fleet) -> Section:
    worst = sorted(
        fleet.picture.mirrors.totals,
        key=lambda pair: (pair[1].stopped, pair[1].unknown, pair[1].rpo_s or 0, pair[1].lag_records or 0),
        reverse=True,
    )
    rows: list[Row] = []
    for mirror, total in worst:
        lag = "" if total.lag_records is None else amount(total.lag_records, "record")
        rpo = "" if total.rpo_s is None else duration(total.rpo_s)
        states = [(total.copying, "copying"), (total.waiting, "waiting"), (total.stopped, "stopped")]
        words = ", ".join(f"{count} {state}" for count, state in states if count) or "no copier reports it"
        mark: Mark = "bad" if total.stopped else "good" if total.copying == total.partitions > 0 else "warning"
        rows.append((mark, [mirror.topic, f"{mirror.source} → {mirror.target}", lag, rpo, words]))
    title = f"mirrors: {len(rows)}, the worst first"
    return Section(title, ["topic", "way", "lag", "could lose", "partitions"], rows, max_rows=12)


def _rate(rates: Mapping[str, tuple[float, float]], name: str) -> list[str]:
    """Bytes per second from and to clients."""
    return [f"{size(round(one))}/s" for one in rates[name]] if name in rates else ["", ""]


def _age(ages: Mapping[str, float], at: str) -> str:
    return duration(ages[at]) if at in ages else ""
