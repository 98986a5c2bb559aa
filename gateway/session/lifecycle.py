"""States of a session: a class per state, whose methods lead to the legal next ones.

Open       requests are taken, and answered
    .leave()   Leaving
    .end()     Over
Leaving    no more requests are taken; ends when those in flight are answered and acks=0 requests are executed
    .end()     Over
Over       no more decisions are made

In each state the client may disconnect (`client_left`). Requests in flight are still awaited: brokers may append them.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from gateway.session.commands import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """:ivar receives: True if requests are taken.
    :ivar goes_on: True if decisions are made.
    :ivar connected: True if the client can be answered.
    :ivar parts: True if the client gets its last answers before the connection closes.
    """

    receives: ClassVar = False
    goes_on: ClassVar = True
    connected: bool = True

    def client_left(self) -> Self:
        return replace(self, connected=False)


@dataclass(frozen=True, slots=True)
class Over(_Life):
    goes_on: ClassVar = False
    cause: Cause
    detail: str
    parts: bool


@dataclass(frozen=True, slots=True)
class Leaving(_Life):
    parts: ClassVar = True
    cause: Cause
    detail: str

    def end(self, cause: Cause, detail: str) -> Over:
        return Over(cause, detail, parts=True, connected=self.connected)


@dataclass(frozen=True, slots=True)
class Open(_Life):
    receives: ClassVar = True
    parts: ClassVar = False

    def leave(self, cause: Cause, detail: str) -> Leaving:
        return Leaving(cause, detail, connected=self.connected)

    def end(self, cause: Cause, detail: str) -> Over:
        return Over(cause, detail, parts=False, connected=self.connected)


Life = Open | Leaving | Over
OPEN = Open()
"""State of nearly all sessions."""
