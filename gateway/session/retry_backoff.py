"""Delays repeated refusals on one connection, longer and longer."""

from collections.abc import Hashable, Iterable

from ha_core.plan.routing.bounded_cache import BoundedCache, CacheBudget

AT_ONCE = 8
"""Refusals in a row without delay: more than a pipelining client has in flight when a leader changes (5)."""
DELAYS_S = (0.005, 0.01, 0.02, 0.05, 0.1)
"""Delays of the next refusals; the last one applies to all that follow."""


class RetryBackoff:
    """Refusals in a row on one connection, per partition or kind of request.

    They are counted, not timed: a token bucket would forgive a slow loop, and delay a pipelining client.

    Some clients retry at once, in a loop, and only a loop is delayed. A producer without idempotence resends refused
    records after newer ones, so each delayed refusal moves its records further back.
    """

    __slots__ = ("_room", "counts")

    def __init__(self, room: CacheBudget | None = None) -> None:
        """:param room: memory budget for the counters, shared with other sessions."""
        self.counts: BoundedCache[int, int] | None = None
        """Refusals in a row by hash of the key: names come from the wire and may be long. None: there were none, as on
        most connections."""
        self._room = CacheBudget() if room is None else room

    def refused(self, refused: Iterable[Hashable]) -> float:
        """Counts a refusal of each key; returns the seconds to hold the answer."""
        longest_row = 0
        if self.counts is None:
            self.counts = BoundedCache()
        for what in refused:
            key = hash(what)
            row = self.counts.get(key, 0) + 1
            if row > 1:
                self.counts[key] = row
            else:
                self._room.keep(self.counts, (), key, row)
            longest_row = max(longest_row, row)
        over = longest_row - AT_ONCE
        return DELAYS_S[min(over, len(DELAYS_S)) - 1] if over > 0 else 0.0

    def forwarded(self, what: Hashable) -> None:
        """A request for this key was forwarded: its row of refusals ends."""
        if self.counts:
            self.counts.pop(hash(what), None)

    def begin_anew(self) -> None:
        """A new view: the reasons for the refusals may be gone."""
        self.counts = None
