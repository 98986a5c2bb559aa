"""Messages between a SASL mechanism and its caller. A mechanism is a generator on each side.

The client's side yields tokens and is sent the server's answers. The server's side starts with the first token; it
yields questions, which the caller answers because it owns keys, passwords and clocks, and challenges, which the next
token answers. It returns `Proved`, or raises RemoteProtocolError: no text of this package ever contains a token or a
part of it.
"""

from collections.abc import Generator
from typing import NamedTuple

from ha_core.wire.errors import RemoteProtocolError

Exchange = Generator[bytes, bytes, None]
"""A client's side: yields tokens, is sent the server's answers, ends when it is satisfied."""


class ScramKey(NamedTuple):
    """The key that a server stores for a password (RFC 5802): it verifies the password without revealing it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramKey(iterations={self.iterations}, ***)"


class Plain(NamedTuple):
    """Asks whether this is the user's password; a `LoginVerdict` answers. authzid is "" if the user acts for itself."""

    authzid: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Plain(authzid={self.authzid!r}, user={self.user!r}, password=***)"


class Bearer(NamedTuple):
    """Asks for the user of this token; a `LoginVerdict` answers."""

    authzid: str
    token: str
    user: None = None
    """Unknown before the token is verified."""

    def __repr__(self) -> str:
        return f"Bearer(authzid={self.authzid!r}, token=***)"


class KeyOf(NamedTuple):
    """Asks for the user's key for this mechanism; a `Candidate` answers, even if the user is unknown."""

    mechanism: str
    user: str


class LoginVerdict(NamedTuple):
    """:ivar user: the user; None: the claim is wrong.
    :ivar why: the fault, for the log; never sent to the client.
    :ivar good_for_s: lifetime of the proof itself; None: unknown.
    :ivar unsure: the claim could not be verified, so the client should try again.
    """

    user: str | None
    why: str = ""
    good_for_s: float | None = None
    unsure: bool = False


class Candidate(NamedTuple):
    """:ivar key: the user's, or one that looks like it and fits no password.
    :ivar known: True if it is the user's.
    :ivar nonce: printable, without a comma, and never used before.
    """

    key: ScramKey
    known: bool
    nonce: str


class Challenge(NamedTuple):
    """Sent to the client, whose next token answers it.

    :ivar refuses: the claim was wrong, and the next token ends the exchange.
    """

    data: bytes
    refuses: bool = False


class Proved(NamedTuple):
    """:ivar data: the server's last message."""

    user: str
    data: bytes = b""
    good_for_s: float | None = None


class UnjudgedError(RemoteProtocolError):
    """Credentials could not be verified (back end unavailable); not counted as a failed login."""


Question = Plain | Bearer | KeyOf
Reply = LoginVerdict | Candidate
ServerExchange = Generator[Question | Challenge, Reply | bytes, Proved]


def user_of(verdict: Reply | bytes, authzid: str) -> LoginVerdict:
    """The verdict on a claim together with its authzid: a user may only act for itself.

    :raises UnjudgedError: the claim could not be verified.
    """
    assert isinstance(verdict, LoginVerdict)
    if verdict.unsure:
        raise UnjudgedError(verdict.why)
    if verdict.user is not None and authzid not in ("", verdict.user):
        return LoginVerdict(None, f"user {verdict.user!r} asks to act for another user")
    return verdict
