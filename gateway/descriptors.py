"""How many sockets this process may have, known at its start: a client takes two, its own and one to its broker."""

from __future__ import annotations

import errno
import resource

PER_CONNECTION = 2
RESERVED = 512
"""For listeners, the gateway's own connections, and clients that read from several brokers."""

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


def needed(clients: int) -> int:
    """How many descriptors it takes to serve so many clients."""
    return clients * PER_CONNECTION + RESERVED
