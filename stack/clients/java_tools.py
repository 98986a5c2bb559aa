"""Kafka's VerifiableProducer and VerifiableConsumer; their output becomes a history.

The tools print nothing about a record before its answer, so `Sent` is written with the answer, in the order of their
counter, and their histories declare this (`lists_sends`).
"""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol

from stack.certificates import write_private
from stack.clients.options import Options
from stack.clients.recorder import Ending, EventRecorder
from stack.clients.start_point import started_consumer, started_producer
from stack.history.events import (
    Acked,
    Assigned,
    ClientStarted,
    ClientStopped,
    Committed,
    Delivered,
    Event,
    Failed,
    LibraryRemark,
    Revoked,
    Sent,
)
from stack.jars import class_path, kafka_jars
from stack.java import SHORT_LIVED, find_java
from stack.processes import die_with_parent

CLIENT_VERSION = "4.3.1"
_POLL_S = 0.05


def produce(options: Options) -> int:
    # The tool sets retries=0 and with it idempotence off; Kafka's real defaults are restored.
    settings = {"retries": "2147483647", "enable.idempotence": "false" if options.idempotence == "off" else "true"}
    if options.compression:
        settings["compression.type"] = options.compression
    if options.linger_ms >= 0:
        settings["linger.ms"] = str(options.linger_ms)
    prefix = str(zlib.crc32(options.client.encode()) & 0x3FFFFFFF)  # the tool requires a number
    arguments = ["--topic", options.topic, "--value-prefix", prefix]
    arguments += ["--throughput", str(max(1, round(options.rate)) if options.rate else -1)]
    arguments += ["--max-messages", str(options.count or -1)]
    arguments += ["--acks", {"all": "-1"}.get(options.acks, options.acks or "-1")]
    if options.keys:
        arguments += ["--repeating-keys", str(options.keys)]
    idempotent = settings["enable.idempotence"] == "true"
    first = started_producer(options, "java", idempotent, prefix=f"{prefix}.", lists_sends=False)
    reader = _ProducerLines(options, prefix)
    return _run("VerifiableProducer", arguments, settings, options, first, reader)


def consume(options: Options) -> int:
    settings = {}
    if options.isolation:
        settings["isolation.level"] = options.isolation
    arguments = ["--topic", options.topic, "--group-id", options.group, "--verbose", "--reset-policy", options.reset]
    arguments += ["--max-messages", str(options.count or -1)]
    if options.commit == "auto":
        arguments.append("--enable-autocommit")
    if options.instance_id:
        arguments += ["--group-instance-id", options.instance_id]
    reader = _ConsumerLines(options)
    first = started_consumer(options, "java")
    return _run("VerifiableConsumer", arguments, settings, options, first, reader)


class _ProducerLines:
    """Parses the producer's output into events."""

    def __init__(self, options: Options, prefix: str) -> None:
        self._client = options.client
        self._topic = options.topic
        self._prefix = prefix
        self._sent = 0
        self.count = 0

    def events(self, text: str) -> Iterator[Event]:
        line = json.loads(text)
        name, t = line["name"], line["timestamp"] / 1000
        if name == "producer_send_success":
            yield from self._sends(line["value"], t)
            self.count += 1
            offset = max(-1, line["offset"])
            yield Acked(self._client, t, line["topic"], line["partition"], offset, line["value"])
        elif name == "producer_send_error":
            yield from self._sends(line["value"], t)
            error = f"{line.get('exception')}: {line.get('message')}"
            yield Failed(self._client, t, self._topic, line["value"], False, error)

    def _sends(self, value: str, t: float) -> Iterator[Event]:
        upto = int(value.rsplit(".", 1)[1])
        while self._sent <= upto:
            yield Sent(self._client, t, self._topic, f"{self._prefix}.{self._sent}")
            self._sent += 1


class _ConsumerLines:
    """Parses the consumer's output into events."""

    def __init__(self, options: Options) -> None:
        self._client = options.client
        self._group = options.group
        self.count = 0

    def events(self, text: str) -> Iterator[Event]:
        line = json.loads(text)
        name, t = line["name"], line["timestamp"] / 1000
        if name == "record_data":
            self.count += 1
            value = line["value"].split(" ", 1)[0]
            yield Delivered(self._client, t, line["topic"], line["partition"], line["offset"], value, self._group)
        elif name == "offsets_committed":
            if not line["success"]:
                yield LibraryRemark(self._client, t, f"commit: {line.get('error')}")
                return
            for offset in line["offsets"]:
                yield Committed(self._client, t, self._group, offset["topic"], offset["partition"], offset["offset"])
        elif name in ("partitions_assigned", "partitions_revoked"):
            spots = tuple((partition["topic"], partition["partition"]) for partition in line["partitions"])
            kind = Assigned if name == "partitions_assigned" else Revoked
            yield kind(self._client, t, spots, self._group)


