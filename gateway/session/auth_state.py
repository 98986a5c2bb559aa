"""Who the client is: a class per state, whose methods lead to the legal next ones.

Unknown    it has not said
    .prove()    Proving
Proving    it has named its mechanism: for the first time, or to authenticate anew (KIP-368)
    .ask()              Judging
    .authenticated()    Authenticated
Judging    its claim is looked at beside the event loop; nothing more is taken from it meanwhile
    .judged()           Proving
Authenticated
    .prove()    Proving
Certified  it has shown a certificate that stands for a user
    .prove()    Proving

`logged_in` is what it has proved by SASL, also while it does so anew.
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
    """:ivar entered: whether its requests are handled: here that of somebody anonymous."""

    user: ClassVar = None
    logged_in: ClassVar = None
    expires_at: ClassVar = math.inf
    entered: bool

    def prove(self, sasl: SaslServer) -> SaslInProgress:
        return SaslInProgress(sasl, None)


@dataclass(frozen=True, slots=True)
class SaslInProgress:
    """:ivar before: who it is so far."""

    sasl: SaslServer
    before: Authenticated | TlsAuthenticated | None

    @property
    def user(self) -> str | None:
        return None if self.before is None else self.before.user

    @property
    def logged_in(self) -> Authenticated | None:
        return None if self.before is None else self.before.logged_in

    @property
    def entered(self) -> bool:
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
    """:ivar request: which is to be answered; None: a bare token was.
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
    def entered(self) -> bool:
        return self.proving.entered

    @property
    def expires_at(self) -> float:
        return self.proving.expires_at

    def judged(self) -> SaslInProgress:
        return self.proving


@dataclass(frozen=True, slots=True)
class Authenticated:
    """:ivar expires_at: from when on only a new authentication is taken from it (KIP-368)."""

    entered: ClassVar = True
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
    """It need not log in, and if it does, as nobody else: the certificate has said who it is."""

    entered: ClassVar = True
    logged_in: ClassVar = None
    mechanism: ClassVar = None
    expires_at: ClassVar = math.inf
    user: str

    def prove(self, sasl: SaslServer) -> SaslInProgress:
        return SaslInProgress(sasl, self)


Entry = Anonymous | SaslInProgress | Verifying | Authenticated | TlsAuthenticated
