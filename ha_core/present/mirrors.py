"""Pages about mirrors."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ha_core.model import MirrorSync, SyncFinding
from ha_core.model.mirror_job import OffsetKind
from ha_core.operations.absence.reconciled import LOGIN, Reconciled
from ha_core.operations.clusters.mirrors import MirrorRow, MirrorsNow
from ha_core.operations.copies.comparing import WELL, MirrorsCompared, PartitionCompared, State
from ha_core.operations.copies.syncing.passes import MirrorsSynced
from ha_core.operations.mirror.pattern_states import PatternsNow
from ha_core.plan.absence.decision import FINDINGS
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount, duration, listed
from ha_core.plan.mirror.total import MirrorTotal
from ha_core.present.mirror_patterns import patterns_page
from ha_core.present.page import MAX_ROWS, Mark, Marked, Page, Table, number, size
from ha_core.present.problems import problems_page

LEVEL_S = 10
"""A copy that could lose no more than this is level with its source."""
_MARKS: dict[str, Mark] = {
    "stopped": "error",
    "nobody": "error",
    "unreadable": "error",
    "unreported": "dim",
    "waiting": "warning",
    "held": "warning",
    "copying": "good",
}


def nothing_left_in(cluster: str) -> str:
    return f"No switch has moved topics from {cluster} to their copies while it was away"


def reconciled_page(result: Reconciled) -> Page:
    """The lost tails, and the commands that fetch them."""
    if not result.tails:
        yield f"{nothing_left_in(result.cluster)}: there is nothing to reconcile."
        return
    for topic, compared in sorted(result.compared.items()):
        ranges, of = compared.ranges
        text = f"{topic}: {compared.records:,} mirrored records, in {ranges:,} of {of:,} ranges, are as in its copy"
        yield Marked(text, "good") if not compared.differing else Marked(f"{text}, and others are not", "bad")
    counted = [tail for tail in result.tails if tail.outcome in {"counted", "differs"}]
    columns = ("topic", "partition", "from", "to", "records", "aborted", "bytes", "deleted before")
    rows = [
        (o.topic, o.partition, o.start, o.end, number(o.records), number(o.aborted), number(o.bytes), o.deleted)
        for o in counted
    ]
    if rows:
        yield Table(columns, rows, max_rows=MAX_ROWS)
    were = "was" if result.records == 1 else "were"
    yield f"{amount(result.records, 'record')} of {result.cluster} {were} not mirrored: no client ever gets them"
    commands = [(fetch,) for tail in counted if (fetch := result.fetch(tail))]
    if commands:
        login = f" ({LOGIN}: a client's settings for the security profile {result.security})"
        yield f"fetch them there{login if result.wants_login else ''}:"
        yield Table(("command",), commands, line="  {}".format, max_rows=MAX_ROWS)
    yield from _open(result)
    if result.mirrored:
        topics = listed(result.mirrored)
        if result.dry_run:
            yield f"would be mirrored to {result.cluster}: {topics}"
        else:
            yield f"mirrored to {result.cluster} from now on: {topics} (`switchyard mirrors`)"
    yield from _left(result)


def reconciled_attention(result: Reconciled) -> list[str]:
    """Findings that wait for an operator, each with reason and remedy: the worst first."""
    return [str(line) for line in (*_open(result), *_left(result))]


def _open(result: Reconciled) -> Iterator[str]:
    for tail in result.open:
        again = FINDINGS[tail.outcome].waits_for == "cluster"
        more = "" if again else f". To accept the loss: --accept-loss with the topic {tail.topic}"
        yield Marked(f"{tail.topic}-{tail.partition}: {tail.words(result.cluster)}{more}", "bad")


def _left(result: Reconciled) -> Iterator[str]:
    for topic, why in sorted(result.not_mirrored.items()):
        yield Marked(f"{topic} is not mirrored to {result.cluster}: {why}", "warning")
    for text in result.put_off:
        yield f"left for the next run: {text}"


def mirrors_page(mirrors: MirrorsNow) -> Page:
    if not mirrors.rows:
        yield "no topic is mirrored"
        return
    lags = ("lag records", "lag bytes", "lag in time", "RPO", "copied")
    totals = [
        (
            mirror.topic,
            mirror.source,
            mirror.target,
            partitions_of(total),
            lag_of(total),
            size(total.lag_bytes),
            _lag_in_time(total.lag_ms),
            rpo_of(total),
            copied_of(total),
            "" if mirror.max_bytes_s is None else f"{size(mirror.max_bytes_s)}/s",
        )
        for mirror, total in mirrors.totals
    ]
    yield Table(("topic", "from", "to", "partitions", *lags, "at most"), totals, title="mirrors")
    shown = [
        (
            row.topic,
            "" if row.partition is None else row.partition,
            row.source,
            row.target,
            Marked(row.state, _mark(row)),
            number(row.lag_records),
            size(row.lag_bytes),
            _lag_in_time(row.lag_ms),
            _rpo(row.rpo_s),
            "?" if row.bytes_s is None else f"{size(row.bytes_s)}/s",
            row.reason,
        )
        for row in mirrors.rows
    ]
    yield Table(("topic", "partition", "from", "to", "state", *lags, "reason"), shown, title="partitions")


def level(row: MirrorRow) -> bool:
    """Whether it is copied, and could lose no more than `LEVEL_S`."""
    return row.state == "copying" and row.rpo_s is not None and row.rpo_s <= LEVEL_S


def _mark(row: MirrorRow) -> Mark:
    """As in the picture above it: a copy with a large lag is not well."""
    return "warning" if row.state == "copying" and not level(row) else _MARKS[row.state]


def copied_of(total: MirrorTotal) -> str:
    """`4.2 MB/s`, or `?` if no task reports them, which is not 0."""
    return f"{size(total.bytes_s)}/s" if total.partitions else "?"


def lag_of(total: MirrorTotal) -> str:
    """`12`, or `12, 1 unknown`: unknown partitions do not count as 0."""
    return _some_unknown(number(total.lag_records), total.unknown)


def rpo_of(total: MirrorTotal) -> str:
    return _some_unknown(_rpo(total.rpo_s), total.unknown_rpo)


def _some_unknown(known: str, unknown: int) -> str:
    return known if known == "?" or not unknown else f"{known}, {unknown} unknown"


def partitions_of(total: MirrorTotal) -> str:
    """`4 copying, 1 stopped`."""
    counts = (("copying", total.copying), ("waiting", total.waiting), ("stopped", total.stopped))
    return ", ".join(f"{count} {state}" for state, count in counts if count) or "no task reports them"


def _lag_in_time(lag_ms: int | None) -> str:
    return "?" if lag_ms is None else duration(lag_ms / 1000)


def _rpo(rpo_s: int | None) -> str:
    return "?" if rpo_s is None else duration(rpo_s)


def synced_page(syncs: MirrorsSynced) -> Page:
    """Changes in the targets, done or due, and differences that remain."""
    if syncs.changes:
        rows = [(change.about, change.what, change.text) for change in syncs.changes]
        title = "would be changed" if syncs.dry_run else "changed"
        yield Table(("thing", "what", title), rows, line="{}: {}: {}".format, max_rows=MAX_ROWS)
    else:
        yield "nothing to change"
    findings = [
        (part.source, part.target, finding.about, finding.what, _reason(finding))
        for part in syncs.parts
        for finding in part.findings
    ]
    yield from _findings(findings)


def below_mirrors(
    mirrors: MirrorsNow,
    patterns: PatternsNow,
    left: Sequence[Problem],
    looks: Collection[MirrorSync],
    age_s: Callable[[str], float],
) -> Page:
    """Blocks below the tables of mirrors.

    :param left: clusters with lost tails after a forced switch: they have no mirror any more, and an operator who looks
        for one must not conclude that linking it again is all there is to do.
    """
    if left:
        yield from problems_page(left)
    elif not mirrors.rows:
        yield "`switchyard mirror link TOPIC… --from CLUSTER --to CLUSTER`, in Airflow the DAG `link_mirror`, makes one"
    yield from patterns_page(patterns, age_s)
    yield from syncs_page(looks, age_s)


def syncs_page(syncs: Collection[MirrorSync], age_s: Callable[[str], float]) -> Page:
    """Results of the last syncs."""
    if not syncs:
        return
    rows = [
        (
            sync.source,
            sync.target,
            sync.part,
            sync.looked_at,
            kinds_of(sync.kinds),
            len(sync.findings) + sync.left_out,
            duration(age_s(sync.at)),
        )
        for sync in syncs
    ]
    columns = ("from", "to", "besides records", "looked at", "offsets", "not as in the source", "age")
    yield Table(columns, rows, title="sync")
    yield from _findings(
        [(sync.source, sync.target, it.about, it.what, _reason(it)) for sync in syncs for it in sync.findings]
    )


def kinds_of(kinds: Mapping[OffsetKind, int]) -> str:
    """`12 client, 3 translated`: how groups' offsets are brought over."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()) if count)


