"""Ordinary clients of one user: producers and a consumer group, with three libraries, through the gateways."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.clients.process import ClientProcess
from stack.harness import Stack
from stack.history.evidence import dump_topic
from stack.history.history import LogDump
from stack.placing import client_id_at

ROOT = "/switchyard"


@dataclass(frozen=True)
class Application:
    """The clients of one user. `producers` and `consumers`: name → kind of stack.clients.kinds."""

    user: str
    topic: str
    group: str
    partitions: int
    records_per_s: float
    """Records per second of each producer."""
    producers: Mapping[str, str]
    consumers: Mapping[str, str]
    idempotence: str = ""
    """Idempotence of the producers: on, or each library's default."""
    apart: frozenset[str] = frozenset()
    """Consumers whose client ids lead to one gateway, and other clients' to another one: so their gateway sees no
    produce to the topic. Empty: client ids are not chosen."""


ORDERS = Application(
    user="orders-app",
    topic="orders",
    group="billing",
    partitions=6,
    records_per_s=100.0,
    producers={
        "orders-confluent": "confluent-producer",
        "orders-python": "kafka-python-producer",
        "orders-java": "java-producer",
    },
    consumers={
        "billing-confluent": "confluent-consumer",
        "billing-python": "kafka-python-consumer",
        "billing-java": "java-consumer",
    },
)
INVOICES = Application(
    user="billing-app",
    topic="invoices",
    group="ledger",
    partitions=3,
    records_per_s=60.0,
    producers={
        "invoices-confluent": "confluent-producer",
        "invoices-python": "kafka-python-producer",
        "invoices-java": "java-producer",
    },
    consumers={"ledger-confluent": "confluent-consumer", "ledger-python": "kafka-python-consumer"},
    apart=frozenset({"ledger-confluent"}),
)
PAYMENTS = Application(
    user="payments-app",
    topic="payments",
    group="settlement",
    partitions=3,
    records_per_s=200.0,
    producers={
        "payments-confluent": "confluent-producer",
        "payments-python": "kafka-python-producer",
        "payments-java": "java-producer",
    },
    consumers={"settlement-confluent": "confluent-consumer", "settlement-python": "kafka-python-consumer"},
    idempotence="on",  # else retries after a killed broker would duplicate records
)


class Workload:
    """The clients of an application, and their history. Call `end` in any case."""

    def __init__(self, stack: Stack, application: Application, directory: Path) -> None:
        self._stack = stack
        self._directory = directory
        self.application = application
        self.producers: list[ClientProcess] = []
        self.consumers: list[ClientProcess] = []

    @property
    def clients(self) -> list[ClientProcess]:
        return [*self.producers, *self.consumers]

    def start(self, say: Callable[[str], None]) -> None:
        """Returns when every client is at work."""
        application = self.application
        for name, kind in application.consumers.items():
            self.consume(kind, name, application.group)
        for name, kind in application.producers.items():
            rate, idempotence = application.records_per_s, application.idempotence
            self.producers.append(self._client(kind, name, rate=rate, idempotence=idempotence))
        for producer in self.producers:
            producer.wait_for(20, "acknowledged")
        for consumer in self.consumers:
            consumer.wait_for(20, "delivered")
        names = ", ".join(client.name for client in self.clients)
        say(f"clients at work, {application.records_per_s:.0f} records a second per producer: {names}")

    def consume(self, kind: str, name: str, group: str, **options: Any) -> ClientProcess:
        """Start one more consumer; `options` are the fields of stack.clients.options.Options."""
        self.consumers.append(self._client(kind, name, group=group, **options))
        return self.consumers[-1]

    def promised(self) -> int:
        """Number of acknowledged records so far."""
        return sum(producer.count("acknowledged") for producer in self.producers)

    def stop(self, timeout_s: float = 60.0) -> None:
        """Stop the producers, let every group read to the end, and stop it, too. The check reports missing records."""
        for producer in self.producers:
            producer.stop()
        promised = self.promised()
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(given < promised for given in self._delivered().values()):
            time.sleep(0.2)
        for consumer in self.consumers:
            consumer.stop()

    def end(self) -> None:
        """Kill clients that still run."""
        for client in self.clients:
            client.kill()

    def _client(self, kind: str, name: str, **options: Any) -> ClientProcess:
        user, apart = self.application.user, self.application.apart
        if apart:
            gateways = [gateway["id"] for gateway in self._stack.gateways]
            place = gateways[0] if name in apart else gateways[-1]
            options["client_id"] = client_id_at(place, gateways, name, user)
        return ClientProcess.start(
            kind,
            directory=self._directory,
            client=name,
            bootstrap=self._stack.bootstrap,
            topic=self.application.topic,
            user=user,
            password=self._stack.users[user],
            **options,
        )

    def _delivered(self) -> dict[str, int]:
        """Group → number of records delivered to its members."""
        found: dict[str, int] = {}
        for consumer in self.consumers:
            group = consumer.options.group
            found[group] = found.get(group, 0) + consumer.count("delivered")
        return found


def dump_everywhere(stack: Stack, topic: str) -> list[LogDump]:
    """The topic's logs in both clusters, read without gateways."""
    settings = service_settings(stack)
    return [
        dump
        for name, cluster in stack.clusters.items()
        for dump in dump_topic(name, cluster["bootstrap"], topic, settings)
    ]


def service_settings(stack: Stack) -> dict[str, str]:
    """confluent-kafka's settings for the clusters, without gateways."""
    return client_settings(service_account(stack))


def service_account(stack: Stack) -> SecurityProfile:
    assert stack.service is not None
    return SecurityProfile("PLAIN", stack.service["user"], stack.service["password"])


def prepare(stack: Stack, application: Application, cluster: str) -> None:
    """Create the topic in `cluster`, and bind the user to it."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from ha_core.operations.access.bindings import apply_bindings, plan_bindings, with_level
    from ha_core.operations.engine.environment import EnvironmentSettings, connect

    settings = {"bootstrap.servers": stack.clusters[cluster]["bootstrap"], "log_level": 0, **service_settings(stack)}
    admin = AdminClient(settings)
    created = admin.create_topics([NewTopic(application.topic, application.partitions)])
    created[application.topic].result(30)
    with connect(EnvironmentSettings(stack.zookeeper, root=ROOT), by="cli:demo") as environment:
        declared = with_level(environment.store.load(), f"user:{application.user}", cluster)
        apply_bindings(environment, plan_bindings(environment, declared), "the demo begins here")
