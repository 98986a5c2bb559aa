"""The end of a crossing behind a fence: partitions that nobody writes to would never reach their cuts by themselves.

Behind the fence a cut that was not reached is lowered to the origin's end, where nothing was given out; the others keep
theirs. Producers wait for some milliseconds, as for a barrier.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, ClassVar

from ha_core.model import MigrateOperation
from ha_core.model.topic import client_end
from ha_core.operations.crossing.below import Below, kept_below, known_below, physical_cuts, read_below, without_below
from ha_core.operations.crossing.ends import Sides, read_ends
from ha_core.operations.gateways import require_drained
from ha_core.operations.journal import Journal
from ha_core.operations.moving import patiently
from ha_core.operations.revisions import Touched, bounded, commit_now
from ha_core.operations.switch.window import quiet_ends, require_unmoved
from ha_core.plan.crossing import finish_change, hold_change, lift_change
from ha_core.plan.crossing_stages import BEHIND_FENCE, Stage, crossing_partitions
from ha_core.plan.revision import Documents


class FencedEnd(ABC):
    """The end of the crossing of some topics behind their fence, part by part. What fails lifts the fence again."""

    parts: ClassVar[tuple[str, ...]]
    standing: ClassVar[tuple[Stage, ...]]
    """Where the topics may stand."""

    def __init__(self, journal: Journal[MigrateOperation], names: Sequence[str]) -> None:
        self.journal, self.environment, self.names = journal, journal.environment, names
        self.touched = Touched.read(journal)
        self.before = self.touched.view.topics
        self.below = kept_below(journal, crossing_partitions(self.before, names))
        self.revision = 0

    def end(self) -> None:
        begun = self.environment.monotonic()
        try:
            for part in self.parts:
                getattr(self, part)()
        except BaseException:
            patiently(self.environment, partial(lift, self.journal))
            raise
        fenced_ms = (self.environment.monotonic() - begun) * 1000
        self.journal.update(revision=self.revision)
        detail, words = self.told()
        detail = {"revision": self.revision, "topics": list(self.names), "status": "Migrated", **detail}
        self.journal.append("finish", "done", fenced_ms, detail)
        self.environment.say(f"finish {fenced_ms:.1f} ms ({len(self.names)} topics, revision={self.revision}): {words}")

    def hold(self) -> None:
        documents = hold_change(self.journal.operation, self.touched.view, self.names, *self.standing)
        self.revision = self.touched.commit(documents, "hold")

    def drain(self) -> None:
        timeout_s = self.journal.request.drain_timeout_s
        require_drained(self.environment, self.revision, self.journal.operation.id, timeout_s)

    def finish_by(self, documents: Documents) -> None:
        self.documents = documents
        self.revision = self.touched.commit(documents, "finish")

    @abstractmethod
    def told(self) -> tuple[dict[str, Any], str]:
        """For the history, and for people."""


class BehindFence(FencedEnd):
    """At the ends of the origin's logs (`BEHIND_FENCE`)."""

    parts = BEHIND_FENCE
    standing = ("open",)

    def __init__(self, journal: Journal[MigrateOperation], names: Sequence[str]) -> None:
        super().__init__(journal, names)
        self.cuts = physical_cuts(self.before, names)
        # What can be read before the fence is: surplus is long, and producers wait behind it.
        now = read_ends(journal.environment, journal.operation, self.cuts).replicated
        early = {key: cut for key, cut in self.cuts.items() if (now[key].origin or 0) >= cut and key not in self.below}
        self.below.update(read_below(journal.origin, early))

    def quiet(self) -> None:
        journal, there = self.journal, self.journal.target.ends(self.cuts)
        here = quiet_ends(self.environment, journal.origin, self.cuts, journal.request.drain_timeout_s)
        self.sides = Sides(here, there)

    def producers(self) -> None:
        origin = self.journal.origin
        rest = {k: min(cut, self.sides.origin[k].log_end) for k, cut in self.cuts.items() if k not in self.below}
        self.below.update(read_below(origin, rest))
        require_unmoved(origin, self.sides.origin, origin.ends(self.cuts))

    def finish(self) -> None:
        documents = finish_change(
            without_below(self.journal.operation, self.names),
            self.touched.view,
            self.names,
            self.sides.ends,
            self.journal.origin.partition_counts(self.names),
            known_below(self.below),
            self.environment.now_ms(),
        )
        self.finish_by(documents)

    def told(self) -> tuple[dict[str, Any], str]:
        ends = {key: self.sides.origin[key].log_end for key in self.cuts}
        clients = {(name, p): client_end(self.before[name], p, end) for (name, p), end in ends.items()}
        lowered = {key: clients[key] for key, cut in self.cuts.items() if ends[key] < cut}
        detail = not_known(self.below, self.documents, self.names)
        detail |= bounded("lowered_to", lowered) | bounded("client_ends", clients)
        return detail, f"{len(lowered)} cuts lowered"


def lift(journal: Journal[MigrateOperation]) -> None:
    """Take away a fence that an executor has left: the crossing goes on as before."""
    revision = commit_now(journal, lift_change, "lift")
    journal.append("lift", "undone", detail={"revision": revision})
    journal.environment.say(f"a fence that was left is lifted, revision {revision}")


def not_known(below: Below, documents: Documents, names: Collection[str]) -> dict[str, Any]:
    """For the history: whose last sequences nobody can say, and which partitions remain in the origin."""
    unknown = [f"{name}-{partition}" for (name, partition), found in below.items() if found is None]
    (operation,) = (put for put in documents.puts if isinstance(put, MigrateOperation))
    remaining = {name: new for name, new in operation.evidence.remaining.items() if name in names}
    return {"unknown_sequences": unknown, **({"remaining_in_origin": remaining} if remaining else {})}
