"""The first requests of a connection: which versions are spoken, and who is there (`SaslServer` has the steps)."""

from __future__ import annotations

import re
import sys

from gateway.session.commands import Cause
from gateway.session.entry import Proving
from gateway.session.pending import Ready
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from ha_core.wire import APIS, ApiKey, ErrorCode, RemoteProtocolError, SaslServer
from ha_core.wire.frames import frame_size
from ha_core.wire.limits import DEFAULT_LIMITS

TELLS_SOFTWARE = 3
"""The version of API_VERSIONS from which on clients say what they are (KIP-511)."""
_OF_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,62}[a-zA-Z0-9])?")
"""As brokers check it, and not longer than anybody needs: it is kept with what the client uses."""
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
            session.software = _software(message["client_software_name"], message["client_software_version"])
    session.reply(request, {"error_code": int(error), "api_keys": list(session.snapshot.apis)})


def _software(name: str, version: str) -> str | None:
    """`NAME/VERSION`; None: a name or a version that a broker would not take either."""
    return sys.intern(f"{name}/{version}") if all(map(_OF_SOFTWARE.fullmatch, (name, version))) else None


def handshake(session: ConnectionState, request: Request) -> None:
    """The client names its mechanism: for the first time, or to authenticate anew (KIP-368)."""
    mechanism, entry = request.decode()["mechanism"], session.entry
    sasl = entry.sasl if isinstance(entry, Proving) else SaslServer(session.shared.limits)
    error = sasl.handshake(mechanism, request.api_version)
    session.reply(request, {"error_code": int(error), "mechanisms": list(sasl.mechanisms)})
    if error is ErrorCode.NONE and not isinstance(entry, Proving):
        session.entry = entry.prove(sasl)
    elif error is ErrorCode.ILLEGAL_SASL_STATE:
        session.close(Cause.AUTHENTICATION_FAILED, "a second SaslHandshake before the first was followed by a token")


def authenticate(session: ConnectionState, request: Request) -> None:
    token, entry = request.decode()["auth_bytes"], session.entry
    if isinstance(entry, Proving):
        error, why = ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: invalid user or password"
        fault = _fault(session, entry, token)
    else:
        error, why = ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake first"
        fault = "SaslAuthenticate without SaslHandshake"
    session.reply(request, {"error_code": int(error), "error_message": why} if fault else {"error_message": None})
    if fault is not None:
        session.close(Cause.AUTHENTICATION_FAILED, fault)


def raw_token(session: ConnectionState, entry: Proving, buf: bytearray, pos: int, end: int) -> int:
    """After a SaslHandshake of version 0 (brokers before 1.0) tokens and answers are bare frames. There is none for a
    refusal: the connection ends.

    :returns: the position after the token; `pos` if it is not there yet.
    """
    stop = pos + 4 + frame_size(buf, pos, session.shared.limits.max_sasl_bytes, 0)
    if stop > end:
        return pos
    fault = _fault(session, entry, bytes(memoryview(buf)[pos + 4 : stop]))
    if fault is not None:
        session.close(Cause.AUTHENTICATION_FAILED, fault)
    else:
        session.queue.append(Ready(_RAW_TOKEN, bytes(4)))
        session.flush()
    return stop


def _fault(session: ConnectionState, entry: Proving, token: bytes) -> str | None:
    """Judges a token; None: the client is who it says."""
    try:
        claim = entry.sasl.receive(token)
    except RemoteProtocolError as unreadable:
        return str(unreadable)
    valid = session.shared.authentication.accepts(claim.user, claim.password) and claim.authzid in ("", claim.user)
    if entry.user not in (None, claim.user):
        valid = False  # KIP-368: a connection may authenticate anew, but not as somebody else
    if not valid:
        entry.sasl.refuse()
        return f"user {claim.user!r}"
    entry.sasl.accept()
    session.enter(entry, claim.user)
    return None
