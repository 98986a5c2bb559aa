"""Computes the offsets at which a group moves from the source of a flow to its target: at the exact records where it
stopped.

Invariant: in the target the group gets every record that it has not read in the source. It rereads records only if the
operator allowed that (`may_repeat`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from ha_core.flows.groups import TargetGroup, TargetPartition
from ha_core.flows.topology import FlowRoute
from ha_core.flows.translation import Translation, Untranslated
from ha_core.plan.facts.clusters import Partition

EMPTY = frozenset({"Empty", "Dead"})


class MovedTopic(NamedTuple):
    """The topic of the target that has the records of a source topic.

    :ivar topic: name in the target.
    :ivar by: `copy`: the flow copies the topic to the target. `origin`: the topic came from the target, by the flow in
        the other direction.
    """

    topic: str
    by: Literal["copy", "origin"]


class MovedOffset(NamedTuple):
    """
    :ivar offset: offset in the source.
    :ivar place: partition in the target.
    :ivar there: offset in the target.
    :ivar repeats: why the group rereads records; "": it rereads none.
    """

    topic: str
    partition: int
    offset: int
    place: TargetPartition
    there: int
    metadata: str
    repeats: str = ""


class NotMoved(NamedTuple):
    """An offset that cannot be moved without the group losing records, with the reason."""

    topic: str
    partition: int
    offset: int
    reason: str


class LogStarts(NamedTuple):
    """Log starts of partitions. A missing partition does not exist."""

    source: Mapping[Partition, int]
    target: Mapping[Partition, int]


def place_of(topic: str, forward: FlowRoute | None, backward: FlowRoute | None, target: str) -> MovedTopic | None:
    """The topic's place in the target; None: neither flow copies the topic.

    :param forward: the flow from source to target; None: it is not enabled.
    :param backward: the flow from target to source; None: it is not enabled.
    """
    if backward is not None and backward.policy.topic_source(topic) == target:
        upstream = backward.policy.upstream_topic(topic)
        if upstream is not None and backward.accepts(upstream):
            return MovedTopic(upstream, "origin")
    if forward is not None and forward.accepts(topic):
        return MovedTopic(forward.policy.format_remote_topic(forward.source, topic), "copy")
    return None


def moved_offsets(
    offsets: Mapping[Partition, tuple[int, str]],
    places: Mapping[str, MovedTopic | None],
    starts: LogStarts,
    translate: Callable[[Partition, MovedTopic, int], Translation],
    there: TargetGroup,
) -> Iterator[MovedOffset | NotMoved]:
    """Translate the group's offsets into offsets in the target.

    :param offsets: partition of the source → (committed offset, metadata).
    :param translate: (partition of the source, place of its topic, offset) → translation.
    :param there: the group in the target.
    """
    for (topic, partition), (committed, metadata) in sorted(offsets.items()):
        place, begins = places[topic], starts.source.get((topic, partition))
        if begins is None:
            yield NotMoved(topic, partition, committed, "it does not exist in the source: delete the group's offset")
            continue
        if place is None:
            yield NotMoved(topic, partition, committed, "no enabled flow between the two clusters copies it")
            continue
        # Retention has deleted the records below the log start, so the group's next record is the one there.
        offset, key = max(committed, begins), (place.topic, partition)
        found = translate((topic, partition), place, offset)
        if isinstance(found, Untranslated):
            yield NotMoved(topic, partition, committed, found.reason)
        elif found.precision == "first-copied":
            yield NotMoved(
                topic, partition, committed, "the records at this offset were not copied: read them in the source first"
            )
        elif (start := starts.target.get(key)) is None:
            yield NotMoved(topic, partition, committed, f"{place.topic}-{partition} does not exist in the target")
        elif found.offset < start:
            text = f"its next record had offset {found.offset} of {place.topic}-{partition} in the target, where"
            why = f"{text} retention has deleted everything below {start}: read these records in the source first"
            yield NotMoved(topic, partition, committed, why)
        else:
            why = _REPEATS.get(found.precision, "")
            has = there.offsets.get(key)
            if has is not None and has > found.offset:
                why = f"the group has committed {has} in the target, above {found.offset}"
            yield MovedOffset(topic, partition, committed, key, found.offset, metadata, why)


_REPEATS = {
    "copied-end": "the records at its offset are not copied yet, or not noted; it rereads those copied until then",
    "sampled": "MirrorMaker 2 copied the records here: the group rereads them up to the next offset sync",
}
