"""A crossing: the revisions of a migration without a fence, and how to resume it after an interruption.

The cut `c` of each partition lies ahead of the origin's log end; the log reaches it by itself
(docs/design/crossing.md).
The invariant, at every point, after any number of interruptions:

1. No record that a gateway acknowledged at or above c is in the origin only. A gateway without c acknowledges whatever
   the origin appends. So a crossing is `open`ed only when every live gateway applies `proposed`, has no request in
   flight from before, and the origin's end, read after that, is still below c in every partition. Else a higher cut
   is proposed: records between the two were not acknowledged, and never written elsewhere.
2. The target is written only from `open` on. So undoing before it loses nothing. After it, a crossing is made
   `proposed` again, every gateway is waited for, and the map is withdrawn only if the target's end is still its base.
   If it is not, the crossing is opened again: since it was first open, gateways have acknowledged no record at or
   above c that is not in the target.
3. A crossing ends only when every partition of the topic has reached its cut, or under a fence. There a cut that was
   not reached is lowered to the origin's end: no offset was assigned above it, and the target is still at its base.

The topics of an operation are independent: each revision takes some of them one stage further, and the documents alone
show the stage of each one to an executor that resumes.
"""

from collections.abc import Collection, Mapping
from typing import Literal

from ha_core.model import Crossing, Document, Fence, MigrateOperation, MoveRequest, Topic, View
from ha_core.model.extent import Extents, identity, open_extent
from ha_core.plan.engine.revision import (
    FINAL,
    Documents,
    MoveDamagedError,
    all_partitions,
    cut_at,
    entering,
    fenced,
    require_fenced,
    require_state,
)
from ha_core.plan.facts.clusters import Ends, Partition, Producers
from ha_core.plan.facts.verdict import listed
from ha_core.plan.migration.crossing_stages import Stage, crossings, end_of, passed, stage, stages
from ha_core.plan.move.carry_over import carry_sequences
from ha_core.plan.move.identity_maps import require_unused
from ha_core.plan.move.partitions import cuts_of, extents_of, holes_of, moving, writer_after

Maps = dict[str, dict[int, Extents]]
"""Topic → its map after the crossing."""


def propose_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Ends,
    cuts: Mapping[Partition, int],
) -> Documents:
    """Propose cuts for `topics`, or higher ones.

    :param ends: of all partitions; the target's become the bases of a new map.
    :param cuts: client offsets; partitions whose cut stays may be missing.
    :raises MoveDamagedError: a cut is not above the end, or below the previous one; the new copy is not empty.
    """
    request = operation.request
    require_state(operation, "planned", "running", "crossing")
    puts: list[Document] = []
    for name in topics:
        topic = view.topics.get(name) or Topic(name=name)
        found = stage(operation, topic)
        if found not in {"before", "proposed"} or topic.fence is not None:
            raise MoveDamagedError(f"topic {name} is {_words(topic, found)}: no cut can be proposed for it")
        everything = all_partitions(topic, ends)
        require_unused(operation, name, ends)
        partitions = {partition: extents_of(request, topic, partition) for partition in everything}
        crossing = moving(request, topic, everything)
        for partition in crossing:
            partitions[partition] = proposed_map(request, topic, partition, ends, cuts)
        some = () if crossing == tuple(everything) else crossing
        proposed = Crossing(operation=operation.id, state="proposed", partitions=some)
        writer = topic.writer or request.origin
        puts.append(topic.changed(writer=writer, partitions=partitions, crossing=proposed))
    return Documents((*puts, entering(operation, "crossing")))


def open_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Ends,
    counts: Mapping[str, int],
) -> Documents:
    """Open the crossings of `topics`. `ends` and `counts`, the origin's partitions, were read after every live gateway
    applied the proposed cuts.

    :raises MoveDamagedError: a log passed its cut, partitions were added, or the target was written to.
    """
    require_state(operation, "crossing")
    puts: list[Document] = []
    for name in topics:
        topic = at_stage(operation, view, name, "proposed")
        # Until every gateway served the cuts, clients were routed to added partitions too, so these have to move.
        if new := added(operation.request, topic, counts):
            raise MoveDamagedError(
                f"topic {name} has got partitions {list(new)} since its cuts were proposed, which have no cut. "
                "Roll it back, and migrate it again"
            )
        if beyond := passed(topic, ends):
            raise MoveDamagedError(f"topic {name}: the log has passed the cut of partitions {list(beyond)}")
        require_base(topic, ends)
        puts.append(_in_state(topic, "open"))
    return Documents((*puts, operation))


