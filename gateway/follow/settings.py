"""Follows the file of discovery settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gateway.config import read_settings
from gateway.follow.followed_file import FollowedFile
from gateway.session.discovery_rates import DiscoverySettings


class FollowingSettings(FollowedFile[DiscoverySettings]):
    def __init__(self, file: Path, settings: DiscoverySettings, on_change: Callable[[DiscoverySettings], None]) -> None:
        """:param on_change: called with each new version, on the event loop."""
        super().__init__(file, settings, read_settings)
        self._on_change = on_change

    async def _follow(self, before: DiscoverySettings, content: DiscoverySettings) -> str:
        self._on_change(content)
        return "new discovery settings are in force"
