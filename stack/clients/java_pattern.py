"""Kafka's Java consumer with a pattern subscription: runs `JavaPatternReader` of this folder, compiled at each run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stack.clients.java_compiler import COMPILER, compiler_jars
from stack.clients.java_tools import CLIENT_VERSION, run_java
from stack.clients.options import Options
from stack.clients.start_point import started_consumer
from stack.history.events import Assigned, Committed, Delivered, Event, LibraryRemark, Revoked

_PROGRAM = Path(__file__).with_name("JavaPatternReader.java")


def run(options: Options) -> int:
    settings = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "enable.auto.commit": "false",
        "auto.offset.reset": options.reset,
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    }
    return run_java(
        lambda config: [COMPILER, str(_PROGRAM), _PROGRAM.stem, str(config), options.pattern],
        settings,
        options,
        started_consumer(options, "java"),
        _PatternLines(options),
        CLIENT_VERSION,
        compiler_jars(),
    )


class _PatternLines:
    """Parses the program's output into events."""

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
