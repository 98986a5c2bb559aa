"""Connections to the brokers of two clusters: opened beside the loop, and lost with all their outstanding requests.

A broker works on one request of a connection at a time, and a fetch that waits for records occupies it. So partitions
that have more to copy use a connection of their own (`ConnectionUse`).
"""

import selectors
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.copying.background import BackgroundWork, Outcome
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.stream import BufferPool, Stream
from ha_core.wire.client import Answer
from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import WireError

_OPEN_S = 10.0
_AGAIN_S = 1.0
"""Pause before another attempt at a broker that could not be reached."""


class ConnectionUse(Enum):
    BUSY = "the source, of partitions that have more"
    IDLE = "the source, of partitions that have nothing new"
    TARGET = "the target"


class Line(NamedTuple):
    """The broker that a connection leads to, and its use."""

    channel: ConnectionUse
    node: int


@dataclass(eq=False)
class _OpenConnection:
    line: Line
    stream: Stream
    interest: int
    waiting: deque[tuple[Callable[[Answer], None], float]] = field(default_factory=deque)
    """The handler of each outstanding answer, with its deadline."""


class Connections:
    """
    :param lost: called with each line that broke or could not be opened, and the reason.
    :param rooms: buffers for long answers.
    """

    def __init__(
        self, source: Admin, target: Admin, beside: BackgroundWork, lost: Callable[[Line, str], None], rooms: BufferPool
    ) -> None:
        self._source, self._target = source, target
        self._beside, self._lost = beside, lost
        self._open: dict[Line, _OpenConnection] = {}
        self._opening: set[Line] = set()
        self._refused: dict[Line, float] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(beside, selectors.EVENT_READ)
        self._rooms = rooms

    def ready(self, line: Line, now: float) -> bool:
        """True if the connection is ready to send; otherwise it is being opened."""
        if line in self._open:
            return True
        if line not in self._opening and self._refused.get(line, 0.0) <= now:
            self._opening.add(line)
            admin = self._target if line.channel is ConnectionUse.TARGET else self._source
            self._beside.start(partial(admin.open, line.node, _OPEN_S), partial(self._opened, line, now))
        return False

    def send(
        self,
        line: Line,
        api: ApiKey,
        message: Mapping[str, Any],
        max_version: int,
        then: Callable[[Answer], None],
        until: float,
    ) -> bool:
        """Sends over a line that is ready; False if it was lost, which `lost` has reported.

        :param until: deadline of the answer.
        """
        connection = self._open[line]
        connection.waiting.append((then, until))
        try:
            connection.stream.send(api, message, max_version)
        except (KafkaAdminError, WireError) as error:
            self._lose(connection, str(error))
            return False
        self._watch(connection)
        return True

    def step(self, now: float, wait_s: float) -> None:
        """Handles received answers first, then missed deadlines: during a long round answers wait here."""
        for key, events in self._selector.select(wait_s):
            if key.fileobj is self._beside:
                self._beside.finish()
            else:
                connection: _OpenConnection = key.data
                if self._open.get(connection.line) is connection:
                    self._take(connection, events)
        for late in [
            connection for connection in self._open.values() if connection.waiting and connection.waiting[0][1] < now
        ]:
            self._lose(late, f"broker {late.line.node} does not answer")

    def close(self) -> None:
        for connection in self._open.values():
            connection.stream.close()
        self._open.clear()
        self._selector.close()

    def _opened(self, line: Line, now: float, found: Outcome[BlockingConnection]) -> None:
        self._opening.discard(line)
        if not isinstance(found, BlockingConnection):
            self._refused[line] = now + _AGAIN_S
            self._lost(line, str(found))
            return
        self._refused.pop(line, None)
        stream = Stream(found, self._rooms)
        connection = self._open[line] = _OpenConnection(line, stream, stream.interest)
        self._selector.register(stream, connection.interest, connection)

    def _take(self, connection: _OpenConnection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                connection.stream.write()
            if events & selectors.EVENT_READ:
                for answer in connection.stream.read():
                    connection.waiting.popleft()[0](answer)
                    if self._open.get(connection.line) is not connection:
                        return
        except (KafkaAdminError, WireError) as error:
            self._lose(connection, str(error))
            return
        self._watch(connection)

    def _watch(self, connection: _OpenConnection) -> None:
        if self._open.get(connection.line) is connection and connection.interest != connection.stream.interest:
            connection.interest = connection.stream.interest
            self._selector.modify(connection.stream, connection.interest, connection)

    def _lose(self, connection: _OpenConnection, reason: str) -> None:
        if self._open.get(connection.line) is not connection:
            return
        del self._open[connection.line]
        self._selector.unregister(connection.stream)
        connection.stream.close()
        self._lost(connection.line, reason)
