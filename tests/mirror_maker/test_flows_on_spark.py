"""The Spark job `flows`: two tasks share the flows, follow a change of the file, and go on after a kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stack.harness import Stack
from tests.kit.flows import PROGRAM, copying, count, produce, records, until, write_flows
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(600)]
PARTITIONS = 6

stack = own_stack(scope="module", gateways=0)


def test_tasks_share_the_flows_and_follow_the_file(stack: Stack, tmp_path: Path) -> None:
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    clusters = {"east": east, "west": west}
    create_topic(east, "orders", PARTITIONS)
    create_topic(east, "payments", 1)
    one = {"east->west.enabled": "true", "east->west.topics": "orders", "emit.heartbeats.enabled": "false"}
    file = write_flows(tmp_path, clusters, one)
    command = [sys.executable, "-m", "spark_jobs", "flows", str(file), "--tasks", "2", "--zookeeper", stack.zookeeper]
    log = tmp_path / "spark.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        for partition in range(PARTITIONS):
            produce(east, "orders", (b"%d" % at for at in range(100)), partition)
        until(lambda: len(copying(stack.zookeeper)) == 2, 240, log.read_text)
        until(lambda: copying(stack.zookeeper).total() == PARTITIONS, 120, log.read_text)
        until(lambda: all(count(west, "east.orders", each) > 100 for each in range(PARTITIONS)), 120, log.read_text)
        write_flows(tmp_path, clusters, one | {"east->west.topics": "orders, payments"})
        produce(east, "payments", [b"paid"])
        until(lambda: count(west, "east.payments") > 1, 120, log.read_text)
        for partition in range(PARTITIONS):
            assert records(west, "east.orders", partition) == records(east, "orders", partition)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_tasks_follow_a_declaration(stack: Stack, tmp_path: Path) -> None:
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    for topic in ("declared.one", "declared.two"):
        create_topic(east, topic, 1)
        produce(east, topic, [b"a record"])
    one = {"east->west.enabled": "true", "emit.heartbeats.enabled": "false"}

    def declare(topics: str) -> None:
        file = write_flows(tmp_path, {"east": east, "west": west}, one | {"topics": topics})
        words = [PROGRAM, "flows", "declare", "all", str(file), "--reason", "a test", "--zookeeper", stack.zookeeper]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    declare("declared.one")
    log = tmp_path / "spark.log"
    command = [sys.executable, "-m", "spark_jobs", "flows", "--declared", "all", "--tasks", "1"]
    command += ["--zookeeper", stack.zookeeper]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        until(lambda: count(west, "east.declared.one") > 1, 240, log.read_text)
        assert count(west, "east.declared.two") == 0
        declare("declared.one, declared.two")
        until(lambda: count(west, "east.declared.two") > 1, 120, log.read_text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
