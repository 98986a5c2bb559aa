"""Times that nobody can have read: what somebody has written by hand into ZooKeeper, or who lies.

The commit time never goes back, and a node that has read further than all others makes them wait and then leaves them
out. So one time that the source will never reach would keep everybody from going anywhere, for ever. What a node sees
claimed it asks the source for anyway. If the source, asked later, does not have it, and the time lies further ahead
than clocks are wrong, it is taken as not said. What is nearer is waited for: a source that was restored from a backup
gets there by itself, and those who have read it before go on with what they have.
"""

from __future__ import annotations

from collections.abc import Mapping

FAR_US = 24 * 3600 * 1_000_000
"""Ahead of what was read, and of this node's clock."""


class FutureTimestampFilter:
    """One node's. It remembers only since when it knows of a claim.

    :ivar far: who claims a time that may not be there.
    """

    def __init__(self) -> None:
        self.far: frozenset[str] = frozenset()
        self._since: dict[str, int] = {}
        """Who claims such a time → the newest read that had begun when it was seen."""

    def false(
        self, claims: Mapping[str, int], read_us: int | None, begun: int, done: int, wall_us: int
    ) -> frozenset[str]:
        """Who claims what is not there.

        :param claims: by who makes them, the greatest time of each.
        :param read_us: up to where this node has read; None: it has read nothing.
        :param begun: how many reads have begun.
        :param done: which of them was the last to read all that there was; 0: none.
        """
        far_us = max(read_us or 0, wall_us) + FAR_US
        self.far = frozenset(who for who, claimed_us in claims.items() if claimed_us > far_us)
        self._since = {who: self._since.get(who, begun) for who in self.far}
        return frozenset(who for who in self.far if read_us is not None and done > self._since[who])
