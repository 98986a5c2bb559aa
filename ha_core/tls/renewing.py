"""A value made from files, made again when these have changed; such contexts for clients, and texts for TLS faults.

`current` checks the files, once a second at most: it needs no thread, and no watch, which a mounted volume would not
support. A certificate and its key are replaced one after the other: while they do not fit, that is logged once, the
last value stays in force, and the next change is tried again.
"""

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Generic, TypeVar

from ha_core.tls.contexts import TlsFilesError, client_context
from ha_core.tls.sockets import TlsSocket
from ha_core.wire.tls_files import Tls, TlsFiles

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
_MAX_KINDS = 256
_WORDS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS there: give the address of its TLS listener, or a profile without",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate: name one (certificate_file, ssl.keystore.*)",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of this side's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this side's certificate, or wants one",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this side's certificate has expired",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks no TLS of 1.2 or above",
    "UNSUPPORTED_PROTOCOL": "it speaks no TLS of 1.2 or above",
}

T = TypeVar("T")
Mark = tuple[int, int, int] | None


class Renewing(Generic[T]):
    """Thread-safe."""

    def __init__(
        self, files: Iterable[str], make: Callable[[], T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """:raises TlsFilesError: of `make`, since there is no earlier value."""
        self._files, self._make, self._clock = tuple(files), make, clock
        self._guard = threading.Lock()
        self._looked_at = clock()
        self._marks = self._look()
        self._made = make()

    def current(self) -> T:
        """The value of the newest files that can be used."""
        now = self._clock()
        if now - self._looked_at < LOOK_EVERY_S:
            return self._made
        with self._guard:
            if now - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = now
                self._renew()
            return self._made

    def _renew(self) -> None:
        marks = self._look()  # before the read, so that later changes are seen the next time
        if marks == self._marks:
            return
        self._marks = marks
        try:
            self._made = self._make()
        except TlsFilesError as error:
            _log.error("TLS goes on with the files as they were: %s", error)
        else:
            _log.info("TLS uses the new %s", ", ".join(self._files))

    def _look(self) -> tuple[Mark, ...]:
        return tuple(map(_mark, self._files))


def _mark(file: str) -> Mark:
    """A value that changes with the file's content; None: the file is missing."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@lru_cache(maxsize=_MAX_KINDS)
def _renewing(files: Tls, as_plain: bool) -> Renewing[ssl.SSLContext]:
    named = files.named() if isinstance(files, TlsFiles) else ()
    return Renewing(named, partial(client_context, files, TlsSocket if as_plain else ssl.SSLSocket))


def context_of(files: Tls, as_plain: bool = True) -> ssl.SSLContext:
    """The context for connections that begin now.

    :param as_plain: its sockets are `TlsSocket`; False: Python's own, for callers that handle the errors of these.
    :raises TlsFilesError: the files cannot be used, and never could.
    """
    return _renewing(files, as_plain).current()


def tls_fault(error: OSError) -> str | None:
    """The fault in TLS, in words; None: it is another fault."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "it hung up in TLS; it may want a certificate (certificate_file, ssl.keystore.*), or speak no TLS there"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "unknown"
        return f"TLS failed: {_WORDS.get(reason, reason.lower().replace('_', ' '))}"
    return None
