"""The Spark job `flows` on a standalone master: executor and driver killed, and two jobs with one flow."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stack.harness import Stack
from tests.kit.flows import CopiedRecord, copying, count, produce, records, until, write_flows
from tests.kit.flows_on_spark import FlowsOnSpark
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("spark_jobs/flows"), pytest.mark.timeout(900)]
PARTITIONS = 4
START_S, GO_ON_S = 240.0, 120.0

stack = own_stack(scope="module", gateways=0, spark=True)


@contextmanager
def written_all_the_time(bootstrap_of_source: str, topic: str) -> Iterator[None]:
    ending = threading.Event()

    def write() -> None:
        number = 0
        while not ending.is_set():
            for partition in range(PARTITIONS):
                produce(bootstrap_of_source, topic, (b"%d" % each for each in range(number, number + 50)), partition)
            number += 50

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def flow_of(stack: Stack, folder: Path, topic: str) -> Path:
    create_topic(bootstrap(stack, "east"), topic, PARTITIONS)
    properties = {"east->west.enabled": "true", "topics": topic, "emit.heartbeats.enabled": "false"}
    return write_flows(folder, {one: bootstrap(stack, one) for one in ("east", "west")}, properties)


def goes_on(stack: Stack, topic: str, job: FlowsOnSpark, patience_s: float = GO_ON_S) -> None:
    west = bootstrap(stack, "west")
    before = [count(west, f"east.{topic}", one) for one in range(PARTITIONS)]
    until(
        lambda: all(count(west, f"east.{topic}", one) > before[one] + 50 for one in range(PARTITIONS)),
        patience_s,
        job.text,
    )


def assert_copied_once(stack: Stack, topic: str) -> None:
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    for partition in range(PARTITIONS):
        wanted = records(east, topic, partition)
        copied: list[CopiedRecord] = []
        deadline = time.monotonic() + GO_ON_S
        while len(copied) < len(wanted) and time.monotonic() < deadline:
            time.sleep(1)
            copied = records(west, f"east.{topic}", partition)
        assert copied == wanted


def test_every_record_is_copied_once_while_executor_and_driver_are_killed(stack: Stack, tmp_path: Path) -> None:
    assert stack.spark is not None
    master = str(stack.spark["master"])
    file = flow_of(stack, tmp_path, "bills")
    with written_all_the_time(bootstrap(stack, "east"), "bills"):
        with FlowsOnSpark(tmp_path / "first.log", stack.zookeeper, [str(file), "--tasks", "1"], master) as first:
            goes_on(stack, "bills", first, START_S)
            first.kill_executors()
            goes_on(stack, "bills", first)
            first.kill()
            assert first.process.returncode == -signal.SIGKILL
        with FlowsOnSpark(tmp_path / "second.log", stack.zookeeper, [str(file), "--tasks", "1"], master) as second:
            goes_on(stack, "bills", second, START_S)
            with FlowsOnSpark(tmp_path / "third.log", stack.zookeeper, [str(file), "--tasks", "1"]) as third:
                until(lambda: len([n for n in copying(stack.zookeeper).values() if n]) == 2, START_S, third.text)
                goes_on(stack, "bills", third)
                third.kill()
            goes_on(stack, "bills", second)
            os.kill(second.java(), signal.SIGKILL)
            assert second.ended() == 3
    with FlowsOnSpark(tmp_path / "last.log", stack.zookeeper, [str(file), "--tasks", "1"], master) as last:
        until(lambda: copying(stack.zookeeper).total() == PARTITIONS, START_S, last.text)
        assert_copied_once(stack, "bills")
        assert last.stop() == 0


def test_a_job_whose_driver_hangs_ends(stack: Stack, tmp_path: Path) -> None:
    file = flow_of(stack, tmp_path, "hanging")
    with FlowsOnSpark(tmp_path / "job.log", stack.zookeeper, [str(file), "--tasks", "1"]) as job:
        produce(bootstrap(stack, "east"), "hanging", [b"a record"])
        until(lambda: count(bootstrap(stack, "west"), "east.hanging") > 0, START_S, job.text)
        os.kill(job.java(), signal.SIGSTOP)
        assert job.ended(120) == 3
        assert "has not answered for 30 s" in job.text()


def test_a_cluster_that_the_file_does_not_have_ends_the_job(stack: Stack, tmp_path: Path) -> None:
    file = flow_of(stack, tmp_path, "misspelt")
    words = [str(file), "--tasks", "1", "--clusters", "wset"]
    with FlowsOnSpark(tmp_path / "job.log", stack.zookeeper, words) as job:
        assert job.ended(START_S) == 2
        assert "--clusters wset is none of the clusters of" in job.text()
