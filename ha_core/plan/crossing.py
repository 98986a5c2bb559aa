"""A crossing: what each revision of a migration without a fence writes, and how to go on after an interruption.

The cut `c` of each partition lies ahead of the origin's log end; the log runs into it by itself (docs/design.md §7).
The invariant, at every point, however often it is interrupted:

1. No record that a gateway acknowledged at or above c lies in the origin only. Who does not know c acknowledges what
   the origin takes, so a crossing is `open`ed only when every live gateway follows `proposed`, has nothing in flight
   from before, and the origin's end, read after that, is still below c in every partition. Else a higher cut is
   proposed: what lies between the two was refused, never acknowledged, never written elsewhere.
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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ha_core.model import (
    Crossing,
    Document,
    Extent,
    Fence,
    LastSequences,
    MoveRequest,
    MoveSet,
    Operation,
    Topic,
    View,
)
from ha_core.plan.carry import merge_sequences
from ha_core.plan.extents import append, check, extents_of, identity, live, to_client, written
from ha_core.plan.facts import Partition, PartitionEnds, ProducerFacts
from ha_core.plan.move import FINAL, Documents, MoveDamagedError
from ha_core.plan.moving import listed, moving, places, writer_after

Stage = Literal["ahead", "proposed", "open", "settled"]
"""`ahead`: the topic is written in the origin, as before. `settled`: in the target, and nothing is left to do."""
StepName = Literal["prepare", "open", "cross", "verify"]
Producers = Mapping[Partition, Sequence[ProducerFacts]]


@dataclass(frozen=True, slots=True)
class Go:
    """Go on with this step and those that follow it. Steps may be repeated: each finds what it did before."""

    step: StepName


@dataclass(frozen=True, slots=True)
class Lift:
    """A fence stands, of an executor that wanted to end the crossing behind it: lift it, then ask again."""


@dataclass(frozen=True, slots=True)
class Back:
    """The way back was begun: go on with it."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left but to give the locks back."""


Decision = Go | Lift | Back | Done


def stage(operation: Operation, topic: Topic | None) -> Stage:
    """Where a topic of the operation stands.

    :raises MoveDamagedError: somebody else has moved it, or moves it.
    """
    request, _ = _asked(operation)
    if topic is None:
        return "ahead"
    if topic.crossing is not None:
        if topic.crossing.operation != operation.id:
            raise MoveDamagedError(
                f"topic {topic.name} crosses over for operation {topic.crossing.operation}, not for {operation.id}"
            )
        return topic.crossing.state
    if not topic.mapped:
        return "ahead"
    found = places(request, topic)
    if request.origin in found:
        return "ahead"
    if request.target in found:
        return "settled"
    there = ", ".join(sorted(found))
    raise MoveDamagedError(f"topic {topic.name} is written in {there}, which operation {operation.id} never said")


def stages(operation: Operation, topics: Mapping[str, Topic]) -> dict[str, Stage]:
    """Where each topic of the operation stands."""
    _, moves = _asked(operation)
    return {name: stage(operation, topics.get(name)) for name in moves.topics}


def resume(operation: Operation, topics: Mapping[str, Topic]) -> Decision:
    """What to do next with the operation, by what stands in the state."""
    _, moves = _asked(operation)
    if any(_fenced(operation, topics.get(name)) for name in moves.topics):
        return Lift()
    if operation.state in FINAL:
        return Done()
    if operation.evidence.get("undoing"):
        return Back()
    found = set(stages(operation, topics).values())
    if "ahead" in found:
        return Go("prepare")
    if "proposed" in found:
        return Go("open")
    return Go("cross") if "open" in found else Go("verify")


def crossings(topic: Topic) -> Iterator[tuple[int, Extent, Extent]]:
    """(partition, the origin's extent that ends at the cut, the target's) of a topic that crosses over."""
    for partition in filter(topic.crosses, sorted(topic.partitions)):
        yield partition, written(topic, partition), live(extents_of(topic, partition))


