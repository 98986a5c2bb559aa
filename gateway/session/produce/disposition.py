"""Decides on a batch that the origin has appended, and that was not known to lie below the cut when it was sent.

Only the newest state counts. While a cut is only proposed, the decision is open: the cut may be raised or taken back.
If the batch were refused then, the record of a producer without idempotence would come a second time, and readers would
get both copies.

Invariant: `TAKEN`, `STRANDED` and a target are returned only while the lease holds, so that no operation has passed
this gateway by. Every later cut lies above the origin's present log end, or the batch is above the cut already.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from gateway.session.request import text
from gateway.session.routes import Routes
from ha_core.model import Extent
from ha_core.model.extent import identity, live
from ha_core.wire.records import Batch


class SentBatch(NamedTuple):
    """A partition's batch that went to the origin, as its client sent it."""

    origin: Extent
    """The origin's extent at that time."""
    in_transaction: bool
    records: bytes
    batch: Batch


class Disposition(Enum):
    """Outcome for a batch that is not written to a target."""

    TAKEN = "taken"
    """Readers find it in the origin: all of it lies below the cut."""
    STRANDED = "stranded"
    """Like `TAKEN`, in an origin that was taken for dead since, so the next cluster never learns of it. Allowed only if
    no earlier batch was refused: that one would go to the next cluster, and later ones would not fit after it there."""
    UNDECIDED = "undecided"
    REFUSED = "refused"


def dispose(
    sent: SentBatch, first: int, name: bytes, partition: int, routes: Routes, lease: bool
) -> Disposition | Extent:
    """Judges a batch that the origin has from client offset `first` on. An extent: the target, to which all of it goes,
    also if it begins below the cut."""
    after = first + sent.batch.records_count
    topic = routes.snapshot.view.topics.get(text(name))
    if topic is not None and topic.mapped:
        extents = topic.extents(partition)
    else:  # The cut was taken back: the log is ordinary again, if the client's writes go there now.
        extents = identity(sent.origin.cluster) if routes.writes((name,)) else ()
    stay = next((extent for extent in extents if extent.same_stay(sent.origin)), None)
    if stay is not None and stay.ignored:
        return Disposition.REFUSED  # readers skip records that only the origin has: it has to be written again
    taken = Disposition.TAKEN if stay is None or stay.known_end is None else Disposition.STRANDED
    if sent.origin.end is not None and after <= sent.origin.end:
        return taken  # cuts are only raised, or lowered to the origin's log end
    if stay is None:
        return Disposition.REFUSED
    if stay.end is None or after <= stay.end:
        return taken if lease else Disposition.UNDECIDED
    if stay.known_end is not None and not stay.surplus:
        return Disposition.REFUSED
    assert topic is not None
    ahead = topic.crosses(partition) and topic.crossing and (topic.crossing.state == "proposed" or topic.fence)
    if ahead or topic.damaged(partition):
        return Disposition.UNDECIDED
    # A transaction ends in the cluster that it began in: batches above the cut are refused until it is aborted.
    if not lease or topic.fence is not None or sent.in_transaction or extents[-2:-1] != (stay,):
        return Disposition.REFUSED
    return live(extents)
