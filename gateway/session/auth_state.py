"""States of a client's login: a class per state, whose methods lead to the legal next ones.

Anonymous           not logged in
    .prove()            SaslInProgress
SaslInProgress      mechanism named: for the first time, or to re-authenticate (KIP-368)
    .ask()              Verifying
    .authenticated()    Authenticated
Verifying           the claim is checked off the event loop; no more bytes are taken from the client meanwhile
    .verified()         SaslInProgress
Authenticated
    .prove()            SaslInProgress
TlsAuthenticated    the client certificate names a user
    .prove()            SaslInProgress

`logged_in` is the last completed SASL login, also while the client re-authenticates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from gateway.session.request import Request
from ha_core.wire import SaslServer
from ha_core.wire.sasl_steps import Question


@dataclass(frozen=True, slots=True)
class Anonymous:
    """:ivar may_request: True if requests are handled: here those of the user `anonymous`."""

    user: ClassVar = None
    logged_in: ClassVar = None
    expires_at: ClassVar = math.inf
    may_request: bool

    def prove(self, sasl: SaslServer) -> SaslInProgress:
        return SaslInProgress(sasl, None)


@dataclass(frozen=True, slots=True)
class SaslInProgress:
    """:ivar before: the state before this login; None: not authenticated."""

    sasl: SaslServer
    before: Authenticated | TlsAuthenticated | None

    @property
    def user(self) -> str | None:
        return None if self.before is None else self.before.user

    @property
    def logged_in(self) -> Authenticated | None:
        return None if self.before is None else self.before.logged_in

    @property
    def may_request(self) -> bool:
        return self.before is not None

    @property
    def expires_at(self) -> float:
        return math.inf if self.before is None else self.before.expires_at

    def ask(self, question: Question, request: Request | None, now: float) -> Verifying:
        return Verifying(self, question, request, now)

    def authenticated(self, user: str, expires_at: float) -> Authenticated:
        return Authenticated(user, self.sasl.mechanism, expires_at)


@dataclass(frozen=True, slots=True)
class Verifying:
    """:ivar request: the request to answer; None: a bare token.
    :ivar since: when the token came.
    """

    proving: SaslInProgress
    question: Question
    request: Request | None
    since: float

    @property
    def user(self) -> str | None:
        return self.proving.user

    @property
    def logged_in(self) -> Authenticated | None:
        return self.proving.logged_in

    @property
    def may_request(self) -> bool:
        return self.proving.may_request

    @property
    def expires_at(self) -> float:
        return self.proving.expires_at

    def verified(self) -> SaslInProgress:
        return self.proving


@dataclass(frozen=True, slots=True)
class Authenticated:
    """:ivar expires_at: from then on the client may only re-authenticate (KIP-368)."""

    may_request: ClassVar = True
    user: str
    mechanism: str
    expires_at: float

    @property
    def logged_in(self) -> Authenticated:
        return self

    def prove(self, sasl: SaslServer) -> SaslInProgress:
        return SaslInProgress(sasl, self)


@dataclass(frozen=True, slots=True)
class TlsAuthenticated:
    """The certificate names the user. A SASL login is optional, and has to be of the same user."""

    may_request: ClassVar = True
    logged_in: ClassVar = None
    mechanism: ClassVar = None
    expires_at: ClassVar = math.inf
    user: str

    def prove(self, sasl: SaslServer) -> SaslInProgress:
        return SaslInProgress(sasl, self)


AuthState = Anonymous | SaslInProgress | Verifying | Authenticated | TlsAuthenticated
