"""Rate limit for METADATA, FIND_COORDINATOR and INIT_PRODUCER_ID.

Such requests are few in normal operation: clients send them when they start, and now and then. A client in a loop, or
ten thousand clients that start at once, ask more than clusters can answer. A request above a limit is held, unread like
all later ones on its connection, and handled when its turn has come; this takes one timer. It is never refused, and its
connection is never closed. The answer says how long it was held (`throttle_time_ms`).

API_VERSIONS does not count: the gateway answers it from memory, before the client has authenticated.
"""

from gateway.session.client import SessionClient
from gateway.session.commands import Delays
from gateway.session.context import SessionContext
from gateway.session.readiness import Delayed
from gateway.session.request import Request
from ha_core.model import ANONYMOUS
from ha_core.wire.codes import ApiKey

LIMITED = frozenset({int(ApiKey.METADATA), int(ApiKey.FIND_COORDINATOR), int(ApiKey.INIT_PRODUCER_ID)})


class DiscoveryGate:
    """:ivar delayed: the wait of the client's next request, if it was counted already."""

    __slots__ = ("_client", "_context", "delayed")

    def __init__(self, context: SessionContext, client: SessionClient) -> None:
        self._context, self._client = context, client
        self.delayed: Delayed | None = None

    def wait(self, request: Request) -> Delayed | None:
        """Why the request and all later ones are held; None: it may be handled now."""
        context, auth_state = self._context, self._client.auth_state
        if request.api_key not in LIMITED or not auth_state.may_request:
            return None
        delayed = self.delayed
        if delayed is None:
            wait = context.shared.discovery.spend(auth_state.user or ANONYMOUS, context.address, context.now)
            if wait is None:
                return None
            delayed = self.delayed = Delayed(context.now, context.now + wait.seconds)
            counts = context.shared.counts
            counts.discovery_delayed[wait.limit.value] += 1
            counts.discovery_delayed_s += wait.seconds
            context.emit(Delays(wait.limit.value, wait.per_s))
        if context.now < delayed.until:
            return delayed
        self.delayed = None
        request.delayed_ms = max(1, round((context.now - delayed.since) * 1000))
        return None
