"""Programs of this folder with Kafka's Java client: a transactional producer, in two versions, and a reader by pattern.

Janino, the compiler among Spark's jars, compiles and runs their source at each start: no installed package has javac.
"""

from collections.abc import Iterator
from pathlib import Path

from stack.clients.java_tools import CLIENT_VERSION, LineReader, run_java
from stack.clients.options import Options
from stack.clients.start_point import started_consumer, started_producer
from stack.errors import StackError
from stack.history.events import (
    Acked,
    Assigned,
    ClientStarted,
    Committed,
    Delivered,
    Event,
    LibraryRemark,
    Outcome,
    Revoked,
    Sent,
    TransactionEnded,
)
from stack.jars import pyspark_jars

OLD_VERSION = "3.9.2"
COMPILER = "org.codehaus.janino.SimpleCompiler"
"""Arguments: a source file, the name of its class, and that class's arguments."""
_OUTCOMES: dict[str, Outcome] = {"committed": "committed", "aborted": "aborted", "unknown": "unknown"}


def compiler_jars() -> list[Path]:
    jars = [jar for name in ("janino", "commons-compiler") for jar in pyspark_jars().glob(f"{name}-*.jar")]
    if len(jars) < 2:
        raise StackError(f"no compiler in {pyspark_jars()}: install the locked pyspark (requirements.txt)")
    return jars


def _run(
    program: str,
    arguments: list[str],
    settings: dict[str, str],
    options: Options,
    first: ClientStarted,
    reader: LineReader,
    version: str = CLIENT_VERSION,
) -> int:
    jars = compiler_jars()
    source = str(Path(__file__).with_name(f"{program}.java"))
    command = [COMPILER, source, program]
    return run_java(lambda config: [*command, str(config), *arguments], settings, options, first, reader, version, jars)


def transactions(options: Options) -> int:
    return _transactions(options, CLIENT_VERSION)


def old_transactions(options: Options) -> int:
    """A version before 4.0, in which Java began to treat errors of transactions as fatal that an abort had mended."""
    return _transactions(options, OLD_VERSION)


def _transactions(options: Options, version: str) -> int:
    settings = {
        "bootstrap.servers": options.bootstrap,
        "transactional.id": options.client,
        "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "linger.ms": str(max(0, options.linger_ms)),
    }
    arguments = [options.topic, options.client, str(options.transaction_records), str(options.abort_every)]
    arguments.append(str(max(1.0, options.rate)))
    first = started_producer(options, f"java-{version}-transactional", idempotent=True)
    return _run("JavaTransactions", arguments, settings, options, first, _TransactionLines(options), version)


class _TransactionLines:
    """Parses the program's output into events."""

    def __init__(self, options: Options) -> None:
        self._client, self._topic = options.client, options.topic
        self.count = 0

    def events(self, text: str) -> Iterator[Event]:
        what, at_ms, transaction, *rest = text.rstrip("\n").split("\t")
        t, number = int(at_ms) / 1000, int(transaction)
        if what == "sent":
            self.count += 1
            yield Sent(self._client, t, self._topic, rest[0], None, None, number)
        elif what == "acked":
            yield Acked(self._client, t, self._topic, int(rest[1]), int(rest[2]), rest[0], number)
        elif what == "ended":
            yield TransactionEnded(self._client, t, number, _OUTCOMES[rest[0]])
        else:
            yield LibraryRemark(self._client, t, rest[0], fatal=what == "fatal")


def pattern_reader(options: Options) -> int:
    settings = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "enable.auto.commit": "false",
        "auto.offset.reset": options.reset,
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    }
    first = started_consumer(options, "java")
    return _run("JavaPatternReader", [options.pattern], settings, options, first, _PatternLines(options))


class _PatternLines:
    """Parses the reader's output into events."""

    def __init__(self, options: Options) -> None:
        self._client, self._group = options.client, options.group
        self.count = 0

    def events(self, text: str) -> Iterator[Event]:
        what, at_ms, *rest = text.rstrip("\n").split("\t")
        t = int(at_ms) / 1000
        if what == "record":
            self.count += 1
            value = rest[3].split(" ", 1)[0]
            yield Delivered(self._client, t, rest[0], int(rest[1]), int(rest[2]), value, self._group)
        elif what == "committed":
            yield Committed(self._client, t, self._group, rest[0], int(rest[1]), int(rest[2]))
        elif what in ("assigned", "revoked"):
            spots = tuple(zip(rest[::2], map(int, rest[1::2]), strict=False))
            kind = Assigned if what == "assigned" else Revoked
            yield kind(self._client, t, spots, self._group)
        else:
            yield LibraryRemark(self._client, t, rest[0])