def client_end(topic: Topic | None, origin: str, partition: int, log_end: int) -> int:
    """The client offset of the origin's log end, also where it has passed the cut."""
    if topic is None or not topic.mapped:
        return log_end
    extent = written(topic, partition)
    return extent.start + (log_end - extent.base)


def passed(topic: Topic, ends: Mapping[Partition, PartitionEnds]) -> tuple[int, ...]:
    """Partitions of a topic that crosses over whose log end is not below its cut any more."""
    return tuple(
        partition
        for partition, origin, target in crossings(topic)
        if _end(topic.name, partition, ends) - origin.base + origin.start >= target.start
    )


def propose_change(
    operation: Operation,
    view: View,
    topics: Collection[str],
    ends: Mapping[Partition, PartitionEnds],
    cuts: Mapping[Partition, int],
) -> Documents:
    """Propose cuts for `topics`, or higher ones where they were proposed already.

    :param view: the documents of the operation, as they are now.
    :param ends: of all partitions; a new map takes the target's as its base.
    :param cuts: client offsets. May lack partitions whose cut stays.
    :raises MoveDamagedError: a cut that is not above the end, or below the one before; or the state is another's.
    """
    request, _ = _asked(operation)
    _require(operation, "planned", "running", "crossing")
    unmapped = list(operation.evidence.get("unmapped", ()))
    puts: list[Document] = []
    for name in topics:
        topic = view.topics.get(name) or Topic(name=name)
        found = stage(operation, topic)
        if found not in {"ahead", "proposed"} or topic.fence is not None:
            raise MoveDamagedError(f"topic {name} is {_words(topic, found)}: no cut can be proposed for it")
        if found == "ahead" and not topic.mapped and name not in unmapped:
            unmapped.append(name)
        everything = _all_partitions(topic, ends)
        partitions = {partition: listed(request, topic, partition) for partition in everything}
        crossing = moving(request, topic, everything)
        for partition in crossing:
            partitions[partition] = _proposed(request, topic, found, partition, ends, cuts)
        some = () if crossing == tuple(everything) else crossing
        puts.append(
            topic.model_copy(
                update={
                    "writer": topic.writer or request.origin,
                    "partitions": partitions,
                    "crossing": Crossing(operation=operation.id, state="proposed", partitions=some),
                }
            )
        )
    evidence = {**operation.evidence, "unmapped": unmapped}
    return Documents((*puts, operation.model_copy(update={"state": "crossing", "evidence": evidence})))


def open_change(
    operation: Operation, view: View, topics: Collection[str], ends: Mapping[Partition, PartitionEnds]
) -> Documents:
    """Let `topics` cross over. `ends` were read after every live gateway had said that it follows the proposed cuts.

    :raises MoveDamagedError: a cut was passed, or somebody wrote to the target.
    """
    _require(operation, "crossing")
    puts: list[Document] = []
    for name in topics:
        topic = _at(operation, view, name, "proposed")
        _require_partitions(topic, ends)
        beyond = passed(topic, ends)
        if beyond:
            raise MoveDamagedError(f"topic {name}: the log has passed the cut of partitions {list(beyond)}")
        _require_base(topic, ends)
        puts.append(_in_state(topic, "open"))
    return Documents((*puts, operation))


def settle_change(
    operation: Operation,
    view: View,
    topics: Collection[str],
    ends: Mapping[Partition, PartitionEnds],
    producers: Producers,
) -> Documents:
    """The end of the crossing of `topics`, all of whose partitions have reached their cuts.

    :param ends: the origin's replicated ends, its high watermarks: what could be lost again has not reached a cut.
    :param producers: what each had appended below the cut; partitions where that cannot be known are missing.
    :raises MoveDamagedError: a partition has not reached its cut, or some are missing.
    """
    _require(operation, "crossing")
    puts: list[Document] = []
    for name in topics:
        topic = _at(operation, view, name, "open")
        if topic.fence is not None:
            raise MoveDamagedError(f"topic {name} is fenced: its crossing ends behind the fence")
        _require_partitions(topic, ends)
        behind = set(filter(topic.crosses, topic.partitions)) - set(passed(topic, ends))
        if behind:
            raise MoveDamagedError(f"topic {name}: partitions {sorted(behind)} have not reached their cuts")
        puts += _ended(operation, topic, dict(topic.partitions), view, producers)
    return Documents((*puts, _after(operation, view, puts)))


