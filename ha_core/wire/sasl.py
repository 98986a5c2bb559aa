"""SASL as Kafka carries it: accounts, the table of mechanisms, and the server's side of a handshake.

`client.log_in` is the client's side. `sasl_steps` explains mechanisms.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from ha_core.wire.codes import ErrorCode
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS, WireLimits
from ha_core.wire.sasl_oauth import OAUTHBEARER, oauth_client, oauth_server
from ha_core.wire.sasl_plain import plain_client, plain_server
from ha_core.wire.sasl_scram import SCRAM_SHA_256, SCRAM_SHA_512, scram_client, scram_server
from ha_core.wire.sasl_steps import Challenge, Exchange, Proved, Question, Reply, ServerExchange
from ha_core.wire.tls_files import Tls

PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True)
class SecurityProfile:
    """An account at a cluster. Without a mechanism the cluster accepts any client, or any with a valid certificate.

    :ivar password: the password, or the bearer token for OAUTHBEARER.
    :ivar tls: None: its listeners speak no TLS.
    :ivar token_file: file with the token, read at each login, because other processes renew it.
    :ivar principal: brokers' name of the account (`User:NAME`), as an operator declares it: no request tells it. Empty:
        not known.
    :ivar declared_in: where an operator corrects it, in the words of errors.
    """

    mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    tls: Tls | None = None
    token_file: str = ""
    principal: str = ""
    declared_in: str = field(default="the security profile", compare=False)


class Mechanism(NamedTuple):
    """:ivar client: makes the client's side from a profile and a nonce.
    :ivar server: makes the server's side from the first token.
    """

    client: Callable[[SecurityProfile, str], Exchange]
    server: Callable[[bytes], ServerExchange]


def _scram(name: str) -> Mechanism:
    return Mechanism(
        lambda profile, nonce: scram_client(name, profile.username, profile.password, nonce),
        partial(scram_server, name),
    )


MECHANISMS: Mapping[str, Mechanism] = {
    PLAIN: Mechanism(lambda profile, _: plain_client(profile.username, profile.password), plain_server),
    SCRAM_SHA_256: _scram(SCRAM_SHA_256),
    SCRAM_SHA_512: _scram(SCRAM_SHA_512),
    OAUTHBEARER: Mechanism(lambda profile, _: oauth_client(profile.password), oauth_server),
}


class State(Enum):
    """The message that the server waits for."""

    HANDSHAKE = "SaslHandshake"
    TOKEN = "SaslAuthenticate"
    REPLY = "the answer to a question"
    DONE = "nothing"
    FAILED = "the end of the connection"


class SaslServer:
    """Authentication of one connection: `handshake`, `receive` each token, and `reply` to each question in between.

    A client may authenticate again once it is DONE (KIP-368); the caller checks that it stays the same user. After an
    error the connection has to be closed.
    """

    def __init__(self, mechanisms: Collection[str] = (PLAIN,), limits: WireLimits = DEFAULT_LIMITS) -> None:
        self.mechanisms = tuple(mechanisms)
        self.mechanism = ""
        """The mechanism that the client has chosen."""
        self.state = State.HANDSHAKE
        self.claimed: str | None = None
        """The claimed user name; None: no claim yet. For a token the caller determines the user."""
        self.raw_tokens = False
        self._most = limits.max_sasl_bytes
        self._exchange: ServerExchange | None = None

    @property
    def challenged(self) -> bool:
        """True if the next token answers a challenge."""
        return self.state is State.TOKEN and self._exchange is not None

    def handshake(self, mechanism: str, version: int) -> ErrorCode:
        """The error code to answer. After version 0 tokens are frames without any header (`raw_tokens`)."""
        if self.state not in (State.HANDSHAKE, State.DONE):
            self._fail()
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self.mechanisms:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.mechanism, self.claimed = mechanism, None
        self.raw_tokens = version == 0
        self.state = State.TOKEN
        return ErrorCode.NONE

    def receive(self, token: bytes) -> Question | Challenge | Proved:
        """The step after a token. RemoteProtocolError for one out of turn, too long, unreadable or wrong."""
        if self.state is not State.TOKEN:
            waiting = self.state.value
            self._fail()
            raise RemoteProtocolError(f"SASL token where {waiting} is expected")
        if len(token) > self._most:
            self._fail()
            raise RemoteProtocolError(f"SASL token of {len(token)} bytes: {self._most} are allowed")
        if self._exchange is None:
            self._exchange = MECHANISMS[self.mechanism].server(token)
            return self._step(None)
        return self._step(token)

    def reply(self, reply: Reply) -> Question | Challenge | Proved:
        """The step after the reply to a question. RemoteProtocolError: the claim is wrong."""
        if self.state is not State.REPLY:
            raise LocalProtocolError(f"an answer about a SASL claim where {self.state.value} is expected")
        return self._step(reply)

    def _step(self, sent: Reply | bytes | None) -> Question | Challenge | Proved:
        assert self._exchange is not None
        try:
            step = next(self._exchange) if sent is None else self._exchange.send(sent)
        except StopIteration as done:
            proved: Proved = done.value
            self.state, self._exchange = State.DONE, None
            return proved
        except RemoteProtocolError:
            self._fail()
            raise
        if isinstance(step, Challenge):
            self.state = State.TOKEN
        else:
            self.state, self.claimed = State.REPLY, step.user
        return step

    def _fail(self) -> None:
        self.state, self._exchange = State.FAILED, None
