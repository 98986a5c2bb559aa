"""The mirrors of a switch: copies are compared with their sources before, and mirrors are reversed after.

The comparison is the first step, and a task of its own: no adopted member's session would expire meanwhile, no copy is
held, and no client waits. So it may take its time, and its failure leaves hardly anything to undo. It is repeated after
a crash; the operation keeps its result, and then it is not done again.

The former writer gets a copy of the records that follow the cut. No client waits for it, and the switch succeeds
without it: if it fails, a document (`LostTail`) keeps the facts that reconciling that cluster needs to link the mirror
later.
"""

from collections.abc import Sequence

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import LostTail, Mirror, MoveOperation, SwitchOperation, Tail
from ha_core.model.evidence import ComparedCopies
from ha_core.operations.copies.comparing import SAMPLE_S, MirrorsCompared, compare_all, coverage, plan_mirrors
from ha_core.operations.copies.reversal import FAILURES, prepare_reversal, reversed_mirror
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.revisions import Touched
from ha_core.plan.engine.revision import Documents
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.mirror.held_copies import tail_of, to_hold, unturned
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
            begun = [planned_comparison for planned_comparison in planned if planned_comparison.plan.begun]
            within_s = SAMPLE_S if request.verify == "sample" else None
            comparison = MirrorsCompared(extent, compare_all(environment, begun, extent.seed, within_s))
        except KafkaAdminError as error:
            verdict = not_compared(origin, target, str(error))
            raise StepFailedError(verdict.words, [verdict]) from error
        looked, of = comparison.ranges
        compared = ComparedCopies(
            verify=request.verify,
            records=comparison.records,
            partitions=len(comparison.partitions),
            ranges=looked,
            of_ranges=of,
            seed=extent.seed,
            seconds=round(environment.monotonic() - began, 1),
        )
        seen.update(compared.model_dump(mode="json", include={"records", "partitions", "ranges", "of_ranges"}))
        if verdicts := copies_differ(origin, target, comparison.differing):
            raise StepFailedError(" ".join(verdict.words for verdict in verdicts), verdicts)
        journal.note(compared=compared)


def compared_words(operation: MoveOperation) -> str:
    """The result of the comparison; empty: nothing was compared."""
    copies = operation.evidence.compared
    if copies is None:
        return ""
    what = "all of them" if copies.verify == "full" else f"a sample, by seed {copies.seed}"
    return (
        f"its copies were compared with their sources before: {amount(copies.records, 'record')}, all equal "
        f"({copies.ranges:,} of {copies.of_ranges:,} ranges: {what})"
    )


def reverse_all(journal: Journal[SwitchOperation]) -> None:
    """Prepare each reversal, then write all mirrors in one revision. Safe to repeat."""
    operation, environment = journal.operation, journal.environment
    if not operation.evidence.ended:
        return
    with journal.step("reverse") as seen:
        touched = Touched.read(journal)
        made, left = list[LostTail | Mirror](), dict[str, str]()
        for topic, old in unturned(journal.operation, touched.view).items():
            new = reversed_mirror(old, operation.id, environment.now(), operation.by)
            bases = {cut.partition: cut.base for cut in operation.evidence.cuts[topic]}
            try:
                prepare_reversal(environment, old, bases, new, journal.still_ours)
            except FAILURES as error:
                environment.say(f"the mirror of {topic} is not reversed: {error}")
                left[topic] = str(error)
                made.append(_left(operation, old, environment.now()))
            else:
                made.append(new)
        if made:
            seen["revision"] = _commit(touched, operation, made)
        seen.update(mirrors=len(made) - len(left), left=left)


def store_unreversed(journal: Journal[SwitchOperation]) -> None:
    """Store the facts that a later reversal needs."""
    operation, now = journal.operation, journal.environment.now()
    if operation.evidence.ended:
        touched = Touched.read(journal)
        left = [_left(operation, old, now) for old in unturned(operation, touched.view).values()]
        if left:
            _commit(touched, operation, left)


def without_copy(journal: Journal[SwitchOperation]) -> str:
    """The way out for mirrors that were not reversed; empty: all were."""
    operation, store = journal.operation, journal.environment.store
    keys = {topic: _key(operation, topic) for topic in operation.evidence.ended}
    left = sorted(topic for topic, key in keys.items() if store.read(LostTail, key) is not None)
    if not left:
        return ""
    origin = operation.request.origin
    return f"{origin} has no copy of {listed(left)} yet: `switchyard mirror reconcile {origin}` when it answers again"


def _commit(touched: Touched, operation: SwitchOperation, made: Sequence[LostTail | Mirror]) -> int:
    turned = [(LostTail, _key(operation, one.topic)) for one in made if isinstance(one, Mirror)]
    over = tuple(key for key in turned if key in touched.documents)
    return touched.commit(Documents((*made, touched.journal.operation), over), "reverse")


def _key(operation: SwitchOperation, topic: str) -> str:
    return LostTail.key_of(topic, operation.request.origin, operation.id)


def _left(operation: SwitchOperation, old: Mirror, at: str) -> LostTail:
    """Everything was mirrored: the tail begins at the origin's log end of the cut."""
    ends = operation.evidence.origin_ends.get(old.topic, {})
    cuts = operation.evidence.cuts[old.topic]
    tails = {cut.partition: Tail(mirrored=ends.get(cut.partition, 0), client=cut.start) for cut in cuts}
    return tail_of(operation, old, at, tails)
