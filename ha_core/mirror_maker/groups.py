"""Writes checkpoints of groups, and commits groups' offsets in the target."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.groups import (
    SkippedGroup,
    TargetGroup,
    TargetPartition,
    commits,
    goes_back,
    is_due,
    topic_of_checkpoint,
)
from ha_core.flows.records import Checkpoint
from ha_core.flows.translation import Translated, Translation, Untranslated, kept
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, NotReadyError
from ha_core.kafka.groups import Committed
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.mirror.sampled import Sampled
from ha_core.mirror_client import FollowedTopic
from ha_core.mirror_maker.held_partitions import HeldPartitions
from ha_core.mirror_maker.producing import InternalProducer, InternalRecord
from ha_core.mirror_maker.source_groups import SourceGroups, offsets_of, unheard_group
from ha_core.mirror_maker.translating import ExactMaps
from ha_core.plan.facts.clusters import Partition

log = logging.getLogger(__name__)
_DEAD = "Dead"
_CATCH_UP_S, _LOOK_S = 2.0, 0.25
"""How long a round waits for the copies of records that groups have read: a group at the source's end is ahead of the
copy by some milliseconds, and its checkpoint would let it read the records of that time again."""
_NO_START = "its copy is gone, or the leader of it does not tell its log start"
_STARTS_S = 5.0
"""How long a round waits for the log starts of copies: groups of other copies wait for it, too."""


_RECENT_S, _CURRENT_S = 0.5, 3.0
"""Age of a group's offsets in the target at which they are read again before a commit, and at which no commit goes by
them any more."""


def _counting_sleep() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class PresentCheckpoint(NamedTuple):
    """A checkpoint for a group's current offset, with its partition in the source."""

    source: Partition
    checkpoint: Checkpoint
    precision: str


