"""Differences of clusters that stand in for each other."""

from collections.abc import Callable, Sequence

from ha_core.model import Parity
from ha_core.plan.facts.verdict import amount, duration
from ha_core.present.page import Marked, Page, Table

MAX_ROWS = 100


def parity_page(parity: Parity) -> Page:
    both = f"{parity.source} and {parity.target} both have {amount(parity.topics, 'topic')}"
    yield f"{both}, compared at {parity.at}"
    if parity.count:
        yield Marked(f"{parity.target} differs in {amount(parity.count, 'thing')}:", "bad")
        rows = [
            (one.kind, one.about, one.what, one.source or "missing", one.target or "missing") for one in parity.drifts
        ]
        columns = ("kind", "about", "what", parity.source, parity.target)
        yield Table(columns, rows, max_rows=MAX_ROWS)
        for command in dict.fromkeys(one.command for one in parity.drifts[:MAX_ROWS] if one.command):
            yield f"  $ {command}"
    else:
        yield Marked(f"{parity.target} lacks nothing that was compared", "good")
    for part in parity.not_compared:
        yield Marked(f"not compared: {part}", "warning")


def parities_page(parities: Sequence[Parity], age_s: Callable[[str], float]) -> Page:
    rows = [
        (one.source, one.target, one.topics, one.count, duration(age_s(one.at)), len(one.not_compared))
        for one in parities
    ]
    columns = ("source", "target", "common topics", "differences", "age", "parts not compared")
    yield Table(columns, rows) if rows else "No clusters were compared: `switchyard parity check SOURCE TARGET`"


def drift_words(parity: Parity) -> str:
    if not parity.count:
        return f"{parity.target} lacks nothing of {parity.source} that was compared"
    first = parity.drifts[0]
    return (
        f"{parity.target} differs from {parity.source} in {amount(parity.count, 'thing')}: {first.kind} {first.about}"
    )