def retreat_change(operation: Operation, view: View) -> Documents:
    """Make what is open `proposed` again, and mark the operation as being undone. May be repeated.

    :raises MoveDamagedError: a topic has crossed over already.
    """
    found = stages(operation, view.topics)
    settled = [name for name, one in found.items() if one == "settled"]
    if settled or operation.state in FINAL | {"cut"}:
        raise MoveDamagedError(f"operation {operation.id}: {', '.join(settled[:5])} crossed over, there is no way back")
    opened = [name for name, one in found.items() if one == "open"]
    puts = [_in_state(view.topics[name], "proposed") for name in opened]
    retreated = sorted({*operation.evidence.get("retreated", ()), *opened})
    evidence = {**operation.evidence, "undoing": True, "retreated": retreated}
    return Documents((*puts, operation.model_copy(update={"evidence": evidence})))


def reopen_change(operation: Operation, view: View) -> Documents:
    """Give up the way back: what was open is open again. Needs no look at ends, see the invariant."""
    retreated = operation.evidence.get("retreated", ())
    puts = [
        _in_state(_at(operation, view, name, "proposed"), "open")
        for name in retreated
        if stage(operation, view.topics.get(name)) == "proposed"
    ]
    evidence = {key: value for key, value in operation.evidence.items() if key not in {"undoing", "retreated"}}
    return Documents((*puts, operation.model_copy(update={"evidence": evidence})))


def withdraw_change(operation: Operation, view: View, ends: Mapping[Partition, PartitionEnds]) -> Documents:
    """Take the proposed maps back. Their topics are as before the operation. May be repeated.

    :param ends: the target's, read after every live gateway had said that it follows `proposed`; those of topics that
        were never open do not count.
    :raises MoveDamagedError: a topic is open or has crossed over, or the target was written.
    """
    retreated = operation.evidence.get("retreated", ())
    unmapped = operation.evidence.get("unmapped", ())
    puts: list[Document] = []
    deletes: list[tuple[type[Document], str]] = []
    for name, found in stages(operation, view.topics).items():
        if found == "ahead":
            continue
        topic = _at(operation, view, name, "proposed")
        if name in retreated:
            _require_base(topic, ends)
        if name in unmapped:
            deletes.append((Topic, name))
            continue
        request, _ = _asked(operation)
        partitions = {p: _uncut(request, topic, p) if topic.crosses(p) else old for p, old in topic.partitions.items()}
        puts.append(topic.model_copy(update={"partitions": partitions, "crossing": None}))
    evidence = {**operation.evidence, "undoing": True}
    marked = operation.model_copy(update={"state": "running", "evidence": evidence})
    return Documents((*puts, marked), tuple(deletes))


def hold_change(operation: Operation, view: View, topics: Collection[str]) -> Documents:
    """Fence `topics`, to end their crossing at once: for those that nobody writes to."""
    _require(operation, "crossing", "fenced")
    puts = [
        _at(operation, view, name, "open").model_copy(update={"fence": Fence(operation=operation.id)})
        for name in topics
    ]
    return Documents((*puts, operation.model_copy(update={"state": "fenced"})))


def lift_change(operation: Operation, view: View) -> Documents:
    """Lift the fences: the crossing goes on as before. May be repeated."""
    _, moves = _asked(operation)
    puts = [
        topic.model_copy(update={"fence": None})
        for name in moves.topics
        if (topic := view.topics.get(name)) is not None and _fenced(operation, topic)
    ]
    state = "crossing" if operation.state == "fenced" else operation.state
    return Documents((*puts, operation.model_copy(update={"state": state})))


