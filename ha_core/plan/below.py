"""What producers had appended below a cut that the log has run past: arithmetic of sequences, without a fence.

A leader remembers of each producer only its last batch, which may lie at or above the cut: in the surplus. The headers
of the surplus say with which sequence each of its producers crossed the cut, so the one before was its last below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ha_core.plan.facts import ProducerFacts, Surplus

NEWEST_MS = 1 << 62
"""A producer that the leader did not know yet when it was asked wrote after all the others."""


def below_cut(known: Sequence[ProducerFacts], surplus: Surplus) -> tuple[ProducerFacts, ...] | None:
    """Each producer's last sequence below the cut; None where that cannot be said.

    A guess would be worse than nothing: one that is too high lets a retry pass for a duplicate that no log holds.

    :param known: what the leader remembers, asked after the log had reached the cut and before the surplus was read.
    """
    if not surplus.whole:
        return None
    last = {producer.producer_id: producer for producer in known}
    for producer_id, (epoch, sequence) in surplus.first.items():
        remembered = last.get(producer_id)
        if remembered is not None and remembered.epoch < epoch:
            continue  # it raised its epoch at the cut (KIP-360) after the leader was asked
        at_ms = NEWEST_MS if remembered is None else remembered.last_timestamp_ms
        last[producer_id] = ProducerFacts(producer_id, epoch, sequence - 1, at_ms)
    return tuple(producer for producer in last.values() if producer.last_sequence >= 0)
