"""Whether what a request rested on still stands when its answer is there.

The invariant: what was forwarded under a lease is told to the client only if no operation can have gone on without this
gateway in between. Else an operation may have read the end of a log before the record was in it, and a record that was
acknowledged would be lost.
"""

from __future__ import annotations

from typing import Protocol

from gateway.session.commands import AwaitLease, Cause, Command
from gateway.session.lifecycle import Life
from gateway.session.pending import NO_LEASE, Basis
from gateway.session.shared import Shared
from gateway.session.snapshot import Snapshot


class LeaseGuard(Protocol):
    """Of a connection's state (`ConnectionState`) what is asked here."""

    awaits_lease: bool
    life: Life
    now: float
    shared: Shared
    snapshot: Snapshot

    def close(self, cause: Cause, detail: str = "") -> None: ...
    def emit(self, command: Command) -> None: ...


def leased(session: LeaseGuard) -> bool:
    """Whether produce and requests of groups may be forwarded."""
    return session.shared.lease.holds(session.now)


def basis(session: LeaseGuard) -> Basis:
    """What a request that is forwarded now rests on."""
    lease = session.shared.lease
    return lease.generation if lease.holds(session.now) else NO_LEASE, session.snapshot.view.revision


def stands(session: LeaseGuard, rested_on: Basis) -> bool | None:
    """Whether no operation can have gone on without this gateway since then; None: it is not known yet.

    What was forwarded was executed before its answer was read, and the clock was read after that: the same lease held
    all the time, or under another one nothing at all was published in between.
    """
    lease = session.shared.lease
    if not lease.holds(session.now):
        return None
    return rested_on[0] == lease.generation or rested_on[1] == session.snapshot.view.revision


def vouch(session: LeaseGuard, rested_on: Basis) -> bool:
    """Lets the answer to what was forwarded then go to the client.

    :return: False: it waits for the lease, or the session ends.
    """
    if not session.life.connected:
        return True  # nobody is told
    standing = stands(session, rested_on)
    if standing is None:
        await_lease(session)
    elif standing is False:
        session.close(Cause.LEASE_LOST, "what was forwarded may have been passed over by an operation")
    return bool(standing)


def await_lease(session: LeaseGuard) -> None:
    """A `tick` comes when the lease is back."""
    if not session.awaits_lease:
        session.awaits_lease = True
        session.emit(AwaitLease())
