"""SASL as Kafka carries it: accounts and mechanisms (PLAIN, RFC 4616), and the server's side of a handshake.

Who is right decides the caller. `client.log_in` is the client's side.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

from ha_core.wire.codes import ErrorCode
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS, Limits
from ha_core.wire.tls_files import TlsFiles

PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True)
class SecurityProfile:
    """An account at a cluster. Without a mechanism the cluster takes everyone, or whoever shows a certificate.

    :ivar tls: None: its listeners speak no TLS.
    """

    mechanism: Literal["PLAIN"] | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    tls: TlsFiles | None = None


Exchange = Generator[bytes, bytes, None]
"""A client's side of a mechanism: yields tokens, is sent what the server answers, ends when it is satisfied."""


class Plain(NamedTuple):
    """authzid is "" where the user acts for itself."""

    authzid: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Plain(authzid={self.authzid!r}, user={self.user!r}, password=***)"


class State(Enum):
    """What the server waits for."""

    HANDSHAKE = "SaslHandshake"
    TOKEN = "SaslAuthenticate"
    VERDICT = "the caller's verdict"
    DONE = "nothing"
    FAILED = "the end of the connection"


def parse_plain(token: bytes) -> Plain:
    """Reads `authzid NUL user NUL password`. RemoteProtocolError for anything else; its text never holds the token."""
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


def _plain(user: str, password: str) -> Exchange:
    yield plain_token(user, password)


MECHANISMS: Mapping[str, Callable[[str, str], Exchange]] = {PLAIN: _plain}
"""Mechanism → the exchange of a client with this user and password."""


class SaslServer:
    """One connection's authentication: `handshake`, `receive` each token, then `accept` or `refuse`.

    A mechanism of several rounds (SCRAM) would make `receive` answer challenges until it has a claim; PLAIN has its
    claim after one token. A client may start again once it is DONE (re-authentication, KIP-368); that it stays the same
    user is for the caller to check.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.mechanisms = (PLAIN,)
        self.state = State.HANDSHAKE
        self.raw_tokens = False
        self._most = limits.max_sasl_bytes

    def handshake(self, mechanism: str, version: int) -> ErrorCode:
        """The error code to answer. After version 0 tokens come as frames without any header (`raw_tokens`)."""
        if self.state not in (State.HANDSHAKE, State.DONE):
            self.state = State.FAILED
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self.mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.raw_tokens = version == 0
        self.state = State.TOKEN
        return ErrorCode.NONE

    def receive(self, token: bytes) -> Plain:
        """The claim that a token makes. RemoteProtocolError for a token out of turn, too long or unreadable."""
        if self.state is not State.TOKEN:
            waiting, self.state = self.state.value, State.FAILED
            raise RemoteProtocolError(f"SASL token where {waiting} is expected")
        self.state = State.FAILED
        if len(token) > self._most:
            raise RemoteProtocolError(f"SASL token of {len(token)} bytes: {self._most} are allowed")
        claim = parse_plain(token)
        self.state = State.VERDICT
        return claim

    def accept(self) -> ErrorCode:
        """The caller believes the claim."""
        return self._decide(State.DONE, ErrorCode.NONE)

    def refuse(self) -> ErrorCode:
        """The caller does not: the connection has to be closed after the answer."""
        return self._decide(State.FAILED, ErrorCode.SASL_AUTHENTICATION_FAILED)

    def _decide(self, state: State, code: ErrorCode) -> ErrorCode:
        if self.state is not State.VERDICT:
            raise LocalProtocolError(f"a SASL verdict where {self.state.value} is expected")
        self.state = state
        return code
