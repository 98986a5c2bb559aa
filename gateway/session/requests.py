"""Cuts requests out of the client's bytes and passes each to its handler."""

from collections.abc import Callable

from gateway.session import pipelining
from gateway.session.auth_state import SaslInProgress, Verifying
from gateway.session.authentication import Login
from gateway.session.commands import Cause, NotServed
from gateway.session.fetch.handle import FetchRequest
from gateway.session.groups import GroupRequest, NewerProtocolRequest, fences
from gateway.session.handler import RequestHandler
from gateway.session.pending import Passed
from gateway.session.preparing import prepare
from gateway.session.produce.handle import ProduceRequest
from gateway.session.readiness import AwaitingIdentity, Beginning, Full, HalfSent
from gateway.session.refusal import Refusal
from gateway.session.request import NeedsPreparingError, Request
from gateway.session.rights import Authorization
from gateway.session.state import ConnectionState
from gateway.session.throttling import AwaitingQuota
from gateway.session.transactions import Transactional
from ha_core.wire import APIS, ApiKey, Destination, RemoteProtocolError, read_request_header
from ha_core.wire.apis import Api
from ha_core.wire.frames import frame_size

MAX_GIVEN_BYTES = 256 << 10
"""Answers made here within one event: above this more are made once the client's socket has taken these."""
MAX_REQUESTS = 100
"""Limit per event, so that other connections get their turn."""
MIN_REQUEST_BYTES = 10
"""API key, version, correlation id and the length of the client id."""
LONG_BYTES = 32 << 10
"""A longer composed request, or one with many elements, is decoded by the driver off the event loop."""
_NONE = (0, -1)
"""Version range of an API that is not offered."""


def receive(session: ConnectionState, buf: bytearray, end: int) -> None:
    """Handles the client's bytes `buf[:end]`. Bytes that cannot be used yet stay in `session.intake.carry`."""
    context, intake = session.context, session.intake
    if not context.life.receives:
        return
    if context.now >= session.seen_uses.until:
        session.look_again()
    pos, reading = 0, intake.reading
    if isinstance(reading, HalfSent):
        # A broker judges a request when it is complete, so the rest that arrives after the login expired is not
        # written.
        if session.leave_if_login_expired():
            return
        pos = intake.go_on(reading, memoryview(buf)[:end])
    elif reading is not None:
        pos = _gather(session, reading, memoryview(buf)[:end])
    limits = context.shared.limits
    handled = 0
    while context.life.receives and intake.waits_for is None and end - pos >= 4:
        if handled >= MAX_REQUESTS or session.in_flight.full() or session.in_flight.given_bytes >= MAX_GIVEN_BYTES:
            intake.waits_for = Full.FULL
            break
        if session.muted:
            intake.waits_for = AwaitingQuota.THROTTLED
            break
        handled += 1
        auth_state = session.client.auth_state
        if isinstance(auth_state, Verifying):
            intake.waits_for = AwaitingIdentity.AWAITED
            break
        if isinstance(auth_state, SaslInProgress) and auth_state.sasl.raw_tokens:
            token_at, pos = pos, Login(session).raw_token(auth_state, buf, pos, end)
            if pos == token_at:
                break
            continue
        max_bytes = limits.max_request_bytes if auth_state.may_request else limits.max_login_bytes
        size = frame_size(buf, pos, max_bytes, MIN_REQUEST_BYTES)
        frame_end = pos + 4 + size
        stop = min(end, frame_end)
        header = read_request_header(buf, pos + 4, stop)
        if (header is None and end >= frame_end) or (header is not None and header.body_at > frame_end):
            raise RemoteProtocolError(f"a request of {size} bytes ends inside its header")
        intake.headers_read += header is not None
        if header is None or (header.api_key not in LOGIN_STEPS and session.leave_if_login_expired()):
            break
        request = Request(header, buf, pos, stop, limits, frame_end - stop)
        request.came_at = context.now
        if not request.missing:
            if not _has_turn(session, request):
                break
            handle(session, request)
            request.forget()
            pos = frame_end
            continue
        if not context.life.connected or (header.api_key == ApiKey.PRODUCE and not pipelining.admit(session, request)):
            break
        low, high = context.snapshot.offered.get(header.api_key, _NONE)
        streams = header.api_key == ApiKey.PRODUCE and auth_state.may_request and low <= header.api_version <= high
        if not (streams and ProduceRequest(session, request).stream()):
            intake.reading = Beginning(bytearray(request.frame), 4 + size)
            intake.hold(stop - pos)
        request.forget()
        return
    if context.life.goes_on and pos < end:
        intake.carry = bytes(memoryview(buf)[pos:end])


