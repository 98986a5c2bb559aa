"""Events of clients, one per line, as the clients saw them.

A value names one record: `CLIENT-NUMBER`. Times are seconds since the epoch on this machine's clock.
Offsets are client offsets: acknowledged to a producer, or delivered to a consumer.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Isolation = Literal["read_uncommitted", "read_committed"]
Outcome = Literal["committed", "aborted", "unknown"]


@dataclass(frozen=True, slots=True)
class ClientStarted:
    """A client's first line: properties that the checks rely on."""

    client: str
    t: float
    role: Literal["producer", "consumer"]
    kind: str
    topics: tuple[str, ...]
    group: str | None = None
    """None for a producer, and for a consumer that assigns its partitions itself."""
    isolation: Isolation = "read_uncommitted"
    idempotent: bool = False
    ordered: bool = False
    """A retry cannot overtake: the producer is idempotent, or has one request in flight."""
    value_prefix: str = ""
    lists_sends: bool = True
    """False if the program reports sends only with the answers."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Handed to the client library; these lines are in the order of sending."""

    client: str
    t: float
    topic: str
    value: str
    key: str | None = None
    partition: int | None = None
    transaction: int | None = None


@dataclass(frozen=True, slots=True)
class Acked:
    """The library reported success. Offset -1: accepted as a duplicate of a record at an unknown offset."""

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
    """The program moved a consumer: the next record may have any offset."""

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
    """The last line of a client that ended gracefully: flushed, committed, closed."""

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
    "Started": ClientStarted,
    "Sent": Sent,
    "Acked": Acked,
    "Failed": Failed,
    "TransactionEnded": TransactionEnded,
    "Delivered": Delivered,
    "Committed": Committed,
    "Assigned": Assigned,
    "Revoked": Revoked,
    "Positioned": Positioned,
    "Noted": LibraryRemark,
    "Stopped": ClientStopped,
}
"""Names in the files, which clients in Java and JavaScript write as well."""
_NAMES = {kind: name for name, kind in _KINDS.items()}


class HistoryError(Exception):
    """A history file is unreadable."""


def encode(event: Event) -> str:
    """One line without its newline; fields that equal None are left out."""
    name = _NAMES[type(event)]
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
    """The events of a file. An unfinished last line of a killed client is left out.

    :param start: skip this many bytes, which are whole lines.
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
