"""One kind, asked of the platform with the token and the certificates as they are in their files."""

from __future__ import annotations

import ssl
from functools import partial

import httpx

from gateway.platform.section import Platform
from ha_core.datacache.core.source import Changes
from ha_core.registry.remote import HttpSource, client_of
from ha_core.tls.contexts import client_context
from ha_core.tls.renewing import Renewing


class PlatformSource:
    """For one thread."""

    def __init__(self, platform: Platform, kind: str) -> None:
        self._platform, self._kind = platform, kind
        files = platform.files
        self._contexts = (
            None if files is None else Renewing(files.named(), partial(client_context, files, kind=ssl.SSLSocket))
        )
        self._made_of: tuple[str, ssl.SSLContext | None] | None = None
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
        made_of = self._platform.token(), None if self._contexts is None else self._contexts.current()
        if self._client is None or made_of != self._made_of:
            if self._client is not None:
                self._client.close()
            token, context = made_of
            self._client = client_of(self._platform.url, token, True if context is None else context)
            self._made_of = made_of
        return HttpSource(self._client, self._kind)
