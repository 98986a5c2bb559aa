"""How many sockets this process may have, known at its start: a client takes two, its own and one to its broker.

A client may open further connections to brokers, and a client that was told to leave keeps its socket for a moment.
Both are bounded by what clients leave, so that the gateway itself never runs out of descriptors.
"""

from __future__ import annotations

import errno
import resource
from typing import NamedTuple

PER_CONNECTION = 2
RESERVED = 512
"""Half of it for listeners and the gateway's own connections, the rest for what clients have beside their two."""


class Beside(NamedTuple):
    """How many descriptors all clients together may have beside two for each."""

    brokers: int
    """Further connections to brokers."""
    leaving: int
    """Sockets of clients that have left and take their last answers."""


EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of a process, or a machine, without room for one more socket."""


def raised() -> int:
    """The limit of this process, raised as far as it may be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some kernels refuse "unlimited"
            return soft if soft != resource.RLIM_INFINITY else 1 << 20
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def connections(limit: int) -> int:
    """How many clients can be served with so many descriptors."""
    return max(1, (limit - min(RESERVED, limit // 4)) // PER_CONNECTION)


def beside(limit: int, clients: int) -> Beside:
    """What is left of so many descriptors for clients beside two for each, when the gateway has its own."""
    left = max(0, limit - clients * PER_CONNECTION - min(RESERVED, limit // 4) // 2)
    return Beside(left - left // 4, left // 4)


def needed(clients: int) -> int:
    """How many descriptors it takes to serve so many clients."""
    return clients * PER_CONNECTION + RESERVED
