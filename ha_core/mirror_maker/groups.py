"""Checkpoints of groups, and their offsets committed in the target."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.configuration import FlowConfig
from ha_core.flows.groups import (
    SkippedGroup,
    TargetGroup,
    TargetPartition,
    checkpoint_is_newer,
    commits,
    groups_to_follow,
    topic_of_checkpoint,
)
from ha_core.flows.records import Checkpoint
from ha_core.flows.translation import Untranslated
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.groups import Committed
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.sampled import Sampled
from ha_core.mirror_maker.producing import InternalProducer, InternalRecord
from ha_core.mirror_maker.translating import ExactMaps
from ha_core.plan.facts.clusters import Partition

log = logging.getLogger(__name__)
_DEAD, _EMPTY = "Dead", "Empty"


def _not_fenced() -> None:
    """A commit in an empty group needs no fence: each worker commits its own partitions."""


@dataclass
class GroupOffsets:
    """
    :ivar copies: copies of this worker, by partition of the source.
    :ivar last: (group, topic in the target, partition) → the newest checkpoint in the topic of checkpoints.
    :ivar skipped: groups without a checkpoint, or partitions of them, with the reason; as of the last round.
    :ivar not_committed: likewise for commits.
    :ivar precise: number of offsets by precision, as of the last round.
    """

    flow: FlowConfig
    source: Admin
    target: Admin
    producer: InternalProducer
    maps: ExactMaps
    copies: Callable[[], Mapping[Partition, CopyPartition]]
    read_checkpoints: Callable[[], Iterable[Checkpoint]]
    last: dict[tuple[str, str, int], Checkpoint] | None = None
    skipped: list[SkippedGroup] = field(default_factory=list)
    not_committed: list[SkippedGroup] = field(default_factory=list)
    precise: dict[str, int] = field(default_factory=dict)
    latency_ms: dict[tuple[str, str, int], Sampled] = field(default_factory=dict)
    """Time from reading a group's offset to the acknowledgement of its checkpoint."""
    _groups: tuple[str, ...] = ()
    _listed_at: float = float("-inf")
    _went_back: set[tuple[str, TargetPartition]] = field(default_factory=set)

    def emit(self) -> None:
        """Write a checkpoint for each group that advanced."""
        if self.last is None:
            # Checkpoints of an earlier worker: without them, a group would seem to go back after each restart
            # (KAFKA-15905).
            self.last = {(one.group, one.topic, one.partition): one for one in self.read_checkpoints()}
        began = time.monotonic()
        committed = self._committed()
        checkpoints = list(self._checkpoints(committed))
        due = [one for one in checkpoints if checkpoint_is_newer(one, self.last.get(_key(one)))]
        topic = self.flow.policy.checkpoints_topic(self.flow.source)
        self.producer.write(InternalRecord(topic, one.key, one.value) for one in due)
        now = time.monotonic()
        for one in due:
            before = self.last.get(_key(one))
            if before is not None and one.upstream_offset < before.upstream_offset:
                self._went_back.add((one.group, (one.topic, one.partition)))
            self.last[_key(one)] = one
            took_ms = 1000 * (now - began)
            self.latency_ms.setdefault(_key(one), Sampled()).add(took_ms, took_ms, 1, now)

    def commit(self) -> None:
        """Commit the newest checkpoints in the target, for groups without members there."""
        by_group: dict[str, dict[TargetPartition, Checkpoint]] = {}
        ours = {(self._remote(topic), partition) for topic, partition in self.copies()}
        for (group, topic, partition), checkpoint in (self.last or {}).items():
            if (topic, partition) in ours and group in self._groups:
                by_group.setdefault(group, {})[topic, partition] = checkpoint
        there = self._in_target(by_group)
        not_committed: list[SkippedGroup] = []
        for group, checkpoints in by_group.items():
            back = frozenset(key for name, key in self._went_back if name == group)
            due: dict[Partition, Committed] = {}
            for found in commits(group, checkpoints, there[group], back):
                if isinstance(found, SkippedGroup):
                    not_committed.append(found)
                else:
                    due[found.topic, found.partition] = found.downstream_offset, found.metadata
            if due:
                try:
                    self.target.set_group_offsets(group, due)
                except KafkaAdminError as error:
                    not_committed.append(SkippedGroup(group, str(error)))
                    continue
            self._went_back -= {(group, key) for key in due}
        for one in set(not_committed) - set(self.not_committed):
            log.info("%s: offsets of group %s are not committed: %s", self.flow.name, one.group, one.reason)
        self.not_committed = not_committed

    def _committed(self) -> dict[str, dict[Partition, Committed]]:
        """Committed offsets of the groups that the flow follows."""
        pause_s = self.flow.refresh_groups_s
        listing = time.monotonic() >= self._listed_at + (pause_s or 0)
        if listing and (pause_s is not None or not self._groups):
            names: Iterable[str] = self.source.list_groups()
            names = [name for name in names if self.flow.groups.accepts(name)]
        else:
            names = self._groups
        committed = self.source.group_offsets(list(names), stable=False)
        if not listing:
            return committed
        self._listed_at = time.monotonic()
        followed: list[str] = []
        skipped: list[SkippedGroup] = []
        topics_of = {group: {topic for topic, _ in its} for group, its in committed.items()}
        for found in groups_to_follow(topics_of, self.flow.groups, self.flow.topics):
            if isinstance(found, SkippedGroup):
                skipped.append(found)
            else:
                followed.append(found)
        self._groups, self.skipped = tuple(followed), skipped
        return {group: committed[group] for group in followed}

    def _checkpoints(self, committed: Mapping[str, Mapping[Partition, Committed]]) -> Iterable[Checkpoint]:
        copies = self.copies()
        wanted: dict[CopyPartition, set[int]] = {}
        for its in committed.values():
            for key, (offset, _) in its.items():
                if key in copies and offset >= 0:
                    wanted.setdefault(copies[key], set()).add(offset)
        translations = self.maps.translate(wanted)
        precise: dict[str, int] = {}
        skipped = [one for one in self.skipped if one.partition is None]
        for group, its in committed.items():
            for (topic, partition), (offset, metadata) in its.items():
                copy = copies.get((topic, partition))
                found = None if copy is None else translations.get((copy.id, offset))
                if found is None:
                    continue
                remote = self._remote(topic)
                if isinstance(found, Untranslated):
                    skipped.append(SkippedGroup(group, found.reason, (remote, partition)))
                    continue
                precise[found.precision] = precise.get(found.precision, 0) + 1
                yield Checkpoint(group, remote, partition, offset, found.offset, metadata)
        self.precise, self.skipped = precise, skipped

    def _remote(self, topic: str) -> str:
        return topic_of_checkpoint(self.flow.policy, self.flow.source, self.flow.target, topic)

    def _in_target(self, groups: Mapping[str, object]) -> dict[str, TargetGroup]:
        if not groups:
            return {}
        states = self.target.describe_groups(list(groups))
        offsets = self.target.group_offsets(list(groups), stable=False)
        listed = self.target.list_groups()
        return {
            group: TargetGroup(
                # A group of the newer protocol (KIP-848) is described as dead, and listed with its state.
                listed.get(group) or states[group].state if states[group].state == _DEAD else states[group].state,
                {key: offset if offset >= 0 else None for key, (offset, _) in offsets.get(group, {}).items()},
            )
            for group in groups
        }


def _key(checkpoint: Checkpoint) -> tuple[str, str, int]:
    return checkpoint.group, checkpoint.topic, checkpoint.partition
