"""How often a client may ask who leads, who coordinates and for a producer id, before it has to wait for the answer.

Such requests are few where all is well: clients ask when they begin, and now and then. A client in a loop, or ten
thousand that begin at once, ask clusters for more than they have to give. What is over a limit is held, unread like all
that comes behind it on its connection, and handled when its turn has come: a timer, and nothing else. It is never
refused, and its connection is never closed. The answer says for how long it was held (`throttle_time_ms`).

API_VERSIONS is not counted: it is answered here, of what is there already, and before anybody has said who he is.
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
    """Lets a request be handled now. False: it is held, and all after it."""
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
