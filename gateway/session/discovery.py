"""Rate limit for METADATA, FIND_COORDINATOR and INIT_PRODUCER_ID.

Such requests are few in normal operation: clients send them when they start, and now and then. A client in a loop, or
ten thousand clients that start at once, ask more than clusters can answer. A request above a limit is held, unread like
all later ones on its connection, and handled when its turn has come; this takes one timer. It is never refused, and its
connection is never closed. The answer says how long it was held (`throttle_time_ms`).

API_VERSIONS does not count: the gateway answers it from memory, before the client has authenticated.
"""

from __future__ import annotations

from gateway.session.commands import Delays
from gateway.session.readiness import Delayed
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from ha_core.model import ANONYMOUS
from ha_core.wire.codes import ApiKey

LIMITED = frozenset({int(ApiKey.METADATA), int(ApiKey.FIND_COORDINATOR), int(ApiKey.INIT_PRODUCER_ID)})


def admit(session: ConnectionState, request: Request) -> bool:
    """True: the request may be handled now. False: it and all later ones are held."""
    if request.api_key not in LIMITED or not session.entry.entered:
        return True
    delayed = session.delayed
    if delayed is None:
        user = session.entry.user or ANONYMOUS
        wait = session.shared.discovery.take(user, session.address, session.now)
        if wait is None:
            return True
        delayed = session.delayed = Delayed(session.now, session.now + wait.seconds)
        counts = session.shared.counts
        counts.discovery_delayed[wait.limit.value] += 1
        counts.discovery_delayed_s += wait.seconds
        session.emit(Delays(wait.limit.value, wait.per_s))
    if session.now < delayed.until:
        session.waits_for = delayed
        session.wake()
        return False
    session.delayed = None
    request.delayed_ms = max(1, round((session.now - delayed.since) * 1000))
    return True
