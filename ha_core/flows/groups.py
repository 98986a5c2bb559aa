"""Rules for the groups of a flow: which checkpoints to emit, and which offsets to commit in the target.

Invariant: neither goes back in the target, unless the group went back in the source or the remote topic was created
anew. The offsets of a group with members in the target are never touched.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.flows.filters import NameFilter
from ha_core.flows.policies import ReplicationPolicy, original_topic
from ha_core.flows.records import Checkpoint

TargetPartition = tuple[str, int]


class SkippedGroup(NamedTuple):
    """A group, or one of its partitions, that gets no checkpoint or commit.

    :ivar partition: partition in the target; None: all partitions of the group.
    """

    group: str
    reason: str
    partition: TargetPartition | None = None


def topic_of_checkpoint(policy: ReplicationPolicy, source_alias: str, target_alias: str, topic: str) -> str:
    """The name in the target of a topic that a group reads in the source. A topic that came from the target has its
    original name there."""
    if policy.topic_source(topic) == target_alias:
        return original_topic(policy, topic)
    return policy.format_remote_topic(source_alias, topic)


def is_due(checkpoint: Checkpoint, last: Checkpoint | None, precision: str) -> bool:
    """Whether to emit the checkpoint after `last`: the group advanced in the target, or goes back there.

    :param precision: precision of the translation. A sampled translation that is lower than the last one is not
        emitted: both are equally good.
    """
    if last is None or checkpoint.upstream_offset < last.upstream_offset:
        return True
    if precision == "sampled":
        return checkpoint.downstream_offset > last.downstream_offset
    return checkpoint.downstream_offset != last.downstream_offset


def goes_back(checkpoint: Checkpoint, last: Checkpoint | None) -> bool:
    """Whether the checkpoint takes the group back: it went back in the source, or the remote topic was created anew and
    has the records at lower offsets."""
    return last is not None and (
        checkpoint.upstream_offset < last.upstream_offset or checkpoint.downstream_offset < last.downstream_offset
    )


def groups_to_follow(
    committed: Mapping[str, Iterable[str]], groups: NameFilter, topics: NameFilter
) -> Iterator[str | SkippedGroup]:
    """Groups of the source that the flow follows. Others are yielded with the reason.

    :param committed: group → topics for which it has committed offsets.
    """
    for group, its_topics in committed.items():
        if groups.own is not None and not groups.accepts(group):
            yield SkippedGroup(group, f"the filter {groups.own.name} does not accept it")
        elif groups.own is None and groups.exclude.matches(group):
            yield SkippedGroup(group, "groups.exclude names it")
        elif groups.own is None and not groups.include.matches(group):
            yield SkippedGroup(group, "groups does not name it")
        elif not any(topics.accepts(topic) for topic in its_topics):
            yield SkippedGroup(group, "it has committed no offset of a topic that the flow copies")
        else:
            yield group


@dataclass(frozen=True)
class TargetGroup:
    """A group as the target's coordinator reports it.

    :ivar state: Kafka's name of the state; `Dead`: there is no such group.
    :ivar offsets: partition of the target → committed offset; None: committed without an offset (some clients reset to
        -1).
    """

    state: str
    offsets: Mapping[TargetPartition, int | None]


def commits(
    group: str,
    checkpoints: Mapping[TargetPartition, Checkpoint],
    there: TargetGroup,
    go_back: bool,
) -> Iterator[Checkpoint | SkippedGroup]:
    """Checkpoints to commit in the target (`sync.group.offsets.enabled`). Others are yielded with the reason.

    :param go_back: whether the group goes back on these partitions (`goes_back`).
    """
    if there.state not in {"Empty", "Dead"}:
        yield SkippedGroup(group, f"it is {there.state} in the target: its consumers there commit themselves")
        return
    for key, checkpoint in checkpoints.items():
        committed = there.offsets.get(key)
        if committed is None or committed < checkpoint.downstream_offset or go_back:
            if committed != checkpoint.downstream_offset:
                yield checkpoint
        elif committed > checkpoint.downstream_offset:
            reason = f"the target has offset {committed}, above the translated {checkpoint.downstream_offset}"
            yield SkippedGroup(group, reason, key)
