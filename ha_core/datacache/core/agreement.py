"""The next commit time, and the node that writes it. Every node judges by these rules from the published records.

The **commit time** is the smallest time up to which all counted nodes have read, and it never goes back. A node counts
if it has read at least up to the last commit time. One that has not (it starts, was away, cannot read) cannot return to
hold up the others: it keeps its content, and goes straight to the newest commit time once it has read up to it.

**Holding up.** From the moment at which another node has read further, a node has `hold_s` to get to where the farthest
was then. Until then the others wait for it; afterwards it is left out until it has got there. It loses nothing by that:
its main part is an older one, with its own older commit time.

**The writer.** The leader is the first counted node by order of creation. So a node that cannot read does not lead. A
leader that hangs while its session lives would hold up all nodes: the second one writes in its place when that has
been possible for `hold_s`, the third one after twice that. Two that write at once do no harm: each write replaces the
version that it has read, and contents do not depend on the writer.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ha_core.datacache.core.uncommitted import Interval

FAR_US = 24 * 3600 * 1_000_000
"""Distance above the time read, and above this node's clock."""


@dataclass(frozen=True, slots=True)
class CacheMember:
    """A live node, as it has published itself.

    :ivar created: smaller for a node that was created earlier.
    :ivar holds: None: nothing was read yet.
    :ivar main_us: the commit time of its content; 0: none yet.
    """

    node: str
    created: int
    holds: Interval | None = None
    main_us: int = 0


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """
    :ivar commit_us: the time that can be committed now; None: no new one.
    :ivar order: the nodes that may write it: the leader first.
    :ivar holding_up: nodes that the others wait for.
    :ivar left_out: nodes that were waited for long enough, or have not read up to the commit time.
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
    """The time up to which a node has to read, and since when."""

    target_us: int
    since_s: float


class Agreement:
    """One node's judgement. It remembers only since when it waits, by its own clock, which must never go back.

    :param hold_s: how long a node may hold up the others.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._due: dict[str, _Due] = {}
        self._possible: tuple[int, float] | None = None
        """The commit time that can be replaced by another one, and since when."""
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
        :param committed_us: the last commit time; None: there is none, or it is unreadable.
        :param false: members with false claims: they do not count.
        :param doubtful: the commit time may be false: it counts only as long as it is in ZooKeeper.
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
        """Whether it is for `node` to write the newest result of `judge`."""
        if judgement.commit_us is None or node not in judgement.order or self._possible is None:
            return False
        return now_s - self._possible[1] >= judgement.order.index(node) * self._hold_s

    def next_s(self, now_s: float) -> float | None:
        """Time after which an equal judgement may have another result, by time alone; None: never."""
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


class FutureTimestampFilter:
    """One node's filter of claimed times that no node can have read: written to ZooKeeper by hand, or by a faulty node.

    The commit time never goes back, and a node that has read further than all others makes them wait and then leaves
    them out. So one time that the source will never reach would stop all nodes for good. A node asks the source up to
    each claimed time anyway. If the source, asked later, does not have it, and the time is further ahead than clocks
    are wrong, the claim is ignored. Nearer times are waited for: a source that was restored from a backup gets there by
    itself, and nodes that have read those times before continue with their content. An account for ZooKeeper does not
    replace this: all gateways share it.

    It remembers only since when it knows of a claim.

    :ivar far: claimants of times that may not exist.
    """

    def __init__(self) -> None:
        self.far: frozenset[str] = frozenset()
        self._since: dict[str, int] = {}
        """Claimant → the newest read that had begun when its claim was first seen."""

    def false(
        self, claims: Mapping[str, int], read_us: int | None, begun: int, done: int, wall_us: int
    ) -> frozenset[str]:
        """Claimants of times that the source does not have.

        :param claims: claimant → its greatest time.
        :param read_us: time up to which this node has read; None: it has read nothing.
        :param begun: how many reads have begun.
        :param done: number of the newest read that read all there was; 0: none.
        """
        far_us = max(read_us or 0, wall_us) + FAR_US
        self.far = frozenset(who for who, claimed_us in claims.items() if claimed_us > far_us)
        self._since = {who: self._since.get(who, begun) for who in self.far}
        return frozenset(who for who in self.far if read_us is not None and done > self._since[who])
