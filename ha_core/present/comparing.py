"""What people see of mirrors that were compared with their sources."""

from __future__ import annotations

from ha_core.operations.comparing import MirrorsCompared
from ha_core.plan.verdict import amount
from ha_core.present.page import Mark, Marked, Page, Table, number


def compared_page(result: MirrorsCompared) -> Page:
    if not result.partitions:
        yield "no topic is mirrored: there is nothing to compare"
        return
    rows = []
    for one in result.partitions:
        found, first = one.found, one.found.first
        mark: Mark = "good" if first is None else "bad"
        rows.append(
            (
                one.plan.topic,
                one.plan.partition,
                one.mirror.source,
                one.mirror.target,
                Marked("equal" if first is None else first.what, mark),
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
    differing = sum(one.found.first is not None for one in result.partitions)
    what = amount(len(result.partitions), "partition")
    yield Marked(f"{what}: equal", "good") if result.equal else Marked(f"{differing} of {what}: different", "bad")
