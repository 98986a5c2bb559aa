"""Follows a file of the configuration, access rules or discovery settings: a new version is in force a second or two
after it was written.

A file is no source of a cache (`ha_core/datacache`): it keeps no earlier versions, and gateways need not agree on it,
since operators write each gateway's file one by one. So it is read as a whole, and any fault refuses all of it.

A version is read when the file did not change between two looks, so that half-written files are not read. (Replacing
the whole file by rename is safe anyway.) A version that cannot be read changes nothing: the last good one stays in
force, and the log says why.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from gateway.config.section import ConfigError

_log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks."""

_Mark = tuple[int, int, int]
Content = TypeVar("Content")


class FollowedFile(Generic[Content]):
    """
    :ivar content: of the version that is in force.
    :ivar unreadable: why the file's newest version is not in force; empty when it is.
    """

    def __init__(
        self,
        has: str,
        file: Path,
        content: Content,
        read: Callable[[Path], Content],
        on_change: Callable[[Content], None],
    ) -> None:
        """
        :param has: what it has, in the plural, for the log.
        :param content: of the file at the start.
        :param read: called in a thread; raises ConfigError and OSError.
        :param on_change: called with each new version, on the event loop.
        """
        self.file, self.content, self._has = file, content, has
        self.unreadable = ""
        self._parse, self._on_change = read, on_change
        self._read: _Mark | None = None
        self._seen: _Mark | None = None

    async def keep(self) -> None:
        """Looks again and again; never returns."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        try:
            if not await self._settled():
                return
            content = await asyncio.to_thread(self._parse, self.file)
        except OSError as error:
            self._complain(f"{self.file}: {error.strerror}")
            return
        except ConfigError as error:
            self._complain(str(error))
            return
        self.unreadable = ""
        if content != self.content:
            self.content = content
            self._on_change(content)
            _log.info("%s: new %s are in force", self.file, self._has)

    async def _settled(self) -> bool:
        """Whether the file should be read; true once for each version.

        :raises OSError: the file cannot be stat'ed.
        """
        try:
            mark = await asyncio.to_thread(self._mark)
        except OSError:
            self._seen = None
            raise
        settled, self._seen = mark == self._seen, mark
        if mark == self._read or not settled:
            return False
        self._read = mark
        return True

    def _mark(self) -> _Mark:
        status = self.file.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _complain(self, why: str) -> None:
        if why != self.unreadable:
            _log.warning("%s\nthe version that was read last stays in force", why)
        self.unreadable = why
