"""The end of a crossing whose origin has died: the target is ordered from the cut on, without a word of the origin.

While a crossing is *open*, nothing was acknowledged at or above its cut that is not in the target, so the cut stands:
the origin's extent keeps it as its end, and the target is the writer from there on. What the origin alone held lies
below the cut, and is waited for, or skipped, as after any forced move. What its log holds above the cut is surplus,
which is neither lost nor doubled when it comes back: the extent says so (`Extent.surplus`).

While it is only *proposed*, gateways that did not know the cut may have acknowledged what lies above it. Nothing is in
the target then, so it is a forced cut like any other, above all that the origin can have given out.

Both happen behind a fence that every gateway has drained: no answer of the origin is on its way any more, and whoever
follows writes to the target alone.
"""

from __future__ import annotations

from collections.abc import Collection

from ha_core.model import Extent, MigrateOperation, MoveRequest, Topic, View
from ha_core.model.extent import live, skipping
from ha_core.model.operation import UnreadPolicy
from ha_core.model.producer import own_id, upstream_id
from ha_core.plan.engine.revision import (
    Documents,
    MoveDamagedError,
    cut_at,
    require_fenced,
    require_sound,
    require_state,
)
from ha_core.plan.facts.clusters import Ends, PartitionEnds, ProducerFacts, Producers, Surplus
from ha_core.plan.migration.crossing import Maps, at_stage, ended, uncut
from ha_core.plan.migration.crossing_stages import crossings
from ha_core.plan.migration.cuts import forced_cut, known_ends
from ha_core.plan.move.carry_over import NEWEST_MS
from ha_core.plan.move.partitions import written_in


def crossing_out(request: MoveRequest, topic: Topic | None) -> str | None:
    """The operation whose crossing out of the request's origin a forced move ends first, where that is all that is left
    of the topic there. None: there is no such crossing, or single partitions are named, which do not end one."""
    if request.mode != "forced" or topic is None or topic.crossing is None or topic.name in request.scope.partitions:
        return None
    left = any(live(extents).cluster == request.origin for extents in topic.partitions.values())
    return None if left or request.origin not in written_in(request, topic) else topic.crossing.operation


def end_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Ends,
    producers: Producers,
    unread: UnreadPolicy,
    read_ms: int | None = None,
) -> Documents:
    """The revision that ends the crossing of `topics` behind their fence.

    :param ends: the target's, and what is known of the origin's.
    :param producers: what is known of last sequences below cuts (`crossed_with`), asked at `read_ms`.
    :param unread: what readers below the cuts do.
    :raises MoveDamagedError: the fence does not stand, ends were not read, or a map would be wrong.
    """
    require_state(operation, "fenced")
    request = operation.request
    maps: Maps = {}
    for name in topics:
        topic = require_fenced(operation, f"topic {name}", at_stage(operation, view, name, "proposed", "open"))
        assert topic.crossing is not None
        maps[name] = dict(topic.partitions)
        for partition, origin, target in crossings(topic):
            where = f"topic {name} partition {partition}"
            found = ends.get((name, partition))
            if found is None:
                raise MoveDamagedError(f"{where}: the end in {target.cluster} was not read")
            if topic.crossing.state == "open":
                closed = origin.changed(known_end=_known_end(origin, target, found), surplus=True)
                after = (*topic.partitions[partition][:-2], closed, target)
            else:
                before = uncut(request, topic, partition)
                at, known_end = forced_cut(live(before), found, fastest_per_s=request.max_rate_records_s)
                # Below the proposed cut gateways acknowledge what the origin took, also those that come late.
                after = cut_at(request, where, before, max(at, target.start), found.target, known_end)
            if unread == "skip":
                after = skipping(after, request.origin)
            maps[name][partition] = require_sound(where, after)
    return ended(operation, view, maps, producers, read_ms, complete=False)


def crossed_with(surplus: Surplus, target: Extent, origin: Extent) -> tuple[ProducerFacts, ...] | None:
    """Last sequences below a cut, told by the target alone: the one before the first that each producer wrote there.
    None: its first batches are gone.

    The target takes what the origin's log has from the cut on, in its order. Without this, a batch of which it has the
    rest already would be out of order when it comes again.

    :param surplus: the headers of the target's batches from its base on.
    """
    if not surplus.whole:
        return None
    return tuple(
        ProducerFacts(upstream_id(client, origin.term), epoch, sequence - 1, NEWEST_MS)
        for there, (epoch, sequence) in surplus.first.items()
        if (client := own_id(there, target.term)) is not None and sequence > 0
    )


def _known_end(origin: Extent, target: Extent, found: PartitionEnds) -> int:
    """Up to which client offset the origin is known to have given out; the cut at most."""
    assert origin.end is not None
    if found.target > target.base:
        return origin.end  # what is in the target came to lie above the cut in the origin's log first
    committed = [found.known] if found.known is not None and found.known <= origin.end else []
    return min(origin.end, max([origin.start, *known_ends(origin, found), *committed]))