def _run(
    tool: str,
    arguments: list[str],
    settings: dict[str, str],
    options: Options,
    first: ClientStarted,
    reader: _ProducerLines | _ConsumerLines,
) -> int:
    main = [f"org.apache.kafka.tools.{tool}", "--bootstrap-server", options.bootstrap]
    return run_java(
        lambda config: [*main, "--command-config", str(config), *arguments], settings, options, first, reader
    )


class LineReader(Protocol):
    """Reads the program's output."""

    @property
    def count(self) -> int:
        """Number of records so far."""

    def events(self, text: str) -> Iterator[Event]: ...


def run_java(
    main: Callable[[Path], list[str]],
    settings: dict[str, str],
    options: Options,
    first: ClientStarted,
    reader: LineReader,
    version: str = CLIENT_VERSION,
    more_jars: Sequence[Path] = (),
) -> int:
    """:param main: returns the class and its arguments, given the file with the client's settings."""
    settings["client.id"] = options.identifier
    settings["security.protocol"] = options.protocol
    if options.ca_file:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": options.ca_file}
    if options.user:
        module = "plain.PlainLoginModule" if options.mechanism == "PLAIN" else "scram.ScramLoginModule"
        settings["sasl.mechanism"] = options.mechanism
        settings["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required"
            f' username="{options.user}" password="{options.password}";'
        )
    settings |= options.own_settings
    with EventRecorder(options.out) as recorder, tempfile.TemporaryDirectory(prefix="switchyard-client-") as folder:
        if options.certificate_file:
            both = Path(folder, "client.pem")
            write_private(both, Path(options.key_file).read_bytes() + Path(options.certificate_file).read_bytes())
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
        config = Path(folder, "client.properties")
        config.touch(mode=0o600)
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        recorder.write(first)
        ending = Ending(options)
        process = subprocess.Popen(
            [*_java(folder, version, more_jars), *main(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C in the terminal is passed on once, by this process
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - two system calls, no lock
        )
        assert process.stdout is not None
        lines = threading.Thread(target=_follow, args=(process.stdout, reader, recorder, options.client))
        lines.start()
        signal.signal(signal.SIGUSR1, lambda _number, _frame: process.kill())  # its output so far is still read
        answered = False
        while process.poll() is None:
            if not answered and ending.reached(reader.count):
                process.send_signal(signal.SIGTERM)
                answered = True
            recorder.flush()
            time.sleep(_POLL_S)
        lines.join()
        if process.returncode == -signal.SIGKILL:
            return 1
        good = process.returncode in (0, 128 + signal.SIGTERM)
        if not good:
            text = f"{main(config)[0]} ended with {process.returncode}"
            recorder.write(LibraryRemark(options.client, time.time(), text, fatal=True))
        recorder.write(ClientStopped(options.client, time.time()))
        return 0 if good else 1


def _java(folder: str, version: str, more_jars: Sequence[Path]) -> list[str]:
    java = find_java()
    jars = kafka_jars(version, java, lambda _text: None)
    log4j = Path(folder, "log4j2.properties")
    log4j.write_text(
        "rootLogger.level = warn\nrootLogger.appenderRef.err.ref = err\n"
        "appender.err.type = Console\nappender.err.name = err\nappender.err.target = SYSTEM_ERR\n"
        "appender.err.layout.type = PatternLayout\nappender.err.layout.pattern = %d %p %c: %m%n\n",
        "utf-8",
    )
    small = ["-Xmx128m", *SHORT_LIVED, "--enable-native-access=ALL-UNNAMED"]
    path = os.pathsep.join((class_path(jars), *map(str, more_jars)))
    return [java.binary, *small, f"-Dlog4j2.configurationFile={log4j}", "-cp", path]


def _follow(output: IO[str], reader: LineReader, recorder: EventRecorder, client: str) -> None:
    for text in output:
        try:
            events = list(reader.events(text))
        except (ValueError, KeyError, TypeError) as error:
            recorder.write(LibraryRemark(client, time.time(), f"not understood ({error!r}): {text.strip()[:500]}"))
            continue
        recorder.write(*events)
