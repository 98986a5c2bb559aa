"""What the two sides of a mechanism say to whoever drives them. A mechanism is a generator on each side.

The client's yields tokens and is sent what the server answers. The server's is made of the first token; it yields
questions, which the caller answers because keys, passwords and clocks are his, and challenges, which the next token
answers. It returns `Proved`, or raises RemoteProtocolError: no text of this package ever holds a token or a part of it.
"""

from collections.abc import Generator
from typing import NamedTuple

from ha_core.wire.errors import RemoteProtocolError

Exchange = Generator[bytes, bytes, None]
"""A client's side: yields tokens, is sent what the server answers, ends when it is satisfied."""


class ScramKey(NamedTuple):
    """What a server keeps of a password (RFC 5802): it proves the password, and does not give it away."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramKey(iterations={self.iterations}, ***)"


class Plain(NamedTuple):
    """Is this the user's password? authzid is "" where the user acts for itself. Answered by a `LoginVerdict`."""

    authzid: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Plain(authzid={self.authzid!r}, user={self.user!r}, password=***)"


class Bearer(NamedTuple):
    """Whose token is this? Answered by a `LoginVerdict`."""

    authzid: str
    token: str
    user: None = None
    """Nobody knows before the token was verified."""

    def __repr__(self) -> str:
        return f"Bearer(authzid={self.authzid!r}, token=***)"


class KeyOf(NamedTuple):
    """Which key does the user have for this mechanism? Answered by a `Candidate`, also for a user that is unknown."""

    mechanism: str
    user: str


class LoginVerdict(NamedTuple):
    """:ivar user: who it is; None: the claim is wrong.
    :ivar why: what is wrong, for the log; never told to the client.
    :ivar good_for_s: how long the proof is good by itself; None: it does not say.
    :ivar unsure: nobody could tell whether it is right, so that the client should try again.
    """

    user: str | None
    why: str = ""
    good_for_s: float | None = None
    unsure: bool = False


class Candidate(NamedTuple):
    """:ivar key: of the user, or one that looks like it and fits no password.
    :ivar known: whether it is the user's.
    :ivar nonce: printable, without a comma, and never used before.
    """

    key: ScramKey
    known: bool
    nonce: str


class Challenge(NamedTuple):
    """To be sent to the client, whose next token goes on with it.

    :ivar refuses: the claim was wrong, and the next token ends the exchange.
    """

    data: bytes
    refuses: bool = False


class Proved(NamedTuple):
    """:ivar data: the last thing that the server says."""

    user: str
    data: bytes = b""
    good_for_s: float | None = None


class UnjudgedError(RemoteProtocolError):
    """Nobody could tell whether the claim is right: nothing is said against the client."""


Question = Plain | Bearer | KeyOf
Reply = LoginVerdict | Candidate
ServerExchange = Generator[Question | Challenge, Reply | bytes, Proved]


def user_of(verdict: Reply | bytes, authzid: str) -> LoginVerdict:
    """What a claim comes to, with what it asks to be: one may act for oneself only.

    :raises UnjudgedError: nobody could tell.
    """
    assert isinstance(verdict, LoginVerdict)
    if verdict.unsure:
        raise UnjudgedError(verdict.why)
    if verdict.user is not None and authzid not in ("", verdict.user):
        return LoginVerdict(None, f"user {verdict.user!r} asks to be somebody else")
    return verdict
