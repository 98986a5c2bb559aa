"""The file of a client's history, and the conditions under which the client ends."""

import signal
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from stack.clients.options import Options
from stack.history.events import Event, encode


class EventRecorder:
    """Appends events to a file; thread-safe. Unflushed events are lost if the process is killed."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", buffering=1 << 16)
        self._lock = threading.Lock()
        self._unflushed = False

    def write(self, *events: Event) -> None:
        lines = "".join(encode(event) + "\n" for event in events)
        with self._lock:
            if not self._file.closed:  # a library's thread may report after the end
                self._file.write(lines)
                self._unflushed = True

    def flush(self) -> None:
        """Write everything to the kernel: after that it survives this process."""
        with self._lock:
            if self._unflushed:
                self._file.flush()
                self._unflushed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._file.close()


class Ending:
    """True as soon as the client must end gracefully: SIGTERM, SIGINT, duration, count, or file."""

    _FILE_POLL_S = 0.1

    def __init__(self, options: Options) -> None:
        self._asked = threading.Event()
        self._deadline = time.monotonic() + options.duration_s if options.duration_s else None
        self._count = options.count
        self._file = Path(options.until_file) if options.until_file else None
        self._next_look = 0.0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._asked.set())

    def ask(self) -> None:
        self._asked.set()

    def reached(self, done: int) -> bool:
        """:param done: records sent or delivered so far."""
        if self._asked.is_set() or (self._count and done >= self._count):
            return True
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            return True
        if self._file is not None and now >= self._next_look:
            self._next_look = now + self._FILE_POLL_S
            return self._file.exists()
        return False


class RecordPace:
    """Computes the number of records that are due."""

    _MAX_AT_ONCE = 500

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._begun = time.monotonic()
        self._given = 0

    def due(self, left: int | None) -> int:
        """The number of records to send now, at most `left`. After a pause there is no burst to catch up."""
        if self._rate <= 0:
            number = self._MAX_AT_ONCE
        else:
            expected = (time.monotonic() - self._begun) * self._rate
            if expected - self._given > self._MAX_AT_ONCE:
                self._begun += (expected - self._given - self._MAX_AT_ONCE) / self._rate
                expected = self._given + self._MAX_AT_ONCE
            number = int(expected) - self._given
        number = number if left is None else min(number, left)
        self._given += number
        return number


def value_of(client: str, number: int | str, size_bytes: int) -> tuple[str, bytes]:
    """(value id, value): the id, then a space and dots up to the size."""
    name = f"{client}-{number}"
    return name, (name + " ").encode().ljust(size_bytes, b".") if size_bytes > len(name) else name.encode()


def name_in(value: bytes | None) -> str:
    """The value id in a record's value."""
    return "" if value is None else value.split(b" ", 1)[0].decode("utf-8", "replace")


def key_of(number: int, keys: int) -> str | None:
    return f"k{number % keys}" if keys else None
