"""What clients were seen to use, written to the store in batches."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Literal, cast

from gateway.session.commands import Saw
from ha_core.model import Use
from ha_core.store.usage import Sighting

_log = logging.getLogger(__name__)

FLUSH_S = 0.1
MAX_BYTES = 128 << 20
MAX_BYTES_OF_A_USER = 8 << 20
"""More than the store takes of one user. Names come from the wire: whoever makes them up fills his own share."""
_USE_BYTES = 100


class Sightings:
    """First uses only: what was written once is not written again by this gateway, unless the client is another
    software since."""

    def __init__(self, record: Callable[[str, list[Sighting]], int]) -> None:
        self._record = record
        self._known: dict[tuple[str, str, str, str, str], str | None] = {}
        """What was seen, with the software that it was last."""
        self._bytes: Counter[str] = Counter()
        """Of what is known, by user."""
        self._fresh: dict[str, list[Sighting]] = {}
        self._writing = asyncio.Lock()

    @property
    def pending(self) -> bool:
        """Whether something seen is not in the store yet."""
        return bool(self._fresh) or self._writing.locked()

    def saw(self, command: Saw) -> None:
        user, instance, _ = command.identity
        key = (user, instance, command.what, command.name, command.how)
        if key not in self._known:
            size = _USE_BYTES + len(instance) + len(command.name)
            if self._bytes.total() + size > MAX_BYTES or self._bytes[user] + size > MAX_BYTES_OF_A_USER:
                return
            self._bytes[user] += size
        elif command.software in (None, self._known[key]):
            return
        self._known[key] = command.software
        how = cast(Literal["produce", "fetch", "commit", "join"], command.how)
        since = datetime.now(UTC).isoformat(timespec="milliseconds")
        use = Use(instance=instance, how=how, since=since, software=command.software)
        what = cast(Literal["topic", "group"], command.what)
        self._fresh.setdefault(user, []).append(Sighting(what, command.name, use))

    def forget(self, topics: Collection[str]) -> None:
        """What was seen of topics that have been deleted: one that is created under such a name is another one."""
        for key in [key for key in self._known if key[2] == "topic" and key[3] in topics] if topics else ():
            del self._known[key]
            self._bytes[key[0]] -= _USE_BYTES + len(key[1]) + len(key[3])

    async def keep(self) -> None:
        """Writes what is new, for ever."""
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()

    async def flush(self) -> bool:
        """Whether all that was seen before the call is in the store now."""
        async with self._writing:
            fresh, self._fresh = self._fresh, {}
            written = True
            for user, uses in fresh.items():
                try:
                    left_out = await asyncio.to_thread(self._record, user, uses)
                except Exception as error:
                    _log.warning("usage of %s was not written: %s", user, error)
                    self._fresh.setdefault(user, []).extend(uses)
                    written = False
                else:
                    if left_out:
                        _log.warning(
                            "usage of %s is full: %d uses are not recorded; declare what it uses", user, left_out
                        )
            return written
