"""`switchyard kafka-mirror-maker` goes on where a real MirrorMaker 1, of Kafka 3.9, has stopped."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stack.harness import Stack
from stack.jars import class_path, kafka_jars
from stack.java import SHORT_LIVED, find_java
from stack.processes import die_with_parent
from tests.kit.flows import FlowProcess, commit, committed, count, delete_topic, produce, records, until
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker"), pytest.mark.timeout(400)]
VERSION = "3.9.2"
PARTITIONS = 3

stack = own_stack(scope="module", gateways=0)


@pytest.fixture(scope="module")
def east(stack: Stack) -> str:
    return bootstrap(stack, "east")


@pytest.fixture(scope="module")
def west(stack: Stack) -> str:
    return bootstrap(stack, "west")


def options(folder: Path, east: str, west: str, group: str, topics: str, more: str = "") -> list[str]:
    folder.mkdir(exist_ok=True)
    consumer, producer = folder / "consumer.properties", folder / "producer.properties"
    # `latest`, the default: without the group's offsets all that was written meanwhile would be lost
    consumer.write_text(f"bootstrap.servers={east}\ngroup.id={group}\nsession.timeout.ms=6000\n{more}")
    producer.write_text(f"bootstrap.servers={west}\nacks=all\n")
    return ["--consumer.config", str(consumer), "--producer.config", str(producer), "--include", topics]


@contextmanager
def mirror_maker_1(folder: Path, words: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    java = find_java()
    path = class_path(kafka_jars(VERSION, java, lambda _text: None))
    command = [java.binary, "-Xmx256m", *SHORT_LIVED, "-cp", path, "kafka.tools.MirrorMaker", *words]
    with (folder / "mm1.log").open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - two system calls, no lock
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def all_values(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    return sorted(record.value for number in range(PARTITIONS) for record in records(bootstrap_servers, topic, number))  # type: ignore[type-var]


def test_every_record_is_there_once_after_a_clean_stop(east: str, west: str, tmp_path: Path) -> None:
    # Given topics that MirrorMaker 1 copies by the keys of records, so to other partitions than in the source
    for topic in ("bills", "orders"):
        create_topic(east, topic, PARTITIONS)
        create_topic(west, topic, PARTITIONS)
    words = options(tmp_path / "one", east, west, "mirror", "bills|orders")
    theirs = options(tmp_path / "theirs", east, west, "mirror", "bills|orders", "auto.offset.reset=earliest\n")
    for number in range(PARTITIONS):
        produce(east, "bills", (b"early %d %d" % (number, at) for at in range(100)), number)
    with mirror_maker_1(tmp_path, theirs) as process:

        def text() -> str:
            return (tmp_path / "mm1.log").read_text()

        until(lambda: sum(count(west, "bills", one) for one in range(PARTITIONS)) >= 300, 60, text)
        # A worker that is started beside it waits
        running = FlowProcess(tmp_path / "beside", (), ["kafka-mirror-maker", *words])
        try:
            running.wait_for_text("MirrorMaker 1 is at work: its group mirror in source has members")
        finally:
            running.stop()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert committed(east, "mirror", "bills", 1) == 100
    # When records come while neither runs, and the worker takes over
    for number in range(PARTITIONS):
        produce(east, "bills", (b"late %d %d" % (number, at) for at in range(100)), number)
    running = FlowProcess(tmp_path / "two", (), ["kafka-mirror-maker", *words])
    try:
        until(
            lambda: all(b"late %d 99" % one in all_values(west, "bills") for one in range(PARTITIONS)), 90, running.text
        )
        # Then no record is missing, and none is there twice
        assert all_values(west, "bills") == all_values(east, "bills")
        assert running.stop() == 0
    finally:
        running.stop()
    # And its own notes count from now on
    produce(east, "bills", [b"last"], 2)
    running = FlowProcess(tmp_path / "three", (), ["kafka-mirror-maker", *words])
    try:
        until(lambda: b"last" in all_values(west, "bills"), 60, running.text)
        assert all_values(west, "bills") == all_values(east, "bills")
    finally:
        assert running.stop() == 0, running.text()


def test_a_topic_that_is_made_again_is_copied_from_its_start(east: str, west: str, tmp_path: Path) -> None:
    create_topic(east, "again", 1)
    produce(east, "again", (b"old %d" % number for number in range(50)))
    commit(east, "mirror again", {("again", 0): 40})
    words = options(tmp_path / "again", east, west, "mirror again", "again")
    running = FlowProcess(tmp_path / "again", (), ["kafka-mirror-maker", *words])
    try:
        until(lambda: count(west, "again") > 10 and len(records(west, "again")) == 10, 60, running.text)
        assert [record.value for record in records(west, "again")] == [b"old %d" % at for at in range(40, 50)]
        delete_topic(east, "again")
        create_topic(east, "again", 1)
        produce(east, "again", (b"new %d" % number for number in range(60)))
        until(lambda: len(records(west, "again")) == 70, 90, running.text)
        assert [record.value for record in records(west, "again")][10:] == [b"new %d" % at for at in range(60)]
    finally:
        assert running.stop() == 0, running.text()
