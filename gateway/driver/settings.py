"""Follows the file of discovery's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gateway.config import read_settings
from gateway.driver.followed_file import FollowedFile
from gateway.session.rates import Settings


class FollowingSettings(FollowedFile[Settings]):
    def __init__(self, file: Path, settings: Settings, told: Callable[[Settings], None]) -> None:
        """:param told: is given each other version, on the event loop."""
        super().__init__(file, settings, read_settings)
        self._told = told

    async def _follow(self, before: Settings, content: Settings) -> str:
        self._told(content)
        return "other settings of discovery are in force"