def _gather(session: ConnectionState, beginning: Beginning, chunk: memoryview) -> int:
    frame = beginning.frame
    taken = min(beginning.size - len(frame), len(chunk))
    if not session.intake.hold(taken):
        return taken
    frame += chunk[:taken]
    if len(frame) == beginning.size:
        header = read_request_header(frame, 4, len(frame))
        assert header is not None  # it could be read when its first bytes came
        request = Request(header, frame, 0, len(frame), session.context.shared.limits)
        request.came_at = session.context.now
        if _has_turn(session, request):
            session.intake.reading = None
            session.intake.let_go()
            handle(session, request, owned=True)
            request.forget()
    return taken


def _has_turn(session: ConnectionState, request: Request) -> bool:
    """True: the request may be handled now. False: it and all later ones are held."""
    if not pipelining.admit(session, request):
        return False
    delayed = session.discovery.wait(request)
    if delayed is not None:
        session.intake.waits_for = delayed
        session.in_flight.wake()
    return delayed is None


def handle(session: ConnectionState, request: Request, owned: bool = False) -> None:
    """Handles a complete request whose turn has come; a long one after it was decoded off the event loop.

    A login may have expired since the first bytes arrived; like a broker, the gateway counts the time of the last byte.

    :param owned: no other request uses this one's buffer.
    """
    key, version = request.api_key, request.api_version
    if key not in LOGIN_STEPS and session.leave_if_login_expired():  # re-authentication is never too late
        return
    api = APIS.get(key)
    if key == ApiKey.API_VERSIONS:
        Login(session).api_versions(request)
        return
    if api is None or api.destination is Destination.HIDDEN or not api.min_version <= version <= api.max_version:
        session.intake.leave(Cause.UNSUPPORTED, _not_offered(api, key, version))
        return
    if not session.client.auth_state.may_request and key not in LOGIN_STEPS:
        offered = ", ".join(session.context.shared.authentication.mechanisms)
        why = f"before authentication; configure the client for SASL (SASL_SSL, or SASL_PLAINTEXT) and one of {offered}"
        session.intake.leave(Cause.NOT_AUTHENTICATED, f"API key {key} {why}")
        return
    low, high = session.context.snapshot.offered.get(key, _NONE)
    if not low <= version <= high:
        # The gateway has found a cluster that supports fewer versions since the client read the offered ones, and each
        # cluster may serve each client. So no cluster gets the request, and the client asks for the versions again.
        common = f"the clusters have {low} to {high} in common" if low <= high else "not every cluster has it"
        session.intake.leave(Cause.UNSUPPORTED, f"API key {key} version {version}: {common}")
        return
    if _refuse_beyond_discovery(session, request):
        return
    login_step = LOGIN_STEPS.get(key)
    if login_step is not None:
        login_step(Login(session), request)
        return
    handler = HANDLERS.get(key) or _BY_DESTINATION.get(api.destination, ComposedRequest)
    try:
        handler(session, request).handle()
    except NeedsPreparingError:
        prepare(session, request, owned)


