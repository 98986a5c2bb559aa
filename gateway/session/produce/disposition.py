"""What becomes of a batch that the origin has, whose offset was not known to lie below the cut when it was sent.

It is judged by the newest state alone, however much has happened since it was sent. While a cut is only proposed
nobody knows yet: a higher one may make the batch ordinary, or the cut is taken back. Refused at that instant, the
record of a producer without idempotence would come a second time, and both copies would be read.

Invariant: `TAKEN`, `STRANDED` and `Crosses` are said only while the lease holds, so that no operation has gone on
without this gateway. Every later cut lies above what the origin has by now, or is above the batch already.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from gateway.session.routes import Routes, Way
from ha_core.model import Extent
from ha_core.model.extent import identity, live
from ha_core.wire.records import Batch


class Part(NamedTuple):
    """A partition's batch, before its producer id is changed for the origin."""

    origin: Extent
    """As it was when the batch was sent there."""
    in_transaction: bool
    records: bytes
    batch: Batch


class Fate(Enum):
    TAKEN = "taken"
    """It is where readers find it: in the origin, all of it below the cut."""
    STRANDED = "stranded"
    """The same, in an origin that was taken for dead since: so the next cluster never learns of it. Taken only where
    nothing that came before has been refused, which would go there, and what follows not fit behind it."""
    UNDECIDED = "undecided"
    REFUSED = "refused"


class Crosses(NamedTuple):
    """What lies at or above the cut goes to the target."""

    target: Extent
    """All of the batch belongs there, also where it begins below the cut."""


def fate(part: Part, first: int, name: bytes, partition: int, routes: Routes, lease: bool) -> Fate | Crosses:
    """Judges a batch that the origin has from client offset `first` on.

    :param routes: of the newest snapshot.
    :param lease: whether the lease holds.
    """
    after = first + part.batch.records_count
    topic = routes.snapshot.view.topics.get(name.decode("utf-8", "replace"))
    mapped = topic is not None and topic.mapped
    extents = topic.extents(partition) if topic is not None and mapped else _unmapped(part, name, routes)
    held = next((one for one in extents if one.same_stay(part.origin)), None)
    if held is not None and held.ignored:
        return Fate.REFUSED  # readers skip what the origin alone has: it is to be written again
    taken = Fate.TAKEN if held is None or held.known_end is None else Fate.STRANDED
    if part.origin.end is not None and after <= part.origin.end:
        return taken  # cuts are only raised, or lowered to where the origin's log ends
    if held is None:
        return Fate.REFUSED
    if held.end is None or after <= held.end:
        return taken if lease else Fate.UNDECIDED
    if held.known_end is not None and not held.surplus:
        return Fate.REFUSED
    assert topic is not None
    if topic.crosses(partition) and topic.crossing and (topic.crossing.state == "proposed" or topic.fence):
        return Fate.UNDECIDED
    # A transaction ends in the cluster that it began in: what passes the cut is refused until it is aborted.
    if not lease or topic.fence is not None or part.in_transaction or extents[-2:-1] != (held,):
        return Fate.REFUSED
    return Crosses(live(extents))


def _unmapped(part: Part, name: bytes, routes: Routes) -> tuple[Extent, ...]:
    """The cut was taken back: the log is ordinary again, if that is where the client writes to now."""
    return identity(part.origin.cluster) if routes.topic(name).produce is Way.PASS else ()
