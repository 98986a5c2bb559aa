"""Tests on a stack: clients, topics, moves, and the verdict at the end."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.security import NO_SECURITY, load_profiles
from ha_core.model import Cluster
from ha_core.operations.engine.environment import Environment
from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.clients.process import PATIENCE_S, ClientProcess, history_of
from stack.harness import Stack
from stack.history.blackout import Move
from stack.history.checker import Result, check
from stack.history.delivery import Redelivery, acknowledged
from stack.history.events import Delivered
from stack.history.evidence import cuts_ahead, cuts_of, dump_topic
from stack.history.headers import between_batches
from stack.history.history import Fault, History, HistoryCut, LogDump, Values
from stack.placing import client_id_at

ZOOKEEPER_ROOT = "/switchyard"


def bootstrap(known: Stack | Environment, cluster: str) -> str:
    """The bootstrap address of a cluster, from its stack or from the stack's state."""
    if isinstance(known, Environment):
        return known.store.load().clusters[cluster].bootstrap
    return str(known.clusters[cluster]["bootstrap"])


def create_topic(bootstrap: str, topic: str, partitions: int = 3, **config: str) -> None:
    """Create it; returns when the leader of every partition answers LIST_OFFSETS.

    METADATA is not enough: the controller names leaders before their brokers know, and requests are refused
    meanwhile.
    """
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    admin.create_topics([NewTopic(topic, partitions, config=config)])[topic].result(60)
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            for end in admin.list_offsets(wanted, request_timeout=20).values():
                end.result()
        except KafkaException as error:
            if time.monotonic() > deadline:
                why = f"{topic} at {bootstrap} does not answer for its {partitions} partitions"
                raise AssertionError(f"{why} after {PATIENCE_S:.0f} s: {error}") from error
            time.sleep(0.05)
        else:
            return


def create_topics(stack: Stack, cluster: str, *topics: str) -> None:
    """Topics of three partitions, with the account that the security file of this process names."""
    with Admin(Cluster(name=cluster, bootstrap=bootstrap(stack, cluster)), load_profiles()["sasl"]) as admin:
        admin.create_topics([TopicSpec(topic, 3, 1) for topic in topics])


class Run:
    """The clients of one test on one stack, their faults, and their check.

    Clients use the gateways, or, with `cluster`, that cluster directly. With `user` their client ids name it, like
    clients without authentication: many users on one stack, each with its own topics.
    """

    def __init__(self, stack: Stack, directory: Path, *, cluster: str | None = None, user: str = "") -> None:
        self.stack = stack
        self.directory = directory
        self.clients: list[ClientProcess] = []
        self.faults: list[Fault] = []
        self.moves: list[Move] = []
        self.crossings: list[Move] = []
        """Moves during which no reader may stand still."""
        self.user = user
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        if self._cluster is not None:
            return bootstrap(self.stack, self._cluster)
        return self.stack.bootstrap

    def start(self, kind: str, client: str, topic: str, **options: Any) -> ClientProcess:
        """Start a client; `options` are the fields of stack.clients.options.Options."""
        options.setdefault("bootstrap", self.bootstrap)
        if self.user:
            options.setdefault("client_id", f"HA#{self.user}#{topic}")
        started = ClientProcess.start(kind, directory=self.directory, client=client, topic=topic, **options)
        self.clients.append(started)
        return started

    def client_id_at(self, gateway: str, topic: str) -> str:
        """A client id of the run's user whose client is led to this gateway."""
        return client_id_at(gateway, [one["id"] for one in self.stack.gateways], f"HA#{self.user}#{topic}")

    @contextlib.contextmanager
    def crossing(self) -> Iterator[None]:
        """A topic is crossing inside, and its readers must not notice."""
        begun = time.time()
        yield
        self.crossings.append(Move(begun, time.time()))

    @contextlib.contextmanager
    def fault(self, what: str, settle_s: float = 1.0) -> Iterator[None]:
        """Requests in flight inside may lose their answers."""
        begun = time.time()
        try:
            yield
        finally:
            self.faults.append(Fault(begun, time.time() + settle_s, what))

    def switch(self, origin: str, target: str, **options: str) -> dict[str, Any]:
        """Move the user; returns its document, and adds its time to `moves`."""
        begun = time.time()
        document = switch(self.stack, f"user:{self.user}", origin=origin, target=target, **options)
        self.moves.append(Move(begun, time.time()))
        return document

    def end(self) -> None:
        """Kill clients that still run."""
        for client in self.clients:
            client.kill()

    def finish(
        self, producers: Collection[ClientProcess], consumers: Collection[ClientProcess], timeout_s: float = 90.0
    ) -> None:
        """Stop the producers; when the consumers' groups have all acknowledged records, stop them, too.

        Missing records do not fail here: the check names them.
        """
        for producer in producers:
            producer.stop()
        written = history_of(producers)
        promised = {(ack.topic, value) for value, ack in acknowledged(written, Values(written)).items()}
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and not self._all_given(promised, consumers):
            time.sleep(0.2)
        for consumer in consumers:
            if consumer.running:
                consumer.stop()

    def _all_given(self, promised: set[tuple[str, str]], consumers: Collection[ClientProcess]) -> bool:
        """Groups include deliveries of ended members."""
        for reader, topics in {
            (consumer.options.group or consumer.name, consumer.options.topics) for consumer in consumers
        }:
            members = [client for client in self.clients if reader in (client.options.group, client.name)]
            given = {
                (event.topic, event.value)
                for events in history_of(members).clients.values()
                for event in events
                if isinstance(event, Delivered)
            }
            if not {record for record in promised if record[0] in topics} <= given:
                return False
        return True

    def history(self, *topics: str, cuts: Collection[HistoryCut] | None = None) -> History:
        """Everything: clients, faults, and for `topics` the cuts of their maps and the clusters' logs."""
        history_cuts = tuple(self.cuts(topics)) if cuts is None else tuple(cuts)
        logs = [dump for topic in topics for dump in self.dumps(topic)]
        return history_of(self.clients).with_evidence(history_cuts, self.faults, logs)

    def cuts(self, topics: Collection[str]) -> tuple[HistoryCut, ...]:
        if self._cluster is not None:
            return ()
        from ha_core.store.zookeeper import connect

        store = connect(self.stack.zookeeper, root=ZOOKEEPER_ROOT)
        try:
            view = store.load()
            ahead = cuts_ahead(
                (operation, store.history(operation.id))
                for operation in store.operations(1000)
                if operation.kind == "migrate"
            )
        finally:
            store.close()
        history_cuts = cuts_of((view.topics[name] for name in topics if name in view.topics), ahead)
        bootstraps = {name: str(cluster["bootstrap"]) for name, cluster in self.stack.clusters.items()}
        return between_batches(history_cuts, bootstraps, self._account())

    def _account(self) -> SecurityProfile:
        file = self.stack.document["security_file"]
        return NO_SECURITY if file is None else load_profiles(Path(file))["sasl"]

    def dumps(self, topic: str) -> tuple[LogDump, ...]:
        clusters = self.stack.clusters if self._cluster is None else {self._cluster: self.stack.clusters[self._cluster]}
        settings = client_settings(self._account())
        return tuple(
            dump
            for name, cluster in clusters.items()
            for dump in dump_topic(name, cluster["bootstrap"], topic, settings)
        )

    def verdict(self, *topics: str, complete: Collection[str] = (), redelivery: Redelivery = "uncommitted") -> Result:
        """Check everything; `complete` are the groups that read all of their topics."""
        history, crossings = self.history(*topics), () if self.faults else tuple(self.crossings)
        return check(history, complete_readers=complete, redelivery=redelivery, crossings=crossings)

    def assert_sound(
        self, *topics: str, complete: Collection[str] = (), redelivery: Redelivery = "uncommitted"
    ) -> Result:
        """No record is lost, duplicated, reordered or renumbered; `complete` as in `verdict`."""
        result = self.verdict(*topics, complete=complete, redelivery=redelivery)
        print(result)
        assert result.sound, str(result)
        return result


