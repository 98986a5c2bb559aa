"""The page of mirrors that were compared with their sources."""

from __future__ import annotations

from collections import Counter

from ha_core.operations.copies.comparing import WELL, MirrorsCompared, PartitionCompared, State
from ha_core.plan.facts.verdict import amount
from ha_core.present.page import Mark, Marked, Page, Table, number


def compared_page(result: MirrorsCompared) -> Page:
    if not result.partitions:
        yield "no topic is mirrored: there is nothing to compare"
        return
    rows = []
    for one in result.partitions:
        found, first = one.found, one.found.first
        mark: Mark = "good" if one.state in WELL else "bad"
        rows.append(
            (
                one.plan.topic,
                one.plan.partition,
                one.mirror.source,
                one.mirror.target,
                Marked(_words(one), mark),
                "" if first is None else number(first.offset),
                found.compared,
                f"{one.ranges} of {one.plan.of}",
                found.gone_in_source,
                found.gone_in_copy,
                one.plan.behind,
            )
        )
    columns = ("topic", "partition", "from", "to", "", "first difference", "records", "ranges")
    yield Table((*columns, "gone in source", "gone in copy", "behind"), rows)
    if result.sampled:
        yield f"a sample: {result.extent.share:.1%} of the ranges, chosen by --seed {result.extent.seed}"
    counts, what = Counter(one.state for one in result.partitions), amount(len(result.partitions), "partition")
    if result.equal:
        yield Marked(f"{what}: equal" if counts["equal"] else f"{what}: the sources have no records", "good")
        return
    bad = (f"{counts[state]} of {what}: {text}" for state, text in _BAD.items() if counts[state])
    yield Marked("; ".join(bad), "bad")
    if result.lacking:
        yield (
            f"The copies have deleted {amount(result.lacking, 'record')} that their sources have: after a "
            "switch only the old cluster has them. Compare the retention of both (`switchyard mirrors`). For a "
            "complete copy, unlink it, delete it there, and link it again."
        )


_BAD: dict[State, str] = {
    "differs": "different",
    "lacks": "the copy lacks records that its source has",
    "not-compared": "nothing was compared",
}


def _words(one: PartitionCompared) -> str:
    if one.found.first is not None:
        return one.found.first.what
    if one.state == "lacks":
        return f"lacks {amount(one.found.lacking, 'record')} of its source"
    return {"equal": "equal", "nothing-there": "nothing there"}.get(one.state, "nothing compared")
