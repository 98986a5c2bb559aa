"""Pages about direct groups."""

from ha_core.operations.access.carrying_groups import GroupCarried
from ha_core.operations.access.direct_groups import DirectGroupsNow
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import listed
from ha_core.present.page import MAX_ROWS, Marked, Page, Table


def direct_groups_page(now: DirectGroupsNow) -> Page:
    if not now.patterns:
        yield ("no direct groups are named: all commits count as client offsets, and mirrors carry them over unchanged")
        return
    rows = [(one.pattern, one.since, one.by, one.reason) for one in now.patterns]
    yield Table(("direct groups", "since", "by", "reason"), rows, max_rows=MAX_ROWS)
    groups = [
        (one.group, one.pattern, "; ".join(f"{c}: {words}" for c, words in one.clusters.items())) for one in now.groups
    ]
    if groups:
        yield Table(("group", "named by", "in"), groups, max_rows=MAX_ROWS)
    for one in now.conflicts:
        yield Marked(f"group {one.group} is named by {one.pattern!r}, but {one.why}: gateways refuse it", "bad")
    yield from (f"{cluster} cannot be asked: {why}" for cluster, why in now.unasked.items())


def carried_page(result: GroupCarried) -> Page:
    rows = [(topic, partition, offset) for (topic, partition), offset in sorted(result.offsets.items())]
    yield Table(("topic", "partition", "offset there"), rows, max_rows=MAX_ROWS)
    yield result.words
    for why, keys in grouped((why, f"{t}-{p}") for (t, p), why in sorted(result.left.items())).items():
        yield Marked(f"left out: {listed(keys)}: {why}", "warning")
