"""Stages of a crossing's topics, and its next steps: read from the documents, never remembered."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, get_args

from ha_core.model import Extent, MigrateOperation, Topic
from ha_core.model.extent import open_extent
from ha_core.plan.engine.revision import FINAL, MoveDamagedError, fenced
from ha_core.plan.facts.clusters import Ends, Partition
from ha_core.plan.move.partitions import places

Stage = Literal["before", "proposed", "open", "settled"]
"""`before`: the origin is the only writer, as before. `settled`: the target is the writer; nothing is left to do."""
BeforeOpen = Literal["pin", "prepare", "propose", "serve", "ends", "open"]
Back = Literal["lift", "retreat", "withdraw", "reopen", "discard", "unpin", "undone"]
Step = Literal[BeforeOpen, "settle", "end", "verify", "groups", "record", "end_without_origin", Back, "release"]
# propose: cuts above the logs' ends, in one revision
# serve: every gateway applies them, with no request in flight from before
# ends: read the log ends after that
# open: the ends are below the cuts; if a log was faster, propose a higher cut, and serve it before the next reading
# settle: end the crossing of topics whose partitions have all reached their cuts
# end: end the crossing of the others at their log ends, under a fence
# lift: remove the fence of an executor that died while ending the crossing
# retreat: open crossings are proposed again, and the operation is being undone
# withdraw: every gateway applies the proposed state again, and the target is empty: withdraw the cuts
# reopen: stop undoing, and open again the crossings that were open
# end_without_origin: end proposed and open crossings under a fence although the origin is dead, at operators' request
BACK: tuple[Step, ...] = ("retreat", "withdraw", "discard", "unpin", "undone")
"""Steps of the undo: no fence, and nothing is lost as long as the target was not written."""
BEFORE_OPEN = frozenset[Step](get_args(BeforeOpen))
"""A failure in these steps is undone at once: a proposed cut that the log reaches blocks producers."""
FencePart = Literal["hold", "drain", "quiet", "producers", "finish"]
BEHIND_FENCE: tuple[FencePart, ...] = get_args(FencePart)
"""Parts of `end`: the fence, gateways drained, stable log ends, last sequences below the cuts, the last revision."""
ReadState = Callable[[], tuple[MigrateOperation, Mapping[str, Topic]]]
"""Reads the current documents."""
PartWithoutOrigin = Literal["hold", "drain", "written", "conclude"]
WITHOUT_ORIGIN: tuple[PartWithoutOrigin, ...] = get_args(PartWithoutOrigin)
"""Parts of `end_without_origin`: the fence, gateways drained, the target's log, the last revision."""


def stage(operation: MigrateOperation, topic: Topic | None) -> Stage:
    """The stage of a topic of the operation.

    :raises MoveDamagedError: another operation has moved it, or moves it now.
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
    # Partitions added meanwhile remain in the origin, so only those with a cut count.
    cuts = operation.evidence.cuts.get(topic.name)
    found = (
        frozenset(open_extent(topic.extents(cut.partition)).cluster for cut in cuts) if cuts else places(request, topic)
    )
    if request.origin in found:
        return "before"
    if request.target in found:
        return "settled"
    there = ", ".join(sorted(found))
    raise MoveDamagedError(f"topic {topic.name} is written in {there}, which operation {operation.id} does not name")


def stages(operation: MigrateOperation, topics: Mapping[str, Topic]) -> dict[str, Stage]:
    """The stage of each topic of the operation."""
    return {name: stage(operation, topics.get(name)) for name in operation.moves.topics}


def remaining_steps(operation: MigrateOperation, topics: Mapping[str, Topic]) -> tuple[Step, ...]:
    """The next steps of the operation, from its documents. Each step may be repeated."""
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


def plan(read_state: ReadState, at_once: Callable[[], bool]) -> Iterator[Step]:
    """The steps of a crossing, until it has ended or has to wait for its logs.

    :param at_once: whether to end topics that have not reached their cuts under a fence.
    """
    while True:
        some = remaining_steps(*read_state())
        yield from some
        if some[-1] in {"record", "undone", "release"}:
            return
        if some == ("settle",) and "open" in stages(*read_state()).values():
            if not at_once():
                return
            yield "end"


def plan_without_origin(read_state: ReadState) -> Iterator[Step]:
    """The steps that end a crossing whose origin is dead, up to its cut; `plan` has those after it.

    An undo whose target was never written is completed, because it does not need the origin.
    """
    while True:
        operation, topics = read_state()
        step = remaining_steps(operation, topics)[0]
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
        yield partition, topic.written(partition), open_extent(topic.extents(partition))


def crossing_partitions(topics: Mapping[str, Topic], names: Iterable[str]) -> list[Partition]:
    """Partitions of these topics that cross."""
    return [(name, partition) for name in names for partition, _, _ in crossings(topics[name])]


def passed(topic: Topic, ends: Ends) -> tuple[int, ...]:
    """Crossing partitions whose log end is no longer below the cut."""
    return tuple(
        partition
        for partition, origin, target in crossings(topic)
        if origin.extrapolate(end_of(topic.name, partition, ends)) >= target.start
    )


def went_back(topic: Topic, ends: Ends, kept: Collection[int] = ()) -> tuple[int, ...]:
    """Partitions of an open crossing whose log had reached its cut, and ends below it now.

    Only an unclean election, or a broker that lost its disk, truncates a log there. New records would be below offsets
    that readers have passed, and readers never go back.

    :param ends: log ends, the target's read before the origin's.
    :param kept: partitions whose log has been at its cut on every in-sync replica.
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
