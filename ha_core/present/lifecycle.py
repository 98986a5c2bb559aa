"""Old extents (of returned clusters, aged ones, those of clusters that are given up for good), and topics to delete."""

from collections.abc import Iterator

from ha_core.operations.absence.given_up import NOT_SERVED, GivenUp, GivingUp
from ha_core.operations.absence.returned import Returned
from ha_core.operations.migration.aging import Aging, Old
from ha_core.operations.migration.topic_deletion import DeletionProposal
from ha_core.plan.absence.given_up import Loss, UnreadGroup
from ha_core.plan.absence.returned import Return
from ha_core.plan.facts.verdict import amount, listed
from ha_core.present.moves import single_page, verdicts_page
from ha_core.present.page import MAX_ROWS, Marked, Page, Table


def returned_page(result: Returned) -> Page:
    for one in result.returns:
        yield Marked(return_line(one), "bad") if one in result.unaccepted else return_line(one)
    for name, why in sorted(result.away.items()):
        yield f"{name} is not looked at: {why}"
    for text in result.put_off:
        yield f"left for the next check: {text}"
    if not result.returns and not result.away and not result.put_off:
        yield "No extent waits for its cluster."


def return_line(one: Return) -> str:
    where = f"{one.topic}-{one.partition}: {one.cluster} ends at {one.found_end}"
    if one.outcome == "less":
        return (
            f"{where}, and held offsets up to {one.known_end} when it died: {one.missing} are missing. Readers wait "
            f"until you decide. Restore them, or `switchyard origins check {one.topic} --accept-loss`"
        )
    if one.outcome == "more":
        return (
            f"{where}, above the cut at {one.cut}: {amount(one.above, 'offset', 'has', 'have')} no place in the topic "
            "and no reader gets them, though they may have been acknowledged to producers. Copy those that matter from "
            f"{one.cluster}, "
            f"then `switchyard origins check {one.topic} --accept-loss`"
        )
    served = "skipped by readers, as requested" if one.skipped else "served in their place"
    left = one.missing + one.above
    lost = f", {amount(left, 'offset', 'is', 'are')} given up" if left else ""
    verb = "is" if one.beyond == 1 else "are"
    return f"{where}: {amount(one.beyond, 'record')} above the last known end {verb} {served}{lost}"


def aging_page(result: Aging, dry_run: bool) -> Page:
    """Every closed extent and its reasons to stay, those that stay first; deletions, or the reasons against them."""
    if result.extents:
        extents = sorted(result.extents, key=lambda old: (old.aged, old.topic, old.partition))
        columns = ("topic", "partition", "cluster", "offsets", "status", "what keeps it")
        yield Table(
            columns, [_old_row(old) for old in extents], line="{}-{} in {}, {}: {} {}".format, max_rows=MAX_ROWS
        )
    done = "none is dropped" if not result.aged else "would be dropped" if dry_run else "dropped"
    yield f"{aged_line(result)} and {done}"
    for cluster, names in sorted(result.deleted.items()):
        yield f"{'would be deleted' if dry_run else 'deleted'} in {cluster}: {', '.join(names) or 'nothing'}"
    for what, why in sorted(result.kept.items()):
        yield f"not deleted: {what}: {why}"
    for text in result.put_off:
        yield f"left for the next run: {text}"
    if result.left_over:
        yield f"no longer needed: {', '.join(result.left_over[:20])}"


def aged_line(result: Aging) -> str:
    return f"{result.aged} of {len(result.extents)} old extents are aged"


def giving_up_page(plan: GivingUp) -> Page:
    if plan.losses:
        columns = ("topic", "partition", "offsets", "known lost", "at most", "readers go on at")
        yield Table(columns, [_loss_row(loss) for loss in plan.losses], max_rows=MAX_ROWS)
    if plan.unread:
        groups = [(_unread_line(group),) for group in plan.unread]
        yield Table(("groups that have not read all of it",), groups, line=str, max_rows=MAX_ROWS)
    yield from giving_up_lines(plan)


def giving_up_lines(plan: GivingUp) -> Iterator[str]:
    cluster = plan.cluster
    if plan.losses:
        partitions = {(loss.topic, loss.partition) for loss in plan.losses}
        offsets = amount(plan.known, "offset", "is", "are")
        yield (
            f"{amount(len(plan.before), 'topic')}, {amount(len(partitions), 'partition')}: {offsets} known to be lost, "
            f"{plan.most_lost} at most. {NOT_SERVED}."
        )
    else:
        yield f"There is nothing to give up: no map of these topics names {cluster}."
    if plan.answers:
        yield f"{cluster} answers: its records could still be read."
    if plan.unasked:
        yield f"The groups of {listed(plan.unasked)} are not known."
    if plan.never_moved:
        yield (
            f"{amount(len(plan.never_moved), 'topic', 'was', 'were')} last seen in {cluster} and never moved, "
            "so no client can use them: "
            f"{listed(plan.never_moved)}. `switchyard migrate-from-fault` moves them to another cluster; until then "
            f"{cluster} is removed only with --force"
        )
    if plan.pointing:
        yield f"{len(plan.pointing)} still refer to {cluster}, move them away: {listed(plan.pointing)}"
    else:
        then = "Then nothing refers" if plan.losses else "Nothing refers"
        yield f"{then} to {cluster} any more: `switchyard clusters remove {cluster}`"
    if plan.default:
        yield f"{cluster} is the default cluster: remove it, then name another (`switchyard clusters add … --default`)"


def given_up_page(done: GivenUp) -> Page:
    for report in done.reports:
        yield from single_page(report)
    for text in done.put_off:
        yield Marked(f"not given up yet: {text}. Run it again.", "error")


def _old_row(old: Old) -> tuple[object, ...]:
    status = Marked("Aged", "good") if old.aged else Marked("Migrated", "warning")
    reasons = "; ".join(block.text for block in old.blocks)
    return old.topic, old.partition, old.extent.cluster, f"[{old.extent.start}, {old.extent.end})", status, reasons


def _loss_row(loss: Loss) -> tuple[object, ...]:
    most_lost = loss.most_lost if loss.known_end is None else Marked(loss.most_lost, "warning")
    goes_on = "skipped already" if loss.skipped else loss.next
    return loss.topic, loss.partition, f"[{loss.start}, {loss.end})", loss.known, most_lost, goes_on


def _unread_line(group: UnreadGroup) -> str:
    most = amount(group.most_lost, "offset")
    lost = most if group.known == group.most_lost else f"{group.known:,} to {most}"
    where = f"continues at {group.next}" if group.next != group.offset else "reads on"
    return (
        f"group {group.group} ({'live' if group.live else 'no members'}, {group.cluster}) has committed {group.offset} "
        "of "
        f"{group.topic}-{group.partition}: it {where}, without {lost} that it has not read"
    )


def would_delete(proposal: DeletionProposal) -> str:
    """The first line of a dry run's result."""
    clusters = sorted({cluster for held in proposal.held.values() for cluster in held})
    where = f"in {', '.join(clusters)}" if clusters else "that no cluster has, with everything stored about them"
    return f"would delete {amount(len(proposal.topics), 'topic')} {where}"


def deletion_page(proposal: DeletionProposal) -> Page:
    yield Marked(would_delete(proposal), "strong")
    rows = [
        (name, cluster, "not known" if records is None else f"{records:,}")
        for name in proposal.topics
        for cluster, records in sorted(proposal.held.get(name, {}).items())
    ]
    if rows:
        yield Table(("topic", "cluster", "records at most"), rows, max_rows=MAX_ROWS)
    yield from verdicts_page(proposal.verdicts)
