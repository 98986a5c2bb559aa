"""Reads key stores and trust stores of Java clients: PEM, and PKCS12 in files of any name.

A file's bytes tell its format, because since Java 9 keytool writes PKCS12 into files named `.jks`, too. JKS itself has
a cipher that only Java knows; it is refused, with the command that converts it.
"""

import shlex
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from ha_core.client_properties.pem import PemBlock, PemError, blocks
from ha_core.client_properties.settings import StoreSettings

_LOCATIONS = ("ssl.truststore.location", "ssl.keystore.location")
_MAX_FILE_BYTES = 4 * 1024 * 1024
_JAVA_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE")
_PEM = b"-----BEGIN"
_MOST_IN_CHAIN = 20
_REFUSED = (ValueError, TypeError, UnsupportedAlgorithm)
"""Errors that the library raises for bytes that it cannot read."""


class KeyStoreError(Exception):
    """A store cannot be used. The text names its key or file, the fault and the way out, and never a password."""


def authorities(store: StoreSettings) -> tuple[str, list[str]]:
    """Certificates of accepted authorities in PEM, and remarks.

    :raises KeyStoreError: the store cannot be used.
    """
    place = _place(store)
    if store.is_pem:
        found = _certificates(_pem_blocks(store, store.certificates), place)
    else:
        stored = _pkcs12(store)
        if stored.key is not None:
            raise KeyStoreError(
                f"{place}: holds a private key, so the trusted ones among its certificates are unknown; make a store "
                "with only the authorities' certificates (keytool -importcert), and name that store"
            )
        found = [each.certificate for each in stored.additional_certs]
    if not found:
        raise KeyStoreError(f"{place}: holds no certificate; name a store with the authority's certificate")
    return _pem(found), _without_roots(found, place)


def own(store: StoreSettings) -> tuple[str, str]:
    """This side's certificate with its intermediate ones, and its key without a password, both in PEM.

    :raises KeyStoreError: the store cannot be used.
    """
    place = _place(store)
    if store.is_pem:
        found = _pem_blocks(store, f"{store.private_key}\n{store.certificates}")
        key, chain = _private_key(found, store, place), _certificates(found, place)
        if not chain:
            raise KeyStoreError(f"{place}: holds no certificate; put the certificate beside its key")
        if _public(chain[0].public_key()) != _public(key.public_key()):
            raise KeyStoreError(
                f"{place}: the key is not the one of the first certificate; put the key's own certificate first"
            )
    else:
        stored = _pkcs12(store)
        if stored.key is None or stored.cert is None:
            raise KeyStoreError(f"{place}: holds no private key with its certificate; name a store that has both")
        key = stored.key
        chain = _chain(stored.cert.certificate, [each.certificate for each in stored.additional_certs])
    return _pem(chain), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def store_digests(clusters: Mapping[str, Mapping[str, str]]) -> dict[str, bytes]:
    """File of a store → digest of its bytes, so that a renewed one is found; empty: it cannot be read now.

    :param clusters: cluster → properties of a Java client.
    """
    files = {its[key] for its in clusters.values() for key in _LOCATIONS if its.get(key)}
    return {file: _digest(file) for file in sorted(files)}


