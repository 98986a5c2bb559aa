"""Follows a file of the configuration: a new version is in force a second or two after it was written.

A version is read when the file did not change between two looks, so that half-written files are not read. (Replacing
the whole file by rename is safe anyway.) A version that cannot be read changes nothing: the last good one stays in
force, and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from gateway.config.section import ConfigError

_log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks."""

_Mark = tuple[int, int, int]
Content = TypeVar("Content")


class FollowedFile(ABC, Generic[Content]):
    """:ivar unreadable: why the file's newest version is not in force; empty when it is."""

    def __init__(self, file: Path, content: Content, read: Callable[[Path], Content]) -> None:
        """
        :param content: of the file at the start.
        :param read: called in a thread; raises ConfigError and OSError.
        """
        self.file = file
        self.unreadable = ""
        self._in_force, self._parse = content, read
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
        if content != self._in_force:
            result = await self._follow(self._in_force, content)
            self._in_force = content
            _log.info("%s: %s", self.file, result)

    @abstractmethod
    async def _follow(self, before: Content, content: Content) -> str:
        """Puts a new version in force; returns a text for the log."""

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