def _findings(rows: Sequence[Sequence[object]]) -> Page:
    if rows:
        columns = ("from", "to", "thing", "what", "why it is not as in the source")
        yield Table(columns, rows, line="{} → {}: {}: {}: {}".format, max_rows=MAX_ROWS)


def _reason(finding: SyncFinding) -> str:
    return Marked(finding.reason, "bad") if finding.stop else finding.reason


def compared_page(result: MirrorsCompared) -> Page:
    if not result.partitions:
        yield "no topic is mirrored: there is nothing to compare"
        return
    rows = []
    for partition in result.partitions:
        comparison, first = partition.compared, partition.compared.first
        mark: Mark = "good" if partition.state in WELL else "bad"
        rows.append(
            (
                partition.plan.topic,
                partition.plan.partition,
                partition.mirror.source,
                partition.mirror.target,
                Marked(_compared_words(partition), mark),
                "" if first is None else number(first.offset),
                comparison.compared,
                f"{partition.ranges} of {partition.plan.of}",
                comparison.gone_in_source,
                comparison.gone_in_copy,
                partition.plan.not_copied,
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


def _compared_words(comparison: PartitionCompared) -> str:
    if comparison.compared.first is not None:
        return comparison.compared.first.what
    if comparison.state == "lacks":
        return f"lacks {amount(comparison.compared.lacking, 'record')} of its source"
    return {"equal": "equal", "nothing-there": "nothing there"}.get(comparison.state, "nothing compared")
