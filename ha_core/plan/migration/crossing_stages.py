"""Where each topic of a crossing stands, and what is to be done next: read from the documents, never remembered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, get_args

from ha_core.model import Extent, MigrateOperation, Topic
from ha_core.model.extent import live
from ha_core.plan.engine.revision import FINAL, MoveDamagedError, fenced
from ha_core.plan.facts.clusters import Ends, Partition
from ha_core.plan.move.partitions import places

Stage = Literal["before", "proposed", "open", "settled"]
"""`before`: the topic is written in the origin, as before. `settled`: in the target, and nothing is left to do."""
BeforeOpen = Literal["pin", "prepare", "propose", "serve", "ends", "open"]
Back = Literal["lift", "retreat", "withdraw", "reopen", "discard", "unpin", "undone"]
Step = Literal[BeforeOpen, "settle", "end", "verify", "groups", "record", "end_without_origin", Back, "release"]
# propose: cuts above the logs' ends, in one revision
# serve: every gateway follows them, with nothing in flight from before
# ends: read where the logs end, after that
# open: the ends are below the cuts; where a log was faster, a higher cut is proposed, and served before the next look
# settle: end the crossing of topics all of whose partitions have reached their cuts
# end: end that of the others at their logs' ends, behind a fence
# lift: take away a fence of an executor that wanted to end the crossing behind it
# retreat: what is open is proposed again, and the operation on its way back
# withdraw: every gateway follows what is proposed again, and the target is empty: take the cuts back
# reopen: give the way back up, what was open is open again
# end_without_origin: end what is proposed or open behind a fence, although the origin is dead; asked for by operators
BACK: tuple[Step, ...] = ("retreat", "withdraw", "discard", "unpin", "undone")
"""The way back: no fence, and nothing is lost as long as the target was not written."""
BEFORE_OPEN = frozenset[Step](get_args(BeforeOpen))
"""What fails here is taken back at once: a proposed cut that the log reaches holds producers up."""
BehindFence = Literal["hold", "drain", "quiet", "producers", "finish"]
BEHIND_FENCE: tuple[BehindFence, ...] = get_args(BehindFence)
"""The parts of `end`: the fence, gateways drained, ends that rest, last sequences below the cuts, the last revision."""
Look = Callable[[], tuple[MigrateOperation, Mapping[str, Topic]]]
"""The documents as they are now."""
WithoutOrigin = Literal["hold", "drain", "written", "conclude"]
WITHOUT_ORIGIN: tuple[WithoutOrigin, ...] = get_args(WithoutOrigin)
"""The parts of `end_without_origin`: the fence, gateways drained, what the target has, the last revision."""


def stage(operation: MigrateOperation, topic: Topic | None) -> Stage:
    """Where a topic of the operation stands.

    :raises MoveDamagedError: somebody else has moved it, or moves it.
    """
    request = operation.request
    if topic is None:
        return "before"
    if topic.crossing is not None:
        if topic.crossing.operation != operation.id:
            raise MoveDamagedError(
                f"topic {topic.name} crosses over for operation {topic.crossing.operation}, not for {operation.id}"
            )
        return topic.crossing.state
    if not topic.mapped:
        return "before"
    # What was added to the topic meanwhile remains in the origin: where it stands, its own cuts say.
    cuts = operation.evidence.cuts.get(topic.name)
    found = frozenset(live(topic.extents(cut.partition)).cluster for cut in cuts) if cuts else places(request, topic)
    if request.origin in found:
        return "before"
    if request.target in found:
        return "settled"
    there = ", ".join(sorted(found))
    raise MoveDamagedError(f"topic {topic.name} is written in {there}, which operation {operation.id} never said")


def stages(operation: MigrateOperation, topics: Mapping[str, Topic]) -> dict[str, Stage]:
    """Where each topic of the operation stands."""
    return {name: stage(operation, topics.get(name)) for name in operation.moves.topics}


def resume(operation: MigrateOperation, topics: Mapping[str, Topic]) -> tuple[Step, ...]:
    """What to do next with the operation, by what stands in the state. Each step may be repeated."""
    if fenced(operation, topics, {}):
        return ("lift",)
    if operation.state in FINAL:
        return ("release",)
    if operation.state == "undoing":
        return BACK[1:]
    found = set(stages(operation, topics).values())
    if "before" in found:
        return ("pin", "prepare", "propose")
    if "proposed" in found:
        return ("serve", "ends", "open")
    return ("settle",) if "open" in found else ("verify", "groups", "record")


def plan(look: Look, at_once: Callable[[], bool]) -> Iterator[Step]:
    """The steps of a crossing, until it has ended or has to wait for its logs.

    :param at_once: whether what has not reached its cut is to be ended behind a fence.
    """
    while True:
        some = resume(*look())
        yield from some
        if some[-1] in {"record", "undone", "release"}:
            return
        if some == ("settle",) and "open" in stages(*look()).values():
            if not at_once():
                return
            yield "end"


def plan_without_origin(look: Look) -> Iterator[Step]:
    """The steps that end a crossing whose origin is dead, up to its cut; from there on `plan` goes on.

    A way back whose target was never written is gone to its end: the origin has nothing to say to it.
    """
    while True:
        operation, topics = look()
        step = resume(operation, topics)[0]
        if step == "lift":
            yield "lift"
        elif operation.state != "undoing":
            break
        elif operation.evidence.retreated:
            yield "reopen"
        else:
            yield from BACK[1:]
            return
    if set(stages(operation, topics).values()) != {"settled"}:
        yield "end_without_origin"


def crossings(topic: Topic) -> Iterator[tuple[int, Extent, Extent]]:
    """(partition, the origin's extent that ends at the cut, the target's) of a topic that crosses over."""
    for partition in filter(topic.crosses, sorted(topic.partitions)):
        yield partition, topic.written(partition), live(topic.extents(partition))


def crossing_partitions(topics: Mapping[str, Topic], names: Iterable[str]) -> list[Partition]:
    """What crosses over of these topics."""
    return [(name, partition) for name in names for partition, _, _ in crossings(topics[name])]


def passed(topic: Topic, ends: Ends) -> tuple[int, ...]:
    """Partitions of a topic that crosses over whose log end is not below its cut any more."""
    return tuple(
        partition
        for partition, origin, target in crossings(topic)
        if origin.extrapolate(end_of(topic.name, partition, ends)) >= target.start
    )


def went_back(topic: Topic, ends: Ends, kept: Collection[int] = ()) -> tuple[int, ...]:
    """Partitions of an open crossing whose log had reached its cut, and ends below it now.

    Only an unclean election, or a broker that lost its disk, truncates a log there. Records that are appended now would
    lie below offsets that readers have passed, and readers never go back.

    :param ends: of everything that was appended, the target's read before the origin's.
    :param kept: partitions whose log was seen at its cut, with every in-sync replica.
    """
    return tuple(
        partition
        for partition, origin, target in crossings(topic)
        if (partition in kept or ends[topic.name, partition].target > target.base)
        and origin.extrapolate(end_of(topic.name, partition, ends)) < target.start
    )


def end_of(topic: str, partition: int, ends: Ends) -> int:
    """The origin's log end. :raises MoveDamagedError: it was not read."""
    found = ends.get((topic, partition))
    if found is None or found.origin is None:
        raise MoveDamagedError(f"topic {topic} partition {partition}: a crossing needs the origin's log end")
    return found.origin
