"""The end of a crossing behind a fence: partitions that nobody writes to would never reach their cuts by themselves.

Behind the fence a cut that was not reached is lowered to the origin's end, where nothing was given out; the others keep
theirs. Producers wait for some milliseconds, as for a barrier.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from ha_core.model.topic import client_end
from ha_core.operations.crossing.below import Below, kept_below, physical_cuts, read_below, without_below
from ha_core.operations.crossing.ends import Sides, read_ends
from ha_core.operations.gateways import await_drained
from ha_core.operations.journal import Journal
from ha_core.operations.moving import patiently
from ha_core.operations.revisions import Touched, bounded, remaining_in
from ha_core.operations.switch.window import quiet_ends, require_unmoved
from ha_core.plan.crossing import (
    finish_change,
    hold_change,
    lift_change,
)
from ha_core.plan.crossing_stages import (
    BEHIND_FENCE,
)
from ha_core.plan.revision import Documents


class BehindFence:
    """The end of the crossing of some topics behind their fence, part by part (`BEHIND_FENCE`)."""

    def __init__(self, journal: Journal, names: Sequence[str]) -> None:
        self.journal, self.environment, self.names = journal, journal.environment, names
        self.touched = Touched.read(journal)
        self.before = self.touched.view.topics
        self.cuts = physical_cuts(self.before, names)
        # What can be read before the fence is: surplus is long, and producers wait behind it.
        now = read_ends(journal.environment, journal.operation, self.cuts).replicated
        self.below = {key: found for key, found in kept_below(journal).items() if key in self.cuts}
        early = {key: cut for key, cut in self.cuts.items() if (now[key].origin or 0) >= cut and key not in self.below}
        self.below.update(read_below(journal.origin, early))
        self.revision = 0

    def end(self) -> None:
        begun = self.environment.monotonic()
        try:
            for part in BEHIND_FENCE:
                getattr(self, part)()
        except BaseException:
            patiently(self.environment, partial(lift, self.journal))
            raise
        fenced_ms = (self.environment.monotonic() - begun) * 1000
        self.journal.update(revision=self.revision)
        ends = {key: self.sides.origin[key].log_end for key in self.cuts}
        clients = {(name, p): client_end(self.before[name], p, end) for (name, p), end in ends.items()}
        lowered = {key: clients[key] for key, cut in self.cuts.items() if ends[key] < cut}
        detail = {"revision": self.revision, "topics": self.names, "status": "Migrated"}
        detail |= not_known(self.below, self.documents, self.names)
        detail |= bounded("lowered_to", lowered) | bounded("client_ends", clients)
        self.journal.append("finish", "done", fenced_ms, detail)
        self.environment.say(
            f"finish {fenced_ms:.1f} ms ({len(self.names)} topics, {len(lowered)} cuts lowered, "
            f"revision={self.revision})"
        )

    def hold(self) -> None:
        self.revision = self.touched.commit(hold_change(self.journal.operation, self.touched.view, self.names), "hold")

    def drain(self) -> None:
        request, operation = self.journal.request, self.journal.operation
        await_drained(self.environment, self.revision, operation.id, request.drain_timeout_s)

    def quiet(self) -> None:
        there = self.journal.target.ends(self.cuts)
        timeout_s = self.journal.request.drain_timeout_s
        self.sides = Sides(quiet_ends(self.environment, self.journal.origin, self.cuts, timeout_s), there)

    def producers(self) -> None:
        origin = self.journal.origin
        ends = {key: one.log_end for key, one in self.sides.origin.items()}
        rest = {key: min(cut, ends[key]) for key, cut in self.cuts.items() if key not in self.below}
        self.below.update(read_below(origin, rest))
        require_unmoved(origin, self.sides.origin, origin.ends(self.cuts))

    def finish(self) -> None:
        counts = self.journal.origin.partition_counts(self.names)
        producers = {key: found for key, found in self.below.items() if found is not None}
        self.documents = finish_change(
            without_below(self.journal.operation, self.names),
            self.touched.view,
            self.names,
            self.sides.ends,
            counts,
            producers,
            self.environment.now_ms(),
        )
        self.revision = self.touched.commit(self.documents, "finish")


def lift(journal: Journal) -> None:
    """Take away a fence that an executor has left: the crossing goes on as before."""
    touched = Touched.read(journal)
    revision = touched.commit(lift_change(journal.operation, touched.view), "lift")
    journal.append("lift", "undone", detail={"revision": revision})
    journal.environment.say(f"a fence that was left is lifted, revision {revision}")


def not_known(below: Below, documents: Documents, names: Collection[str]) -> dict[str, Any]:
    """For the history: whose last sequences nobody can say, and which partitions remain in the origin."""
    unknown = [f"{name}-{partition}" for (name, partition), found in below.items() if found is None]
    return {"unknown_sequences": unknown, **remaining_in(documents, names)}
