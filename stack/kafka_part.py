"""One Kafka broker, which is a controller too (KRaft), in a cluster of one or several."""

import base64
import os
import signal
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stack.jars import class_path
from stack.java import SHORT_LIVED, Java
from stack.parts import LOOPBACK, PartNotReadyError, PartProgram, listens
from stack.tls import StackTls
from stack.zookeeper_part import LOG4J1, LOG4J2

_FULL_SPEED = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
SERVICE_USER = "switchyard"
"""The account of gateways and operators on brokers with SASL."""
ORDINARY_USER = "ordinary"
"""An account limited by the cluster's access rules, for tests that bypass gateways. Its password is the same."""
SERVICE_MECHANISM = "PLAIN"
"""The gateways' mechanism. Brokers know the account by SCRAM, too."""
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SECURITY = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class BrokerAddress:
    """The listeners of one broker."""

    node_id: int
    port: int
    controller_port: int


@dataclass(frozen=True)
class KafkaCluster:
    """Settings of all brokers of one cluster."""

    name: str
    version: str
    cluster_id: str
    brokers: tuple[BrokerAddress, ...]
    service_password: str | None
    """None: the brokers accept all clients (PLAINTEXT)."""
    users: Mapping[str, str] = field(default_factory=dict)
    """Further accounts of the brokers: user → password."""
    tls: StackTls | None = None
    """None: no TLS. With TLS, brokers require a certificate and a login."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{LOOPBACK}:{broker.port}" for broker in self.brokers)

    def client_settings(self) -> dict[str, Any]:
        """confluent-kafka's settings for the brokers, without gateways."""
        if self.service_password is None:
            return {}
        settings = {
            "security.protocol": self.listener,
            "sasl.mechanism": SERVICE_MECHANISM,
            "sasl.username": SERVICE_USER,
            "sasl.password": self.service_password,
        }
        if self.tls is None:
            return settings
        return settings | {
            "ssl.ca.location": str(self.tls.authority),
            "ssl.certificate.location": str(self.tls.service.certificate),
            "ssl.key.location": str(self.tls.service.key),
        }

    @property
    def listener(self) -> str:
        """Security protocol of the brokers, and name of their listener."""
        if self.service_password is None:
            return "PLAINTEXT"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"


