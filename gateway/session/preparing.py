"""Long requests are decoded and judged off the event loop, so that other connections are not blocked.

The bound is on cost, not on routes: the event loop decodes only requests with few elements (`Request.read`). A longer
request is prepared: its connection reads nothing more from the client until the request is decoded and judged, so that
requests keep their order.
"""

from collections.abc import Mapping
from functools import partial

from gateway.model.copies import Copies
from gateway.model.rights import Gate
from gateway.runtime.offload import DeferredFreeList
from gateway.session.commands import Cause, OffloadWork
from gateway.session.fetch.fetch_session import Gap
from gateway.session.fetch.long import look_at
from gateway.session.produce.long import LongProduce
from gateway.session.readiness import Preparation
from gateway.session.request import Message, Prepared, Request
from gateway.session.routes import Routes
from gateway.session.state import ConnectionState
from ha_core.plan.access.rights import Verdicts
from ha_core.plan.facts.clusters import Partition
from ha_core.wire import ApiKey, WireLimits, decode, inline
from ha_core.wire.apis import Api


def prepare(session: ConnectionState, request: Request, owned: bool) -> None:
    """Has a worker thread decode and judge a request, which is handled after that; the client's later requests wait.

    :param owned: no other request uses this one's buffer.
    """
    if not session.intake.hold(request.end - request.start):
        return
    kept, context = request.kept(owned), session.context
    session.intake.preparing = kept
    session.intake.waits_for = Preparation.AWAITED
    if kept.api_key == ApiKey.FETCH:
        routes, gaps, served = (
            session.client.routes(kept.client_id),
            dict(session.fetching.gaps),
            context.here is not None,
        )
        work = partial(_fetch, kept, routes, gaps, context.shared.copies, served, context.now)
    elif kept.api_key == ApiKey.PRODUCE:
        work = partial(_produce, kept)
    else:
        verdicts = session.client.routes(kept.client_id).verdicts
        work = partial(_prepared, kept.api, kept.api_version, bytes(kept.body), kept.limits, verdicts)
    context.emit(OffloadWork(kept, work, Cause.MALFORMED))


def _prepared(api: Api, version: int, body: bytes, limits: WireLimits, verdicts: Verdicts | None) -> Prepared:
    message = decode(api.key, version, "request", body, limits=inline(limits))
    gate = None if verdicts is None else Gate(verdicts, api, version, message)
    if gate is not None:
        gate.request = _bulky(gate.request)
        gate.answer = None if gate.answer is None else _bulky(gate.answer)
    return Prepared(_bulky(message), verdicts, gate)


def _fetch(
    request: Request, routes: Routes, gaps: Mapping[Partition, Gap], copies: Copies, served: bool, now: float
) -> Prepared:
    fetch = look_at(request, routes, gaps, copies, served, now)
    if fetch.planned is not None:
        message, plan = fetch.planned
        fetch = fetch._replace(planned=(_bulky(message), plan))
    return Prepared({}, routes.verdicts, None, fetch)


def _produce(request: Request) -> Prepared:
    return Prepared({}, None, None, LongProduce(request))


def _bulky(message: Message) -> Message:
    """The message, with lists that are freed off the event loop, too."""
    return {name: DeferredFreeList(value) if isinstance(value, list) else value for name, value in message.items()}
