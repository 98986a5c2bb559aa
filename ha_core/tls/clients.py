"""TLS of clients: one context for each set of files, and texts for faults."""

from __future__ import annotations

import ssl
from functools import lru_cache, partial

from ha_core.tls.contexts import client_context
from ha_core.tls.renewing import Renewing
from ha_core.tls.sockets import TlsSocket
from ha_core.wire.tls_files import TlsFiles

_MAX_KINDS = 256


@lru_cache(maxsize=_MAX_KINDS)
def _renewing(files: TlsFiles, as_plain: bool) -> Renewing[ssl.SSLContext]:
    return Renewing(files.named(), partial(client_context, files, TlsSocket if as_plain else ssl.SSLSocket))


def context_of(files: TlsFiles, as_plain: bool = True) -> ssl.SSLContext:
    """The context for connections that begin now.

    :param as_plain: its sockets are `TlsSocket`; False: Python's own, for callers that handle the errors of these.
    :raises TlsFilesError: the files cannot be used, and never could.
    """
    return _renewing(files, as_plain).current()


_WORDS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS there: give the address of its TLS listener, or a profile without",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate: name certificate_file in the profile's tls",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of this side's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this side's certificate, or wants one",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this side's certificate has expired",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks no TLS of 1.2 or above",
    "UNSUPPORTED_PROTOCOL": "it speaks no TLS of 1.2 or above",
}


def tls_fault(error: OSError) -> str | None:
    """The fault in TLS, in words; None: it is another fault."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "it hung up in TLS; it may want a certificate (certificate_file in tls), or speak no TLS there"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "unknown"
        return f"TLS failed: {_WORDS.get(reason, reason.lower().replace('_', ' '))}"
    return None