@dataclass(frozen=True)
class BrokerPart:
    """One broker."""

    cluster: KafkaCluster
    address: BrokerAddress
    home: Path
    jars: Path
    java: Java
    full_speed: bool = True
    archive: Path | None = None
    """Archive of its classes; see `class_archive`."""
    after: tuple[str, ...] = ()
    end_signal: signal.Signals = signal.SIGTERM
    ready_timeout_s: float = 120.0

    @property
    def name(self) -> str:
        return f"cluster/{self.cluster.name}/{self.address.node_id}"

    @property
    def port(self) -> int:
        return self.address.port

    def settings(self) -> dict[str, str]:
        """The broker's `server.properties`: stock, except for ports, copies, a small memory, and quick groups."""
        cluster, me = self.cluster, self.address
        copies = min(3, len(cluster.brokers))
        in_sync = max(1, copies - 1)
        listener = cluster.listener
        settings = {
            "process.roles": "broker,controller",
            "node.id": me.node_id,
            "controller.quorum.voters": ",".join(
                f"{b.node_id}@{LOOPBACK}:{b.controller_port}" for b in cluster.brokers
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listener}://{LOOPBACK}:{me.port},CONTROLLER://{LOOPBACK}:{me.controller_port}",
            "advertised.listeners": f"{listener}://{LOOPBACK}:{me.port}",
            "listener.security.protocol.map": f"{listener}:{listener},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": listener,
            "log.dirs": self.home / "data",
            "auto.create.topics.enable": "true",
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 10,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            # Taken from the heap at the start; the default of 128 MiB is half of a small broker's heap. A cleaner that
            # restarts after a change of its settings would find no room, and that broker would never compact again.
            "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
            "log.cleaner.backoff.ms": 500,
        }
        if cluster.version.startswith("4."):
            settings["share.coordinator.state.topic.replication.factor"] = copies
            settings["share.coordinator.state.topic.min.isr"] = in_sync
        if cluster.service_password is not None:
            of_listener = f"listener.name.{listener.lower()}"
            settings["sasl.enabled.mechanisms"] = ",".join(("PLAIN", *_SCRAM))
            for mechanism in _SCRAM:  # its users are created with the log, or by tests while brokers run
                settings[f"{of_listener}.{mechanism.lower()}.sasl.jaas.config"] = (
                    f"{_SECURITY}.scram.ScramLoginModule required;"
                )
            settings["sasl.mechanism.inter.broker.protocol"] = SERVICE_MECHANISM
            settings[f"{of_listener}.plain.sasl.jaas.config"] = (
                f"{_SECURITY}.plain.PlainLoginModule required"
                f' username="{SERVICE_USER}" password="{cluster.service_password}"'
                f' user_{SERVICE_USER}="{cluster.service_password}" user_{ORDINARY_USER}="{cluster.service_password}"'
                + "".join(f' user_{user}="{password}"' for user, password in cluster.users.items())
                + ";"
            )
            # Controllers are reached without a login. Resources without an access rule are open to every account.
            settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            settings["super.users"] = f"User:{SERVICE_USER};User:ANONYMOUS"
            settings["allow.everyone.if.no.acl.found"] = "true"
        if cluster.tls is not None:
            settings |= cluster.tls.java(cluster.tls.broker) | {"ssl.client.auth": "required"}
        return {key: str(value) for key, value in settings.items()}

    def prepare(self) -> tuple[PartProgram, ...]:
        self.home.mkdir(parents=True, exist_ok=True)
        _write_properties(self._properties, self.settings())
        (self.home / "log4j.properties").write_text(LOG4J1, "utf-8")
        (self.home / "log4j2.properties").write_text(LOG4J2, "utf-8")
        if (self.home / "data" / "meta.properties").exists():
            return ()
        format_storage = (
            "kafka.tools.StorageTool",
            "format",
            "-t",
            self.cluster.cluster_id,
            "-c",
            str(self._properties),
        )
        # The tool takes the password from its arguments only; the account ends with this stack.
        password = self.cluster.service_password
        scram = (f"{mechanism}=[name={SERVICE_USER},password={password}]" for mechanism in _SCRAM)
        accounts = () if password is None else tuple(text for one in scram for text in ("--add-scram", one))
        return (PartProgram((*self._java(SHORT_LIVED), *format_storage, *accounts), cwd=self.home),)

    def command(self) -> PartProgram:
        heap_mb = 512 if len(self.cluster.brokers) == 1 else 256
        flags = (f"-Xmx{heap_mb}m", f"-Xms{heap_mb}m", *(_FULL_SPEED if self.full_speed else SHORT_LIVED))
        return PartProgram((*self._java(flags), "kafka.Kafka", str(self._properties)), cwd=self.home)

    def _java(self, flags: tuple[str, ...]) -> Iterator[str]:
        yield self.java.binary
        yield from flags
        if self.archive is not None:
            yield f"-XX:SharedArchiveFile={self.archive}"
        yield f"-Dlog4j.configuration=file:{self.home / 'log4j.properties'}"  # Kafka 3: reload4j
        yield f"-Dlog4j2.configurationFile={self.home / 'log4j2.properties'}"  # Kafka 4: log4j 2
        yield "-cp"
        yield class_path(self.jars)

    @property
    def _properties(self) -> Path:
        return self.home / "server.properties"

    def probe(self, started_at: float) -> None:
        """ApiVersions is answered, and a topic can be created on this broker."""
        listens(self.address.port)
        prove_topic(f"{LOOPBACK}:{self.address.port}", self.cluster.client_settings(), self.address.node_id)


def new_cluster_id() -> str:
    """A random id in Kafka's form. The storage tool would take one with a leading dash for an option."""
    while (drawn := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return drawn


def prove_topic(bootstrap: str, client_settings: Mapping[str, Any], node_id: int) -> None:
    """Create a topic on one broker and delete it; raises NotReadyError."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 3000, **client_settings})
    topic = f"switchyard-probe-{node_id}"
    try:
        if node_id not in admin.list_topics(timeout=2.0).brokers:
            raise PartNotReadyError(f"broker {node_id} has not joined yet")
        made = admin.create_topics([NewTopic(topic, 1, replica_assignment=[[node_id]])], request_timeout=3.0)
        try:
            made[topic].result(4.0)
        finally:
            gone = admin.delete_topics([topic], request_timeout=3.0)
        gone[topic].result(4.0)
        while topic in admin.list_topics(timeout=2.0).topics:
            pass
    except KafkaException as error:
        raise PartNotReadyError(f"broker {node_id} at {bootstrap}: {error}") from error


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # may hold the service password
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{key}={value}\n" for key, value in settings.items())
