"""TLS files: errors are named, and changes take effect."""

import logging
import os
from pathlib import Path

import pytest
from cryptography import x509

from ha_core.tls.contexts import Certificates, TlsFilesError, client_context, file_names, named_files, server_context
from ha_core.tls.expiry import CertificateExpiry
from ha_core.tls.renewing import LOOK_EVERY_S, Renewing
from ha_core.wire.tls_files import TlsFiles
from stack.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_the_end_of_a_certificate_is_read_from_its_file_and_again_when_the_file_changes(tmp_path: Path) -> None:
    expected, file = [], tmp_path / "own.pem"
    for folder, days in (("long", 100), ("short", 3)):
        (tmp_path / folder).mkdir()
        issued = Authority(tmp_path / folder).issue("own", days=days)
        expected.append(x509.load_pem_x509_certificate(issued.certificate.read_bytes()).not_valid_after_utc.timestamp())
    file.write_text((tmp_path / "long" / "own.pem").read_text())
    expiry = CertificateExpiry({"clients": TlsFiles(certificate_file=str(file)), "zookeeper": None})

    found = [expiry.found()]
    file.write_text((tmp_path / "short" / "own.pem").read_text())
    found.append(expiry.found())
    file.write_text("no certificate")
    found.append(expiry.found())

    assert found == [{"clients": expected[0]}, {"clients": expected[1]}, {}]


def fault(files: TlsFiles) -> str:
    with pytest.raises(TlsFilesError) as caught:
        client_context(files)
    return str(caught.value)


def test_an_error_in_a_file_is_named(authority: Authority, tmp_path: Path) -> None:
    # Given files that cannot be used
    certificate, other = authority.issue("one"), authority.issue("other")
    sealed = authority.issue("sealed", password="s3cret")
    (tmp_path / "junk.pem").write_text("no certificate")
    (tmp_path / "password").write_text("wrong\n")
    junk, missing = str(tmp_path / "junk.pem"), str(tmp_path / "missing.pem")
    own, key = str(certificate.certificate), str(certificate.key)
    # Then each is named with the remedy
    assert fault(TlsFiles(ca_file=missing)) == f"{missing}: No such file or directory; give the path of a readable file"
    assert "holds no certificates in PEM form" in fault(TlsFiles(ca_file=junk))
    assert "holds no certificate in PEM form" in fault(TlsFiles(certificate_file=junk, key_file=key))
    assert "holds no private key in PEM form" in fault(TlsFiles(certificate_file=own, key_file=junk))
    assert "holds no private key in PEM form" in fault(TlsFiles(certificate_file=own))
    assert "is not the key of the certificate" in fault(TlsFiles(certificate_file=own, key_file=str(other.key)))
    secret = TlsFiles(certificate_file=str(sealed.certificate), key_file=str(sealed.key))
    assert "its password is not given" in fault(secret)
    wrong = TlsFiles(None, secret.certificate_file, secret.key_file, str(tmp_path / "password"))
    assert "its password is another one" in fault(wrong)


def test_a_key_with_a_password_is_opened_by_the_first_line_of_a_file(authority: Authority, tmp_path: Path) -> None:
    sealed = authority.issue("sealed", password="s3cret")
    (tmp_path / "password").write_text("s3cret\nno part of it\n")
    files = TlsFiles(None, str(sealed.certificate), str(sealed.key), str(tmp_path / "password"))
    client_context(files)


def test_a_server_needs_a_certificate_and_an_authority_to_verify_clients(authority: Authority) -> None:
    with pytest.raises(TlsFilesError, match="a server needs a certificate_file"):
        server_context(TlsFiles(), Certificates.NONE)
    certificate = authority.issue("one")
    with pytest.raises(TlsFilesError, match="verified by those of an authority"):
        server_context(TlsFiles(None, str(certificate.certificate), str(certificate.key)), Certificates.REQUIRED)


def test_names_of_files_are_relative_to_the_file_that_names_them() -> None:
    files = named_files({"ca_file": "ca.pem", "certificate_file": "/etc/a.pem"}, "profile x: tls", Path("/conf"))
    assert files == TlsFiles("/conf/ca.pem", "/etc/a.pem")
    assert named_files(file_names(files), "", Path()) == files
    assert named_files({}, "", Path()) == TlsFiles()


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("ca.pem", "holds str"),
        ({"cafile": "x"}, "cafile: no such key. Known: ca_file"),
        ({"ca_file": 5}, "ca_file: 5 is not the name of a file"),
        ({"ca_file": ""}, "is not the name of a file"),
        ({"key_file": "x"}, "key_file needs a certificate_file"),
    ],
)
def test_invalid_names_of_files_are_refused_with_a_reason(found: object, why: str) -> None:
    with pytest.raises(TlsFilesError, match=why):
        named_files(found, "profile x: tls", Path())


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_changed_files_are_read_again_and_broken_ones_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Given something that is made of a file
    caplog.set_level(logging.INFO)
    file, clock = tmp_path / "file", Clock()

    def make() -> str:
        text = file.read_text()
        if text == "broken":
            raise TlsFilesError(f"{file}: is broken")
        return text

    def change(text: str) -> None:
        new = file.with_suffix(".new")
        new.write_text(text)
        os.replace(new, file)

    def later() -> str:
        clock.now += LOOK_EVERY_S
        return made.current()

    file.write_text("first")
    made = Renewing([str(file)], make, clock)
    # When it changes
    change("second")
    # Then that is seen within a second, and not looked for before
    assert made.current() == "first"
    assert later() == "second"
    # When it is broken, or away
    change("broken")
    assert [later(), later(), later()] == ["second"] * 3
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        f"TLS goes on with the files as they were: {file}: is broken"
    ]
    # Then the next good one is in force
    change("third")
    assert later() == "third"


def test_files_that_were_never_valid_are_an_error_at_once(tmp_path: Path) -> None:
    files = TlsFiles(ca_file=str(tmp_path / "missing"))
    with pytest.raises(TlsFilesError, match="No such file"):
        Renewing(files.named(), lambda: client_context(files))