def finish_change(
    operation: Operation,
    view: View,
    topics: Collection[str],
    ends: Mapping[Partition, PartitionEnds],
    producers: Producers,
) -> Documents:
    """The end of the crossing behind a fence: cuts that were not reached are lowered to the origin's end.

    :param ends: of both sides, read behind the fence.
    :raises MoveDamagedError: the fence does not stand, or the target was written below a cut that was not reached.
    """
    _require(operation, "fenced")
    request, _ = _asked(operation)
    puts: list[Document] = []
    for name in topics:
        topic = _at(operation, view, name, "open")
        if not _fenced(operation, topic):
            raise MoveDamagedError(f"the fence of operation {operation.id} on topic {name} does not stand any more")
        _require_partitions(topic, ends)
        partitions = dict(topic.partitions)
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
            at = to_client(origin.model_copy(update={"end": None}), _end(name, partition, ends))
            partitions[partition] = _cut(request, where, _uncut(request, topic, partition), at, target.base)
        puts += _ended(operation, topic, partitions, view, producers)
    return Documents((*puts, _after(operation, view, puts)))


def _asked(operation: Operation) -> tuple[MoveRequest, MoveSet]:
    if operation.request is None or operation.moves is None:
        raise MoveDamagedError(f"operation {operation.id} is a {operation.kind} without a request: it moves nothing")
    return operation.request, operation.moves


def _require(operation: Operation, *states: str) -> None:
    if operation.state not in states or operation.evidence.get("undoing"):
        being = "being undone" if operation.evidence.get("undoing") else operation.state
        raise MoveDamagedError(f"operation {operation.id} is {being}, not {' or '.join(states)}")


def _at(operation: Operation, view: View, name: str, wanted: Stage) -> Topic:
    topic = view.topics.get(name)
    found = stage(operation, topic)
    if topic is None or found != wanted:
        raise MoveDamagedError(f"topic {name} is {_words(topic, found)}, not {wanted}")
    return topic


def _words(topic: Topic | None, found: Stage) -> str:
    return f"{found} and fenced by operation {topic.fence.operation}" if topic and topic.fence else found


def _in_state(topic: Topic, state: Literal["proposed", "open"]) -> Topic:
    if topic.crossing is None:
        raise MoveDamagedError(f"topic {topic.name} does not cross over")
    return topic.model_copy(update={"crossing": topic.crossing.model_copy(update={"state": state})})


def _fenced(operation: Operation, topic: Topic | None) -> bool:
    return topic is not None and topic.fence is not None and topic.fence.operation == operation.id


def _all_partitions(topic: Topic, ends: Mapping[Partition, PartitionEnds]) -> list[int]:
    found = sorted(partition for name, partition in ends if name == topic.name)
    missing = set(topic.partitions) - set(found)
    if not found or missing or found != list(range(len(found))):
        raise MoveDamagedError(
            f"topic {topic.name}: the ends of partitions {found} were read, its map has {sorted(topic.partitions)}; "
            "a cut without all of them would leave the others behind"
        )
    return found


def _require_partitions(topic: Topic, ends: Mapping[Partition, PartitionEnds]) -> None:
    found = sorted(partition for name, partition in ends if name == topic.name)
    missing = set(filter(topic.crosses, topic.partitions)) - set(found)
    if missing:
        raise MoveDamagedError(f"topic {topic.name}: the ends of partitions {sorted(missing)} were not read")
    added = [partition for partition in found if partition not in topic.partitions]
    if added:
        raise MoveDamagedError(
            f"topic {topic.name} has got partitions {added} since its cuts were proposed, which have none. Go back, "
            "and migrate it again"
        )


def _require_base(topic: Topic, ends: Mapping[Partition, PartitionEnds]) -> None:
    for partition, _, target in crossings(topic):
        found = ends[topic.name, partition].target
        if found != target.base:
            raise MoveDamagedError(
                f"topic {topic.name} partition {partition}: cluster {target.cluster} ends at {found}, and its extent "
                f"begins at {target.base}: records were written there"
            )


