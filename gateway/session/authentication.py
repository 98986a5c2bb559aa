"""The first requests of a connection: API_VERSIONS and the SASL login (`SaslServer` has the steps).

A failed login is answered, and its connection closed, a while after its token came, as brokers do
(`connection.failed.authentication.delay.ms`). So guessing takes long, and equally long whatever was wrong.
"""

from __future__ import annotations

import math
import re
import sys

from gateway.session import streaming
from gateway.session.auth_state import SaslInProgress, Verifying
from gateway.session.commands import Cause, Judge
from gateway.session.pending import Ready
from gateway.session.request import Message, Request
from gateway.session.state import ConnectionState
from ha_core.wire import APIS, ApiKey, ErrorCode, RemoteProtocolError, SaslServer
from ha_core.wire.frames import frame_size
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.sasl_steps import Challenge, KeyOf, Proved, Question, Reply, UnjudgedError

TELLS_SOFTWARE = 3
"""Version of API_VERSIONS from which on clients send their software name (KIP-511)."""
_OF_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""Names and versions that brokers accept."""
_MAX_KEPT = 64
"""Longest software name or version, in characters, that is kept with the client's usage."""
MAX_SESSION_S = 365 * 86_400.0
"""Session lifetime for tokens that are valid for longer than clients can count."""
_FAILED: Message = {
    "error_code": int(ErrorCode.SASL_AUTHENTICATION_FAILED),
    "error_message": "Authentication failed: invalid credentials",
}
"""Answer to each failed login, whatever is wrong."""
_OUT_OF_TURN: Message = {"error_code": int(ErrorCode.ILLEGAL_SASL_STATE), "error_message": "SaslHandshake first"}
_RAW_TOKEN = Request.own(ApiKey.SASL_AUTHENTICATE, 0, DEFAULT_LIMITS)


def api_versions(session: ConnectionState, request: Request) -> None:
    """Answers with the versions that every cluster supports, also before authentication (KIP-35)."""
    error = ErrorCode.NONE
    if request.api_version > APIS[ApiKey.API_VERSIONS].max_version:
        # A client newer than the gateway reads this as version 0 and asks again with one of these (KIP-511).
        request.api_version, error = 0, ErrorCode.UNSUPPORTED_VERSION
    else:
        message = request.decode()
        if request.api_version >= TELLS_SOFTWARE:
            software = message["client_software_name"], message["client_software_version"]
            if not all(map(_OF_SOFTWARE.fullmatch, software)):
                session.reply(request, {"error_code": int(ErrorCode.INVALID_REQUEST), "api_keys": []})
                return
            short = all(len(part) <= _MAX_KEPT for part in software)
            session.software = sys.intern("/".join(software)) if short else None
    session.reply(request, {"error_code": int(error), "api_keys": list(session.snapshot.apis)})


def handshake(session: ConnectionState, request: Request) -> None:
    """Handles the choice of a mechanism: for the first time, or to re-authenticate (KIP-368)."""
    mechanism, entry = request.decode()["mechanism"], session.entry
    if isinstance(entry, SaslInProgress):
        sasl = entry.sasl
    else:
        sasl = SaslServer(session.shared.authentication.mechanisms, session.shared.limits)
    error = sasl.handshake(mechanism, request.api_version)
    answer = {"error_code": int(error), "mechanisms": list(sasl.mechanisms)}
    if error is ErrorCode.ILLEGAL_SASL_STATE:
        why = "a second SaslHandshake before the first was followed by a token"
        _end(session, request, answer, why, session.now)
        return
    session.reply(request, answer)
    if error is ErrorCode.NONE and not isinstance(entry, SaslInProgress | Verifying):
        session.entry = entry.prove(sasl)


def authenticate(session: ConnectionState, request: Request) -> None:
    token, entry = request.decode()["auth_bytes"], session.entry
    if isinstance(entry, SaslInProgress):
        _go_on(session, entry, token, request, session.now)
    else:
        _end(session, request, _OUT_OF_TURN, "SaslAuthenticate without SaslHandshake", session.now)


def raw_token(session: ConnectionState, entry: SaslInProgress, buf: bytearray, pos: int, end: int) -> int:
    """Handles a bare token, as sent after a SaslHandshake of version 0 (brokers before 1.0). A refusal has no answer:
    the connection ends.

    :returns: position after the token; `pos` if the token is incomplete.
    """
    stop = pos + 4 + frame_size(buf, pos, session.shared.limits.max_sasl_bytes, 0)
    if stop <= end:
        _go_on(session, entry, bytes(memoryview(buf)[pos + 4 : stop]), None, session.now)
        return stop
    return pos


def judged(session: ConnectionState, reply: Reply) -> None:
    """Continues a login after its claim was checked."""
    entry = session.entry
    if isinstance(entry, Verifying) and session.life.receives:
        session.entry = proving = entry.judged()
        _go_on(session, proving, reply, entry.request, entry.since)


