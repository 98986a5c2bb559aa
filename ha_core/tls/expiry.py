"""When certificates expire, by their files. Python's ssl tells that only of certificates that it has verified."""

import os
import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime

from ha_core.wire.tls_files import Tls, TlsFiles

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18


def earliest_expiry(text: str) -> float | None:
    """The first end of all certificates of a file, in seconds since 1970; None: it has none.

    :raises ValueError: a certificate cannot be read.
    """
    try:
        return min((_expiry(ssl.PEM_cert_to_DER_cert(found)) for found in _PEM.findall(text)), default=None)
    except IndexError as error:
        raise ValueError("a certificate is cut off") from error


def _expiry(certificate: bytes) -> float:
    """Walks X.509 (RFC 5280, 4.1): version, serial number, algorithm and issuer precede the validity."""
    _, whole = _part(certificate, 0)
    _, signed = _part(certificate, whole.start)
    at = signed.start
    if certificate[at] == _VERSION:
        at = _part(certificate, at)[1].stop
    for _ in range(3):
        at = _part(certificate, at)[1].stop
    validity = _part(certificate, at)[1]
    not_before = _part(certificate, validity.start)[1]
    tag, not_after = _part(certificate, not_before.stop)
    text = certificate[not_after.start : not_after.stop].decode("ascii")
    if tag not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError(f"a certificate's validity ends with tag {tag}")
    if tag == _UTC_TIME:  # two digits of the year: 50 to 99 are of the last century
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _part(data: bytes, at: int) -> tuple[int, range]:
    """Tag and content of a value in DER."""
    tag, size, start = data[at], data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size, start = int.from_bytes(data[start : start + count], "big"), start + count
    return tag, range(start, start + size)


class CertificateExpiry:
    """The ends of certificates in files, which are read again when they change."""

    def __init__(self, sides: Mapping[str, Tls | None]) -> None:
        """:param sides: use → TLS of it; only certificates in files are looked at."""
        self._files = {
            use: side.certificate_file
            for use, side in sides.items()
            if isinstance(side, TlsFiles) and side.certificate_file is not None
        }
        self._read: dict[str, tuple[tuple[int, int], float | None]] = {}

    def found(self) -> dict[str, float]:
        """Use → the end of its certificate; a use is absent if its file cannot be read."""
        ends = {use: self._end(name) for use, name in self._files.items()}
        return {use: end for use, end in ends.items() if end is not None}

    def _end(self, name: str) -> float | None:
        try:
            status = os.stat(name)
            mark = status.st_mtime_ns, status.st_ino
            if name not in self._read or self._read[name][0] != mark:
                with open(name, encoding="utf-8", errors="replace") as file:
                    self._read[name] = mark, earliest_expiry(file.read())
            return self._read[name][1]
        except (OSError, ValueError):
            return None  # `--check` and the log name a file that cannot be used
