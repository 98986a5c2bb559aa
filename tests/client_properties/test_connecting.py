"""Connections from properties: one error with all faults, librdkafka's settings, logins to a scripted broker by TLS."""

import json
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from ha_core.client_properties.connecting import ClusterConnection, connections
from ha_core.client_properties.librdkafka import LibrdkafkaSettings
from ha_core.flows.configuration import ConfigurationError
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import TlsRefusedError
from ha_core.tls.contexts import Certificates, server_context
from ha_core.wire.codes import ApiKey
from ha_core.wire.sasl_oauth import parse_initial
from ha_core.wire.tls_files import TlsFiles
from stack.certificates import Authority
from tests.kafka.scripted_broker import Answer, answered, broker, header_of, listening

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="s3cret";'
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
HOST = "127.0.0.1"
VERSIONS = {
    **{ApiKey.API_VERSIONS: (0, 3), ApiKey.METADATA: (1, 1)},
    **{ApiKey.SASL_HANDSHAKE: (1, 1), ApiKey.SASL_AUTHENTICATE: (1, 1)},
}


def connection(properties: dict[str, str]) -> ClusterConnection:
    return connections({"": properties}, "client.properties")[0][""]


def token(**claims: Any) -> str:
    parts = ({"alg": "none"}, claims)
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".c2ln"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def stores(authority: Authority) -> dict[str, str]:
    """Properties with a certificate in PEM."""
    own = authority.issue("alice")
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.together),
    }


