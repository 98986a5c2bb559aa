"""Kafka's ProducerPerformance and ConsumerPerformance: MB/s of one run each."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.ground import BenchError
from stack.jars import class_path, kafka_jars
from stack.java import find_java
from stack.processes import run

VERSION = "4.3.1"
TIMEOUT_S = 180.0
BATCH_BYTES = 64 * 1024


def produced_mb_s(
    bootstrap: str, topic: str, records: int, record_bytes: int, settings: Mapping[str, str] | None = None
) -> float:
    """MB (10^6 bytes) of values per second, acks=all and idempotent, from the tool's last line."""
    told = {"batch.size": str(BATCH_BYTES), "acks": "all", **(settings or {})}
    arguments = ["--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes)]
    printed = _run("ProducerPerformance", [*arguments, "--throughput", "-1"], bootstrap, told)
    found = re.findall(r"^(\d+) records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
    if not found or int(found[-1][0]) != records:
        raise BenchError(f"ProducerPerformance at {bootstrap} did not send {records} records:\n{printed[-2000:]}")
    return float(found[-1][1]) * record_bytes / 1e6


def consumed_mb_s(
    bootstrap: str, topic: str, records: int, record_bytes: int, settings: Mapping[str, str] | None = None
) -> float:
    """MB of values per second, without the time in which the group is formed.


    It commits nothing: if the group's cluster does not have the topic, the tool would retry for 30 s at its end, and
    the gateway's work for that would count as the cost of reading.
    """
    arguments = ["--topic", topic, "--num-records", str(records), "--timeout", "60000", "--hide-header"]
    told = {"auto.offset.reset": "earliest", "enable.auto.commit": "false", **(settings or {})}
    printed = _run("ConsumerPerformance", arguments, bootstrap, told)
    lines = [line.split(", ") for line in printed.splitlines() if line.count(", ") == 9]
    if not lines or int(lines[-1][4]) < records:
        raise BenchError(f"ConsumerPerformance at {bootstrap} did not read {records} records:\n{printed[-2000:]}")
    return int(lines[-1][4]) * record_bytes / 1e3 / float(lines[-1][7])


def _run(tool: str, arguments: list[str], bootstrap: str, settings: Mapping[str, str]) -> str:
    """The tool's output. :raises BenchError: it failed, or timed out."""
    java = find_java()
    jars = kafka_jars(VERSION, java, lambda _text: None)
    with tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        log4j = Path(folder, "log4j2.properties")
        log4j.write_text("rootLogger.level = off\n", "utf-8")
        properties = Path(folder, "client.properties")
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        path = class_path(jars)
        command = [java.binary, "-Xmx512m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"]
        command += [f"-Dlog4j2.configurationFile={log4j}", "-cp", path, f"org.apache.kafka.tools.{tool}"]
        command += ["--bootstrap-server", bootstrap, *arguments, "--command-config", str(properties)]
        try:
            done = run(command, TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{tool} at {bootstrap} did not end within {TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"{tool} at {bootstrap} ended with {done.returncode}:\n{(done.stderr + done.stdout)[-2000:]}")
    return done.stdout
