"""The ground of a session's decisions: the time, the newest snapshot, the lease, and the commands given so far.

All parts of a session share one context, and each event of the driver sets its time. It also checks, when an answer is
there, that the lease under which its request was forwarded still covers it.

Invariant: the gateway answers a request that it forwarded under a lease only if no operation can have passed this
gateway by in between. Otherwise an operation may have read a log end before the record was appended, and an
acknowledged record would be lost.
"""

from collections.abc import Iterable

from gateway.session.commands import AwaitLease, BrokerLane, Cause, Close, Command
from gateway.session.lifecycle import OPEN, Life, Over
from gateway.session.pending import NO_LEASE, Basis
from gateway.session.refusal import Refusal
from gateway.session.shared import Shared
from gateway.session.snapshot import Port, Snapshot


class SessionContext:
    """:ivar address: the client's address as rules name it (`model.access.address`), without its port.
    :ivar here: the port's broker, if it has one.
    :ivar out: commands that the driver has not taken yet.
    :ivar awaits_lease: True while the driver is asked for a `tick` when the lease holds again.
    """

    __slots__ = ("address", "awaits_lease", "here", "life", "now", "out", "port", "shared", "snapshot")

    def __init__(self, port: Port, shared: Shared, snapshot: Snapshot, address: str = "") -> None:
        self.port = port
        self.address = address
        self.shared = shared
        self.snapshot = snapshot
        self.now = 0.0
        self.out: list[Command] = []
        self.life: Life = OPEN
        self.awaits_lease = False
        self.here = port.lane

    @property
    def broker(self) -> BrokerLane:
        """The port's broker, for requests that are routed there."""
        assert self.here is not None
        return self.here

    def emit(self, command: Command) -> None:
        self.out.append(command)

    def close(self, cause: Cause, detail: str = "") -> None:
        """Ends the session; no further decisions are made."""
        if not isinstance(self.life, Over):
            self.life = self.life.end(cause, detail)
            self.out.append(Close(cause, detail))

    def count_refused(self, refusals: Iterable[Refusal]) -> None:
        self.shared.counts.refusals.update(refusal.label for refusal in refusals)

    # -- the lease ------------------------------------------------------------------------------------------------

    def leased(self) -> bool:
        """True if produce and group requests may be forwarded."""
        return self.shared.lease.holds(self.now)

    def basis(self) -> Basis:
        """Lease generation and state revision under which a request is forwarded now."""
        lease = self.shared.lease
        return lease.generation if lease.holds(self.now) else NO_LEASE, self.snapshot.view.revision

    def still_valid(self, rested_on: Basis) -> bool | None:
        """True if no operation can have passed this gateway by since then; None: not known yet.

        The broker executed the request before the gateway read its answer, and the clock was read after that. So either
        the same lease held all the time, or no revision was published in between.
        """
        lease = self.shared.lease
        if not lease.holds(self.now):
            return None
        return rested_on[0] == lease.generation or rested_on[1] == self.snapshot.view.revision

    def confirm_or_wait(self, rested_on: Basis) -> bool:
        """Allows the answer to a request that was forwarded then to go to the client.

        :return: False: the answer waits for the lease, or the session ends.
        """
        if not self.life.connected:
            return True  # there is no client to answer
        standing = self.still_valid(rested_on)
        if standing is None:
            self.await_lease()
        elif standing is False:
            self.close(Cause.LEASE_LOST, "an operation may have passed by while a request was in flight")
        return bool(standing)

    def await_lease(self) -> None:
        """Asks for a `tick` when the lease holds again."""
        if not self.awaits_lease:
            self.awaits_lease = True
            self.emit(AwaitLease())
