"""The first requests of a connection: which versions are spoken, and who is there.

The steps of SASL are the business of `SaslServer`; here its answers are given, and the claim is judged.
"""

from __future__ import annotations

from gateway.session.authentication import MECHANISMS
from gateway.session.commands import Cause
from gateway.session.conversation import Conversation
from gateway.session.slots import Kind, Slot
from ha_core.wire import POLICIES, ApiKey, ErrorCode, RemoteProtocolError, RequestHeader, SaslServer, decode


def _slot(header: RequestHeader, version: int | None = None) -> Slot:
    return Slot(header.api_key, header.api_version if version is None else version, header.correlation_id, Kind.WAIT)


def api_versions(session: Conversation, header: RequestHeader, buf: bytearray, end: int) -> None:
    """Always answered, before anybody has said who they are (KIP-35): the versions that every cluster speaks."""
    apis = list(session.snapshot.apis)
    if header.api_version > POLICIES[ApiKey.API_VERSIONS].max_version:
        # A client newer than the gateway reads this as version 0 and asks again with one of these (KIP-511).
        session.reply(_slot(header, 0), {"error_code": int(ErrorCode.UNSUPPORTED_VERSION), "api_keys": apis})
        return
    decode(ApiKey.API_VERSIONS, header.api_version, "request", memoryview(buf)[header.body_at : end])
    session.reply(_slot(header), {"error_code": 0, "api_keys": apis})


def entered(session: Conversation, header: RequestHeader) -> bool:
    """Whether the request may be handled at this point of the connection; if not, the session is closed."""
    if header.api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return True
    if session.entered:
        return True
    session.close(
        Cause.NOT_AUTHENTICATED,
        f"API key {header.api_key} before authentication; configure the client with SASL_PLAINTEXT and PLAIN",
    )
    return False


def handshake(session: Conversation, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """The client names its mechanism: for the first time, or to authenticate anew (KIP-368)."""
    request = decode(header.api_key, header.api_version, "request", memoryview(buf)[header.body_at : end])
    sasl = session.sasl or SaslServer(MECHANISMS, session.settings.limits)
    error = sasl.handshake(request["mechanism"], header.api_version)
    session.reply(_slot(header), {"error_code": int(error), "mechanisms": list(sasl.mechanisms)})
    if error is ErrorCode.NONE:
        session.sasl = sasl
    elif error is ErrorCode.ILLEGAL_SASL_STATE:
        session.close(Cause.AUTHENTICATION_FAILED, "a second SaslHandshake before the first was followed by a token")


def authenticate(session: Conversation, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """The client proves who it is."""
    request = decode(header.api_key, header.api_version, "request", memoryview(buf)[header.body_at : end])
    sasl, session.sasl = session.sasl, None
    if sasl is None:
        _answer(session, header, ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake first")
        session.close(Cause.AUTHENTICATION_FAILED, "SaslAuthenticate without SaslHandshake")
        return
    try:
        claim = sasl.receive(request["auth_bytes"])
    except RemoteProtocolError as unreadable:
        _fail(session, header, str(unreadable))
        return
    valid = session.settings.authentication.accepts(claim.user, claim.password) and claim.authzid in ("", claim.user)
    if session.user not in (None, claim.user):
        valid = False  # KIP-368: a connection may authenticate anew, but not as somebody else
    if not valid:
        sasl.refuse()
        _fail(session, header, f"user {claim.user!r}")
        return
    session.enter(claim.user)
    _answer(session, header, sasl.accept(), None)


def _fail(session: Conversation, header: RequestHeader, detail: str) -> None:
    why = "Authentication failed: invalid user or password"
    _answer(session, header, ErrorCode.SASL_AUTHENTICATION_FAILED, why)
    session.close(Cause.AUTHENTICATION_FAILED, detail)


def _answer(session: Conversation, header: RequestHeader, error: ErrorCode, why: str | None) -> None:
    session.reply(
        _slot(header), {"error_code": int(error), "error_message": why, "auth_bytes": b"", "session_lifetime_ms": 0}
    )
