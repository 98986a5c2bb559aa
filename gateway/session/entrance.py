"""The first requests of a connection: which versions are spoken, and who is there."""

from __future__ import annotations

from gateway.session.authentication import MECHANISMS
from gateway.session.commands import Cause
from gateway.session.conversation import Conversation
from gateway.session.slots import Kind, Slot
from ha_core.wire import POLICIES, ApiKey, ErrorCode, RemoteProtocolError, RequestHeader, decode
from ha_core.wire.sasl import parse_plain


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
    if session.user is not None or (session.settings.authentication.anonymous and session.mechanism is None):
        return True
    session.close(
        Cause.NOT_AUTHENTICATED,
        f"API key {header.api_key} before authentication; configure the client with SASL_PLAINTEXT and PLAIN",
    )
    return False


def handshake(session: Conversation, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """The client names its mechanism."""
    request = decode(header.api_key, header.api_version, "request", memoryview(buf)[header.body_at : end])
    mechanism = request["mechanism"]
    known = mechanism in MECHANISMS
    if known:
        session.mechanism = mechanism
    error = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    session.reply(_slot(header), {"error_code": int(error), "mechanisms": list(MECHANISMS)})


def authenticate(session: Conversation, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """The client proves who it is."""
    request = decode(header.api_key, header.api_version, "request", memoryview(buf)[header.body_at : end])
    if session.mechanism is None:
        session.reply(
            _slot(header),
            {
                "error_code": int(ErrorCode.ILLEGAL_SASL_STATE),
                "error_message": "SaslHandshake first",
                "auth_bytes": b"",
            },
        )
        return
    try:
        authorization_id, user, password = parse_plain(request["auth_bytes"])
    except RemoteProtocolError:
        authorization_id, user, password = "", "", ""
    valid = session.settings.authentication.accepts(user, password) and authorization_id in ("", user)
    if session.user is not None and valid and user != session.user:
        valid = False  # KIP-368: a connection may authenticate anew, but not as somebody else
    if not valid:
        session.reply(
            _slot(header),
            {
                "error_code": int(ErrorCode.SASL_AUTHENTICATION_FAILED),
                "error_message": "Authentication failed: invalid user or password",
                "auth_bytes": b"",
            },
        )
        session.close(Cause.AUTHENTICATION_FAILED, f"user {user!r}")
        return
    session.enter(user)
    session.reply(_slot(header), {"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0})
