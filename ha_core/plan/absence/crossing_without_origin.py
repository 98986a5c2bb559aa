"""Ends a crossing whose origin has died: the target becomes the writer from the cut on, without the origin.

While a crossing is *open*, the target has every acknowledged record at or above the cut. So the cut stands: the
origin's extent ends there, and the target is the writer from there on. Records that only the origin held are below the
cut; readers wait for them or skip them, as after any forced move. Records in the origin's log above the cut are
surplus, neither lost nor doubled when the origin comes back (`Extent.surplus`).

While it is only *proposed*, gateways without the cut may have acknowledged records above it. The target is empty then,
so it gets a forced cut like any other, above every offset that the origin can have assigned.

Both happen under a fence that every gateway has drained: no answer of the origin is in flight any more, and later
batches go to the target alone.
"""

from collections.abc import Collection

from ha_core.model import Extent, MigrateOperation, MoveRequest, Topic, View
from ha_core.model.extent import open_extent, skipping
from ha_core.model.move_request import UnreadPolicy
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
    """The operation whose crossing a forced move ends first, if nothing else of the topic is left in the origin. None:
    no such crossing, or the request names single partitions, which never end one."""
    if request.mode != "forced" or topic is None or topic.crossing is None or topic.name in request.scope.partitions:
        return None
    left = any(open_extent(extents).cluster == request.origin for extents in topic.partitions.values())
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
    """The revision that ends the crossing of `topics` under their fence.

    :param ends: the target's, and the last known ones of the origin.
    :param producers: known last sequences below the cuts (`crossed_with`), read at `read_ms`.
    :param unread: what readers below the cuts do.
    :raises MoveDamagedError: there is no fence, ends were not read, or a map would be wrong.
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
                at, known_end = forced_cut(open_extent(before), found, fastest_per_s=request.max_rate_records_s)
                # Gateways acknowledge whatever the origin appended below the proposed cut, even in late answers.
                after = cut_at(request, where, before, max(at, target.start), found.target, known_end)
            if unread == "skip":
                after = skipping(after, request.origin)
            maps[name][partition] = require_sound(where, after)
    return ended(operation, view, maps, producers, read_ms, complete=False)


def crossed_with(surplus: Surplus, target: Extent, origin: Extent) -> tuple[ProducerFacts, ...] | None:
    """Last sequences below a cut, derived from the target alone: one less than each producer's first sequence there.
    None: the target's first batches are gone.

    The target has the origin's log from the cut on, in order. Without these sequences, a retry of a batch whose rest
    the target already has would be out of order.

    :param surplus: headers of the target's batches from its base on.
    """
    if not surplus.whole:
        return None
    return tuple(
        ProducerFacts(upstream_id(client, origin.writer_epoch), epoch, sequence - 1, NEWEST_MS)
        for there, (epoch, sequence) in surplus.first.items()
        if (client := own_id(there, target.writer_epoch)) is not None and sequence > 0
    )


def _known_end(origin: Extent, target: Extent, ends: PartitionEnds) -> int:
    """Client offset up to which the origin is known to have assigned offsets; the cut at most."""
    assert origin.end is not None
    if ends.target > target.base:
        return origin.end  # a record in the target landed above the cut in the origin's log first
    committed = [ends.known] if ends.known is not None and ends.known <= origin.end else []
    return min(origin.end, max([origin.start, *known_ends(origin, ends), *committed]))
