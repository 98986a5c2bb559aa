"""Divides the partitions of a flow between its workers.

A flow's partitions are hashed to a fixed number of shares, and each share belongs to the live worker with the highest
score for it (rendezvous hashing). All workers compute the same owners from the same list of workers, so they need no
leader. A worker that joins or leaves moves only the shares that it gains or loses.

For a moment two workers may see different lists. That is safe: a copier fences its predecessor before it appends, and a
worker that finds another owner does not fence back (`Takeovers`).
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b
from zlib import crc32

SHARES = 16
"""Number of shares of each flow: enough that each worker has some; more would only make more moves."""
FIRST_SHARE = 0
"""The owner of this share also does the tasks that a flow needs once: remote topics, their settings, heartbeats."""


def share_of(topic: str, partition: int) -> int:
    """The share of a partition.

    :param topic: name in the source.
    """
    return crc32(f"{topic}\0{partition}".encode()) % SHARES


def owner(flow: str, share: int, workers: Iterable[str]) -> str | None:
    """The worker that owns a share; None: there is no worker."""
    return max(workers, key=lambda worker: (_score(flow, share, worker), worker), default=None)


def shares_of(flow: str, worker: str, workers: Collection[str]) -> frozenset[int]:
    """The shares of a flow that `worker` owns.

    :param workers: all live workers of the flow.
    """
    return frozenset(share for share in range(SHARES) if owner(flow, share, workers) == worker)


def _score(flow: str, share: int, worker: str) -> bytes:
    return blake2b(f"{flow}\0{share}\0{worker}".encode(), digest_size=8).digest()
