"""Filters claimed times that no node can have read: written to ZooKeeper by hand, or by a faulty node.

The commit time never goes back, and a node that has read further than all others makes them wait and then leaves them
out. So one time that the source will never reach would stop all nodes for good. A node asks the source up to each
claimed time anyway. If the source, asked later, does not have it, and the time is further ahead than clocks are wrong,
the claim is ignored. Nearer times are waited for: a source that was restored from a backup gets there by itself, and
nodes that have read those times before continue with their content.
"""

from __future__ import annotations

from collections.abc import Mapping

FAR_US = 24 * 3600 * 1_000_000
"""Distance above the time read, and above this node's clock."""


class FutureTimestampFilter:
    """One node's filter. It remembers only since when it knows of a claim.

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
