"""Answers of brokers that have begun to arrive: a class per way of reading them. They know nothing of a session.

Streaming    goes to the client as it comes
Patching     the same, with offsets patched on the way (fetch)
Gathering    is collected whole for an exchange
    .dropped()   Dropping
HoldAnswer   is collected whole, and goes to the client later, or changed
Dropping     is discarded
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from gateway.session.pending import Basis, Gathered, Passed, Ready
from ha_core.wire.fetch_answer import FetchPatcher


@dataclass(slots=True, eq=False)
class Dropping:
    """:ivar missing: bytes that have not come; 0: complete.
    :ivar basis: lease and revision that have to stand before more goes to the client.
    """

    to_client: ClassVar = False
    missing: int
    basis: Basis | None = None

    def feed(self, view: memoryview, pos: int, end: int) -> int:
        """Uses bytes from `pos` on; returns the position after them."""
        stop = min(pos + self.missing, end)
        self.missing -= stop - pos
        return stop


@dataclass(slots=True, eq=False)
class Streaming(Dropping):
    to_client: ClassVar = True


@dataclass(slots=True, eq=False)
class Patching:
    """:ivar missing: True while bytes have not come."""

    to_client: ClassVar = True
    basis: Basis | None
    patcher: FetchPatcher
    pending: Passed
    size: int
    read: Counter[bytes] | None
    """Bytes of records by topic, where quotas need them (`Throttling`)."""
    head: int = 4
    """Bytes of the size field, which the patcher does not see."""
    missing: bool = True

    def feed(self, view: memoryview, pos: int, end: int) -> int:
        stop = self.patcher.feed(view, pos + self.head, end)
        self.head = 0
        self.missing = not self.patcher.done
        return stop


@dataclass(slots=True, eq=False)
class Gathering(Dropping):
    pending: Gathered = field(kw_only=True)
    frame: bytearray = field(default_factory=bytearray, init=False)

    def feed(self, view: memoryview, pos: int, end: int) -> int:
        stop = Dropping.feed(self, view, pos, end)
        self.frame += view[pos:stop]
        return stop

    def dropped(self) -> Dropping:
        return Dropping(self.missing)


@dataclass(slots=True, eq=False)
class HoldAnswer(Dropping):
    pending: Passed = field(kw_only=True)
    frame: bytearray = field(default_factory=bytearray, init=False)

    def feed(self, view: memoryview, pos: int, end: int) -> int:
        stop = Dropping.feed(self, view, pos, end)
        self.frame += view[pos:stop]
        return stop

    def ready(self) -> Ready:
        pending = self.pending
        return Ready(pending.request, pending.answered(self.frame), basis=pending.basis, reports=pending)


Arriving = Dropping | Patching
