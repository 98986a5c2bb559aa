"""Follows the file of discovery's settings: another one is in force a second or two after it was written.

What cannot be read changes nothing: the settings that were read last stay in force, and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from gateway.config import ConfigError, read_settings
from gateway.driver.settled_file import LOOK_S, SettledFile
from gateway.session.rates import Settings

_log = logging.getLogger(__name__)


class FollowingSettings:
    """:ivar unreadable: why the file as it is now is not in force; empty when it is."""

    def __init__(self, file: Path, settings: Settings, told: Callable[[Settings], None]) -> None:
        """:param settings: what the file had at the start.
        :param told: is given each other version, on the event loop.
        """
        self.file = file
        self.unreadable = ""
        self._in_force, self._told = settings, told
        self._settled = SettledFile(file)

    async def keep(self) -> None:
        """For ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        try:
            if not await self._settled.changed():
                return
            settings = await asyncio.to_thread(read_settings, self.file)
        except OSError as error:
            self._complain(f"{self.file}: {error.strerror}")
            return
        except ConfigError as error:
            self._complain(str(error))
            return
        self.unreadable = ""
        if settings != self._in_force:
            self._in_force = settings
            _log.info("%s: other settings of discovery are in force", self.file)
            self._told(settings)

    def _complain(self, why: str) -> None:
        if why != self.unreadable:
            _log.warning("settings of discovery: %s; those that were read last stay in force", why)
        self.unreadable = why
