"""TLS to brokers: blocking, for commands, tasks and jobs, and non-blocking, for gateways."""

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.upstream.broker import BrokerConnection
from gateway.upstream.decoding import Decoder
from gateway.upstream.dial import DialError, dial
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import KafkaAdminError, SecurityProfileError, TlsRefusedError
from ha_core.kafka.security import fields_of, profiles
from ha_core.kafka.stream import BufferPool, Stream
from ha_core.tls.contexts import Certificates, TlsFilesError, client_context, server_context
from ha_core.wire.codes import ApiKey
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles, TlsPem
from stack.certificates import Authority, Certificate
from tests.kafka.scripted_broker import Answer, answered, broker, header_of, listening

HOST = "127.0.0.1"
VERSIONS = {ApiKey.METADATA: (1, 1), ApiKey.SASL_HANDSHAKE: (1, 1), ApiKey.SASL_AUTHENTICATE: (1, 1)}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def served(authority: Authority, own: Certificate, certificates: Certificates = Certificates.NONE) -> ssl.SSLContext:
    context = server_context(TlsFiles(str(authority.file), str(own.certificate), str(own.key)), certificates)
    context.sslsocket_class = ssl.SSLSocket
    return context


def replying(topics: int = 1) -> Answer:
    """A broker that accepts any account and has this number of topics."""

    def then(frame: bytes) -> bytes | None:
        key = header_of(frame).api_key
        if key == ApiKey.SASL_HANDSHAKE:
            return answered(frame, {"mechanisms": ["PLAIN"]})
        if key == ApiKey.SASL_AUTHENTICATE:
            return answered(frame, {"auth_bytes": b""})
        return answered(frame, {"topics": [{"name": f"topic-{number}", "partitions": []} for number in range(topics)]})

    return broker(VERSIONS, then)


def waiting(port: int, profile: SecurityProfile, seconds: int = 30) -> int:
    """Number of topics, read like a command."""
    with closing(BlockingConnection("east", HOST, port, profile, Deadline.after(seconds))) as connection:
        return len(connection.call(ApiKey.METADATA, {"topics": None})["topics"])


def not_waiting(port: int, profile: SecurityProfile, seconds: int = 30) -> int:
    """Number of topics, read like a gateway."""

    async def ask() -> int:
        connection = BrokerConnection(
            lambda: dial((HOST, port), profile, "gateway", 1000 * seconds), "gateway", Decoder(DEFAULT_LIMITS)
        )
        try:
            return len((await connection.request(ApiKey.METADATA, {"topics": None}))["topics"])
        finally:
            connection.close("that was all")

    return asyncio.run(ask())


BOTH = pytest.mark.parametrize("ask", [waiting, not_waiting])
Ask = Callable[..., int]


@BOTH
@pytest.mark.parametrize("login", [True, False])
def test_requests_go_over_tls_with_a_login_or_without(authority: Authority, ask: Ask, login: bool) -> None:
    tls = TlsFiles(ca_file=str(authority.file))
    profile = SecurityProfile("PLAIN", "svc", "s3cret", tls) if login else SecurityProfile(tls=tls)
    with listening(replying(), served(authority, authority.issue("broker", [HOST]))) as port:
        assert ask(port, profile) == 1


@BOTH
def test_an_answer_of_many_records_comes_whole(authority: Authority, ask: Ask) -> None:
    with listening(replying(topics=20_000), served(authority, authority.issue("broker", [HOST]))) as port:
        assert ask(port, SecurityProfile(tls=TlsFiles(ca_file=str(authority.file)))) == 20_000


@BOTH
def test_brokers_that_require_a_certificate_get_one(authority: Authority, ask: Ask) -> None:
    own = authority.issue("switchyard")
    tls = TlsFiles(str(authority.file), str(own.certificate), str(own.key))
    context = served(authority, authority.issue("broker", [HOST]), Certificates.REQUIRED)
    with listening(replying(), context) as port:
        assert ask(port, SecurityProfile(tls=tls)) == 1


def _another(folder: Path) -> Authority:
    return Authority(folder / "another", "Another")


