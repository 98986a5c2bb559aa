"""TLS contexts of both sides, from files or from memory: 1.2 at least, names verified, no renegotiation."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from ha_core.tls.sockets import TlsSocket
from ha_core.wire.tls_files import Tls, TlsFiles, TlsPem

_MAX_FILE_BYTES = 4 * 1024 * 1024


class TlsFilesError(Exception):
    """A file that TLS needs cannot be used: names it, the fault, and the remedy."""


class Certificates(Enum):
    """Whether a server asks its clients for certificates."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


_ASKS = {
    Certificates.NONE: ssl.CERT_NONE,
    Certificates.OPTIONAL: ssl.CERT_OPTIONAL,
    Certificates.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(files: TlsFiles, clients: Certificates) -> ssl.SSLContext:
    """:param files: `ca_file` has the authorities that clients' certificates have to come from.
    :raises TlsFilesError: a file cannot be used, or one that is needed is not named.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    if files.certificate_file is None:
        raise TlsFilesError("a server needs a certificate_file: name one")
    _show(context, files)
    context.verify_mode = _ASKS[clients]
    if clients is not Certificates.NONE:
        if files.ca_file is None:
            raise TlsFilesError("clients' certificates are verified by those of an authority: name its file")
        _trust(context, files.ca_file)
    return context


def client_context(files: Tls, kind: type[ssl.SSLSocket] = TlsSocket) -> ssl.SSLContext:
    """:param kind: of the sockets that it makes.
    :raises TlsFilesError: a file cannot be used.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and name, which may be an address
    context.sslsocket_class = kind
    if isinstance(files, TlsPem):
        _use(context, files)
        return context
    if files.ca_file is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, files.ca_file)
    if files.certificate_file is not None:
        _show(context, files)
    return context


def _use(context: ssl.SSLContext, pem: TlsPem) -> None:
    context.check_hostname = pem.check_names
    try:
        if pem.authorities is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(cadata=pem.authorities)
        if pem.certificates:
            # Python takes a key from a file only; this one is memory of this process.
            with os.fdopen(os.memfd_create("certificates"), "wb") as file:
                file.write(f"{pem.certificates}\n{pem.key}".encode("ascii"))
                file.flush()
                context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    except (ssl.SSLError, ValueError) as error:
        raise TlsFilesError(f"certificates in memory cannot be used ({getattr(error, 'reason', error)})") from None


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.sslsocket_class = TlsSocket
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Repeated renegotiation costs this side more than the other one; only 1.2 has it.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def _trust(context: ssl.SSLContext, file: str) -> None:
    text = _text(file)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise TlsFilesError(f"{file}: holds no certificates in PEM form; give the authority's certificate") from None


def _show(context: ssl.SSLContext, files: TlsFiles) -> None:
    certificate, key = files.certificate_file, files.key_file or files.certificate_file
    assert certificate is not None
    assert key is not None
    for file in {certificate, key}:
        _text(file)  # OpenSSL does not name the file that it could not read
    password = _text(files.key_password_file).partition("\n")[0].rstrip("\r") if files.key_password_file else ""
    try:
        # Never without a password: OpenSSL would ask for it at the terminal.
        context.load_cert_chain(certificate, key, lambda: password)
    except ssl.SSLError as error:
        raise TlsFilesError(_not_shown(error, certificate, key, bool(password))) from None
    except ValueError:
        raise TlsFilesError(f"{files.key_password_file}: longer than a password may be") from None


def _not_shown(error: ssl.SSLError, certificate: str, key: str, password: bool) -> str:
    reason = error.reason or str(error)
    if reason == "KEY_VALUES_MISMATCH":
        return f"{key}: is not the key of the certificate in {certificate}; give the two that belong together"
    if "BEGIN CERTIFICATE" not in _text(certificate):
        return f"{certificate}: holds no certificate in PEM form"
    if "PRIVATE KEY" not in _text(key):
        return f"{key}: holds no private key in PEM form"
    if "ENCRYPTED" in _text(key):
        return f"{key}: its password is {'another one' if password else 'not given; name key_password_file'}"
    return f"{certificate}, {key}: cannot be used ({reason})"


def _text(file: str) -> str:
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise TlsFilesError(f"{file}: {error.strerror}; give the path of a readable file") from None
    if len(data) > _MAX_FILE_BYTES:
        raise TlsFilesError(f"{file}: longer than {_MAX_FILE_BYTES} bytes; this is not the right file")
    return data.decode("utf-8", "replace")


KEYS = tuple(field.name for field in fields(TlsFiles))


def named_files(document: Any, where: str, folder: Path) -> TlsFiles:
    """From `{ca_file: …, certificate_file: …, key_file: …, key_password_file: …}`, all of which may be missing.

    :param folder: of files with relative names.
    :raises TlsFilesError: names key and remedy. The files themselves are not read.
    """
    if not isinstance(document, Mapping):
        raise TlsFilesError(f"{where}: holds {type(document).__name__}. Write `ca_file: …`, or {{}} for the system's.")
    if unknown := sorted(str(key) for key in document if key not in KEYS):
        raise TlsFilesError(f"{where}: {unknown[0]}: no such key. Known: {', '.join(KEYS)}.")
    for key, value in document.items():
        if not isinstance(value, str) or not value or "\0" in value:
            raise TlsFilesError(f"{where}: {key}: {value!r} is not the name of a file.")
    if "certificate_file" not in document and (orphan := sorted(set(document) - {"ca_file"})):
        raise TlsFilesError(f"{where}: {orphan[0]} needs a certificate_file.")
    return TlsFiles(**{key: str(folder / value) for key, value in document.items()})


def file_names(files: TlsFiles) -> dict[str, str]:
    """The reverse of `named_files`."""
    return {key: value for key in KEYS if (value := getattr(files, key)) is not None}