def settle_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Ends,
    counts: Mapping[str, int],
    producers: Producers,
    read_ms: int | None = None,
) -> Documents:
    """End the crossings of `topics`, whose partitions have all reached their cuts.

    :param ends: the origin's high watermarks: records above them could still be lost, and do not count.
    :param counts: topic → partitions of the origin; those without a cut stay its own.
    :param producers: known last sequences below the cuts, read at `read_ms`.
    :raises MoveDamagedError: a partition has not reached its cut, or is missing.
    """
    require_state(operation, "crossing")
    maps: Maps = {}
    for name in topics:
        topic = at_stage(operation, view, name, "open")
        if topic.fence is not None:
            raise MoveDamagedError(f"topic {name} is fenced: its crossing ends under the fence")
        if missing := set(filter(topic.crosses, topic.partitions)) - set(passed(topic, ends)):
            raise MoveDamagedError(f"topic {name}: partitions {sorted(missing)} have not reached their cuts")
        maps[name] = with_added(operation.request, topic, counts)
    return ended(operation, view, maps, producers, read_ms)


def retreat_change(operation: MigrateOperation, view: View) -> Documents:
    """Make open crossings `proposed` again, and mark the operation as being undone. May be repeated.

    :raises MoveDamagedError: a topic has crossed over already.
    """
    found = stages(operation, view.topics)
    settled = [name for name, one in found.items() if one == "settled"]
    if settled or operation.state in FINAL | {"cut"}:
        raise MoveDamagedError(f"operation {operation.id}: {listed(settled)} crossed over, there is no way back")
    opened = [name for name, one in found.items() if one == "open"]
    puts = [_in_state(view.topics[name], "proposed") for name in opened]
    noted = operation.noting(retreated=tuple(sorted({*operation.evidence.retreated, *opened})))
    return Documents((*puts, entering(noted, "undoing")))


def reopen_change(operation: MigrateOperation, view: View) -> Documents:
    """Stop undoing: open the retreated crossings again. By the invariant this needs no log ends."""
    puts = [
        _in_state(at_stage(operation, view, name, "proposed"), "open")
        for name in operation.evidence.retreated
        if stage(operation, view.topics.get(name)) == "proposed"
    ]
    # Withdrawn cuts are proposed again by the steps from the beginning.
    withdrawn = all(one == "before" for one in stages(operation, view.topics).values())
    return Documents((*puts, entering(operation.noting(retreated=()), "running" if withdrawn else "crossing")))


def withdraw_change(operation: MigrateOperation, view: View, ends: Ends) -> Documents:
    """Withdraw the proposed cuts: the maps end in the origin again. May be repeated.

    :param ends: the target's for topics that were open, read after every live gateway applied `proposed`.
    :raises MoveDamagedError: a topic is open or has crossed over, or the target was written.
    """
    puts: list[Document] = []
    for name, found in stages(operation, view.topics).items():
        if found == "before":
            continue
        topic = at_stage(operation, view, name, "proposed")
        if name in operation.evidence.retreated:
            require_base(topic, ends)
        back = {p: uncut(operation.request, topic, p) for p in topic.partitions if topic.crosses(p)}
        puts.append(topic.changed(partitions={**topic.partitions, **back}, crossing=None))
    return Documents((*puts, entering(operation, "undoing")))


def hold_change(
    operation: MigrateOperation, view: View, topics: Collection[str], *wanted: Stage, dead: str | None = None
) -> Documents:
    """Fence `topics`, which are at a `wanted` stage, to end their crossing. May be repeated.

    :param dead: the origin, if it is taken for dead.
    """
    require_state(operation, "crossing", "fenced")
    fence = Fence(operation=operation.id, taken_for_dead=dead)
    puts = [at_stage(operation, view, name, *wanted).changed(fence=fence) for name in topics]
    return Documents((*puts, entering(operation, "fenced")))


def lift_change(operation: MigrateOperation, view: View) -> Documents:
    """Lift the fences, so the crossing continues. May be repeated."""
    puts = [topic.unfenced for topic in fenced(operation, view.topics, {})]
    return Documents((*puts, entering(operation, "crossing" if operation.state == "fenced" else operation.state)))


def finish_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Ends,
    counts: Mapping[str, int],
    producers: Producers,
    read_ms: int | None = None,
) -> Documents:
    """End the crossing under a fence: cuts that were not reached are lowered to the origin's end.

    :param ends: of both sides, read under the fence. Other parameters as in `settle_change`.
    :raises MoveDamagedError: there is no fence, or the target was written below a cut that was not reached.
    """
    require_state(operation, "fenced")
    request = operation.request
    maps: Maps = {}
    for name in topics:
        topic = require_fenced(operation, f"topic {name}", at_stage(operation, view, name, "open"))
        maps[name] = with_added(request, topic, counts)
        reached = set(passed(topic, ends))
        for partition, origin, target in crossings(topic):
            if partition in reached:
                continue
            where = f"topic {name} partition {partition}"
            if ends[name, partition].target != target.base:
                raise MoveDamagedError(
                    f"{where}: {request.target} was written to offset {ends[name, partition].target}, and the log of "
                    f"{request.origin} has not reached the cut: it was truncated, or clients write there past gateways"
                )
            at = origin.extrapolate(end_of(name, partition, ends))
            maps[name][partition] = cut_at(request, where, uncut(request, topic, partition), at, target.base)
    return ended(operation, view, maps, producers, read_ms)


