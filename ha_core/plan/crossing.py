"""A crossing: what each revision of a migration without a fence writes, and how to go on after an interruption.

The cut `c` of each partition lies ahead of the origin's log end; the log runs into it by itself (docs/design.md §7).
The invariant, at every point, however often it is interrupted:

1. No record that a gateway acknowledged at or above c lies in the origin only. Who does not know c acknowledges what
   the origin takes, so a crossing is `open`ed only when every live gateway follows `proposed`, has nothing in flight
   from before, and the origin's end, read after that, is still below c in every partition. Else a higher cut is
   proposed: what lies between the two was not acknowledged, and never written elsewhere.
2. The target is written only from `open` on. So before it nothing can be lost by a way back; after it, a crossing is
   made `proposed` again, every gateway is waited for, and the map is withdrawn only where the target's end is still
   its base. If it is not, the crossing is opened again: since it was open first, nobody has acknowledged anything at
   or above c that is not in the target.
3. A crossing ends only when every partition of the topic has reached its cut, or behind a fence, where a cut that was
   not reached is lowered to the origin's end: nothing was given out there, and the target is still at its base.

The topics of an operation are independent of each other: each revision moves some of them one stage on, and whoever
finds the operation interrupted sees from the documents alone where each one stands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from ha_core.model import Crossing, Document, Extent, Fence, MigrateOperation, Topic, View
from ha_core.model.extent import live
from ha_core.model.operation import Cut
from ha_core.plan.carry import Ended, carry_sequences
from ha_core.plan.crossing_maps import (
    proposed_map,
    require_base,
    require_not_added,
    require_partitions,
    uncut,
    with_added,
)
from ha_core.plan.crossing_stages import Stage, crossings, end_of, fenced, passed, require_fenced, stage, stages
from ha_core.plan.facts import Partition, PartitionEnds, ProducerFacts
from ha_core.plan.moving import listed, moving, writer_after
from ha_core.plan.pinning import require_unused
from ha_core.plan.revision import FINAL, Documents, MoveDamagedError, all_partitions, cut_at, entering, require_state

Producers = Mapping[Partition, Sequence[ProducerFacts]]


def propose_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Mapping[Partition, PartitionEnds],
    cuts: Mapping[Partition, int],
) -> Documents:
    """Propose cuts for `topics`, or higher ones.

    :param ends: of all partitions; a new map takes the target's as its base.
    :param cuts: client offsets. May lack partitions whose cut stays.
    :raises MoveDamagedError: a cut is not above the end, or below the one before; the new copy is not empty.
    """
    request = operation.request
    require_state(operation, "planned", "running", "crossing")
    puts: list[Document] = []
    for name in topics:
        topic = view.topics.get(name) or Topic(name=name)
        found = stage(operation, topic)
        if found not in {"ahead", "proposed"} or topic.fence is not None:
            raise MoveDamagedError(f"topic {name} is {_words(topic, found)}: no cut can be proposed for it")
        everything = all_partitions(topic, ends)
        require_unused(operation, name, ends)
        partitions = {partition: listed(request, topic, partition) for partition in everything}
        crossing = moving(request, topic, everything)
        for partition in crossing:
            partitions[partition] = proposed_map(request, topic, found, partition, ends, cuts)
        some = () if crossing == tuple(everything) else crossing
        proposed = Crossing(operation=operation.id, state="proposed", partitions=some)
        changes = {"writer": topic.writer or request.origin, "partitions": partitions, "crossing": proposed}
        puts.append(topic.model_copy(update=changes))
    return Documents((*puts, entering(operation, "crossing")))


def open_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Mapping[Partition, PartitionEnds],
    counts: Mapping[str, int],
) -> Documents:
    """Let `topics` cross over. `ends` and `counts`, the origin's partitions, were read after every live gateway
    followed the proposed cuts.

    :raises MoveDamagedError: a cut was passed, partitions were added, or somebody wrote to the target.
    """
    require_state(operation, "crossing")
    puts: list[Document] = []
    for name in topics:
        topic = at_stage(operation, view, name, "proposed")
        require_partitions(topic, ends)
        require_not_added(operation.request, topic, counts)
        if beyond := passed(topic, ends):
            raise MoveDamagedError(f"topic {name}: the log has passed the cut of partitions {list(beyond)}")
        require_base(topic, ends)
        puts.append(_in_state(topic, "open"))
    return Documents((*puts, operation))


def settle_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Mapping[Partition, PartitionEnds],
    counts: Mapping[str, int],
    producers: Producers,
    read_ms: int | None = None,
) -> Documents:
    """The end of the crossing of `topics`, all of whose partitions have reached their cuts.

    :param ends: the origin's high watermarks: what could be lost again has not reached a cut.
    :param counts: topic → how many partitions the origin has; those without a cut stay its own.
    :param producers: last sequences below the cuts, where they are known, asked at `read_ms`.
    :raises MoveDamagedError: a partition has not reached its cut, or is missing.
    """
    require_state(operation, "crossing")
    puts: list[Document] = []
    for name in topics:
        topic = at_stage(operation, view, name, "open")
        if topic.fence is not None:
            raise MoveDamagedError(f"topic {name} is fenced: its crossing ends behind the fence")
        require_partitions(topic, ends)
        if missing := set(filter(topic.crosses, topic.partitions)) - set(passed(topic, ends)):
            raise MoveDamagedError(f"topic {name}: partitions {sorted(missing)} have not reached their cuts")
        partitions = with_added(operation.request, topic, counts)
        puts += ended(operation, topic, partitions, view, producers, read_ms=read_ms)
    return Documents((*puts, after_end(operation, view, puts)))


def retreat_change(operation: MigrateOperation, view: View) -> Documents:
    """Make what is open `proposed` again, and mark the operation as being undone. May be repeated.

    :raises MoveDamagedError: a topic has crossed over already.
    """
    found = stages(operation, view.topics)
    settled = [name for name, one in found.items() if one == "settled"]
    if settled or operation.state in FINAL | {"cut"}:
        raise MoveDamagedError(f"operation {operation.id}: {', '.join(settled[:5])} crossed over, there is no way back")
    opened = [name for name, one in found.items() if one == "open"]
    puts = [_in_state(view.topics[name], "proposed") for name in opened]
    noted = operation.noting(retreated=tuple(sorted({*operation.evidence.retreated, *opened})))
    return Documents((*puts, entering(noted, "undoing")))


def reopen_change(operation: MigrateOperation, view: View) -> Documents:
    """Give up the way back: what was open is open again. Needs no look at ends, see the invariant."""
    puts = [
        _in_state(at_stage(operation, view, name, "proposed"), "open")
        for name in operation.evidence.retreated
        if stage(operation, view.topics.get(name)) == "proposed"
    ]
    # Cuts that were withdrawn are proposed anew, by the steps from the beginning on.
    withdrawn = all(one == "ahead" for one in stages(operation, view.topics).values())
    return Documents((*puts, entering(operation.noting(retreated=()), "running" if withdrawn else "crossing")))


def withdraw_change(operation: MigrateOperation, view: View, ends: Mapping[Partition, PartitionEnds]) -> Documents:
    """Take the proposed cuts back: the maps end in the origin again. May be repeated.

    :param ends: the target's, read after every live gateway followed `proposed`, of topics that were open.
    :raises MoveDamagedError: a topic is open or has crossed over, or the target was written.
    """
    puts: list[Document] = []
    for name, found in stages(operation, view.topics).items():
        if found == "ahead":
            continue
        topic = at_stage(operation, view, name, "proposed")
        if name in operation.evidence.retreated:
            require_base(topic, ends)
        back = {p: uncut(operation.request, topic, p) for p in topic.partitions if topic.crosses(p)}
        puts.append(topic.model_copy(update={"partitions": {**topic.partitions, **back}, "crossing": None}))
    return Documents((*puts, entering(operation, "undoing")))


def hold_change(operation: MigrateOperation, view: View, topics: Collection[str], *wanted: Stage) -> Documents:
    """Fence `topics`, which stand where it is `wanted` or are open, to end their crossing. May be repeated."""
    require_state(operation, "crossing", "fenced")
    fence = Fence(operation=operation.id)
    held = [at_stage(operation, view, name, *(wanted or ("open",))) for name in topics]
    puts = [topic.model_copy(update={"fence": fence}) for topic in held]
    return Documents((*puts, entering(operation, "fenced")))


def lift_change(operation: MigrateOperation, view: View) -> Documents:
    """Lift the fences: the crossing goes on as before. May be repeated."""
    puts = [
        topic.model_copy(update={"fence": None})
        for name in operation.moves.topics
        if (topic := view.topics.get(name)) is not None and fenced(operation, topic)
    ]
    state = "crossing" if operation.state == "fenced" else operation.state
    return Documents((*puts, entering(operation, state)))


def finish_change(
    operation: MigrateOperation,
    view: View,
    topics: Collection[str],
    ends: Mapping[Partition, PartitionEnds],
    counts: Mapping[str, int],
    producers: Producers,
    read_ms: int | None = None,
) -> Documents:
    """The end of the crossing behind a fence: cuts that were not reached are lowered to the origin's end.

    :param ends: of both sides, read behind the fence. The others as for `settle_change`.
    :raises MoveDamagedError: the fence does not stand, or the target was written below a cut that was not reached.
    """
    require_state(operation, "fenced")
    request = operation.request
    puts: list[Document] = []
    for name in topics:
        topic = at_stage(operation, view, name, "open")
        require_fenced(operation, topic)
        require_partitions(topic, ends)
        partitions = with_added(request, topic, counts)
        reached = set(passed(topic, ends))
        for partition, origin, target in crossings(topic):
            if partition in reached:
                continue
            where = f"topic {name} partition {partition}"
            if ends[name, partition].target != target.base:
                raise MoveDamagedError(
                    f"{where}: {request.target} was written to offset {ends[name, partition].target}, and the log of "
                    f"{request.origin} has not reached the cut: somebody writes there without passing the gateways"
                )
            at = origin.extrapolate(end_of(name, partition, ends))
            partitions[partition] = cut_at(request, where, uncut(request, topic, partition), at, target.base)
        puts += ended(operation, topic, partitions, view, producers, read_ms=read_ms)
    return Documents((*puts, after_end(operation, view, puts)))


def at_stage(operation: MigrateOperation, view: View, name: str, *wanted: Stage) -> Topic:
    """The topic. :raises MoveDamagedError: it stands at another stage."""
    topic = view.topics.get(name)
    found = stage(operation, topic)
    if topic is None or found not in wanted:
        raise MoveDamagedError(f"topic {name} is {_words(topic, found)}, not {' or '.join(wanted)}")
    return topic


def _words(topic: Topic | None, found: Stage) -> str:
    return f"{found} and fenced by operation {topic.fence.operation}" if topic and topic.fence else found


def _in_state(topic: Topic, state: Literal["proposed", "open"]) -> Topic:
    if topic.crossing is None:
        raise MoveDamagedError(f"topic {topic.name} does not cross over")
    return topic.model_copy(update={"crossing": topic.crossing.model_copy(update={"state": state})})


def ended(
    operation: MigrateOperation,
    topic: Topic,
    partitions: dict[int, tuple[Extent, ...]],
    view: View,
    producers: Producers,
    complete: bool = True,
    read_ms: int | None = None,
) -> list[Document]:
    """The topic without its crossing, and its last sequences where they have changed.

    :param complete: `producers` has all that wrote below the cuts; else others may have written, too.
    """
    writer = writer_after(operation.request, topic, partitions)
    puts: list[Document] = [
        topic.model_copy(update={"writer": writer, "partitions": partitions, "crossing": None, "fence": None})
    ]
    over = {
        partition: Ended(origin.term, target.term, found, complete)
        for partition, origin, target in crossings(topic)
        if (found := producers.get((topic.name, partition))) is not None
    }
    if sequences := carry_sequences(topic.name, view.sequences.get(topic.name), over, read_ms):
        puts.append(sequences)
    return puts


def after_end(operation: MigrateOperation, view: View, puts: Sequence[Document]) -> MigrateOperation:
    """The operation after a revision that ends the crossing of some topics: `cut` with the last of them.

    Its evidence gets the cuts, since later moves change the maps, and the partitions that had none.
    """
    cuts, remaining = dict(operation.evidence.cuts), dict(operation.evidence.remaining)
    for put in puts:
        if isinstance(put, Topic):
            before = view.topics[put.name]
            after = [(p, live(put.partitions[p])) for p, _, _ in crossings(before)]
            cuts[put.name] = tuple(Cut(p, to.start, to.base, to.term) for p, to in after)
            if new := sorted(put.partitions.keys() - before.partitions.keys()):
                remaining[put.name] = tuple(new)
    operation = operation.noting(cuts=cuts, remaining=remaining)
    now = {**view.topics, **{put.name: put for put in puts if isinstance(put, Topic)}}
    if all(one == "settled" for one in stages(operation, now).values()):
        return entering(operation, "cut")
    standing = any(fenced(operation, topic) for topic in now.values())
    return entering(operation, "fenced" if standing else "crossing")
