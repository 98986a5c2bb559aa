"""A certificate authority of a stack or a test, and its certificates: PEM files, keys readable by their owner only."""

import ipaddress
import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

DAYS = 30
_BACKDATED = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Paths of a certificate and its key."""

    certificate: Path
    key: Path

    @property
    def together(self) -> Path:
        """One file with both, key first, for Kafka's Java (`ssl.keystore.type=PEM`)."""
        path = self.certificate.with_suffix(".both.pem")
        write_private(path, self.key.read_bytes() + self.certificate.read_bytes())
        return path


class Authority:
    """:ivar file: its own certificate."""

    def __init__(self, folder: Path, name: str = "Switchyard stack") -> None:
        """Create an authority. Its key stays in memory."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        begun = _begun(self._name, self._key, DAYS)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        own = begun.issuer_name(self._name).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        signed = own.add_extension(usage, critical=True).sign(self._key, SHA256())
        self.file = folder / "ca.pem"
        self.file.write_bytes(signed.public_bytes(Encoding.PEM))

    def issue(
        self,
        name: str,
        hosts: Collection[str] = (),
        *,
        organisation: str = "",
        days: int = DAYS,
        password: str = "",
        file: str = "",
    ) -> Certificate:
        """A certificate for `CN=name`, with `O=organisation` if that is given.

        :param hosts: server names and addresses that it is valid for.
        :param days: validity; below 0 it has expired.
        :param password: of the key; "": none.
        :param file: base name of the files; default: `name`.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation)] if organisation else []
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = _begun(subject, key, days).issuer_name(self._name)
        built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName(list(map(_alternative, hosts))), critical=False)
        certificate, secret = self._folder / f"{file or name}.pem", self._folder / f"{file or name}.key"
        certificate.write_bytes(built.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        sealed: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        write_private(secret, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
        return Certificate(certificate, secret)


def _begun(subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - _BACKDATED)
        .not_valid_after(end)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_private(path: Path, data: bytes) -> None:
    """A file that only its owner can read, from its creation on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)
