"""PLAIN (RFC 4616): user and password in clear text, so only for connections that cannot be eavesdropped."""

from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.sasl_steps import Exchange, Plain, Proved, ServerExchange, user_of


def parse_plain(token: bytes) -> Plain:
    """Reads `authzid NUL user NUL password`. RemoteProtocolError for anything else."""
    parts = token.split(b"\0")
    if len(parts) != 3:
        raise RemoteProtocolError(f"PLAIN token of {len(token)} bytes has {len(parts)} parts, 3 are needed")
    try:
        authzid, user, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise RemoteProtocolError(f"PLAIN token of {len(token)} bytes is not UTF-8") from None
    if not user or not password:
        raise RemoteProtocolError("PLAIN token without a user or a password")
    return Plain(authzid, user, password)


def plain_token(user: str, password: str, authzid: str = "") -> bytes:
    """The client's token. LocalProtocolError for an empty user or password, or one with NUL."""
    if not user or not password or "\0" in user + password + authzid:
        raise LocalProtocolError(f"PLAIN token for user {user!r}: user and password must be there and without NUL")
    return "\0".join((authzid, user, password)).encode()


def plain_client(user: str, password: str) -> Exchange:
    yield plain_token(user, password)


def plain_server(token: bytes) -> ServerExchange:
    claim = parse_plain(token)
    verdict = user_of((yield claim), claim.authzid)
    if verdict.user is None:
        raise RemoteProtocolError(verdict.why)
    return Proved(verdict.user, good_for_s=verdict.good_for_s)
