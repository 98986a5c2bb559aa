"""Continues copies whose remote topic already holds records of an earlier writer.

Two kinds of earlier writer are known. In both cases the notes of the new copy begin at the end of the remote topic:

- an earlier copier of this flow, if the source topic was deleted and created again: the new topic is copied from its
  start;
- MirrorMaker 2 (`handover`).

Records of any other writer stop the copy, and an operator decides.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ha_core.flows.connect_state import ConnectState
from ha_core.flows.remote_plan import link_prefix
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.takeover import CopyPartition, Fenced
from ha_core.mirror.notes import CopyId, Notes
from ha_core.mirror.progress import CopyDamagedError, Progress
from ha_core.mirror.recovery import above_progress
from ha_core.mirror_maker.copier import noted_in_log
from ha_core.mirror_maker.handover import (
    begin_copies,
    judged_copies,
    read_source_offsets,
    refused,
    require_stopped,
)
from ha_core.plan.facts.clusters import Partition

log = logging.getLogger(__name__)
Read = Callable[[Callable[[CopyId], bool]], dict[CopyId, Notes]]


@dataclass
class Handover:
    """Continues copies that a real MirrorMaker 2 made.

    :ivar settings: librdkafka's settings for the target.
    """

    flow: str
    source_alias: str
    source: Admin
    target: Admin
    settings: Mapping[str, Any]

    def begin(self, stopped: Collection[CopyPartition]) -> list[CopyPartition]:
        """Begin each copy that MirrorMaker 2 made at the offset where MirrorMaker 2 stopped.

        :returns: copies that were begun.
        :raises HandoverError: MirrorMaker 2 runs, or the offset is unknown for all of its copies.
        """
        state = ConnectState.dedicated(self.source_alias)
        offsets = read_source_offsets(self.settings, state)
        theirs = [copy for copy in stopped if copy.source_key in offsets]
        if not theirs:
            return []
        require_stopped(self.target, state)
        judged = judged_copies(self.source, self.target, theirs, offsets)
        for one in judged.handed:
            how = "" if one.exact else ", and may duplicate records"
            why = f" ({one.reason})" if one.reason else ""
            log.info("%s: %s-%d goes on after MirrorMaker 2%s%s", self.flow, *one.copy.key, how, why)
        begin_copies(self.source, self.target, state, judged.handed)
        if judged.refused and not judged.handed:  # copies that can continue do not wait for others
            raise refused(judged.refused)
        return [one.copy for one in judged.handed]


@dataclass
class EarlierGenerations:
    """Continues copies that earlier copiers of this flow made.

    :ivar read: reads the notes of chosen copies.
    """

    flow: str
    target: Admin
    read: Read

    def begin(self, stopped: Collection[CopyPartition]) -> list[CopyPartition]:
        """Begin each copy whose records an earlier copier of this flow wrote.

        The earlier copier is fenced first: it has another transactional id, so the fence of the present one would not
        keep it from the topic. May be killed and run again: a copy that has notes is left alone.

        A copy that another program went on with since, as MirrorMaker 2, is left out: it may have copied some of the
        present topic already.
        """
        by_key = {copy.key: copy for copy in stopped}
        prefix = link_prefix(self.flow)
        notes = self.read(lambda id_: id_.link.startswith(prefix) and (id_.topic, id_.partition) in by_key)
        targets = self.target.leaderships(list(by_key))
        earlier: dict[Partition, tuple[Progress, CopyId]] = {}
        begun_here = set[Partition]()
        """Copies with notes of their own, of a run that was killed."""
        for id_, its in notes.items():
            key = id_.topic, id_.partition
            if its.progress is None or key not in targets:
                continue
            if id_ == by_key[key].id:
                begun_here.add(key)
            elif its.progress.topics.target == targets[key].topic_id:
                last = earlier.get(key)
                if last is None or last[0].target < its.progress.target:
                    earlier[key] = its.progress, id_
        ends = self.target.ends(list(earlier))
        begun = [
            key
            for key, (progress, _) in sorted(earlier.items())
            if key in begun_here or self._is_last(key, progress, ends[key])
        ]
        for key in begun:  # it has fenced those before it
            self.target.fence(noted_in_log(earlier[key][1], by_key[key].source_topic))
        return self._begin([by_key[key] for key in begun])

    def _is_last(self, key: Partition, progress: Progress, ends: LogEnds) -> bool:
        """Whether no other program has written to the remote topic since."""
        tail = (piece.batch for piece in self.target.log(key, min(progress.target, ends.log_end), ends.log_end))
        try:
            return above_progress(tail, progress).foreign is None
        except CopyDamagedError:
            return False

    def _begin(self, copies: Iterable[CopyPartition]) -> list[CopyPartition]:
        def first(fenced: Fenced) -> list[Progress]:
            # From offset 0: the copier counts what retention has deleted, and groups below go on at the first record.
            return [Progress(fenced.writer, 0, fenced.end, base=fenced.end)]

        for id_ in self.target.seed(begun := list(copies), first):
            log.info("%s: %s-%d continues with a topic that was created again", self.flow, id_.topic, id_.partition)
        return begun
