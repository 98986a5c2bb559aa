"""The end of a crossing under a fence: idle partitions would never reach their cuts by themselves.

With a live origin a cut that was not reached is lowered to the origin's end, above which no offset was given out; the
others keep theirs. Producers wait for some milliseconds, as for a barrier. If the origin is dead, or its log was
truncated, its log end does not count: the crossing ends at its cuts, whatever the origin still has below them.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import LogEnds
from ha_core.model import MigrateOperation, MoveSet
from ha_core.model.move_request import UnreadPolicy
from ha_core.operations.clusters.last_seen import LastKnown
from ha_core.operations.engine.await_gateways import require_drained
from ha_core.operations.engine.cluster_admins import DYING_S
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.kind import retry_while_store_is_away
from ha_core.operations.engine.revisions import Touched, bounded, commit_now, nested_by_topic
from ha_core.operations.engine.steps import AnyStep, Effect, Effects
from ha_core.operations.migration.crossing.below import kept_below, physical_cuts, read_below, without_below
from ha_core.operations.migration.crossing.ends import EndsOfBoth, as_clients, read_ends
from ha_core.operations.move.fenced_reads import quiet_ends, require_unmoved
from ha_core.plan.absence.crossing_without_origin import crossed_with, end_change
from ha_core.plan.engine.revision import Documents
from ha_core.plan.facts.clusters import Partition, PartitionEnds, Surplus
from ha_core.plan.facts.verdict import amount
from ha_core.plan.migration.crossing import finish_change, hold_change, lift_change
from ha_core.plan.migration.crossing_stages import (
    BEHIND_FENCE,
    WITHOUT_ORIGIN,
    FencePart,
    PartWithoutOrigin,
    Stage,
    crossings,
)


class CrossingEnd:
    """The end of the crossing of some topics, in one revision."""

    def __init__(self, journal: Journal[MigrateOperation], names: Sequence[str]) -> None:
        self.journal, self.environment, self.names = journal, journal.environment, names
        self.touched = Touched.read(journal)
        self.before = self.touched.view.topics
        self.cuts = physical_cuts(self.before, names)
        self.below = kept_below(journal, self.cuts)
        self.revision = 0

    def read_below(self, cuts: Mapping[Partition, int]) -> None:
        """Read the last sequences below `cuts` that are not known yet."""
        left = {key: cut for key, cut in cuts.items() if key not in self.below}
        self.below |= read_below(self.journal.origin, left)

    def write(self, step: str, change: Callable[..., Documents], ends: Mapping[Partition, PartitionEnds]) -> None:
        """Commit the planner's revision, from the logs' ends and the known last sequences."""
        operation, read_ms = without_below(self.journal.operation, self.names), self.environment.now_ms()
        documents = change(operation, self.touched.view, self.names, ends, producers=self.below, read_ms=read_ms)
        self.revision = self.touched.commit(documents, step)

    def detail(self) -> dict[str, Any]:
        """Detail for the history."""
        return {"revision": self.revision, "topics": list(self.names), "status": "Migrated"}

    def origin_detail(self, clients: Mapping[Partition, int]) -> dict[str, Any]:
        """Detail about the origin: its `clients`' ends, partitions with unknown last sequences, and those that
        remain."""
        unknown = [f"{name}-{partition}" for (name, partition), facts in self.below.items() if facts is None]
        known = self.journal.operation.evidence.remaining
        remaining = {name: new for name, new in known.items() if name in self.names}
        more = {"remaining_in_origin": remaining} if remaining else {}
        return {"unknown_sequences": unknown, **more, **bounded("client_ends", clients)}


class FencedEnd(CrossingEnd, Effects[AnyStep]):
    """An end under the topics' fence, part by part. A failure lifts the fence again."""

    parts: tuple[AnyStep, ...]
    standing: ClassVar[tuple[Stage, ...]]
    """Stages that the topics may be in."""
    dead: str | None = None
    """The origin, if it is taken for dead."""

    def end(self) -> None:
        begun = self.environment.monotonic()
        try:
            for part in self.parts:
                self.perform(part)
        except BaseException:
            retry_while_store_is_away(self.environment, partial(lift, self.journal))
            raise
        fenced_ms = self.environment.ms_since(begun)
        self.journal.update(revision=self.revision)
        detail, words = self.summarize()
        self.journal.append("finish", "done", fenced_ms, {**self.detail(), **detail, "fenced_ms": round(fenced_ms, 1)})
        self.environment.say(
            f"finish {fenced_ms:.1f} ms ({amount(len(self.names), 'topic')}, revision={self.revision}): {words}"
        )

    def hold(self) -> None:
        documents = hold_change(self.journal.operation, self.touched.view, self.names, *self.standing, dead=self.dead)
        self.revision = self.touched.commit(documents, "hold")

    def drain(self) -> None:
        require_drained(self.journal, self.revision)

    @abstractmethod
    def summarize(self) -> tuple[dict[str, Any], str]:
        """Detail for the history, and a text for people."""


class BehindFence(FencedEnd[FencePart]):
    """Ends at the origin's log ends (`BEHIND_FENCE`)."""

    parts = BEHIND_FENCE
    standing = ("open",)

    @property
    def effects(self) -> Mapping[FencePart, Effect]:
        return {
            "hold": self.hold,
            "drain": self.drain,
            "quiet": self.quiet,
            "producers": self.producers,
            "finish": self.finish,
        }

    def __init__(self, journal: Journal[MigrateOperation], names: Sequence[str]) -> None:
        super().__init__(journal, names)
        # Read before the fence as far as possible: surplus may be long, and producers wait after it.
        now = read_ends(journal.environment, journal.operation, self.cuts).replicated
        self.read_below({key: cut for key, cut in self.cuts.items() if (now[key].origin or 0) >= cut})

    def quiet(self) -> None:
        journal, there = self.journal, self.journal.target.ends(self.cuts)
        here = quiet_ends(self.environment, journal.origin, self.cuts, journal.request.drain_timeout_s)
        self.sides = EndsOfBoth(here, there)

    def producers(self) -> None:
        origin, here = self.journal.origin, self.sides.origin
        self.read_below({key: min(cut, here[key].log_end) for key, cut in self.cuts.items()})
        require_unmoved(origin, here, origin.ends(self.cuts))

    def finish(self) -> None:
        counts = self.journal.origin.partition_counts(self.names)
        self.write("finish", partial(finish_change, counts=counts), self.sides.ends)

    def summarize(self) -> tuple[dict[str, Any], str]:
        ends = {key: self.sides.origin[key].log_end for key in self.cuts}
        clients = as_clients(self.before, ends)
        lowered = {key: clients[key] for key, cut in self.cuts.items() if ends[key] < cut}
        return self.origin_detail(clients) | bounded("lowered_to", lowered), f"{amount(len(lowered), 'cut')} lowered"


def lift(journal: Journal[MigrateOperation]) -> None:
    """Lift a fence that an executor has left: the crossing continues as before."""
    revision = commit_now(journal, lift_change, "lift")
    journal.append("lift", "undone", detail={"revision": revision})
    journal.environment.say(f"a fence that was left is lifted, revision {revision}")


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
        self.target_ends = {key: ends.log_end for key, ends in target.ends(list(self.sides)).items()}
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
        detail = {"without": self.origin, "unread": self.unread, "known_end_and_cut": nested_by_topic(ends)}
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