def _not_offered(api: Api | None, key: int, version: int) -> str:
    """Reason for the log. The client gets no answer, since none can be encoded in such a version."""
    if api is not None and api.destination is not Destination.HIDDEN and version < api.min_version:
        return (
            f"{api.key.name} version {version} is older than {api.min_version}, the oldest that is served: the client "
            "is older than Kafka 0.11, or is configured to act as one that is"
        )
    why = "is not offered by this gateway; the client did not follow the ApiVersions answer"
    return f"API key {key} version {version} {why}"


class ComposedRequest(RequestHandler):
    """A request that a composed handler answers."""

    __slots__ = ()

    def handle(self) -> None:
        session, context, request = self.session, self.context, self.request
        if request.api.by_map and not context.leased():
            # No retriable error fits all of these requests; a client whose connection ends retries.
            session.intake.leave(Cause.LEASE_LOST, "a change of topics or groups came while the lease was lost")
            return
        body = request.body
        try:
            message = None if len(body) >= LONG_BYTES else request.read()
        except NeedsPreparingError:
            message = None
        if message is None:
            session.in_flight.compose(request, bytes(body))
            return
        fenced = fences(session.client, request, message)
        context.count_refused(Refusal.FENCE for _ in fenced)
        for operation in set(fenced):
            session.client.fenced(operation, request.client_id)
        session.in_flight.compose(request, message, fence=min(fenced, default=None))


class NodeRequest(RequestHandler):
    """A request about the broker itself."""

    __slots__ = ()

    def handle(self) -> None:
        """A request about the broker itself: forwarded for a virtual node; a gateway's own node reports one empty log
        directory (Java takes an empty list for a missing right)."""
        session, context, request = self.session, self.context, self.request
        if session.client.verdicts is not None and Authorization(session).gate(request, request.read()) is not None:
            return
        if context.here is None:
            session.in_flight.reply(request, {"error_code": 0, "results": [{"error_code": 0, "log_dir": "gateway"}]})
        elif not context.snapshot.fresh:
            session.intake.leave(Cause.UNSUPPORTED, f"API key {request.api_key} before the gateway knows any cluster")
        else:
            session.in_flight.pass_on(Passed(request), context.here, request.frame)


LOGIN_STEPS: dict[int, Callable[[Login, Request], None]] = {
    ApiKey.SASL_HANDSHAKE: Login.handshake,
    ApiKey.SASL_AUTHENTICATE: Login.authenticate,
}
HANDLERS: dict[int, type[RequestHandler]] = {
    ApiKey.PRODUCE: ProduceRequest,
    ApiKey.FETCH: FetchRequest,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: NewerProtocolRequest,
}
_BY_DESTINATION: dict[Destination, type[RequestHandler]] = {
    Destination.GROUP: GroupRequest,
    Destination.TRANSACTION: Transactional,
    Destination.NODE: NodeRequest,
}


SERVED_FOR_DISCOVERY = frozenset(
    {
        *(ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID),
        *(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    }
)


def _refuse_beyond_discovery(session: ConnectionState, request: Request) -> bool:
    """The listener for discovery serves only the requests by which a client finds real brokers, and refuses others.
    False: the request is served, or the data path refuses it by itself, since this listener has no broker (produce and
    fetch)."""
    if not session.context.port.direct or request.api_key in SERVED_FOR_DISCOVERY:
        return False
    session.context.emit(NotServed(request.api_key))
    api = request.api
    if api.destination is Destination.TOPIC:
        return False
    refusal = Refusal.DISCOVERY_ONLY
    session.context.count_refused((refusal,))
    shape = api.denial or api.error
    if shape is None or len(request.body) > LONG_BYTES:
        session.intake.leave(Cause.UNSUPPORTED, f"API key {request.api_key}: {refusal.words}")
        return True
    answer = api.denied(request.api_version, request.read(), refusal.code(api), refusal.words)
    session.in_flight.answer_refused(request, answer, (refusal,), (request.api_key,))
    return True
