"""Ends a crossing at its cuts, whatever the origin still has below them.

The origin is dead, or its log was truncated: either way its log end does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import LogEnds
from ha_core.model import MigrateOperation, MoveSet
from ha_core.model.operation import UnreadPolicy
from ha_core.operations.clusters.last_seen import LastKnown
from ha_core.operations.engine.cluster_admins import DYING_S
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.kind import Effect
from ha_core.operations.engine.revisions import by_topic
from ha_core.operations.migration.crossing.fence import FencedEnd
from ha_core.plan.absence.crossing_without_origin import crossed_with, end_change
from ha_core.plan.facts.clusters import Partition, Surplus
from ha_core.plan.migration.crossing_stages import WITHOUT_ORIGIN, PartWithoutOrigin, Stage, crossings

READ_S = 120.0


class EndWithoutOrigin(FencedEnd[PartWithoutOrigin]):
    """Ends at cuts that follow from the target and the last known state of the origin (`WITHOUT_ORIGIN`).

    The target's records since the cuts, and their producers, are read before the fence, and the rest under it.
    """

    parts = WITHOUT_ORIGIN
    standing: ClassVar[tuple[Stage, ...]] = ("proposed", "open")

    @property
    def effects(self) -> Mapping[PartWithoutOrigin, Effect]:
        return {"hold": self.hold, "drain": self.drain, "written": self.written, "conclude": self.conclude}

    def __init__(self, journal: Journal[MigrateOperation], names: Sequence[str], unread: UnreadPolicy) -> None:
        super().__init__(journal, names)
        self.unread = unread
        self.dead = self.origin = journal.request.origin
        self.sides = {(name, p): (here, there) for name in names for p, here, there in crossings(self.before[name])}
        self.known = LastKnown.read(self.environment, self.origin, MoveSet(topics=tuple(names)))
        self.target_ends = {key: there.base for key, (_, there) in self.sides.items()}
        self.surplus: dict[Partition, Surplus] = {}
        self.written()

    def written(self) -> None:
        target, before = self.journal.target, self.target_ends
        self.target_ends = {key: found.log_end for key, found in target.ends(list(self.sides)).items()}
        regions = {key: (before[key], end) for key, end in self.target_ends.items() if end > before[key]}
        for key, more in (target.surplus(regions, timeout_s=READ_S) if regions else {}).items():
            had = self.surplus.get(key, Surplus())
            self.surplus[key] = Surplus({**more.first, **had.first}, had.whole and more.whole)

    def conclude(self) -> None:
        here, known_ends = self._last_words(), self.known.ends
        ends = {key: known_ends(self.environment, key, end, here.get(key)) for key, end in self.target_ends.items()}
        for key, surplus in self.surplus.items():
            origin, target = self.sides[key]
            if self.below.get(key) is None:
                self.below[key] = crossed_with(surplus, target, origin)
        self.write("finish", partial(end_change, unread=self.unread), ends)

    def summarize(self) -> tuple[dict[str, Any], str]:
        """Known ends and cuts: the records that the origin held in between are unknown."""
        topics, ends = self.touched.view.topics, dict[Partition, list[int]]()
        for name, partition in self.sides:
            *_, last, now = topics[name].partitions[partition]
            ends[name, partition] = [last.known_end or last.start, now.start]
        detail = {"without": self.origin, "unread": self.unread, "known_end_and_cut": by_topic(ends)}
        becomes = "skipped" if self.unread == "skip" else "waited for"
        return detail, f"records below the cuts that only {self.origin} held are {becomes} until it returns"

    def _last_words(self) -> Mapping[Partition, LogEnds]:
        """Log ends of an origin that is taken for dead, if it still answers."""
        with suppress(KafkaAdminError, RefusedError):
            origin = self.journal.origin
            if origin.probe(timeout_s=DYING_S).reachable:
                return origin.ends(list(self.sides), timeout_s=DYING_S)
        return {}


class EndOfWhatWentBack(EndWithoutOrigin):
    """For a live origin whose log had reached its cut and was truncated below it: records that it takes from now on
    would be at offsets that readers have passed. Readers skip nothing until an operator accepts the loss."""

    standing = ("open",)

    def __init__(self, journal: Journal[MigrateOperation], names: Sequence[str]) -> None:
        super().__init__(journal, names, "wait")
        self.dead = None
