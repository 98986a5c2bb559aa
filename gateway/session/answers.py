"""Answers of brokers on their way to the client: streamed, patched while streaming, or gathered and made anew."""

from __future__ import annotations

from struct import Struct

from gateway.session import exchange
from gateway.session.commands import ToClient
from gateway.session.pending import Discarded, Gathered, Passed, Patched
from gateway.session.state import ConnectionState
from gateway.session.upstream import Upstream
from ha_core.wire import RemoteProtocolError
from ha_core.wire.fetch import FetchPatcher

_HEAD = Struct(">ii").unpack_from


def receive(session: ConnectionState, upstream: Upstream, buf: bytearray, end: int) -> None:
    """Bytes of one broker; what cannot be used yet stays in `upstream.carry`."""
    upstream.carry = b""
    view = memoryview(buf)
    pos = 0
    run = 0
    """Start of the bytes that go to the client as they are."""
    while session.closed is None and pos < end:
        if upstream.skip:
            if not upstream.dropping and not _may_be_told(session, upstream):
                break
            taken = min(upstream.skip, end - pos)
            pos += taken
            upstream.skip -= taken
            if upstream.dropping:
                run = pos
                if not upstream.skip:
                    upstream.dropping = False
                    upstream.queue.popleft()
                continue
            if upstream.skip:
                break
            _to_client(session, view, run, pos)
            run = pos
            _done(session, upstream)
        elif upstream.gathering is not None:
            taken = min(upstream.wanted - len(upstream.gathering), end - pos)
            upstream.gathering += view[pos : pos + taken]
            pos = run = pos + taken
            if len(upstream.gathering) == upstream.wanted:
                frame, upstream.gathering = upstream.gathering, None
                pending = upstream.queue.popleft()
                assert isinstance(pending, Gathered)
                exchange.collect(session, pending, upstream.lane, frame)
        elif upstream.patcher is not None:
            upto = upstream.patcher.feed(buf, pos, end)
            _to_client(session, view, run, upto)
            pos = run = upto
            if not upstream.patcher.done:
                break
            upstream.patcher = None
            _done(session, upstream)
        else:
            if end - pos < 8:
                break
            if not _begin(session, upstream, buf, pos):
                break
            run = pos
            if upstream.patcher is not None:
                pos += 4
    if session.closed is not None:
        return
    _to_client(session, view, run, pos)
    if pos < end:
        upstream.carry = bytes(view[pos:end])


def _to_client(session: ConnectionState, view: memoryview, start: int, end: int) -> None:
    if end > start and not session.left:
        session.out.append(ToClient(view[start:end]))


def _begin(session: ConnectionState, upstream: Upstream, buf: bytearray, pos: int) -> bool:
    """Looks at the next answer's header. False if it is not its turn yet."""
    size, correlation_id = _HEAD(buf, pos)
    if not 4 <= size <= session.settings.limits.max_response_bytes:
        raise RemoteProtocolError(f"an answer of {size} bytes")
    if not upstream.queue:
        raise RemoteProtocolError("an answer that nobody asked for")
    pending = upstream.queue[0]
    if pending.request.correlation_id != correlation_id:
        raise RemoteProtocolError(f"answer {correlation_id} where {pending.request.correlation_id} was due")
    if isinstance(pending, Gathered):
        upstream.gathering = bytearray()
        upstream.wanted = 4 + size
        return True
    if isinstance(pending, Discarded):
        upstream.skip = 4 + size
        upstream.dropping = True
        return True
    if session.queue[0] is not pending:
        upstream.blocked = True
        return False
    if not _may_be_told(session, upstream):
        return False
    if isinstance(pending, Patched):
        upstream.patcher = FetchPatcher(pending.request.api_version, size, pending.shifts)
    else:
        upstream.skip = 4 + size
    return True


def _may_be_told(session: ConnectionState, upstream: Upstream) -> bool:
    """Whether the next answer of this broker may go to the client now. If not, no more is read."""
    pending = upstream.queue[0]
    if isinstance(pending, Discarded) or pending.basis is None or session.vouches(pending.basis):
        return True
    upstream.blocked = True
    return False


def _done(session: ConnectionState, upstream: Upstream) -> None:
    upstream.queue.popleft()
    session.queue.popleft()
    session.flush()


def lost(session: ConnectionState, upstream: Upstream) -> bool:
    """What becomes of the requests in flight to a broker that is gone. False if the client has to ask again."""
    if (upstream.skip and not upstream.dropping) or upstream.patcher is not None:
        return False
    if not upstream.shut and (upstream.missing or upstream.mute):
        return False
    surviving: list[Gathered] = []
    for pending in upstream.queue:
        if isinstance(pending, Gathered) and pending.survives_loss:
            surviving.append(pending)
        elif not isinstance(pending, Discarded):
            return False
    upstream.queue.clear()
    for pending in surviving:
        exchange.collect(session, pending, upstream.lane, None)
    return True


def go_without(session: ConnectionState, pending: Gathered, upstream: Upstream) -> None:
    """Makes a gathered answer without this broker. What it says later is dropped."""
    at = upstream.queue.index(pending)
    upstream.queue[at] = pending.without()
    if at == 0 and upstream.gathering is not None:
        upstream.skip = upstream.wanted - len(upstream.gathering)
        upstream.gathering, upstream.dropping = None, True
    exchange.collect(session, pending, upstream.lane, None)


def abandon(session: ConnectionState, pending: Passed, frame: bytes) -> None:
    """Answers a request whose broker has not begun to; what it says later is dropped."""
    upstream = session.upstreams.get(pending.lane) if pending.lane is not None else None
    if upstream is None:
        return
    if upstream.queue[0] is pending and (upstream.skip or upstream.patcher or upstream.blocked):
        return
    ready, upstream.queue[upstream.queue.index(pending)] = pending.abandoned(frame)
    session.queue[session.queue.index(pending)] = ready
