"""What all nodes go to next, and who says so. Every node judges by the same rules from what all have published.

The **commit time** is the smallest time up to which all have read, and it never goes back. Counted are those that have
read up to the last commit time at least: one that has not (it starts, was away, cannot read) cannot go back to hold
the others up, keeps what it serves, and goes straight to the newest commit time when it has read behind it.

**Holding up.** From the moment at which somebody has read further than a node, the node has `hold_s` to get to where
the farthest was then. Until then the others wait for it; afterwards it is left out until it has got there. It has
not lost anything by that: its main part is an older one, under its own older commit time.

**Who writes it.** The leader is the first by order of creation of those that are counted. So a leader that cannot read
is none. One whose session lives on while it does nothing would hold all up for ever: the second one writes in its
place when that has been possible for `hold_s`, the third one after twice that. Two that write at once do no harm:
each writes in place of the version that it has read, and contents do not depend on who says the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ha_core.datacache.core.uncommitted import Interval


@dataclass(frozen=True, slots=True)
class CacheMember:
    """A live node, as it has published itself.

    :ivar created: of two nodes, the one that was there first has the smaller.
    :ivar holds: None: nothing was read yet.
    :ivar main_us: the commit time of what it serves; 0: nothing yet.
    """

    node: str
    created: int
    holds: Interval | None = None
    main_us: int = 0


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """
    :ivar commit_us: what can be committed now; None: nothing new.
    :ivar order: who writes it: the leader first.
    :ivar holding_up: for whom the others wait.
    :ivar left_out: who has been waited for long enough, or has not read up to the commit time.
    """

    commit_us: int | None = None
    order: tuple[str, ...] = ()
    holding_up: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def leader(self) -> str | None:
        return next(iter(self.order), None)


@dataclass(frozen=True, slots=True)
class _Due:
    """Up to where a node has to read, and since when."""

    target_us: int
    since_s: float


class Agreement:
    """One node's judgement. It remembers only since when it waits, by a clock of its own that must never go back.

    :param hold_s: how long a node may hold the others up.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._due: dict[str, _Due] = {}
        self._possible: tuple[int, float] | None = None
        """The commit time in whose place another can be written, and since when."""
        self._seen_us = 0

    def judge(
        self,
        members: Iterable[CacheMember],
        committed_us: int | None,
        now_s: float,
        false: Collection[str] = (),
        doubtful: bool = False,
    ) -> CommitDecision:
        """
        :param committed_us: the last commit time; None: none is written, or none that can be read.
        :param false: members that say what is not so: they count for nothing.
        :param doubtful: the commit time may be none: it counts while it stands there, and not afterwards.
        """
        everybody = sorted(members, key=lambda member: member.created)
        ordered = [member for member in everybody if member.node not in false]
        self._wait_for(ordered, now_s)
        if not doubtful:
            self._seen_us = max(self._seen_us, committed_us or 0)
        # Also where the node of the commit time was deleted, or ZooKeeper is restored from a backup.
        floor_us = max([self._seen_us, committed_us or 0, *(member.main_us for member in ordered)])
        counted = [m for m in ordered if m.holds and m.holds.through_us >= floor_us and not self._overdue(m, now_s)]
        commit_us = _common(counted)
        if commit_us is not None and committed_us is not None and commit_us <= committed_us:
            commit_us = None
        self._note_possible(None if commit_us is None else committed_us or 0, now_s)
        names = {member.node for member in counted}
        return CommitDecision(
            commit_us,
            tuple(member.node for member in counted),
            tuple(member.node for member in counted if member.node in self._due),
            tuple(member.node for member in everybody if member.node not in names),
        )

    def writes(self, judgement: CommitDecision, node: str, now_s: float) -> bool:
        """Whether it is for `node` to write what `judge` has just found."""
        if judgement.commit_us is None or node not in judgement.order or self._possible is None:
            return False
        return now_s - self._possible[1] >= judgement.order.index(node) * self._hold_s

    def next_s(self, now_s: float) -> float | None:
        """After how long a judgement of the same may be another one, by time alone; None: never."""
        since = [due.since_s for due in self._due.values()] + ([self._possible[1]] if self._possible else [])
        waits = [self._hold_s - (now_s - at) % self._hold_s for at in since]
        return min(waits, default=None)

    def _wait_for(self, members: Sequence[CacheMember], now_s: float) -> None:
        top_us = max((member.holds.through_us for member in members if member.holds), default=0)
        through = {member.node: member.holds.through_us for member in members if member.holds}
        for node in self._due.keys() - through.keys():
            del self._due[node]
        for node, through_us in through.items():
            due = self._due.get(node)
            if through_us >= top_us:
                self._due.pop(node, None)
            elif due is None or through_us >= due.target_us:
                self._due[node] = _Due(top_us, now_s)

    def _overdue(self, member: CacheMember, now_s: float) -> bool:
        due = self._due.get(member.node)
        return due is not None and now_s - due.since_s >= self._hold_s

    def _note_possible(self, instead_of_us: int | None, now_s: float) -> None:
        if instead_of_us is None:
            self._possible = None
        elif self._possible is None or self._possible[0] != instead_of_us:
            self._possible = (instead_of_us, now_s)


def _common(counted: Sequence[CacheMember]) -> int | None:
    """The smallest time up to which all have read, if all can tell the content then."""
    held = [member.holds for member in counted if member.holds is not None]
    if not held:
        return None
    commit_us = min(interval.through_us for interval in held)
    return commit_us if all(interval.from_us <= commit_us for interval in held) else None