def _end(topic: str, partition: int, ends: Mapping[Partition, PartitionEnds]) -> int:
    found = ends[topic, partition].origin
    if found is None:
        raise MoveDamagedError(f"topic {topic} partition {partition}: a crossing needs the origin's log end")
    return found


def _uncut(request: MoveRequest, topic: Topic, partition: int) -> tuple[Extent, ...]:
    """The extents without the cut that lies ahead. Older extents of the target keep the end that was found with it."""
    if partition not in topic.partitions:
        return identity(request.origin)
    origin = written(topic, partition)
    return (*extents_of(topic, partition)[:-2], origin.model_copy(update={"end": None}))


def _proposed(
    request: MoveRequest,
    topic: Topic,
    found: Stage,
    partition: int,
    ends: Mapping[Partition, PartitionEnds],
    cuts: Mapping[Partition, int],
) -> tuple[Extent, ...]:
    name, where = topic.name, f"topic {topic.name} partition {partition}"
    before = topic.partitions.get(partition) if found == "proposed" else None
    at = cuts.get((name, partition), before[-1].start if before else None)
    if at is None:
        raise MoveDamagedError(f"{where}: there is no cut to propose")
    if before and at < before[-1].start:
        raise MoveDamagedError(f"{where}: the cut {at} lies below {before[-1].start}, below which is acknowledged")
    origin = _uncut(request, topic, partition) if found == "proposed" else listed(request, topic, partition)
    base = before[-1].base if before else ends[name, partition].target
    try:
        end = to_client(live(origin), _end(name, partition, ends))
    except ValueError as error:
        raise MoveDamagedError(f"{where}: {error}") from error
    if (name, partition) in cuts and at <= end:
        raise MoveDamagedError(f"{where}: the cut {at} does not lie above the log's end {end}")
    return _cut(request, where, origin, at, base)


def _cut(request: MoveRequest, where: str, before: Sequence[Extent], at: int, base: int) -> tuple[Extent, ...]:
    if live(before).cluster != request.origin:
        raise MoveDamagedError(f"{where} is written in {live(before).cluster}, not in {request.origin} any more")
    try:
        after = append(before, request.target, at, base)
    except ValueError as error:
        raise MoveDamagedError(f"{where}: {error}") from error
    problems = check(after)
    if problems:
        raise MoveDamagedError(f"{where} would get a wrong map: {'; '.join(problems)}")
    return after


def _ended(
    operation: Operation,
    topic: Topic,
    partitions: dict[int, tuple[Extent, ...]],
    view: View,
    producers: Producers,
) -> list[Document]:
    request, _ = _asked(operation)
    writer = writer_after(request, topic, partitions)
    puts: list[Document] = [
        topic.model_copy(update={"writer": writer, "partitions": partitions, "crossing": None, "fence": None})
    ]
    old = view.sequences.get(topic.name)
    known = dict(old.partitions) if old else {}
    terms = dict(old.terms) if old else {}
    for partition, origin, target in crossings(topic):
        found = producers.get((topic.name, partition))
        if found is not None:
            known[partition] = merge_sequences(known.get(partition, {}), found, origin.term)
            terms[partition] = target.term
    known = {partition: one for partition, one in known.items() if one}
    if known != (old.partitions if old else {}) or terms != (old.terms if old else {}):
        puts.append(LastSequences(name=topic.name, partitions=known, terms=terms))
    return puts


def _after(operation: Operation, view: View, puts: Sequence[Document]) -> Operation:
    """The operation behind a revision that ends the crossing of some topics: `cut` with the last of them."""
    now = {**view.topics, **{put.name: put for put in puts if isinstance(put, Topic)}}
    if all(one == "settled" for one in stages(operation, now).values()):
        return operation.model_copy(update={"state": "cut"})
    fenced = any(_fenced(operation, topic) for topic in now.values())
    return operation.model_copy(update={"state": "fenced" if fenced else "crossing"})