def test_one_error_lists_all_faults_of_all_clusters(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    faulty = {
        "A": {"bootstrap.servers": "a", "security.protocol": "SSL", "ssl.provider": "a.B"},
        "US-East.1": {
            "bootstrap.servers": "b:9092",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": BEARER,
            "sasl.oauthbearer.token.endpoint.url": f"file://{missing}",
            "ssl.truststore.location": missing,
            "ssl.keystore.location": missing,
            "ssl.keystore.password": "s3cret",
        },
    }
    with pytest.raises(ConfigurationError) as error:
        connections(faulty, "mm2.properties")
    lines = str(error.value).splitlines()
    assert lines[0] == "mm2.properties cannot be used:"
    assert [line.split("=")[0].split(": ")[:2] for line in lines[1:]] == [
        ["- cluster A", "ssl.provider"],
        ["- cluster A", "bootstrap.servers"],
        ["- cluster US-East.1", "sasl.oauthbearer.token.endpoint.url"],
        ["- cluster US-East.1", "ssl.truststore.location"],
        ["- cluster US-East.1", "ssl.keystore.location"],
    ]
    assert "s3cret" not in str(error.value)


def test_librdkafka_gets_certificates_and_keys_in_memory(stores: dict[str, str], authority: Authority) -> None:
    properties = {
        **stores,
        "bootstrap.servers": "PLAINTEXT://a:9092,b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN,
        "client.id": "mm2",
        "request.timeout.ms": "45000",
    }
    found = connection(properties)
    settings = found.librdkafka()
    certificate, key = (settings.pop(name) for name in ("ssl.certificate.pem", "ssl.key.pem"))
    assert settings == {
        "bootstrap.servers": "a:9092,b:9092",
        "client.id": "mm2",
        "sasl.mechanism": "PLAIN",
        "sasl.password": "s3cret",
        "sasl.username": "alice",
        "security.protocol": "SASL_SSL",
        "socket.timeout.ms": 45000,
        "ssl.ca.pem": authority.file.read_text(),
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert certificate.startswith("-----BEGIN CERTIFICATE-----")
    assert key.startswith("-----BEGIN PRIVATE KEY-----")
    assert "ssl.key.pem" in found.librdkafka()
    for shown in (repr(found), repr(found.librdkafka()), repr(found.librdkafka() | {"group.id": "g"})):
        assert "s3cret" not in shown
        assert key not in shown


@pytest.mark.parametrize(("written", "timeout_ms"), [("1", 10), ("2147483647", 300_000)])
def test_a_timeout_is_limited_to_librdkafkas_range(written: str, timeout_ms: int) -> None:
    found = connection({"bootstrap.servers": "a:9092", "request.timeout.ms": written})
    assert found.librdkafka()["socket.timeout.ms"] == timeout_ms


def test_without_a_trust_store_the_systems_authorities_are_trusted() -> None:
    found = connection({"bootstrap.servers": "a:9092", "security.protocol": "SSL"})
    assert found.librdkafka()["ssl.ca.location"] == "probe"
    assert found.profile.tls is not None


@pytest.mark.parametrize("said", ["token.of.anything", "opaque", "a.bm90IGpzb24.c", "a.MQ.c"])
def test_a_token_without_an_expiry_time_is_read_again_soon(tmp_path: Path, said: str) -> None:
    (tmp_path / "token").write_text(said)
    current = bearer(tmp_path / "token").librdkafka()["oauth_cb"]
    found, end = current("")
    assert found == said
    assert 0 < end - time.time() <= 60


def test_a_token_is_read_at_each_login_with_its_expiry_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token(exp=1_900_000_000))
    current = bearer(file).librdkafka()["oauth_cb"]
    assert current("") == (token(exp=1_900_000_000), 1.9e9)
    file.write_text(token(exp=1_900_000_001.5) + "\n")
    assert current("") == (token(exp=1_900_000_001.5), 1_900_000_001.5)


def bearer(file: Path, bootstrap: str = "a:9092") -> ClusterConnection:
    return connection(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": BEARER,
            "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        }
    )


class Visitors:
    """A broker without topics that notes the bytes of logins.

    :ivar port: its own, which METADATA answers name. librdkafka closes the connection to a bootstrap broker that no
        answer names, and a request that waits on it then fails with `_TRANSPORT`.
    """

    def __init__(self) -> None:
        self.logins: list[bytes] = []
        self.port = 0

    @contextmanager
    def visited(self, context: ssl.SSLContext | None = None) -> Iterator[int]:
        with listening(self._answer(), context) as self.port:
            yield self.port

    def _answer(self) -> Answer:
        def then(frame: bytes) -> bytes | None:
            key = header_of(frame).api_key
            if key == ApiKey.SASL_HANDSHAKE:
                return answered(frame, {"mechanisms": ["PLAIN", "OAUTHBEARER"]})
            if key == ApiKey.SASL_AUTHENTICATE:
                self.logins.append(frame)
                return answered(frame, {"auth_bytes": b""})
            here = {"node_id": 1, "host": HOST, "port": self.port, "rack": None}
            return answered(frame, {"brokers": [here], "controller_id": 1, "topics": []})

        return broker(VERSIONS, then)


def raw(found: ClusterConnection, timeout_s: float = 20) -> None:
    host, _, port = found.bootstrap.partition(":")
    with closing(BlockingConnection("A", host, int(port), found.profile, Deadline.after(timeout_s))) as one:
        one.call(ApiKey.METADATA, {"topics": None})


def by_producer(found: ClusterConnection, timeout_s: float = 20) -> None:
    Producer(found.librdkafka() | {"log_level": 0}).list_topics(timeout=timeout_s)


def by_consumer(found: ClusterConnection, timeout_s: float = 20) -> None:
    with closing(Consumer(found.librdkafka() | {"log_level": 0, "group.id": "g"})) as consumer:
        consumer.list_topics(timeout=timeout_s)


EACH = pytest.mark.parametrize("ask", [raw, by_producer, by_consumer])


@EACH
def test_each_client_presents_its_certificate(stores: dict[str, str], authority: Authority, ask: Any) -> None:
    own = authority.issue("broker", [HOST])
    context = server_context(TlsFiles(str(authority.file), str(own.certificate), str(own.key)), Certificates.REQUIRED)
    context.sslsocket_class = ssl.SSLSocket
    with Visitors().visited(context) as port:
        ask(connection({**stores, "bootstrap.servers": f"{HOST}:{port}"}))


@EACH
@pytest.mark.parametrize("checked", [True, False])
def test_names_of_brokers_are_checked_unless_the_algorithm_is_empty(
    stores: dict[str, str], authority: Authority, ask: Any, checked: bool
) -> None:
    own = authority.issue("broker", ["broker.example"])
    context = server_context(TlsFiles(None, str(own.certificate), str(own.key)), Certificates.NONE)
    context.sslsocket_class = ssl.SSLSocket
    algorithm = {} if checked else {"ssl.endpoint.identification.algorithm": ""}
    with Visitors().visited(context) as port:
        found = connection({**stores, **algorithm, "bootstrap.servers": f"{HOST}:{port}", "client.id": "mm2"})
        if not checked:
            ask(found)
        else:
            with pytest.raises((TlsRefusedError, KafkaException)):
                ask(found, 2)


@EACH
def test_each_client_logs_in_with_the_token_of_the_file(tmp_path: Path, ask: Any) -> None:
    said = token(sub="alice", exp=time.time() + 3600)
    (tmp_path / "token").write_text(said)
    visitors = Visitors()
    with visitors.visited() as port:
        ask(bearer(tmp_path / "token", f"{HOST}:{port}"))
    (login, *_) = visitors.logins
    assert parse_initial(login[login.index(b"n,") :]).token == said


def test_the_repr_of_joined_settings_shows_no_value() -> None:
    joined = LibrdkafkaSettings({"a": "s3cret"}) | {"b": 1}
    assert repr(joined) == "LibrdkafkaSettings(a, b)"
    assert joined == {"a": "s3cret", "b": 1}
