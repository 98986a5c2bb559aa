"""What clients did, one event a line, as they saw it themselves.

A value names one record for ever: `CLIENT-NUMBER`. Times are seconds since the epoch on this machine's clock.
Offsets are the client's: what a producer was told and what a consumer was given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Isolation = Literal["read_uncommitted", "read_committed"]
Outcome = Literal["committed", "aborted", "unknown"]


@dataclass(frozen=True, slots=True)
class ClientStarted:
    """A client's first line: what may be expected of it."""

    client: str
    t: float
    role: Literal["producer", "consumer"]
    kind: str
    topics: tuple[str, ...]
    group: str | None = None
    """None for a producer, and for a consumer that assigns itself."""
    isolation: Isolation = "read_uncommitted"
    idempotent: bool = False
    ordered: bool = False
    """A retry cannot overtake: the producer is idempotent, or has one request in flight."""
    value_prefix: str = ""
    lists_sends: bool = True
    """False where the program does not say what it sends before the answer."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Handed to the client library; the order of these lines is the order of sending."""

    client: str
    t: float
    topic: str
    value: str
    key: str | None = None
    partition: int | None = None
    transaction: int | None = None


@dataclass(frozen=True, slots=True)
class Acked:
    """The library reported success. Offset -1: taken as the duplicate of a record whose place is unknown."""

    client: str
    t: float
    topic: str
    partition: int
    offset: int
    value: str
    transaction: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The library gave up. `definite`: the error says that nothing was appended."""

    client: str
    t: float
    topic: str
    value: str
    definite: bool
    error: str


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    client: str
    t: float
    transaction: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Delivered:
    client: str
    t: float
    topic: str
    partition: int
    offset: int
    value: str
    group: str | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit was confirmed; the offset is the next one to read."""

    client: str
    t: float
    group: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partitions as (topic, partition)."""

    client: str
    t: float
    partitions: tuple[tuple[str, int], ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Revoked:
    client: str
    t: float
    partitions: tuple[tuple[str, int], ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Positioned:
    """The program moved a consumer by itself: the next record may have any offset."""

    client: str
    t: float
    topic: str
    partition: int
    where: str


@dataclass(frozen=True, slots=True)
class LibraryRemark:
    """An error or a remark of the library. `fatal`: the client could not go on."""

    client: str
    t: float
    text: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class ClientStopped:
    """The last line of a client that ended in order: flushed, committed, closed."""

    client: str
    t: float


Event = (
    ClientStarted
    | Sent
    | Acked
    | Failed
    | TransactionEnded
    | Delivered
    | Committed
    | Assigned
    | Revoked
    | Positioned
    | LibraryRemark
    | ClientStopped
)
_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        ClientStarted,
        Sent,
        Acked,
        Failed,
        TransactionEnded,
        Delivered,
        Committed,
        Assigned,
        Revoked,
        Positioned,
        LibraryRemark,
        ClientStopped,
    )
}


class HistoryError(Exception):
    """A history file that cannot be read."""


def encode(event: Event) -> str:
    """One line without its end; what equals None is left out."""
    name = type(event).__name__
    document = {key: value for key, value in asdict(event).items() if value is not None}
    return json.dumps({"event": name, **document}, ensure_ascii=False, separators=(",", ":"))


def decode(line: str) -> Event:
    """The event of a line; raises HistoryError."""
    try:
        document: dict[str, Any] = json.loads(line)
        kind = _KINDS[document.pop("event")]
        if "partitions" in document:
            document["partitions"] = tuple((topic, partition) for topic, partition in document["partitions"])
        if "topics" in document:
            document["topics"] = tuple(document["topics"])
        return kind(**document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HistoryError(f"{line[:200]!r} is no event of a history: {error}") from error


def read_events(path: Path, start: int = 0) -> Iterator[Event]:
    """The events of a file. A last line without its end is what a killed client did not finish: left out.

    :param start: bytes of whole lines in front of them.
    """
    with path.open(encoding="utf-8") as file:
        file.seek(start)
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            try:
                yield decode(line)
            except HistoryError as error:
                raise HistoryError(f"{path}:{number}: {error}") from error
