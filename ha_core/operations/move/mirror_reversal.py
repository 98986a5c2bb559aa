"""Reverses the mirrors of a switch: the former writer gets a copy of the records that follow the cut.

No client waits for it, and the switch succeeds without it: if it fails, a document (`LostTail`) keeps the facts that
reconciling that cluster needs to link the mirror later.
"""

from __future__ import annotations

from collections.abc import Sequence

from ha_core.model import LostTail, Mirror, SwitchOperation, Tail
from ha_core.operations.copies.reversal import FAILURES, prepare_reversal, reversed_mirror
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.revisions import Touched
from ha_core.plan.engine.revision import Documents
from ha_core.plan.facts.verdict import listed
from ha_core.plan.mirror.copies import unturned


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
    return LostTail(
        key=_key(operation, old.topic),
        topic=old.topic,
        cluster=old.source,
        target=old.target,
        operation=operation.id,
        since=at,
        link=old.link,
        log=old.log,
        log_partitions=old.log_partitions,
        **old.policy,
        partitions={cut.partition: Tail(mirrored=ends.get(cut.partition, 0), client=cut.start) for cut in cuts},
    )
