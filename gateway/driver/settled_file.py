"""Follows one file: says when it is another one than was read last.

It is so when it has stayed as it is from one look to the next, so that one that is just being written is not taken for
half of what it will say. (An editor or a tool that puts a whole file in its place is safe all the same.)
"""

from __future__ import annotations

import asyncio
from pathlib import Path

LOOK_S = 1.0
"""Between two looks."""

_Mark = tuple[int, int, int]


class SettledFile:
    def __init__(self, file: Path) -> None:
        self.file = file
        self._read: _Mark | None = None
        self._seen: _Mark | None = None

    async def changed(self) -> bool:
        """Whether it is to be read; said once of each version.

        :raises OSError: it cannot be looked at.
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
        found = self.file.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
