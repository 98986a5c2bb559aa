"""Certificates in memory whose authorities were issued by others."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    pkcs12,
)
from cryptography.x509.oid import NameOID


class Issuer:
    """A certificate with its key; may issue others."""

    def __init__(self, name: str, by: "Issuer | None" = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        self.certificate: x509.Certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if by is None else by.certificate.subject)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key if by is None else by._key, SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode("ascii")

    def issuer(self, name: str) -> "Issuer":
        return Issuer(name, self)

    def pkcs12(self, password: str, others: Sequence["Issuer"]) -> bytes:
        """:param password: empty: none."""
        sealed: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        beside = [other.certificate for other in others]
        return pkcs12.serialize_key_and_certificates(b"own", self._key, self.certificate, beside, sealed)
