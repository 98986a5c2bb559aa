"""Divides the process's file descriptors, at its start: a client takes two, its own and one to its broker.

A client may open further connections to brokers, and a client that has to leave keeps its socket for a moment.
Both are limited to the rest, so that the gateway itself never runs out of descriptors.
"""

import errno
import resource
from typing import NamedTuple

PER_CONNECTION = 2
RESERVED = 512
"""Half of it for listeners and the gateway's own connections, the rest for clients' descriptors beyond their two."""


class Beside(NamedTuple):
    """Descriptors for all clients together, beyond two for each."""

    brokers: int
    """Further connections to brokers."""
    leaving: int
    """Sockets of clients that have left and take their last answers."""


EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of a process, or a machine, without room for one more socket."""


def raised() -> int:
    """The limit of open files of this process, after raising it as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some kernels refuse "unlimited"
            return soft if soft != resource.RLIM_INFINITY else 1 << 20
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def connections(limit: int) -> int:
    """Number of clients that can be served with `limit` descriptors."""
    return max(1, (limit - min(RESERVED, limit // 4)) // PER_CONNECTION)


def divide(limit: int, clients: int) -> Beside:
    """Divides the descriptors that are left after the gateway's own, and two for each client."""
    left = max(0, limit - clients * PER_CONNECTION - min(RESERVED, limit // 4) // 2)
    return Beside(left - left // 4, left // 4)


def needed(clients: int) -> int:
    """Number of descriptors needed to serve `clients` clients."""
    return clients * PER_CONNECTION + RESERVED
