"""Checks, when an answer is there, that the lease under which its request was forwarded still covers it.

Invariant: the gateway answers a request that it forwarded under a lease only if no operation can have passed this
gateway by in between. Otherwise an operation may have read a log end before the record was appended, and an
acknowledged record would be lost.
"""

from __future__ import annotations

from typing import Protocol

from gateway.session.commands import AwaitLease, Cause, Command
from gateway.session.lifecycle import Life
from gateway.session.pending import NO_LEASE, Basis
from gateway.session.shared import Shared
from gateway.session.snapshot import Snapshot


class LeaseGuard(Protocol):
    """The part of a connection's state (`ConnectionState`) that the guard reads."""

    awaits_lease: bool
    life: Life
    now: float
    shared: Shared
    snapshot: Snapshot

    def close(self, cause: Cause, detail: str = "") -> None: ...
    def emit(self, command: Command) -> None: ...


def leased(session: LeaseGuard) -> bool:
    """True if produce and group requests may be forwarded."""
    return session.shared.lease.holds(session.now)


def basis(session: LeaseGuard) -> Basis:
    """Lease generation and state revision under which a request is forwarded now."""
    lease = session.shared.lease
    return lease.generation if lease.holds(session.now) else NO_LEASE, session.snapshot.view.revision


def still_valid(session: LeaseGuard, rested_on: Basis) -> bool | None:
    """True if no operation can have passed this gateway by since then; None: not known yet.

    The broker executed the request before the gateway read its answer, and the clock was read after that. So either the
    same lease held all the time, or no revision was published in between.
    """
    lease = session.shared.lease
    if not lease.holds(session.now):
        return None
    return rested_on[0] == lease.generation or rested_on[1] == session.snapshot.view.revision


def confirm_or_wait(session: LeaseGuard, rested_on: Basis) -> bool:
    """Allows the answer to a request that was forwarded then to go to the client.

    :return: False: the answer waits for the lease, or the session ends.
    """
    if not session.life.connected:
        return True  # there is no client to answer
    standing = still_valid(session, rested_on)
    if standing is None:
        await_lease(session)
    elif standing is False:
        session.close(Cause.LEASE_LOST, "an operation may have passed by while a request was in flight")
    return bool(standing)


def await_lease(session: LeaseGuard) -> None:
    """Asks for a `tick` when the lease holds again."""
    if not session.awaits_lease:
        session.awaits_lease = True
        session.emit(AwaitLease())
