"""Kafka Streams and Kafka Connect, as Apache ships them, while their instances move under load."""

import contextlib
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from ha_core.kafka.security import SECURITY_FILE_VARIABLE
from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack
from stack.ports import claim
from tests.kit.consumed import value_of
from tests.kit.java_applications import (
    CONNECT_STANDALONE,
    WORD_COUNT,
    JavaApplication,
    ask_connect,
    java_application,
)
from tests.kit.running import bind, create_topics, switch, switchyard
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(600),
    pytest.mark.long(
        "ha_core/model/identity.py",
        "ha_core/plan/routing/resolve.py",
        "gateway/session/groups.py",
        "gateway/session/group_offsets.py",
    ),
]
USER = "orders-app"
CLUSTERS = ("east", "west")
INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
"""Topics that are fixed in WordCountDemo."""
PAUSE_S = 0.02
START_S, MOVED_S = 120.0, 90.0
WORDS = 50
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    up = Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=2, security="sasl")
    with up as running, pytest.MonkeyPatch.context() as environment:
        environment.setenv(SECURITY_FILE_VARIABLE, running.document["security_file"])
        bind(running, USER, "east")
        forms = ("--client-ids", "streams", "--client-ids", "connect")
        switchyard(running, "bindings", "set", f"user:{USER}", *forms, "--reason", "test", "--yes")
        create_topics(running, "east", INPUT, OUTPUT)
        yield running


def java_login(stack: Stack, *prefixes: str) -> dict[str, str]:
    """Properties, once per prefix."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{USER}" password="{stack.users[USER]}";',
    }
    return {prefix + key: value for prefix in ("", *prefixes) for key, value in login.items()}


def python_settings(stack: Stack, client_id: str) -> dict[str, str]:
    account = client_settings(SecurityProfile("PLAIN", USER, stack.users[USER]))
    return {"bootstrap.servers": stack.bootstrap, "client.id": client_id, **account}


@contextlib.contextmanager
def repeating(act: Callable[[int], None]) -> Iterator[list[int]]:
    """Calls it in a thread with 0, 1, 2 …; yields the numbers so far."""
    done: list[int] = []
    ends = threading.Event()

    def go_on() -> None:
        while not ends.wait(PAUSE_S):
            act(len(done))
            done.append(len(done))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield done
    finally:
        ends.set()
        thread.join()


def client_ids(stack: Stack, instance: str) -> set[str]:
    """The client ids of the instance's open connections, without the UUID of the process."""
    rows = switchyard(stack, "connections", "--instance", instance)["connections"]
    return {UUID.sub("UUID", row["client_id"]) for row in rows}


def users_of(stack: Stack, topic: str) -> set[str]:
    """Instances that gateways have seen at the topic."""
    return {use["instance"] for use in switchyard(stack, "usage", "list", USER)["usage"][USER]["topics"][topic]}


def bound(stack: Stack, *instances: str) -> set[str]:
    found = switchyard(stack, "bindings", "list", USER)["bindings"][USER]["instances"]
    return {found[instance] for instance in instances}


