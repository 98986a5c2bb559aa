"""The first requests of a connection: which versions are spoken, and who is there (`SaslServer` has the steps).

A login that fails is told so, and its connection closed, a while after its token came (as brokers do:
`connection.failed.authentication.delay.ms`): so that guessing takes long, and takes as long whatever was wrong.
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
"""The version of API_VERSIONS from which on clients say what they are (KIP-511)."""
_OF_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""Names and versions that brokers take."""
_MAX_KEPT = 64
"""Characters of a name or version that is kept with what the client uses: more than anybody needs."""
MAX_SESSION_S = 365 * 86_400.0
"""Where a token is good for longer than clients can count."""
_FAILED: Message = {
    "error_code": int(ErrorCode.SASL_AUTHENTICATION_FAILED),
    "error_message": "Authentication failed: invalid credentials",
}
"""What a client is told, whatever is wrong."""
_OUT_OF_TURN: Message = {"error_code": int(ErrorCode.ILLEGAL_SASL_STATE), "error_message": "SaslHandshake first"}
_RAW_TOKEN = Request.own(ApiKey.SASL_AUTHENTICATE, 0, DEFAULT_LIMITS)


def api_versions(session: ConnectionState, request: Request) -> None:
    """Always answered, before anybody has said who they are (KIP-35): the versions that every cluster speaks."""
    error = ErrorCode.NONE
    if request.api_version > APIS[ApiKey.API_VERSIONS].max_version:
        # A client newer than the gateway reads this as version 0 and asks again with one of these (KIP-511).
        request.api_version, error = 0, ErrorCode.UNSUPPORTED_VERSION
    else:
        message = request.decode()
        if request.api_version >= TELLS_SOFTWARE:
            told = message["client_software_name"], message["client_software_version"]
            if not all(map(_OF_SOFTWARE.fullmatch, told)):
                session.reply(request, {"error_code": int(ErrorCode.INVALID_REQUEST), "api_keys": []})
                return
            short = all(len(one) <= _MAX_KEPT for one in told)
            session.software = sys.intern("/".join(told)) if short else None
    session.reply(request, {"error_code": int(error), "api_keys": list(session.snapshot.apis)})


def handshake(session: ConnectionState, request: Request) -> None:
    """The client names its mechanism: for the first time, or to authenticate anew (KIP-368)."""
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
    """After a SaslHandshake of version 0 (brokers before 1.0) tokens and answers are bare frames. There is none for a
    refusal: the connection ends.

    :returns: the position after the token; `pos` if it is not there yet.
    """
    stop = pos + 4 + frame_size(buf, pos, session.shared.limits.max_sasl_bytes, 0)
    if stop <= end:
        _go_on(session, entry, bytes(memoryview(buf)[pos + 4 : stop]), None, session.now)
        return stop
    return pos


def judged(session: ConnectionState, reply: Reply) -> None:
    """What was to be found out of a claim is known."""
    entry = session.entry
    if isinstance(entry, Verifying) and session.life.receives:
        session.entry = proving = entry.judged()
        _go_on(session, proving, reply, entry.request, entry.since)


def expired(session: ConnectionState, api_key: int) -> bool:
    """Whether a request comes too late: then the connection ends as at a broker, when what is in flight is answered.
    Authenticating anew is never too late."""
    if session.now < session.entry.expires_at:
        return False
    if api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return False
    streaming.leave(session, Cause.SESSION_EXPIRED, "the client has not authenticated anew in time")
    return True


def _go_on(
    session: ConnectionState, entry: SaslInProgress, came: bytes | Reply, request: Request | None, since: float
) -> None:
    """
    :param came: a token, or what was found out of a claim.
    :param request: which is to be answered; None: a bare token was.
    """
    sasl, authentication = entry.sasl, session.shared.authentication
    brake = authentication.brake
    try:
        if isinstance(came, bytes) and sasl.challenged and not brake.lets(session.address, sasl.claimed or "", since):
            _brake(session, since)
            return
        step = sasl.receive(came) if isinstance(came, bytes) else sasl.reply(came)
        while isinstance(step, Question):
            sasl.claimed = authentication.accounts.named(step)
            # Every name gets a challenge, or a braked address would learn which names it knows: the proof is braked.
            if not isinstance(step, KeyOf) and not brake.lets(session.address, sasl.claimed, session.now):
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
    """The client is who it says. KIP-368: a connection may authenticate anew, but not as somebody else."""
    before, authentication = entry.before, session.shared.authentication
    mechanism = entry.sasl.mechanism
    if before is not None and (before.user != proved.user or before.mechanism not in (None, mechanism)):
        before_by, now_by = before.mechanism or "certificate", mechanism
        why = f"user {before.user!r} by {before_by} authenticates anew as {proved.user!r} by {now_by}"
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
    """Counts a claim that was wrong, once. Returns whether the client is told nothing of it."""
    brake = session.shared.authentication.brake
    silent = brake.silent(session.address, session.now)
    if sasl.claimed is not None:  # what is no claim guesses nothing, and costs nothing
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
    """Tells that it failed, and closes, both later. Where tokens are bare nothing is told."""
    if request is not None:
        session.reply(request, answer, due_at=since + session.shared.authentication.delay_s)
        streaming.leave(session, Cause.AUTHENTICATION_FAILED, detail)
    else:
        _leave(session, Cause.AUTHENTICATION_FAILED, detail, since)


def _leave(session: ConnectionState, cause: Cause, detail: str, since: float) -> None:
    """Closes later, without a word."""
    session.answer_nothing(_RAW_TOKEN, since + session.shared.authentication.delay_s)
    streaming.leave(session, cause, detail)