@dataclass
class GroupOffsets:
    """
    :ivar copies: partition of the source → this worker's copy of it.
    :ivar held: the partitions for which this worker writes checkpoints and commits.
    :ivar written: the checkpoints topic. If the worker did not read it, a group would seem to go back after each
        restart (KAFKA-15905), and an old checkpoint that a hanging worker wrote late would remain the last one.
    :ivar skipped: groups, or partitions of groups, without a checkpoint in the last round, with the reason.
    :ivar not_committed: groups, or partitions of groups, without a commit in the last round, with the reason.
    :ivar precise: precision → number of offsets in the last round.
    """

    flow: FlowConfig
    source: Admin
    target: Admin
    producer: InternalProducer
    maps: ExactMaps
    copies: Callable[[], Mapping[Partition, CopyPartition]]
    held: HeldPartitions
    written: FollowedTopic[Checkpoint]
    skipped: list[SkippedGroup] = field(default_factory=list)
    not_committed: list[SkippedGroup] = field(default_factory=list)
    precise: dict[str, int] = field(default_factory=dict)
    latency_ms: dict[tuple[str, str, int], Sampled] = field(default_factory=dict)
    """(group, remote topic, partition) → time from reading the group's offset to the acknowledgement of its
    checkpoint, in milliseconds."""
    clock: Callable[[], float] = _counting_sleep
    _round: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._groups = SourceGroups(self.flow, self.source)

    def emit(self) -> None:
        """Write a checkpoint for each group that advanced, or that has to go back in the target.

        If a group goes back, its offset is committed before its checkpoint is written. A worker that dies in between
        still finds the group's earlier checkpoint, and so commits again.
        """
        with self._round:
            began = time.monotonic()
            last = self.written.read()
            found = self._positions(_CATCH_UP_S)
            due = [one for one in found if is_due(one.checkpoint, last.get(one.checkpoint.key), one.precision)]
            back = [one for one in due if goes_back(one.checkpoint, last.get(one.checkpoint.key))]
            failed: Collection[str] = ()
            if back and self.flow.commit_offsets_s is not None:
                failed = {one.group for one in self._commit(back, go_back=True)}
            topic = self.flow.policy.checkpoints_topic(self.flow.source)
            ours = [one.checkpoint for one in due if self.held.has(one.source) and one.checkpoint.group not in failed]
            self.producer.write(InternalRecord(topic, one.key, one.value) for one in ours)
            now = time.monotonic()
            took_ms = 1000 * (now - began)
            for checkpoint in ours:
                self.latency_ms.setdefault((checkpoint.group, checkpoint.topic, checkpoint.partition), Sampled()).add(
                    took_ms, took_ms, 1, now
                )

    def commit(self) -> None:
        """Commit the groups' current offsets in the target, for groups without members there. No group goes back."""
        with self._round:
            self._commit(self._positions(), go_back=False)

    def _commit(self, found: Iterable[PresentCheckpoint], go_back: bool) -> list[SkippedGroup]:
        """Commit these checkpoints. Returns the groups that the target has refused."""
        by_group: dict[str, dict[TargetPartition, PresentCheckpoint]] = {}
        for one in found:
            key = one.checkpoint.topic, one.checkpoint.partition
            by_group.setdefault(one.checkpoint.group, {})[key] = one
        read_at, there = self.clock(), self._in_target(by_group)
        not_committed, refused = list[SkippedGroup](), list[SkippedGroup]()
        for group, its in by_group.items():
            asked_at, now = read_at, there.get(group)
            try:
                if now is not None and self.clock() - asked_at > _RECENT_S and any(_due(group, its, now, go_back)):
                    # With a thousand groups, this one may have read on in the target and left since.
                    asked_at, now = self.clock(), self._in_target([group]).get(group)
                if now is None:
                    refused.append(unheard_group(group, self.flow.target))
                    continue
                due: dict[Partition, Committed] = {}
                for judged in commits(group, {key: its[key].checkpoint for key in its}, now, go_back):
                    if isinstance(judged, SkippedGroup):
                        not_committed.append(judged)
                    else:
                        due[judged.topic, judged.partition] = judged.downstream_offset, judged.metadata
                if due:
                    current = partial(self._require_current, asked_at, [its[key].source for key in due])
                    self.target.set_group_offsets(group, due, still_ours=current)
            except KafkaAdminError as error:
                refused.append(SkippedGroup(group, str(error)))
        not_committed += refused
        for new in set(not_committed) - set(self.not_committed):
            log.info("%s: offsets of group %s are not committed: %s", self.flow.name, new.group, new.reason)
        self.not_committed = not_committed
        return refused

    def _require_current(self, asked_at: float, partitions: Iterable[Partition]) -> None:
        """An empty group accepts a commit from anyone. A worker that stood still since it asked for the group's offsets
        would take back what the group has read in the target meanwhile."""
        if (age_s := self.clock() - asked_at) > _CURRENT_S:
            raise NotReadyError(
                self.flow.target, f"the group's offsets there were read {age_s:.0f} s ago: the next round asks again."
            )
        if not all(map(self.held.has, partitions)):
            raise NotReadyError(self.flow.target, "another worker owns the group's partitions by now.")

    def _positions(self, patience_s: float = 0.0) -> list[PresentCheckpoint]:
        """Translate the current offsets of all groups. Offsets that cannot be translated go to `skipped`.

        :param patience_s: seconds to wait until records that groups have read are copied.
        """
        committed = self._groups.committed()
        copies = {key: copy for key, copy in self.copies().items() if self.held.has(key)}
        wanted: dict[CopyPartition, set[int]] = {}
        for its in committed.values():
            for key, (offset, _) in its.items():
                if key in copies and offset >= 0:
                    wanted.setdefault(copies[key], set()).add(offset)
        translations = self._translated(wanted, patience_s)
        # Below its log start, `auto.offset.reset` would decide: a group may pass over all that the copy has.
        starts = self.target.log_starts([copy.key for copy in wanted], _STARTS_S)
        precise: dict[str, int] = {}
        skipped = list(self._groups.skipped)
        positions: list[PresentCheckpoint] = []
        for group, its in committed.items():
            for (topic, partition), (offset, metadata) in its.items():
                copy = copies.get((topic, partition))
                found = None if copy is None else translations.get((copy.id, offset))
                if found is None:
                    continue
                remote = topic_of_checkpoint(self.flow.policy, self.flow.source, self.flow.target, topic)
                if isinstance(found, Translated):
                    start = starts.get(copies[topic, partition].key)
                    found = Untranslated(_NO_START) if start is None else kept(found, start)
                if isinstance(found, Untranslated):
                    skipped.append(SkippedGroup(group, found.reason, (remote, partition)))
                    continue
                precise[found.precision] = precise.get(found.precision, 0) + 1
                checkpoint = Checkpoint(group, remote, partition, offset, found.offset, metadata)
                positions.append(PresentCheckpoint((topic, partition), checkpoint, found.precision))
        self.precise, self.skipped = precise, skipped
        return positions

    def _translated(
        self, wanted: Mapping[CopyPartition, Iterable[int]], patience_s: float
    ) -> dict[tuple[CopyId, int], Translation]:
        until = time.monotonic() + patience_s
        found = self.maps.translate(wanted)
        while time.monotonic() < until:
            late: dict[CopyPartition, set[int]] = {}
            for copy, offsets in wanted.items():
                for offset in offsets:
                    one = found.get((copy.id, offset))
                    if isinstance(one, Translated) and one.precision == "copied-end":
                        late.setdefault(copy, set()).add(offset)
            if not late:
                break
            time.sleep(_LOOK_S)
            for copy, offsets in late.items():
                for offset in offsets:
                    del found[copy.id, offset]  # if the copy has left this worker meanwhile, no translation is used
            found |= self.maps.translate(late)
        return found

    def _in_target(self, groups: Collection[str]) -> dict[str, TargetGroup]:
        """Those whose coordinators answer.

        :raises NotReadyError: none does.
        """
        if not groups:
            return {}
        states = self.target.describe_groups(list(groups), partial=True)
        offsets = offsets_of(self.target, list(states))
        listed = self.target.list_groups()
        return {
            group: TargetGroup(
                # The old API describes groups of the newer protocol (KIP-848) as dead, but lists their real state.
                listed.get(group) or states[group].state if states[group].state == _DEAD else states[group].state,
                {key: offset if offset >= 0 else None for key, (offset, _) in its.items()},
            )
            for group, its in offsets.items()
        }


def _due(
    group: str, its: Mapping[TargetPartition, PresentCheckpoint], there: TargetGroup, go_back: bool
) -> Iterator[Checkpoint]:
    checkpoints = {key: its[key].checkpoint for key in its}
    return (one for one in commits(group, checkpoints, there, go_back) if isinstance(one, Checkpoint))