FAULTS: dict[str, tuple[Callable[[Authority, Path], Any], str]] = {
    "another authority": (
        lambda _, folder: served(_another(folder), _another(folder).issue("broker", [HOST])),
        "its certificate is not accepted: ",
    ),
    "another name": (
        lambda authority, _: served(authority, authority.issue("broker", ["broker.example", "127.0.0.2"])),
        "its certificate is not accepted: IP address mismatch",
    ),
    "expired": (
        lambda authority, _: served(authority, authority.issue("broker", [HOST], days=-1)),
        "its certificate is not accepted: certificate has expired",
    ),
    "a certificate wanted": (
        lambda authority, _: served(authority, authority.issue("broker", [HOST]), Certificates.REQUIRED),
        "certificate",
    ),
    "no tls": (lambda *_: None, "TLS"),
}


@BOTH
@pytest.mark.parametrize("case", FAULTS)
def test_tls_mismatch_is_explained(authority: Authority, tmp_path: Path, ask: Ask, case: str) -> None:
    make, said = FAULTS[case]
    answer = (lambda _: b"\0\0\0\5junks") if case == "no tls" else replying()
    profile = SecurityProfile("PLAIN", "svc", "s3cret", TlsFiles(ca_file=str(authority.file)))
    with listening(answer, make(authority, tmp_path)) as port, pytest.raises((KafkaAdminError, DialError)) as caught:
        ask(port, profile, 1 if case == "no tls" else 30)
    assert said in str(caught.value)
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_profile_whose_files_cannot_be_used_names_the_file(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    profile = SecurityProfile(tls=TlsFiles(ca_file=missing))
    with listening(lambda _: None) as port:
        with pytest.raises(TlsRefusedError, match="No such file"):
            waiting(port, profile)
        with pytest.raises(DialError, match="No such file"):
            not_waiting(port, profile)


def test_nonblocking_connection_reads_deciphered_bytes(authority: Authority) -> None:
    # Given a broker that gives all its answers in one record, when it has been asked for the last
    held: list[bytes] = []

    def together(frame: bytes) -> bytes | None:
        held.append(answered(frame, {"topics": []}))
        return b"".join(held) if len(held) == 60 else b""

    context = served(authority, authority.issue("broker", [HOST]))
    with listening(broker(VERSIONS, together), context) as port:
        profile = SecurityProfile(tls=TlsFiles(ca_file=str(authority.file)))
        with closing(
            Stream(BlockingConnection("east", HOST, port, profile, Deadline.after(10)), BufferPool(0))
        ) as stream:
            for _ in range(60):
                stream.send(ApiKey.METADATA, {"topics": None})
            # When a selector reports readability once
            answers, until = 0, time.monotonic() + 10
            while not answers and time.monotonic() < until:
                answers += len(list(stream.read()))
            # Then all of them are read
            assert answers == 60


def test_profile_with_tls_is_passed_on_as_it_was_read(tmp_path: Path) -> None:
    named = {
        "open": {},
        "tls": {"tls": {"ca_file": "ca.pem"}},
        "both": {"mechanism": "PLAIN", "username": "svc", "password": "s3cret", "tls": {"certificate_file": "/a.pem"}},
    }
    security_profiles = profiles(named, "security.yaml", tmp_path)
    assert security_profiles["tls"] == SecurityProfile(tls=TlsFiles(ca_file=str(tmp_path / "ca.pem")))
    assert (
        profiles({name: fields_of(profile) for name, profile in security_profiles.items()}, "told") == security_profiles
    )


def test_a_profile_with_certificates_in_memory_is_not_passed_on() -> None:
    profile = SecurityProfile(tls=TlsPem(certificates="own", key="s3cret"), declared_in="mm2.properties")
    with pytest.raises(SecurityProfileError, match=r"mm2.properties: its certificates are in no PEM files") as error:
        fields_of(profile)
    assert "s3cret" not in str(error.value)


def test_certificates_in_memory_that_openssl_does_not_take_are_told_without_them() -> None:
    for pem in (TlsPem(authorities="no s3cret"), TlsPem(certificates="no s3cret", key="s3cret")):
        with pytest.raises(TlsFilesError, match=r"^certificates in memory cannot be used \(") as error:
            client_context(pem)
        assert "s3cret" not in str(error.value)
