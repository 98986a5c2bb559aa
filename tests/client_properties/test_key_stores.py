"""Key stores and trust stores of Java clients: PEM, PKCS12 in files of any name, and JKS, which is refused."""

import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from ha_core.client_properties.key_stores import KeyStoreError, authorities, own
from ha_core.client_properties.settings import StoreSettings
from ha_core.tls.contexts import client_context
from ha_core.wire.tls_files import TlsPem
from stack.certificates import Authority, Certificate
from tests.client_properties.issuing import Issuer
from tests.client_properties.keytool import PASSWORD, converted, trust_store

TRUSTED = StoreSettings("ssl.truststore", is_pem=False, password=PASSWORD)
OWN = StoreSettings("ssl.keystore", is_pem=False, password=PASSWORD)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Certificate:
    return authority.issue("alice")


@pytest.fixture(scope="module")
def store(alice: Certificate, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alice's key in PKCS12, with the authority's certificate beside her own."""
    file = tmp_path_factory.mktemp("store") / "alice.p12"
    key = load_pem_private_key(alice.key.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(alice.certificate.read_bytes())
    issuer = x509.load_pem_x509_certificate(authority.file.read_bytes())
    sealed = BestAvailableEncryption(PASSWORD.encode())
    file.write_bytes(pkcs12.serialize_key_and_certificates(b"alice", key, certificate, [issuer], sealed))  # type: ignore[arg-type]
    return file


def usable(certificates: str, key: str) -> bool:
    """Whether OpenSSL takes both, and they belong together."""
    client_context(TlsPem(certificates=certificates, key=key))
    return "ENCRYPTED" not in key


def fault(read: Callable[[StoreSettings], object], settings: StoreSettings) -> str:
    with pytest.raises(KeyStoreError) as error:
        read(settings)
    assert PASSWORD not in str(error.value)
    assert "s3cret" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", ["trust.p12", "trust.jks"])
def test_keytools_trust_store_is_read_from_a_file_of_any_name(authority: Authority, tmp_path: Path, name: str) -> None:
    file = trust_store(tmp_path / name, authority.file)
    assert authorities(replace(TRUSTED, location=str(file))) == (authority.file.read_text(), [])


@pytest.mark.parametrize("kind", ["JKS", "JCEKS"])
@pytest.mark.parametrize("read", [authorities, own])
def test_stores_that_only_java_can_open_are_refused_with_the_command_that_converts_them(
    authority: Authority, store: Path, tmp_path: Path, kind: str, read: Callable[[StoreSettings], object]
) -> None:
    # Given a store in one of Java's own forms, under a name with a blank
    file = tmp_path / "alice's store.p12"
    (trust_store(file, authority.file, kind) if read is authorities else converted(file, store, kind))
    settings = replace(TRUSTED if read is authorities else OWN, location=str(file))
    # When it is read, then the text has the command
    told = fault(read, settings)
    quoted = "'" + str(file).replace("'", "'\"'\"'") + "'"
    assert told.startswith(f"{settings.key}.location={file}: its bytes are {kind}, whose cipher only Java has; convert")
    assert f"keytool -importkeystore -srckeystore {quoted} -srcstoretype {kind} -destkeystore" in told
    assert f"and set {settings.key}.location={file}" in told
    # And PEM, which a file says it is, has it as well
    assert f"its bytes are {kind}, not PEM; convert it by keytool" in fault(read, replace(settings, is_pem=True))


def test_a_key_store_gives_the_certificate_its_issuers_and_the_key(
    store: Path, alice: Certificate, authority: Authority, tmp_path: Path
) -> None:
    certificates, key = own(replace(OWN, location=str(store)))
    assert certificates == alice.certificate.read_text() + authority.file.read_text()
    assert usable(certificates, key)
    written_by_java = converted(tmp_path / "alice.jks", store, "PKCS12")
    assert own(replace(OWN, location=str(written_by_java))) == (certificates, key)


def test_a_certificate_chain_is_ordered_and_other_certificates_are_left_out(tmp_path: Path) -> None:
    root, other = Issuer("root"), Issuer("other")
    middle = root.issuer("middle")
    leaf = middle.issuer("leaf")
    file = tmp_path / "chain.p12"
    file.write_bytes(leaf.pkcs12(PASSWORD, [other, root, middle]))
    certificates, key = own(replace(OWN, location=str(file)))
    assert certificates == leaf.pem + middle.pem + root.pem
    assert usable(certificates, key)


def test_pem_is_read_from_one_file_or_from_the_properties(alice: Certificate, authority: Authority) -> None:
    pem, key = replace(OWN, is_pem=True, password=""), alice.key.read_text()
    expected = (alice.certificate.read_text(), key)
    assert own(replace(pem, location=str(alice.together))) == expected
    assert own(replace(pem, certificates=expected[0], private_key=key)) == expected
    # Java takes blocks in one line of a file, too
    chain, its_key = (" ".join(text.split("\n")) for text in (expected[0], key))
    assert own(replace(pem, certificates=chain, private_key=its_key)) == expected
    trusted = replace(TRUSTED, is_pem=True, password="")
    noted = f"0 the authority\n{authority.file.read_text()}some other text"
    assert authorities(replace(trusted, location=str(authority.file))) == (authority.file.read_text(), [])
    assert authorities(replace(trusted, certificates=noted)) == (authority.file.read_text(), [])


def test_a_key_with_a_password_is_opened_in_memory(authority: Authority) -> None:
    bob = authority.issue("bob", password="s3cret")
    pem = replace(OWN, is_pem=True, password="", location=str(bob.together))
    assert usable(*own(replace(pem, key_password="s3cret")))
    assert fault(own, pem).endswith("its private key has a password: set ssl.key.password")
    assert fault(own, replace(pem, key_password="s3crets")).endswith(
        "its private key cannot be read: ssl.key.password is wrong, or the key is damaged"
    )


def test_a_password_that_is_not_needed_is_reported(alice: Certificate) -> None:
    pem = replace(OWN, is_pem=True, password="", location=str(alice.together), key_password="s3cret")
    assert fault(own, pem).endswith("its private key has no password: remove ssl.key.password")


@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_wrong_password_of_a_store_is_reported_and_not_shown(store: Path, password: str) -> None:
    told = fault(own, replace(OWN, location=str(store), password=password))
    said = "ssl.keystore.password is wrong" if password else "ssl.keystore.password is not set"
    assert told.startswith(f"ssl.keystore.location={store}: does not open: {said}, or the file is damaged")


def test_stores_without_a_password_are_opened_without_one(tmp_path: Path) -> None:
    file = tmp_path / "open.p12"
    file.write_bytes(Issuer("root").issuer("leaf").pkcs12("", []))
    assert usable(*own(replace(OWN, location=str(file), password="")))


def test_a_trust_store_with_a_private_key_is_refused(store: Path) -> None:
    told = fault(authorities, replace(TRUSTED, location=str(store)))
    assert "holds a private key, so the trusted ones among its certificates are unknown; make a store" in told


def test_a_trust_store_needs_a_self_signed_certificate() -> None:
    root, other = Issuer("root"), Issuer("other")
    middle = root.issuer("middle")
    trusted = replace(TRUSTED, is_pem=True, password="")
    told = fault(authorities, replace(trusted, certificates=middle.pem))
    assert told.endswith(
        "none of its certificates is self-signed, and OpenSSL needs a self-signed one; add the certificate of CN=root"
    )
    assert authorities(replace(trusted, certificates=middle.pem + root.pem))[1] == []
    (remark,) = authorities(replace(trusted, certificates=middle.pem + other.pem))[1]
    assert remark.startswith(
        "ssl.truststore.*: CN=middle has no effect without the certificate of its issuer (CN=root)"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds 0 private keys; give it one"),
        ("{key}{key}{certificate}", "holds 2 private keys; give it one"),
        ("{key}", "holds no certificate; put the certificate beside its key"),
        ("{key}{authority}", "the key is not the one of the first certificate; put the key's own certificate first"),
        (
            "{key}-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "one of its certificates is damaged; export",
        ),
        (
            "{certificate}-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----",
            "key cannot be read: it is damaged",
        ),
        (
            "{key}-----BEGIN CERTIFICATE-----\nMIIB",
            "not valid PEM (a CERTIFICATE block does not end); give the whole text",
        ),
    ],
)
def test_incomplete_pem_is_reported(alice: Certificate, authority: Authority, text: str, said: str) -> None:
    parts = {"key": alice.key, "certificate": alice.certificate, "authority": authority.file}
    filled = text.format(**{name: file.read_text() for name, file in parts.items()})
    told = fault(own, replace(OWN, is_pem=True, password="", certificates=filled))
    assert told.startswith("ssl.keystore.*: ")
    assert said in told


def test_an_error_names_the_format_of_the_files_bytes(store: Path, alice: Certificate, tmp_path: Path) -> None:
    told = fault(own, replace(OWN, is_pem=True, password="", location=str(store)))
    assert told.endswith("its bytes are PKCS12, not PEM; set ssl.keystore.type=PKCS12")
    told = fault(own, replace(OWN, location=str(alice.together)))
    assert told.endswith("its bytes are PEM; set ssl.keystore.type=PEM")
    (tmp_path / "text").write_text("no store")
    assert fault(own, replace(OWN, location=str(tmp_path / "text"))).endswith("are not PKCS12; name a key store")


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    told = fault(own, replace(OWN, location=str(missing)))
    assert told == f"ssl.keystore.location={missing}: No such file or directory; give the path of a readable file"
    assert "is not a path" in fault(own, replace(OWN, location="\0"))
    with (tmp_path / "long").open("wb") as file:
        file.truncate(5 << 20)
    assert "longer than 4194304 bytes; this is not a key store" in fault(
        own, replace(OWN, location=str(tmp_path / "long"))
    )


def test_a_trust_store_without_certificates_is_refused(tmp_path: Path) -> None:
    told = fault(authorities, replace(TRUSTED, is_pem=True, password="", certificates="none"))
    assert told == "ssl.truststore.*: holds no certificate; name a store with the authority's certificate"


def test_making_a_tls_context_writes_no_key_material_to_a_file(
    store: Path, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    certificates, key = own(replace(OWN, location=str(store)))
    pem = TlsPem(authority.file.read_text(), certificates, key, check_names=False)
    context = client_context(pem)
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert list(tmp_path.iterdir()) == []
    assert key not in repr(pem)
