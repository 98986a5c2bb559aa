"""Where MirrorMaker 1 stopped: the committed offsets of its group in the source.

MirrorMaker 1 is a consumer group that appends what it reads, to a partition that the record's key chooses. So a record
of source partition 3 may be in any partition of the target, logs cannot be compared as with MirrorMaker 2
(`handover.alignment`), and the commit alone tells where to go on. It lies at or below the last record that was copied:
after a clean stop exactly there, after a kill up to `offset.commit.interval.ms` below, and those records come twice.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.flows.remote_plan import WantedCopy
from ha_core.kafka.admin import Admin
from ha_core.kafka.takeover import CopyPartition, Fenced
from ha_core.mirror.progress import Progress, TopicIds
from ha_core.mirror_maker.handover import HandoverError
from ha_core.plan.facts.clusters import Partition


class CommittedPlace(NamedTuple):
    """:ivar topic_id: a topic that is made again is another one, of which the commit says nothing."""

    offset: int
    topic_id: str


@dataclass(frozen=True)
class GroupPlaces:
    group: str
    places: Mapping[Partition, CommittedPlace]

    def starts(self, copies: Iterable[WantedCopy]) -> dict[Partition, int]:
        """Partition of the source → its first offset to copy, if no flow has copied it yet."""
        return {
            (copy.topic, number): place.offset
            for copy in copies
            for number in range(copy.partitions)
            if (place := self.places.get((copy.topic, number))) and place.topic_id == copy.topic_id
        }


def group_places(source: Admin, group: str) -> GroupPlaces:
    """
    :raises HandoverError: MirrorMaker 1 runs.
    """
    require_no_members(source, group)
    committed = source.group_offsets([group]).get(group, {})
    topics = source.list_topics()
    return GroupPlaces(
        group,
        {
            key: CommittedPlace(offset, topics[key[0]].topic_id)
            for key, (offset, _) in committed.items()
            if key[0] in topics
        },
    )


def require_no_members(source: Admin, group: str) -> None:
    """:raises HandoverError: the group has members, whose hosts the error names."""
    found = source.describe_groups([group]).get(group)
    if found is not None and found.members:
        hosts = ", ".join(sorted({f"{member.host.lstrip('/')} ({member.client_id})" for member in found.members}))
        raise HandoverError(
            f"MirrorMaker 1 is at work: its group {group} in {source.cluster.name} has members on {hosts}. Two copiers "
            "would copy each record twice. Stop it first; a killed one leaves the group after its session.timeout.ms. "
            "If the group is another one, remove group.id from the consumer's properties"
        )


def begin_after_group(
    source: Admin, target: Admin, places: GroupPlaces, copies: Iterable[WantedCopy], stopped: Collection[CopyPartition]
) -> list[CopyPartition]:
    """Begin those of these copies of which the group has a commit; returns them. The records that they hold stay below.

    A copy that has notes goes on with these, or stays as it is: the handover goes one way.

    :param copies: topics of the flow as they are now.
    :raises HandoverError: MirrorMaker 1 runs again.
    :raises TakenOverError: another process copies one of them.
    """
    starts = places.starts(copies)
    known = {copy.id: copy for copy in stopped if copy.source_key in starts}
    if not known:
        return []
    require_no_members(source, places.group)
    sources = source.leaderships([copy.source_key for copy in known.values()])

    def first(fenced: Fenced) -> list[Progress]:
        key = known[fenced.copy.id].source_key
        leader, start = sources.get(key), starts[key]
        topics = TopicIds("" if leader is None else leader.topic_id, fenced.topic_id)
        return [
            Progress(fenced.writer, start, fenced.end, topics=topics, base=fenced.end, source_base=start),
        ]

    return [known[id_] for id_ in target.seed(known.values(), first)]
