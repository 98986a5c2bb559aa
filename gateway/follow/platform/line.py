"""The connection to the platform, and reading one kind over it, with the current content of the token's and the
certificates' files."""

import ssl
import threading
from functools import partial

import httpx

from gateway.config.platform import PlatformSection
from ha_core.datacache.core.source import Changes
from ha_core.platform.remote import HttpSource, client_of
from ha_core.tls.contexts import client_context
from ha_core.tls.renewing import Renewing


class PlatformLine:
    def __init__(self, platform: PlatformSection) -> None:
        self._platform = platform
        files = platform.files
        self._contexts = (
            None if files is None else Renewing(files.named(), partial(client_context, files, kind=ssl.SSLSocket))
        )
        self._guard = threading.Lock()
        self._made_of: tuple[str, ssl.SSLContext | None] | None = None
        self._client: httpx.Client | None = None

    def client(self) -> httpx.Client:
        """A new one after the files have changed; the one before may still be in use, and is left to its users.

        :raises PlatformError: the token cannot be read.
        """
        with self._guard:
            made_of = self._platform.token(), None if self._contexts is None else self._contexts.current()
            if self._client is None or made_of != self._made_of:
                token, context = made_of
                self._client = client_of(self._platform.url, token, True if context is None else context)
                self._made_of = made_of
            return self._client


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