def at_stage(operation: MigrateOperation, view: View, name: str, *wanted: Stage) -> Topic:
    """The topic. :raises MoveDamagedError: it is at another stage."""
    topic = view.topics.get(name)
    found = stage(operation, topic)
    if topic is None or found not in wanted:
        raise MoveDamagedError(f"topic {name} is {_words(topic, found)}, not {' or '.join(wanted)}")
    return topic


def _words(topic: Topic | None, found: Stage) -> str:
    return f"{found} and fenced by operation {topic.fence.operation}" if topic and topic.fence else found


def _in_state(topic: Topic, state: Literal["proposed", "open"]) -> Topic:
    assert topic.crossing is not None
    return topic.changed(crossing=topic.crossing.changed(state=state))


def ended(
    operation: MigrateOperation,
    view: View,
    maps: Maps,
    producers: Producers,
    read_ms: int | None,
    complete: bool = True,
) -> Documents:
    """The revision that ends the crossing of the topics of `maps`. With the last of them the operation is `cut`.

    Its evidence keeps the cuts, since later moves change the maps, and the partitions that had none.

    :param complete: `producers` has every producer below the cuts; else others may have written, too.
    """
    puts: list[Document] = []
    now = dict(view.topics)
    evidence = operation.evidence
    cuts, holes, remaining = dict(evidence.cuts), dict(evidence.holes), dict(evidence.remaining)
    for name, partitions in maps.items():
        topic = view.topics[name]
        writer = writer_after(operation.request, topic, partitions)
        now[name] = topic.changed(writer=writer, partitions=partitions, crossing=None, fence=None)
        crossed = [partition for partition, _, _ in crossings(topic)]
        cuts[name] = cuts_of(partitions, crossed)
        if found := holes_of(partitions, crossed):
            holes[name] = found
        if new := sorted(partitions.keys() - topic.partitions.keys()):
            remaining[name] = tuple(new)
        sequences = carry_sequences(name, view.sequences.get(name), cuts[name], producers, read_ms, complete)
        puts += filter(None, (now[name], sequences))
    operation = operation.noting(cuts=cuts, holes=holes, remaining=remaining)
    if all(one == "settled" for one in stages(operation, now).values()):
        return Documents((*puts, entering(operation, "cut")))
    return Documents((*puts, entering(operation, "fenced" if fenced(operation, now, {}) else "crossing")))


def uncut(request: MoveRequest, topic: Topic, partition: int) -> Extents:
    """The extents without the cut ahead. Older extents of the target keep the end that was read for it."""
    if partition not in topic.partitions:
        return identity(request.origin)
    origin = topic.written(partition)
    return (*topic.extents(partition)[:-2], origin.changed(end=None))


def proposed_map(
    request: MoveRequest,
    topic: Topic,
    partition: int,
    ends: Ends,
    cuts: Mapping[Partition, int],
) -> Extents:
    """The extents of a partition with its cut.

    :param cuts: client offsets; a missing one stays as proposed before.
    :raises MoveDamagedError: the cut is not above the log end, or below the previous one; or the map would be wrong.
    """
    name, where = topic.name, f"topic {topic.name} partition {partition}"
    before = topic.partitions.get(partition) if topic.crossing else None
    at = cuts.get((name, partition), before[-1].start if before else None)
    if at is None:
        raise MoveDamagedError(f"{where}: there is no cut to propose")
    if before and at < before[-1].start:
        raise MoveDamagedError(f"{where}: the cut {at} is below {before[-1].start}, the previous one")
    origin = uncut(request, topic, partition) if topic.crossing else extents_of(request, topic, partition)
    base = before[-1].base if before else ends[name, partition].target
    try:
        end = open_extent(origin).to_client(end_of(name, partition, ends))
    except ValueError as error:
        raise MoveDamagedError(f"{where}: {error}") from error
    if (name, partition) in cuts and at <= end:
        raise MoveDamagedError(f"{where}: the cut {at} is not above the log end {end}")
    return cut_at(request, where, origin, at, base)


def added(request: MoveRequest, topic: Topic, counts: Mapping[str, int]) -> tuple[int, ...]:
    """Partitions of the origin that the map does not list, if the topic's `writer` is to change.

    During the crossing gateways route no client to them (`Topic.withheld`). They stay in the origin, and need their own
    extents for that: otherwise they would get the new writer.
    """
    if topic.writer != request.origin or writer_after(request, topic, topic.partitions) == request.origin:
        return ()  # their writer does not change
    return tuple(partition for partition in range(counts[topic.name]) if partition not in topic.partitions)


def with_added(request: MoveRequest, topic: Topic, counts: Mapping[str, int]) -> dict[int, Extents]:
    """The map, with partitions added meanwhile as the origin's own."""
    return {**topic.partitions, **dict.fromkeys(added(request, topic, counts), identity(request.origin))}


def require_base(topic: Topic, ends: Ends) -> None:
    """:raises MoveDamagedError: the target was written to."""
    for partition, _, target in crossings(topic):
        found = ends[topic.name, partition].target
        if found != target.base:
            raise MoveDamagedError(
                f"topic {topic.name} partition {partition}: cluster {target.cluster} ends at {found}, and its extent "
                f"begins at {target.base}: records were written there"
            )
