"""TLS on the listeners for clients."""

import ssl
from dataclasses import dataclass
from functools import partial

from gateway.session.certificate import CertificateRule
from ha_core.tls.contexts import Certificates, server_context
from ha_core.tls.renewing import Renewing
from ha_core.wire.tls_files import TlsFiles


@dataclass(frozen=True, slots=True)
class TlsServer:
    """:ivar rules: map certificates to users; empty: a certificate only permits to connect, and names no user."""

    contexts: Renewing[ssl.SSLContext]
    rules: tuple[CertificateRule, ...]

    def context(self) -> ssl.SSLContext:
        """A context of the newest files, for a handshake that begins now."""
        return self.contexts.current()


def tls_server(files: TlsFiles, certificates: Certificates, rules: tuple[CertificateRule, ...]) -> TlsServer:
    """:param files: `ca_file` has the authorities of clients' certificates.
    :raises TlsFilesError: a file cannot be used.
    """
    return TlsServer(Renewing(files.named(), partial(server_context, files, certificates)), rules)
