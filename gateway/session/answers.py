"""Answers of brokers on their way to the client: streamed, patched while streaming, or gathered and made anew."""

from __future__ import annotations

from struct import Struct
from typing import Any

from gateway.session.commands import ToClient
from gateway.session.pending import Kind, Slot, Upstream
from gateway.session.state import ConnectionState
from ha_core.wire import RemoteProtocolError, RequestHeader, decode, response_body_at
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
                gathered(session, upstream, frame)
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
    slot = upstream.queue[0]
    if slot.correlation_id != correlation_id:
        raise RemoteProtocolError(f"answer {correlation_id} where {slot.correlation_id} was due")
    if slot.kind is Kind.GATHER:
        upstream.gathering = bytearray()
        upstream.wanted = 4 + size
        return True
    if slot.kind is Kind.DISCARD:
        upstream.skip = 4 + size
        upstream.dropping = True
        return True
    if session.queue[0] is not slot:
        upstream.blocked = True
        return False
    if not _may_be_told(session, upstream):
        return False
    if slot.kind is Kind.PATCH:
        upstream.patcher = FetchPatcher(slot.api_version, size, slot.shifts or {})
    else:
        upstream.skip = 4 + size
    return True


def _may_be_told(session: ConnectionState, upstream: Upstream) -> bool:
    """Whether the next answer of this broker may go to the client now. If not, no more is read."""
    under = upstream.queue[0].under
    if under is None or session.vouches(under):
        return True
    upstream.blocked = True
    return False


def _done(session: ConnectionState, upstream: Upstream) -> None:
    upstream.queue.popleft()
    session.queue.popleft()
    session.flush()


def gathered(session: ConnectionState, upstream: Upstream, frame: bytearray) -> None:
    """One of the answers that a slot awaits is whole."""
    _collect(session, upstream.queue.popleft(), upstream, frame)


def decoded(session: ConnectionState, header: RequestHeader, frame: bytearray | None) -> dict[str, Any] | None:
    """The body of a gathered answer; None where its broker was lost."""
    if frame is None:
        return None
    at = response_body_at(header.api_key, header.api_version, frame, 4, len(frame))
    body = memoryview(frame)[at:]
    return decode(header.api_key, header.api_version, "response", body, limits=session.settings.limits)


def _collect(session: ConnectionState, slot: Slot, upstream: Upstream, frame: bytearray | None) -> None:
    slot.frames[upstream.lane] = frame
    slot.awaited.discard(upstream.lane)
    if not slot.awaited and slot.finish is not None:
        frames, slot.frames = slot.frames, {}
        data = slot.finish(frames)
        if data is None:
            return
        slot.ready(data, session.now + slot.delay if slot.delay else 0.0)
        if slot.delay:
            session.wake()
        session.flush()


def lost(session: ConnectionState, upstream: Upstream) -> bool:
    """What becomes of the requests in flight to a broker that is gone. False if the client has to ask again."""
    if (upstream.skip and not upstream.dropping) or upstream.patcher is not None:
        return False
    if not upstream.shut and (upstream.missing or upstream.mute):
        return False
    waiting = [slot for slot in upstream.queue if slot.kind is not Kind.DISCARD]
    if any(slot.kind is not Kind.GATHER or not slot.survives_loss for slot in waiting):
        return False
    upstream.queue.clear()
    for slot in waiting:
        _collect(session, slot, upstream, None)
    return True


def forsake(session: ConnectionState, slot: Slot, upstream: Upstream) -> None:
    """Makes a gathered answer without this broker. What it says later is dropped."""
    at = upstream.queue.index(slot)
    upstream.queue[at] = Slot(slot.api_key, slot.api_version, slot.correlation_id, Kind.DISCARD)
    if at == 0 and upstream.gathering is not None:
        upstream.skip = upstream.wanted - len(upstream.gathering)
        upstream.gathering, upstream.dropping = None, True
    _collect(session, slot, upstream, None)


def abandon(session: ConnectionState, slot: Slot, frame: bytes) -> None:
    """Answers a request whose broker has not begun to; what it says later is dropped."""
    upstream = session.upstreams.get(slot.lane) if slot.lane is not None else None
    begun = (
        upstream is not None and upstream.queue[0] is slot and (upstream.skip or upstream.patcher or upstream.blocked)
    )
    if upstream is None or begun:
        return
    early = Slot(slot.api_key, slot.api_version, slot.correlation_id, Kind.READY)
    early.ready(frame)
    session.queue[session.queue.index(slot)] = early
    slot.kind = Kind.DISCARD
