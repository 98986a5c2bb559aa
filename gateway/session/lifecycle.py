"""Whether a session goes on: a class per state, whose methods lead to the legal next ones.

Open       requests are taken, and answered
    .leave()   Leaving
    .end()     Over
Leaving    nothing more is taken; it ends when what is in flight is answered, and what has no answer is executed
    .end()     Over
Over       nothing more is decided

In each the client may go (`client_left`). What is in flight is awaited all the same, because it may yet be appended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from gateway.session.commands import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """:ivar receives: whether requests are taken.
    :ivar goes_on: whether anything is decided.
    :ivar connected: whether the client is there to be answered.
    :ivar parts: whether it is to get its last answers before its connection is closed.
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
"""Nearly all are."""
