"""Reads one kind from the platform, with the current content of the token's and the certificates' files."""

from __future__ import annotations

import httpx

from gateway.config.platform import PlatformSection
from gateway.follow.platform.line import PlatformLine
from ha_core.datacache.core.source import Changes
from ha_core.platform.remote import HttpSource


class PlatformSource:
    """For one thread."""

    def __init__(self, platform: PlatformSection, kind: str) -> None:
        self._line, self._kind = PlatformLine(platform), kind
        self._client: httpx.Client | None = None

    def changes(self, after_us: int, limit: int) -> Changes:
        """:raises PlatformAwayError: the platform does not answer, or not as it should.
        :raises PlatformError: the token cannot be read.
        """
        return self._source().changes(after_us, limit)

    def digest(self, through_us: int) -> str | None:
        """Raises as `changes` does."""
        return self._source().digest(through_us)

    def _source(self) -> HttpSource:
        before, self._client = self._client, self._line.client()
        if before is not None and before is not self._client:
            before.close()
        return HttpSource(self._client, self._kind)
