"""Topics to delete."""

from __future__ import annotations

from ha_core.operations.migration.topic_deletion import DeletionProposal
from ha_core.plan.facts.verdict import amount
from ha_core.present.moves import verdicts_page
from ha_core.present.page import MAX_ROWS, Marked, Page, Table


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
        yield Table(("topic", "cluster", "records at most"), rows, most=MAX_ROWS)
    yield from verdicts_page(proposal.verdicts)
