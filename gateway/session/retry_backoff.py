"""Refusals in a row on one connection are held back, longer and longer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ha_core.plan.routing.bounded_cache import BoundedCache, CacheBudget

AT_ONCE = 8
"""Refusals in a row that are not damped: more than a pipelining client has on its way when a leader changes (5)."""
DELAYS_S = (0.005, 0.01, 0.02, 0.05, 0.1)
"""Delays of the refusals after them; the last one holds for all that follow."""


class RetryBackoff:
    """Refusals in a row on one connection, by what was refused: a partition, or a kind of request.

    Some clients ask again at once, in a loop, and only a loop is damped. A producer without idempotence sends what is
    refused after whatever it has sent meanwhile, so every refusal that is held back puts its records after later ones.
    """

    __slots__ = ("_room", "counts")

    def __init__(self, room: CacheBudget | None = None) -> None:
        """:param room: for what is counted, together with others."""
        self.counts: BoundedCache[int, int] = BoundedCache()
        """Of rows that have not ended, by hashes: names come from the wire, and may be long."""
        self._room = CacheBudget() if room is None else room

    def refused(self, refused: Iterable[Hashable]) -> float:
        """Counts a refusal of all these; seconds to wait before it is said."""
        longest_row = 0
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
        """Something of it was not refused: the row has ended."""
        if self.counts:
            self.counts.pop(hash(what), None)

    def begin_anew(self) -> None:
        """A new view: whatever the refusals rested on may have changed."""
        self.counts.clear()
