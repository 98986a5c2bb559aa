"""Kafka's Java transactional producer, in two versions: `JavaTransactions` of this folder, compiled at each run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from stack.clients.java_compiler import COMPILER, compiler_jars
from stack.clients.java_tools import CLIENT_VERSION, run_java
from stack.clients.options import Options
from stack.history.events import Acked, ClientStarted, Event, LibraryRemark, Outcome, Sent, TransactionEnded

OLD_VERSION = "3.9.2"
_PROGRAM = Path(__file__).with_name("JavaTransactions.java")
_OUTCOMES: dict[str, Outcome] = {"committed": "committed", "aborted": "aborted", "unknown": "unknown"}


def run(options: Options) -> int:
    return _run(options, CLIENT_VERSION)


def run_old(options: Options) -> int:
    """A version before 4.0, in which Java began to treat errors of transactions as fatal that an abort had mended."""
    return _run(options, OLD_VERSION)


def _run(options: Options, version: str) -> int:
    settings = {
        "bootstrap.servers": options.bootstrap,
        "transactional.id": options.client,
        "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "linger.ms": str(max(0, options.linger_ms)),
    }
    arguments = [options.topic, options.client, str(options.transaction_records), str(options.abort_every)]
    first = ClientStarted(
        options.client,
        time.time(),
        "producer",
        f"java-{version}-transactional",
        options.topics,
        idempotent=True,
        ordered=True,
        value_prefix=f"{options.client}-",
    )
    command = [COMPILER, str(_PROGRAM), _PROGRAM.stem]
    arguments.append(str(max(1.0, options.rate)))
    reader = _TransactionLines(options)
    return run_java(
        lambda config: [*command, str(config), *arguments], settings, options, first, reader, version, compiler_jars()
    )


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
