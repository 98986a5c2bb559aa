"""Who the client is: a class per state, whose methods lead to the legal next ones.

Unknown    it has not said
    .prove()    Proving
Proving    it has named its mechanism: for the first time, or to authenticate anew (KIP-368)
    .authenticated()    Authenticated
Authenticated
    .prove()    Proving
Certified  it has shown a certificate that stands for a user
    .prove()    Proving
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ha_core.wire import SaslServer


@dataclass(frozen=True, slots=True)
class Unknown:
    """:ivar entered: whether its requests are handled: here that of somebody anonymous."""

    user: ClassVar = None
    entered: bool

    def prove(self, sasl: SaslServer) -> Proving:
        return Proving(sasl, None)


@dataclass(frozen=True, slots=True)
class Proving:
    """:ivar user: who it is so far."""

    sasl: SaslServer
    user: str | None

    @property
    def entered(self) -> bool:
        return self.user is not None

    def authenticated(self, user: str) -> Authenticated:
        return Authenticated(user)


@dataclass(frozen=True, slots=True)
class Authenticated:
    entered: ClassVar = True
    user: str

    def prove(self, sasl: SaslServer) -> Proving:
        return Proving(sasl, self.user)


@dataclass(frozen=True, slots=True)
class Certified:
    """It need not log in, and if it does, as nobody else: the certificate has said who it is."""

    entered: ClassVar = True
    user: str

    def prove(self, sasl: SaslServer) -> Proving:
        return Proving(sasl, self.user)


Entry = Unknown | Proving | Authenticated | Certified
