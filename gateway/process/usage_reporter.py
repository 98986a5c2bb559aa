"""Writes the usage of clients to the store, in batches.

A first use is written at once: a report of a revision waits for it (`membership`). Repeated uses are written some hours
apart, and for a few users at a time.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Literal, NamedTuple, cast

from gateway.runtime import clock
from gateway.runtime.log_rate_limiter import LogRateLimiter
from gateway.session.commands import Saw
from ha_core.model import Use
from ha_core.model.usage import LIVE_WITHIN, MAX_USERS, REWRITTEN_AFTER
from ha_core.store.usage import Sighting, TooManyUsersError

_log = logging.getLogger(__name__)

FLUSH_S = 0.1
AGAIN_AT_ONCE = 2
"""Users whose uses are written again within one `FLUSH_S`: 20 a second."""
MAX_BYTES = 128 << 20
MAX_BYTES_OF_A_USER = 8 << 20
"""More than the store takes of one user. Names come from the wire: made-up ones fill only their user's share."""
_USE_BYTES = 100
_Key = tuple[str, str, str, str, str]
Uses = dict[str, dict[_Key, Sighting]]
"""By user."""


class _Told(NamedTuple):
    """:ivar software: the client's newest known software.
    :ivar at: seconds on the gateway's clock.
    """

    software: str | None
    at: float


class UsageReporter:
    """Writes a use again when the client's software has changed, or some hours later."""

    def __init__(self, record: Callable[[str, list[Sighting]], int]) -> None:
        self._record = record
        self._known: dict[_Key, _Told] = {}
        self._bytes: Counter[str] = Counter()
        """Bytes of `_known`, by user."""
        self._total_bytes = 0
        self._fresh: Uses = {}
        self._again: Uses = {}
        self._writing = asyncio.Lock()
        self._log_rate_limiter = LogRateLimiter(burst=1, per_s=60.0)
        self._swept_at = clock.now()

    @property
    def pending(self) -> bool:
        """Whether a first use is not stored yet."""
        return bool(self._fresh) or self._writing.locked()

    def saw(self, command: Saw) -> None:
        user, instance, _ = command.identity
        key, now = (user, instance, command.what, command.name, command.how), clock.now()
        reported = self._known.get(key)
        waits = self._fresh
        if reported is None:
            if not self._takes(user, instance, command.name):
                return
        elif command.software in (None, reported.software):
            if now - reported.at < REWRITTEN_AFTER.total_seconds():
                return
            waits = self._again
        software = command.software if reported is None or command.software is not None else reported.software
        self._known[key] = _Told(software, now)
        how = cast(Literal["produce", "fetch", "commit", "join"], command.how)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        use = Use(instance=instance, how=how, since=at, last=at, software=command.software)
        what = cast(Literal["topic", "group"], command.what)
        waits.setdefault(user, {})[key] = Sighting(what, command.name, use)

    def forget(self, topics: Collection[str]) -> None:
        """Forgets uses of deleted topics: a new topic of that name is another topic."""
        for key in [key for key in self._known if key[2] == "topic" and key[3] in topics] if topics else ():
            self._forget(key)

    async def keep(self) -> None:
        """Writes first uses, and some repeated ones; never returns."""
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.once()

    async def once(self) -> None:
        await self.flush()
        for user in list(self._again)[:AGAIN_AT_ONCE]:
            await self._write(user, self._again.pop(user), self._again)
        self._sweep(clock.now())

    async def flush(self) -> bool:
        """Whether every first use seen before the call is stored now."""
        async with self._writing:
            fresh, self._fresh = self._fresh, {}
            written = True
            for user, uses in fresh.items():
                written &= await self._write(user, uses, self._fresh)
            return written

    def _sweep(self, now: float) -> None:
        """Frees memory: a use that was not seen for a day counts as a first use when it is seen again."""
        forgotten_s = LIVE_WITHIN.total_seconds()
        if now - self._swept_at < forgotten_s / 24:
            return
        self._swept_at = now
        for key in [key for key, record in self._known.items() if now - record.at > forgotten_s]:
            self._forget(key)

    def _forget(self, key: _Key) -> None:
        user, instance, _, name, _ = key
        del self._known[key]
        self._count(user, -_size(instance, name))

    async def _write(self, user: str, uses: dict[_Key, Sighting], otherwise: Uses) -> bool:
        """:param otherwise: where the uses wait if they cannot be written now."""
        try:
            left_out = await asyncio.to_thread(self._record, user, list(uses.values()))
        except TooManyUsersError as error:
            self._warn("users", "usage of %r is not recorded: %s", user, error)
        except Exception as error:
            self._warn("away", "usage of %r was not written, and will be: %s", user, error)
            otherwise[user] = uses | otherwise.get(user, {})
            return False
        else:
            if left_out:
                text = "usage of %r is full: %d uses are not recorded; declare what it uses"
                self._warn("full", text, user, left_out)
        return True

    def _takes(self, user: str, instance: str, name: str) -> bool:
        """Whether there is room for one more use."""
        size = _size(instance, name)
        if user not in self._bytes and len(self._bytes) >= MAX_USERS:
            self._warn("many", "usage of %r is not recorded: %d users were seen within a day", user, MAX_USERS)
            return False
        if self._total_bytes + size > MAX_BYTES or self._bytes[user] + size > MAX_BYTES_OF_A_USER:
            return False
        self._count(user, size)
        return True

    def _count(self, user: str, size: int) -> None:
        self._total_bytes += size
        self._bytes[user] += size
        if self._bytes[user] <= 0:
            del self._bytes[user]

    def _warn(self, kind: str, text: str, *arguments: object) -> None:
        if self._log_rate_limiter.lets(kind, clock.now()):
            _log.warning(text, *arguments)


def _size(instance: str, name: str) -> int:
    return _USE_BYTES + len(instance) + len(name)
