"""Divides the partitions of a flow between its workers.

A flow's partitions are spread over a fixed number of shares, and each share belongs to the live worker with the highest
score for it (rendezvous hashing). Every worker computes the same owners from the same list of workers, without a
leader, and a worker that comes or goes moves only the shares that it gains or loses.

Two workers may see different lists for a moment. That is no danger: a copier fences its predecessor before it appends,
and one that finds another owner does not fence back (`Takeovers`).
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b
from zlib import crc32

SHARES = 16
"""Shares of each flow. More would be moved one by one without use: a worker takes a few at least."""
FIRST_SHARE = 0
"""Its owner also does the work that a flow needs once: remote topics, their settings, heartbeats."""


def share_of(topic: str, partition: int) -> int:
    """The share of a partition. :param topic: name in the source."""
    return crc32(f"{topic}\0{partition}".encode()) % SHARES


def owner(flow: str, share: int, workers: Iterable[str]) -> str | None:
    """The worker that a share belongs to; None: there is no worker."""
    return max(workers, key=lambda worker: (_score(flow, share, worker), worker), default=None)


def shares_of(flow: str, worker: str, workers: Collection[str]) -> frozenset[int]:
    """The shares of a flow that belong to `worker`.

    :param workers: all live workers of the flow.
    """
    return frozenset(share for share in range(SHARES) if owner(flow, share, workers) == worker)


def _score(flow: str, share: int, worker: str) -> bytes:
    return blake2b(f"{flow}\0{share}\0{worker}".encode(), digest_size=8).digest()
