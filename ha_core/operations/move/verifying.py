"""Compares the copies of a planned switch with their sources before anything is changed.

It is the first step, and a task of its own: no adopted member's session would expire meanwhile, no copy is held, and no
client waits. So it may take its time, and its failure leaves hardly anything to undo. It is repeated after a crash; the
operation keeps its result, and then it is not done again.
"""

from __future__ import annotations

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveOperation, SwitchOperation
from ha_core.model.operation import ComparedCopies
from ha_core.operations.copies.comparing import SAMPLE_S, MirrorsCompared, compare_all, coverage, plan_mirrors
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.plan.mirror.copies import to_hold
from ha_core.plan.move.step_verdicts import copies_differ, not_compared


def compare_copies(journal: Journal[SwitchOperation]) -> None:
    """Compares the records that both have: the switch copies the rest of a copy that lags or has not begun.

    :raises StepFailedError: a copy differs, or a cluster does not answer.
    """
    operation, environment = journal.operation, journal.environment
    view = environment.store.load()
    topics = to_hold(operation, view.mirrors.values())
    if not topics or operation.evidence.compared is not None:
        return
    (origin, target), request = operation.route, journal.request
    extent, began = coverage(request.verify, operation.id), environment.monotonic()
    if extent.sampled:
        environment.say(f"a sample of the copies is compared, by seed {extent.seed}")
    with journal.step("compare") as seen:
        seen.update(verify=request.verify, topics=len(topics), seed=extent.seed)
        try:
            mirrors = [view.mirrors[f"{topic}@{target}"] for topic in topics]
            planned = plan_mirrors(journal.origin, journal.target, mirrors, extent)
            begun = [one for one in planned if one.plan.begun]
            within_s = SAMPLE_S if request.verify == "sample" else None
            found = MirrorsCompared(extent, compare_all(environment, begun, extent.seed, within_s))
        except KafkaAdminError as error:
            verdict = not_compared(origin, target, str(error))
            raise StepFailedError(verdict.words, [verdict]) from error
        looked, of = found.ranges
        compared = ComparedCopies(
            verify=request.verify,
            records=found.records,
            partitions=len(found.partitions),
            ranges=looked,
            of_ranges=of,
            seed=extent.seed,
            seconds=round(environment.monotonic() - began, 1),
        )
        seen.update(compared.model_dump(mode="json", include={"records", "partitions", "ranges", "of_ranges"}))
        if verdicts := copies_differ(origin, target, found.differing):
            raise StepFailedError(" ".join(verdict.words for verdict in verdicts), verdicts)
        journal.note(compared=compared)


def compared_words(operation: MoveOperation) -> str:
    """The result of the comparison; empty: nothing was compared."""
    found = operation.evidence.compared
    if found is None:
        return ""
    what = "all of them" if found.verify == "full" else f"a sample, by seed {found.seed}"
    return (
        f"{found.records:,} records of its copies were equal to those of their sources before "
        f"({found.ranges:,} of {found.of_ranges:,} ranges: {what})"
    )
