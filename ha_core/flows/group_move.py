"""Moves a group from the source of a flow to its target, at the exact records where it stopped.

Invariant: in the target the group misses no record that it had not read in the source. It gets one a second time only
if that was allowed (`may_repeat`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from ha_core.flows.groups import TargetGroup, TargetPartition
from ha_core.flows.topology import FlowRoute
from ha_core.flows.translation import Translation, Untranslated
from ha_core.plan.facts.clusters import Partition

EMPTY = frozenset({"Empty", "Dead"})


class MovedTopic(NamedTuple):
    """Where the records of a source topic are in the target.

    :ivar topic: its name there.
    :ivar by: `copy`: the flow copies it there. `origin`: it came from there, by the flow of the other direction.
    """

    topic: str
    by: Literal["copy", "origin"]


class MovedOffset(NamedTuple):
    """
    :ivar offset: in the source; likewise `there` in the target.
    :ivar repeats: why records come twice; "": none does.
    """

    topic: str
    partition: int
    offset: int
    place: TargetPartition
    there: int
    metadata: str
    repeats: str = ""


class NotMoved(NamedTuple):
    """An offset that cannot be moved without losing records, with the reason."""

    topic: str
    partition: int
    offset: int
    reason: str


class LogStarts(NamedTuple):
    """Log starts of partitions. A partition that is missing does not exist."""

    source: Mapping[Partition, int]
    target: Mapping[Partition, int]


def place_of(topic: str, forward: FlowRoute | None, backward: FlowRoute | None, target: str) -> MovedTopic | None:
    """None: neither flow knows the topic.

    :param forward: the flow from source to target; None: it is not enabled.
    :param backward: likewise of the other direction.
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
    """The group's offsets in the target.

    :param offsets: partition of the source → committed offset, metadata.
    :param translate: (partition of the source, its place, offset) → translation.
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
        # Retention has deleted what is below: the group's next record is the first that is still there.
        offset, key = max(committed, begins), (place.topic, partition)
        found = translate((topic, partition), place, offset)
        if isinstance(found, Untranslated):
            yield NotMoved(topic, partition, committed, found.reason)
        elif found.precision == "first-copied":
            yield NotMoved(topic, partition, committed, "records from there on were not copied: read them first")
        elif (start := starts.target.get(key)) is None:
            yield NotMoved(topic, partition, committed, f"{place.topic}-{partition} does not exist in the target")
        elif found.offset < start:
            text = f"the target has {place.topic}-{partition} from offset {start} on, its records begin at"
            yield NotMoved(topic, partition, committed, f"{text} {found.offset}: read them in the source first")
        else:
            why = _REPEATS.get(found.precision, "")
            has = there.offsets.get(key)
            if has is not None and has > found.offset:
                why = f"the group has committed {has} in the target, above {found.offset}"
            yield MovedOffset(topic, partition, committed, key, found.offset, metadata, why)


_REPEATS = {
    "copied-end": "the records at its offset are not copied yet, or not noted; those that come until then are repeated",
    "sampled": "MirrorMaker 2 copied them: up to its next offset sync they are repeated",
}