class Counts:
    """Reads the output of the word count: for each word of one application, its counts in log order."""

    def __init__(self, stack: Stack, app: str) -> None:
        self.of: dict[str, list[int]] = defaultdict(list)
        self._app = app
        settings = {"group.id": f"{app}-reader", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        self._reader = Consumer({**python_settings(stack, f"{app}-reader"), **settings})
        self._reader.subscribe([OUTPUT])

    def total(self) -> int:
        return sum(map(len, self.of.values()))

    def wait_for(self, total: int, application: JavaApplication, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.total() < total:
            for record in self._reader.consume(1000, 0.2):
                word = record.key()
                assert record.error() is None, record.error()
                assert word is not None
                if word.decode().startswith(self._app):
                    self.of[word.decode()].append(int.from_bytes(value_of(record), "big"))
            if not application.running or time.monotonic() > deadline:
                raise AssertionError(f"{self.total()} of {total} counts\n{application.said()[-8000:]}")

    def close(self) -> None:
        self._reader.close()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_kafka_streams_counts_every_word_once_while_its_instance_moves_there_and_back(
    stack: Stack, tmp_path: Path, guarantee: str
) -> None:
    # Given Kafka Streams' word count, and an application that writes its input
    app = f"words_{guarantee}"
    settings = {
        "bootstrap.servers": stack.bootstrap,
        "application.id": app,
        "processing.guarantee": guarantee,
        "state.dir": str(tmp_path / "state"),
        **java_login(stack),
    }
    producer = Producer({**python_settings(stack, f"{app}-writer"), "enable.idempotence": True})

    def words(number: int) -> tuple[str, str]:
        return f"{app}_{number % WORDS}", f"{app}_all"

    def write(number: int) -> None:
        producer.produce(INPUT, " ".join(words(number)))
        producer.poll(0)

    with (
        contextlib.closing(Counts(stack, app)) as counts,
        java_application(tmp_path / "app", WORD_COUNT, settings) as application,
    ):
        with repeating(write) as written:
            counts.wait_for(200, application, START_S)
            # Then all of its clients are one instance
            roles = ("StreamThread-1-consumer", "StreamThread-1-producer", "StateUpdater-1-restore-consumer", "admin")
            assert client_ids(stack, app) == {f"{app}-UUID-{role}" for role in roles}
            for kind in ("changelog", "repartition"):
                assert users_of(stack, f"{app}-KSTREAM-AGGREGATE-STATE-STORE-0000000003-{kind}") == {app}
            # When that instance moves to west and back, with its shared topics
            for origin, target in (CLUSTERS, CLUSTERS[::-1]):
                scope = f"user:{USER}+{app}"
                moved = switch(stack, scope, origin=origin, target=target, include_other_users="")
                assert moved["result"] == "succeeded"
                assert bound(stack, app) == {target}
                counts.wait_for(counts.total() + 500, application, MOVED_S)
        assert producer.flush(60) == 0
        # Then each word was counted as often as it was written, and each count comes once
        expected = Counter(word for number in written for word in words(number))
        counts.wait_for(expected.total(), application, MOVED_S)
        assert counts.of == {word: list(range(1, times + 1)) for word, times in expected.items()}
        # And no thread has ended
        assert application.lines("State transition from .* to (PENDING_ERROR|ERROR|DEAD)") == []
        stops = application.lines("StreamThread: .*State transition from RUNNING to ")
        if guarantee == "at_least_once":
            assert application.lines(" (ERROR|FATAL) ") == stops == []
        else:  # it restarts its tasks after a move has ended its transaction
            assert len(stops) <= len(CLUSTERS), stops
            assert all("UnknownProducerId" in said for said in application.exceptions("TaskMigratedException"))


def test_kafka_connect_copies_every_line_once_while_its_connectors_move_there_and_back(
    stack: Stack, tmp_path: Path
) -> None:
    # Given a worker with a connector that reads a file into a topic, and one that writes the topic to a file
    source, sink, topic = "copy-in", "copy-out", "copied-lines"
    create_topics(stack, "east", topic)
    lines, copied = tmp_path / "lines.txt", tmp_path / "copied.txt"
    lines.touch()
    copied.touch()
    with contextlib.closing(claim()) as ports:
        port = ports.next_port()
    string = "org.apache.kafka.connect.storage.StringConverter"
    worker = {
        "bootstrap.servers": stack.bootstrap,
        "key.converter": string,
        "value.converter": string,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
        **java_login(stack, "producer.", "consumer.", "admin."),
    }
    package = "org.apache.kafka.connect.file"
    connectors = [
        {"name": source, "connector.class": f"{package}.FileStreamSourceConnector", "file": str(lines), "topic": topic},
        {"name": sink, "connector.class": f"{package}.FileStreamSinkConnector", "file": str(copied), "topics": topic},
    ]

    def write(number: int) -> None:
        with lines.open("a", encoding="utf-8") as file:
            file.write(f"line {number}\n")

    def count() -> int:
        return copied.read_bytes().count(b"\n")

    with java_application(tmp_path / "worker", CONNECT_STANDALONE, worker, *connectors) as application:
        with repeating(write) as written:
            until(lambda: count() > 200 or not application.running, "the first lines are copied", START_S)
            # Then each connector is an instance
            assert client_ids(stack, source) == {f"connector-producer-{source}-0"}
            assert client_ids(stack, sink) == {f"connector-consumer-{sink}-0"}
            assert users_of(stack, topic) == {source, sink}
            # When both move to west and back
            for origin, target in (CLUSTERS, CLUSTERS[::-1]):
                scopes = (f"user:{USER}+{source}", f"user:{USER}+{sink}")
                assert switch(stack, *scopes, origin=origin, target=target)["result"] == "succeeded"
                assert bound(stack, source, sink) == {target}
                more = count() + 300
                until(lambda more=more: count() > more, "lines are copied after the move", MOVED_S)  # type: ignore[misc]
            states = [ask_connect(port, f"connectors/{one}/status") for one in (source, sink)]
        until(lambda: count() >= len(written), "all lines are copied", MOVED_S)
    # Then the copy has every line once (the worker has flushed at its graceful end)
    assert Counter(copied.read_text("utf-8").splitlines()) == Counter(f"line {number}" for number in written)
    # And no task has ended, and the sink has kept its partitions
    assert {task["state"] for state in states for task in state["tasks"]} == {"RUNNING"}
    assert application.lines(" (ERROR|FATAL) ") == []
    assert len(application.lines("Adding newly assigned partitions")) == 1
