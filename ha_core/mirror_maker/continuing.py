"""Goes on with remote topics that hold records which no copier of the present pair of topics wrote.

Two writers can have come before, and each way begins the copy's notes at the end of the remote topic:

- a copier of this flow, of a source topic that was deleted and made again: the new one is copied from its start;
- MirrorMaker 2 (`handover`).

Records of any other writer stop the copy: an operator decides.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ha_core.flows.remote_plan import link_prefix
from ha_core.kafka.admin import Admin
from ha_core.kafka.takeover import CopyPartition, Fenced
from ha_core.mirror.notes import CopyId, Notes
from ha_core.mirror.progress import Progress
from ha_core.plan.facts.clusters import Partition

log = logging.getLogger(__name__)
Read = Callable[[Callable[[CopyId], bool]], dict[CopyId, Notes]]


@dataclass
class EarlierGenerations:
    """
    :ivar read: reads the notes of chosen copies.
    """

    flow: str
    source: Admin
    target: Admin
    read: Read

    def begin(self, stopped: Collection[CopyPartition]) -> list[CopyPartition]:
        """Begin those of these copies whose records an earlier copier of this flow wrote; returns them.

        May be killed and run again: a copy that has notes is left alone.
        """
        by_key = {copy.key: copy for copy in stopped}
        prefix = link_prefix(self.flow)
        notes = self.read(lambda id_: id_.link.startswith(prefix) and (id_.topic, id_.partition) in by_key)
        targets = self.target.leaderships(list(by_key))
        earlier: set[Partition] = set()
        for id_, its in notes.items():
            key = id_.topic, id_.partition
            if its.progress is None or id_ == by_key[key].id or key not in targets:
                continue
            if its.progress.topics.target == targets[key].topic_id:
                earlier.add(key)
        return self._begin([by_key[key] for key in sorted(earlier)])

    def _begin(self, copies: Iterable[CopyPartition]) -> list[CopyPartition]:
        begun = list(copies)
        starts = {key: ends.start for key, ends in self.source.ends([copy.source_key for copy in begun]).items()}

        def first(fenced: Fenced) -> list[Progress]:
            start = starts[fenced.copy.source_key]
            return [Progress(fenced.writer, start, fenced.end, base=fenced.end, source_base=start)]

        for id_ in self.target.seed(begun, first):
            log.info("%s: %s-%d goes on with a topic that was made again", self.flow, id_.topic, id_.partition)
        return begun
