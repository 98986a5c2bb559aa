"""One file connects raw requests, librdkafka and Kafka's own Java tools to real clusters with TLS and logins."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from ha_core.flows.configuration import configuration
from ha_core.flows.properties import parse
from ha_core.kafka.errors import AuthenticationRefusedError
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror_client import MirrorClient, java_properties
from ha_core.mirror_maker.clusters import FlowClusters
from stack.harness import Stack
from tests.client_properties.keytool import PASSWORD, trust_store
from tests.kit import tools
from tests.kit.running import bootstrap

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
USER, SECRET = "mirror maker", 'with "quotes" and \\ 1/2'
MODULES = "org.apache.kafka.common.security"
CLUSTERS = {"US-East.1": "east", "B": "west"}
"""Alias → cluster of the stack."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=0, security="tls") as running:
        yield running


@pytest.fixture(scope="module")
def file(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file: US-East.1 with PLAIN and PKCS12 in files named .jks, B with SCRAM and PEM in the file itself."""
    assert stack.service is not None
    assert stack.tls is not None
    folder = tmp_path_factory.mktemp("stores")
    authority, own = Path(stack.tls["ca_file"]), next(iter(stack.tls["clients"].values()))
    certificate, key = Path(own["certificate_file"]).read_bytes(), Path(own["key_file"]).read_bytes()
    trusted = trust_store(folder / "trust.jks", authority)
    sealed = BestAvailableEncryption(PASSWORD.encode())
    loaded = load_pem_private_key(key, None), x509.load_pem_x509_certificate(certificate)
    (folder / "own.jks").write_bytes(pkcs12.serialize_key_and_certificates(b"own", *loaded, None, sealed))  # type: ignore[arg-type]
    text = f"""
clusters = US-East.1, B
security.protocol = SASL_SSL
client.id = mm2
request.timeout.ms = 20000
US-East.1.bootstrap.servers = {bootstrap(stack, "east")}
US-East.1.sasl.mechanism = PLAIN
US-East.1.sasl.jaas.config = {login("plain.PlainLoginModule", stack.service["user"], stack.service["password"])}
US-East.1.ssl.truststore.location = {trusted}
US-East.1.ssl.truststore.password = {PASSWORD}
US-East.1.ssl.keystore.location = {folder / "own.jks"}
US-East.1.ssl.keystore.password = {PASSWORD}
B.bootstrap.servers = {bootstrap(stack, "west")}
B.sasl.mechanism = SCRAM-SHA-512
B.sasl.jaas.config = {login("scram.ScramLoginModule", USER, SECRET)}
B.ssl.truststore.type = PEM
B.ssl.truststore.certificates = {in_one_line(authority.read_text())}
B.ssl.keystore.type = PEM
B.ssl.keystore.certificate.chain = {in_one_line(certificate.decode())}
B.ssl.keystore.key = {in_one_line(key.decode())}
"""
    by_service = text.replace("B.sasl.mechanism = SCRAM-SHA-512", "B.sasl.mechanism = PLAIN").replace(
        login("scram.ScramLoginModule", USER, SECRET),
        login("plain.PlainLoginModule", stack.service["user"], stack.service["password"]),
    )
    made = UserScramCredentialUpsertion(USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), SECRET.encode())
    admin = AdminClient(clusters(by_service).librdkafka("B"))
    admin.alter_user_scram_credentials([made])[USER].result(30)
    return text


def login(module: str, user: str, password: str) -> str:
    """A login module as a properties file has it, with backslashes doubled."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return f'{MODULES}.{module} required username="{user}" password="{quoted}";'.replace("\\", "\\\\")


def in_one_line(pem: str) -> str:
    return " ".join(pem.split("\n"))


def clusters(text: str) -> FlowClusters:
    return FlowClusters(configuration(parse(text, "mm2.properties"), "mm2.properties").clusters)


def client_of(text: str, alias: str) -> Mapping[str, str]:
    """The properties of a Java client for one cluster of the file."""
    (found,) = [each for each in configuration(parse(text, "mm2.properties"), "mm2").clusters if each.alias == alias]
    return found.client


@pytest.mark.parametrize("alias", CLUSTERS)
def test_one_file_connects_an_admin_a_producer_and_a_consumer(file: str, alias: str) -> None:
    # Given a topic that raw requests have created
    found = clusters(file)
    assert found.remarks == ()
    with found.admin(alias) as admin:
        assert admin.probe().error == ""
        admin.create_topics([TopicSpec("orders", 1, 1)])
        # When a producer of confluent-kafka writes
        producer = Producer(found.librdkafka(alias) | {"acks": "all"})
        producer.produce("orders", b"one", partition=0)
        assert producer.flush(30) == 0
        # Then a consumer reads it, and raw requests see it
        settings = found.librdkafka(alias) | {"group.id": "readers", "auto.offset.reset": "earliest"}
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe(["orders"])
            (message,) = consumer.consume(1, 30)
            assert (message.error(), message.value()) == (None, b"one")
        assert admin.ends({("orders", 0)})["orders", 0].log_end == 1


@pytest.mark.parametrize(("alias", "version"), [("US-East.1", "3.9.2"), ("B", "4.3.1")])
def test_kafkas_own_java_tools_connect_with_these_keys(file: str, tmp_path: Path, alias: str, version: str) -> None:
    config = tmp_path / "client.properties"
    escaped = {key: value.replace("\\", "\\\\") for key, value in client_of(file, alias).items()}
    config.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
    address = client_of(file, alias)["bootstrap.servers"]
    output = tools.tool(version, tools.CLUSTER, address, "cluster-id", "--config", str(config))
    assert "Cluster ID: " in output.out, output.err
    # And a mirror client accepts these keys as well
    found = java_properties(config)
    assert found.remarks == ()
    with MirrorClient(found.settings, timeout_s=20) as client:
        assert client.upstream_clusters() == set()


def test_a_wrong_password_is_reported_soon_with_the_alias_and_without_the_password(file: str) -> None:
    wrong = clusters(file.replace("and", "or"))
    begun = time.monotonic()
    with wrong.admin("B", timeout_s=30) as admin, pytest.raises(AuthenticationRefusedError) as error:
        admin.asking().metadata()
    assert time.monotonic() - begun < 30
    assert str(error.value).startswith("Cluster B: ")
    assert f"refused the account {USER}" in str(error.value)
    assert "Correct user or password in mm2.properties" in str(error.value)
    assert "quotes" not in str(error.value)
