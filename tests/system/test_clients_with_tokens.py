"""Unmodified clients of every library log in with a bearer token, and not with another issuer's."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioToken
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError
from kafka.net.sasl.oauth import AbstractTokenProvider

from ha_core.flows.configuration import ClusterConfig
from ha_core.flows.properties import parse
from ha_core.mirror_maker.clusters import FlowClusters
from stack.clients.process import ClientError, ClientProcess
from stack.harness import Stack
from tests.gateway.authentication.signing import AUDIENCE, ISSUER, key_set, rsa_key, token
from tests.kit import tools
from tests.kit.own_gateway import OwnGateway
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/authentication", "gateway/session/authentication.py"),
    pytest.mark.timeout(300),
]
RECORDS = 10
JAVA = """security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler
sasl.oauthbearer.token.endpoint.url={url}
"""


stack = own_stack({"east": "3.9.2"}, gateways=0, prepare=lambda up: create_topic(bootstrap(up, "east"), "orders", 1))


@pytest.fixture(scope="module")
def gateway(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "keys.json").write_bytes(key_set())
    oauth = {"issuer": ISSUER, "audience": [AUDIENCE], "jwks": "keys.json"}
    authentication = {"mechanisms": ["OAUTHBEARER"], "oauth": oauth, "plain_without_tls": True}
    with OwnGateway(stack, folder, authentication=authentication) as running:
        yield running


class Token(AbstractTokenProvider):  # type: ignore[misc]
    """Token provider of kafka-python."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self._said = said

    def token(self) -> str:
        return self._said


class LaterToken(AioToken):  # type: ignore[misc]
    """Token provider of aiokafka."""

    def __init__(self, said: str) -> None:
        self._said = said

    async def token(self) -> str:
        return self._said


def by_librdkafka(address: str, said: str) -> int:
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (said, 4e9),
        "log_level": 2,
    }
    producer = Producer(settings | {"message.timeout.ms": 8_000})
    written: list[bool] = []
    for _ in range(RECORDS):
        producer.produce("orders", b"by librdkafka", on_delivery=lambda error, _: written.append(error is None))
    producer.flush(10)
    consumer = Consumer(settings | {"group.id": f"librdkafka-{hash(said)}", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    read = consumer.consume(sum(written), 30) if any(written) else []
    consumer.close()
    return min(sum(written), len(read))


def by_kafka_python(address: str, said: str) -> int:
    login: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Token(said),
    }
    producer = KafkaProducer(**login, max_block_ms=8_000)
    for sent in [producer.send("orders", b"by kafka-python") for _ in range(RECORDS)]:
        sent.get(10)
    consumer = KafkaConsumer("orders", **login, auto_offset_reset="earliest", consumer_timeout_ms=5_000)
    read = sum(1 for record, _ in zip(consumer, range(RECORDS), strict=False))
    producer.close()
    consumer.close()
    return read


def by_aiokafka(address: str, said: str) -> int:
    async def work() -> int:
        login: dict[str, Any] = {
            "bootstrap_servers": address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": LaterToken(said),
        }
        async with AIOKafkaProducer(**login) as producer:
            for _ in range(RECORDS):
                await producer.send_and_wait("orders", b"by aiokafka")
        async with AIOKafkaConsumer("orders", **login, auto_offset_reset="earliest") as consumer:
            return len([await asyncio.wait_for(consumer.getone(), 30) for _ in range(RECORDS)])

    return asyncio.run(work())


def by_kafkajs(address: str, said: str) -> int:
    settings: dict[str, Any] = {
        "bootstrap": address,
        "topic": "orders",
        "user": "whom the token names",
        "password": said,
        "mechanism": "OAUTHBEARER",
        "group": f"kafkajs-{hash(said)}",
        "count": RECORDS,
    }
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("kafkajs-producer", "kafkajs-consumer"):
            client = ClientProcess.start(kind, directory=Path(folder), client=kind, **settings)
            try:
                client.wait(60)
            finally:
                client.kill()
        return client.count("delivered")


LIBRARIES: dict[str, Callable[[str, str], int]] = {
    "librdkafka": by_librdkafka,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "kafkajs": by_kafkajs,
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_with_a_token_writes_and_reads(gateway: OwnGateway, library: str) -> None:
    assert LIBRARIES[library](gateway.bootstrap, token(sub=f"by-{library}")) > 0


@pytest.mark.parametrize(("version", "option"), [("3.9.2", "--consumer.config"), ("4.3.1", "--command-config")])
def test_a_client_of_kafkas_own_reads_with_a_token(
    gateway: OwnGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, option: str
) -> None:
    # Given records, and a token in a file, for Java's clients
    by_librdkafka(gateway.bootstrap, token(sub="writer"))
    (tmp_path / "token").write_text(token(sub=f"java-{version}"))
    url = (tmp_path / "token").as_uri()
    (tmp_path / "client.properties").write_text(JAVA.format(url=url))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")
    # When its own consumer reads
    output = tools.tool(
        *(version, tools.CONSOLE_CONSUMER, gateway.bootstrap),
        *("--topic", "orders", "--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000"),
        *(option, str(tmp_path / "client.properties")),
    )
    # Then
    assert len(output.out.splitlines()) == RECORDS, output.err


def test_a_file_for_kafkas_own_clients_opens_raw_requests_and_librdkafka(gateway: OwnGateway, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(token(sub="mirror-maker"))
    text = JAVA.format(url=(tmp_path / "token").as_uri()) + f"bootstrap.servers={gateway.bootstrap}\n"
    keys = {key: found.value for key, found in parse(text, "client.properties").items()}
    clusters = FlowClusters([ClusterConfig("US-East.1", keys)], "client.properties")
    with clusters.admin("US-East.1", timeout_s=20) as admin:
        assert admin.probe(["orders"]).error == ""
    producer = Producer(clusters.librdkafka("US-East.1"))
    producer.produce("orders", b"by a file")
    assert producer.flush(20) == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_token_of_another_issuer_opens_nothing(gateway: OwnGateway, library: str) -> None:
    forged = token(rsa_key("another"), sub="alice")
    done = 0
    with suppress(KafkaException, KafkaPythonError, AioKafkaError, ClientError):
        done = LIBRARIES[library](gateway.bootstrap, forged)
    assert done == 0
    assert forged not in gateway.log.read_text()
