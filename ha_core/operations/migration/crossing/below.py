"""Last sequences of producers below their cuts, read from the origin after its log had reached these.

Nothing is appended below a reached cut any more, so an answer stays true. It is read as soon as the cut is reached, and
stored with the operation: the later it is read, the more surplus has to be read for it.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import astuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import UnsupportedByClusterError
from ha_core.model import MigrateOperation, Topic
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.revisions import nested_by_topic
from ha_core.operations.migration.crossing.ends import CrossingProgress
from ha_core.plan.facts.clusters import Partition, ProducerFacts
from ha_core.plan.facts.verdict import listed
from ha_core.plan.migration.crossing_stages import crossings
from ha_core.plan.move.carry_over import below_cut

READ_S = 60.0
ATTEMPTS = 3
MAX_KEPT_BYTES = 200_000
"""Sequences above this limit are not stored, but read again when their topic settles."""
Below = dict[Partition, tuple[ProducerFacts, ...] | None]


def read_below(origin: Admin, cuts: Mapping[Partition, int]) -> Below:
    """Partition → last sequences below its cut, a physical offset that was reached; None if brokers do not list
    producers.

    All answers about a partition come from one leader epoch: a new leader may lack states of the old one, and a
    sequence that is in no log any more must not make a retry pass for a duplicate.

    :raises StepFailedError: leaders changed at each attempt.
    """
    facts: Below = {}
    left = list(cuts)
    for _ in range(ATTEMPTS):
        if not left:
            return facts
        before = origin.ends(left)
        try:
            producer_facts = origin.producers(left)
        except UnsupportedByClusterError:
            return dict.fromkeys(cuts)
        ends = origin.ends(left)
        surplus = origin.surplus({key: (cuts[key], ends[key].log_end) for key in left}, timeout_s=READ_S)
        after = origin.ends(left)
        same = [key for key in left if before[key].leader_epoch == after[key].leader_epoch]
        facts |= {key: below_cut(producer_facts[key], surplus[key]) for key in same}
        left = [key for key in cuts if key not in facts]
    if left:
        named = listed(f"{topic}-{partition}" for topic, partition in left)
        raise StepFailedError(
            f"The leaders of {named} changed while they listed their producers. Try again: nothing is lost."
        )
    return facts


def physical_cuts(topics: Mapping[str, Topic], names: Collection[str]) -> dict[Partition, int]:
    """Partition → its cut, in the origin's own offsets."""
    cuts: dict[Partition, int] = {}
    for name in names:
        for partition, origin, _ in crossings(topics[name]):
            end = origin.physical_end
            assert end is not None
            cuts[name, partition] = end
    return cuts


def keep_below(journal: Journal[MigrateOperation], topics: Mapping[str, Topic], progress: CrossingProgress) -> None:
    """Store last sequences of cuts that were reached since the last look, for topics that other partitions keep
    open."""
    if not (unread := unread_below(journal.operation, progress)):
        return
    cuts = {key: cut for key, cut in physical_cuts(topics, {name for name, _ in unread}).items() if key in unread}
    kept = kept_below(journal) | read_below(journal.origin, cuts)
    below = nested_by_topic(
        {
            key: None if facts is None else tuple(astuple(producer_facts)[:4] for producer_facts in facts)
            for key, facts in kept.items()
        }
    )
    if len(json.dumps(below)) > MAX_KEPT_BYTES:
        journal.note(below_is_full=True)
        return
    journal.note(below=below)
    journal.append("reached", "note", detail={"partitions": [f"{name}-{part}" for name, part in sorted(cuts)]})


def unread_below(operation: MigrateOperation, progress: CrossingProgress) -> set[Partition]:
    """Partitions that have reached their cut since the last look, of topics that other partitions keep open."""
    if operation.evidence.below_is_full:
        return set()
    kept = operation.evidence.below
    return {
        (partition.topic, partition.partition)
        for partition in progress.partitions
        if progress.stages[partition.topic] == "open"
        and partition.topic not in progress.ready
        and partition.reached
        and partition.partition not in kept.get(partition.topic, {})
    }


def kept_below(journal: Journal[MigrateOperation], wanted: Collection[Partition] | None = None) -> Below:
    """Sequences that earlier looks have stored with the operation, for the `wanted` partitions or all."""
    return {
        (name, partition): None if found is None else tuple(ProducerFacts(*row) for row in found)
        for name, partitions in journal.operation.evidence.below.items()
        for partition, found in partitions.items()
        if wanted is None or (name, partition) in wanted
    }


def without_below(operation: MigrateOperation, names: Collection[str]) -> MigrateOperation:
    """The operation without the sequences of `names`, which are stored with these topics now."""
    left = {name: kept for name, kept in operation.evidence.below.items() if name not in names}
    return operation.noting(below=left)