def _digest(file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return sha256(opened.read(_MAX_FILE_BYTES + 1)).digest()
    except (OSError, ValueError):
        return b""


def _place(store: StoreSettings) -> str:
    return f"{store.key}.location={store.location}" if store.location else f"{store.key}.*"


def _read(store: StoreSettings) -> bytes:
    try:
        with Path(store.location).open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise KeyStoreError(f"{_place(store)}: {error.strerror}; give the path of a readable file") from None
    except ValueError:
        raise KeyStoreError(f"{store.key}.location is not a path; give the path of a readable file") from None
    if len(data) > _MAX_FILE_BYTES:
        raise KeyStoreError(f"{_place(store)}: longer than {_MAX_FILE_BYTES} bytes; this is not a key store")
    return data


def _pem_blocks(store: StoreSettings, inline: str) -> list[PemBlock]:
    place = _place(store)
    data = _read(store) if store.location else inline.encode()
    if _PEM not in data and (kind := _kind(data)):
        raise KeyStoreError(f"{place}: its bytes are {kind}, not PEM; {_instead(kind, store)}")
    try:
        return list(blocks(data.decode("utf-8", "replace")))
    except PemError as error:
        raise KeyStoreError(f"{place}: not valid PEM ({error}); give the whole text") from None


def _kind(data: bytes) -> str:
    """The format of a store, by its first bytes; empty: another format, such as PEM."""
    return _JAVA_STORES.get(data[:4], "PKCS12" if data[:1] == b"\x30" else "")


def _instead(kind: str, store: StoreSettings) -> str:
    """The way out for a store of this format."""
    if kind == "PKCS12":
        return f"set {store.key}.type=PKCS12"
    target = str(Path(store.location).with_suffix(".p12"))
    return (
        f"convert it by keytool -importkeystore -srckeystore {shlex.quote(store.location)} -srcstoretype {kind} "
        f"-destkeystore {shlex.quote(target)} -deststoretype PKCS12, and set {store.key}.location={target} and "
        f"{store.key}.type=PKCS12"
    )


def _pkcs12(store: StoreSettings) -> pkcs12.PKCS12KeyAndCertificates:
    place, data = _place(store), _read(store)
    kind = _kind(data)
    if kind in _JAVA_STORES.values():
        raise KeyStoreError(f"{place}: its bytes are {kind}, whose cipher only Java has; {_instead(kind, store)}")
    if _PEM in data:
        raise KeyStoreError(f"{place}: its bytes are PEM; set {store.key}.type=PEM")
    if kind != "PKCS12":
        raise KeyStoreError(f"{place}: its bytes are not PKCS12; name a key store")
    passwords = (store.password.encode(),) if store.password else (None, b"")
    for password in passwords:
        try:
            return pkcs12.load_pkcs12(data, password)
        except _REFUSED:
            continue
    said = f"{store.key}.password is wrong" if store.password else f"{store.key}.password is not set"
    raise KeyStoreError(f"{place}: does not open: {said}, or the file is damaged or has a cipher that OpenSSL lacks")


def _certificates(found: Sequence[PemBlock], place: str) -> list[x509.Certificate]:
    try:
        return [x509.load_pem_x509_certificate(one.text.encode()) for one in found if one.label in _CERTIFICATES]
    except _REFUSED:
        raise KeyStoreError(f"{place}: one of its certificates is damaged; export it once more") from None


def _private_key(found: Sequence[PemBlock], store: StoreSettings, place: str) -> PrivateKeyTypes:
    keys = [one for one in found if one.label.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise KeyStoreError(f"{place}: holds {len(keys)} private keys; give it one")
    password = store.key_password.encode() or None
    try:
        return load_pem_private_key(keys[0].text.encode(), password)
    except TypeError:
        text = "has no password: remove ssl.key.password" if password else "has a password: set ssl.key.password"
        raise KeyStoreError(f"{place}: its private key {text}") from None
    except (ValueError, UnsupportedAlgorithm):
        text = "ssl.key.password is wrong, or the key" if password else "it"
        raise KeyStoreError(f"{place}: its private key cannot be read: {text} is damaged") from None


def _chain(first: x509.Certificate, others: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The certificate, then those of its issuers that are there. The order inside PKCS12 has no meaning."""
    chain = [first]
    while len(chain) < _MOST_IN_CHAIN and chain[-1].issuer != chain[-1].subject:
        issuer = next((other for other in others if _issued(other, chain[-1])), None)
        if issuer is None:
            break
        chain.append(issuer)
    return chain


def _issued(issuer: x509.Certificate, issued: x509.Certificate) -> bool:
    try:
        issued.verify_directly_issued_by(issuer)
    except (InvalidSignature, *_REFUSED):
        return False
    return True


def _without_roots(found: Sequence[x509.Certificate], place: str) -> list[str]:
    """Remarks about authorities whose own issuers are not trusted. For Java any certificate is a trust anchor; for
    OpenSSL only a self-signed one is, and librdkafka has no setting for that."""
    subjects = {each.subject for each in found}
    loose = [each for each in found if each.issuer not in subjects]
    if not any(each.issuer == each.subject for each in found):
        issuers = ", ".join(sorted({each.issuer.rfc4514_string() for each in loose}))
        raise KeyStoreError(
            f"{place}: none of its certificates is self-signed, and OpenSSL needs a self-signed one; add the "
            f"certificate of {issuers}"
        )
    return [
        f"{place}: {each.subject.rfc4514_string()} has no effect without the certificate of its issuer "
        f"({each.issuer.rfc4514_string()}); add the issuer's if it has signed brokers' certificates"
        for each in loose
    ]


def _public(key: object) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
    return encoded


def _pem(certificates: Sequence[x509.Certificate]) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode("ascii") for each in certificates)