class CommandFailedError(Exception):
    """The `switchyard` command ended with an error."""

    def __init__(self, arguments: list[str], code: int, document: dict[str, Any], said: str) -> None:
        super().__init__(f"switchyard {' '.join(arguments)}: exit code {code}, {document}\n{said}")
        self.code = code
        self.document = document
        self.said = said


def bind(stack: Stack, user: str, cluster: str) -> None:
    """Bind a user; returns when the binding is published."""
    switchyard(stack, "bindings", "set", f"user:{user}", cluster, "--reason", "test", "--yes")


def switchyard(stack: Stack, *arguments: str, timeout_s: float = 120.0) -> dict[str, Any]:
    """Run `switchyard … --json` on the stack's state; returns its document. Raises CommandFailedError."""
    done = subprocess.run(
        switchyard_command(stack, *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    document: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if done.returncode != 0:
        raise CommandFailedError(list(arguments), done.returncode, document, done.stderr)
    return document


def switchyard_command(stack: Stack, *arguments: str) -> list[str]:
    """The command line of `switchyard`."""
    program = str(Path(sys.executable).with_name("switchyard"))
    return [program, *arguments, "--json", "--zookeeper", stack.zookeeper]


def start_command(stack: Stack, *arguments: str) -> subprocess.Popen[str]:
    """`switchyard … --json` on the stack's state, as a process that a test may stop or kill."""
    return subprocess.Popen(
        switchyard_command(stack, *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def operation_of(process: subprocess.Popen[str], said: list[str]) -> str:
    """Wait until a command has begun its operation; returns the id, and adds the lines so far to `said`."""
    assert process.stderr is not None
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"operation ((switch|migrate)-[^\s,]+)", line):
            return found[1]
    raise AssertionError(f"the command ended without an operation: {''.join(said)}")


def switch(stack: Stack, *scope: str, origin: str, target: str, reason: str = "test", **options: str) -> dict[str, Any]:
    """`switchyard switch SCOPE… --from --to`; `options` such as mode="forced" are passed on."""
    more = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value) if part]
    route = ("--from", origin, "--to", target, "--reason", reason, "--yes")
    return switchyard(stack, "switch", *scope, *route, *more)