def expired(session: ConnectionState, api_key: int) -> bool:
    """True if the login has expired. The connection then ends as at a broker, after the answers in flight.
    Re-authentication is never too late."""
    if session.now < session.entry.expires_at:
        return False
    if api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return False
    streaming.leave(session, Cause.SESSION_EXPIRED, "the client has not re-authenticated in time")
    return True


def _go_on(
    session: ConnectionState, entry: SaslInProgress, came: bytes | Reply, request: Request | None, since: float
) -> None:
    """
    :param came: a token, or the result of checking a claim.
    :param request: the request to answer; None: a bare token.
    """
    sasl, authentication = entry.sasl, session.shared.authentication
    brake = authentication.brake
    try:
        if isinstance(came, bytes) and sasl.challenged and not brake.allows(session.address, sasl.claimed or "", since):
            _brake(session, since)
            return
        step = sasl.receive(came) if isinstance(came, bytes) else sasl.reply(came)
        while isinstance(step, Question):
            sasl.claimed = authentication.accounts.named(step)
            # Each name gets a challenge, or a limited address would learn which names it knows: the proof is limited
            # instead.
            if not isinstance(step, KeyOf) and not brake.allows(session.address, sasl.claimed, session.now):
                _brake(session, since)
                return
            reply = authentication.accounts.reply(step)
            if reply is None:
                session.entry = entry.ask(step, request, since)
                session.emit(Judge(step))
                return
            step = sasl.reply(reply)
    except UnjudgedError as unsure:
        _leave(session, Cause.UNJUDGED, str(unsure), since)
        return
    except RemoteProtocolError as wrong:
        if _failed(session, sasl):
            _leave(session, Cause.AUTHENTICATION_FAILED, str(wrong), since)
        else:
            _end(session, request, _FAILED, str(wrong), since)
        return
    if isinstance(step, Challenge) and step.refuses and _failed(session, sasl):
        _leave(session, Cause.AUTHENTICATION_FAILED, "a token was refused", since)
    elif isinstance(step, Challenge):
        _say(session, request, step.data)
    else:
        _prove(session, entry, step, request, since)


def _prove(
    session: ConnectionState, entry: SaslInProgress, proved: Proved, request: Request | None, since: float
) -> None:
    """The claim is proved. KIP-368: a connection may re-authenticate, but not as another user."""
    before, authentication = entry.before, session.shared.authentication
    mechanism = entry.sasl.mechanism
    if before is not None and (before.user != proved.user or before.mechanism not in (None, mechanism)):
        before_by, now_by = before.mechanism or "certificate", mechanism
        why = f"user {before.user!r} by {before_by} re-authenticates as {proved.user!r} by {now_by}"
        _end(session, request, _FAILED, why, since)
        return
    good_for_s = authentication.session_s if proved.good_for_s is None else proved.good_for_s
    good_for_s = min(good_for_s, authentication.session_s)
    if not math.isinf(good_for_s):
        good_for_s = min(good_for_s, MAX_SESSION_S)
    authentication.brake.succeeded(session.address, proved.user)
    session.enter(entry, proved.user, session.now + good_for_s)
    _say(session, request, proved.data, 0 if math.isinf(good_for_s) else int(good_for_s * 1000))


def _failed(session: ConnectionState, sasl: SaslServer) -> bool:
    """Counts a wrong claim, once. Returns True if the client gets no answer."""
    brake = session.shared.authentication.brake
    silent = brake.silent(session.address, session.now)
    if sasl.claimed is not None:  # without a claim there is no guess to count
        brake.failed(session.address, sasl.claimed, session.now)
        sasl.claimed = None
    return silent


def _brake(session: ConnectionState, since: float) -> None:
    _leave(session, Cause.BRAKED, f"too many logins from {session.address} have failed", since)


def _say(session: ConnectionState, request: Request | None, data: bytes, lifetime_ms: int = 0) -> None:
    if request is not None:
        session.reply(request, {"error_message": None, "auth_bytes": data, "session_lifetime_ms": lifetime_ms})
    else:
        session.line_up(Ready(_RAW_TOKEN, len(data).to_bytes(4, "big") + data))
        session.flush()


def _end(session: ConnectionState, request: Request | None, answer: Message, detail: str, since: float) -> None:
    """Answers that the login failed, and closes, both after the delay. A bare token gets no answer."""
    if request is not None:
        session.reply(request, answer, due_at=since + session.shared.authentication.delay_s)
        streaming.leave(session, Cause.AUTHENTICATION_FAILED, detail)
    else:
        _leave(session, Cause.AUTHENTICATION_FAILED, detail, since)


def _leave(session: ConnectionState, cause: Cause, detail: str, since: float) -> None:
    """Closes after the delay, without an answer."""
    session.answer_nothing(_RAW_TOKEN, since + session.shared.authentication.delay_s)
    streaming.leave(session, cause, detail)
