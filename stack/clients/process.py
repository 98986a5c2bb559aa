"""Start, watch and end a client program from Python."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from stack.clients.options import Options
from stack.history.events import Acked, ClientStopped, Delivered, Event, LibraryRemark, Sent, decode, read_events
from stack.history.history import History, read_histories
from stack.processes import die_with_parent

PATIENCE_S = 120.0
"""Timeout for events that take no time on an idle machine."""
_POLL_S = 0.05
_DRAIN_S = 5.0
_COUNTED = {"acknowledged": Acked, "delivered": Delivered, "sent": Sent}


class ClientError(Exception):
    """A client failed, or did not reach the expected state in time; the text has its last output."""


class ClientProcess:
    """A running client. It ends with the thread that started it."""

    def __init__(self, kind: str, options: Options, process: subprocess.Popen[bytes], log: Path) -> None:
        self.kind = kind
        self.options = options
        self.log = log
        self._process = process
        self._read_bytes = 0
        self._counts = dict.fromkeys(_COUNTED.values(), 0)
        self._last: dict[type[Event], Event] = {}

    @classmethod
    def start(cls, kind: str, *, directory: Path, client: str, bootstrap: str, topic: str, **options: Any) -> Self:
        """Start a program of stack.clients.kinds; `options` are the fields of Options.

        The history goes to `directory`/CLIENT.jsonl, the program's output to CLIENT.log.
        """
        directory.mkdir(parents=True, exist_ok=True)
        chosen = Options(client=client, bootstrap=bootstrap, topic=topic, out=directory / f"{client}.jsonl", **options)
        chosen.out.unlink(missing_ok=True)
        log = directory / f"{client}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "stack.clients", kind, *chosen.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - two system calls, no lock
            )
        return cls(kind, chosen, process, log)

    @property
    def name(self) -> str:
        return self.options.client

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def count(self, what: str) -> int:
        """Number of events so far: `acknowledged`, `delivered` or `sent`."""
        self._read()
        return self._counts[_COUNTED[what]]

    def wait_for(self, number: int, what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until this many records are `acknowledged`, `delivered` or `sent`; raises ClientError."""
        deadline = time.monotonic() + timeout_s
        while self.count(what) < number:
            if not self.running and self.count(what) < number:
                raise ClientError(f"{self} ended with {self.count(what)} of {number} {what}: {self._last_words()}")
            if time.monotonic() > deadline:
                found = self.count(what)
                raise ClientError(f"{self}: {found} of {number} {what} after {timeout_s:.0f} s: {self._last_words()}")
            time.sleep(_POLL_S)

    def wait(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until it ends; raises ClientError if it does not, or ends with an error."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ClientError(f"{self} still runs after {timeout_s:.0f} s: {self._last_words()}") from error
        self._read()
        if code == -signal.SIGTERM and ClientStopped in self._last:
            return  # it had ended just before the signal
        if code != 0:
            raise ClientError(f"{self} ended with code {code}: {self._last_words()}")

    def stop(self, timeout_s: float = PATIENCE_S) -> None:
        """End it gracefully: flushed, committed, closed. If that fails, kill it and raise ClientError."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL. Output that a Java tool has already printed is still recorded: it may have committed it."""
        if self.kind.startswith("java-") and self.running:
            self._process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_DRAIN_S)
        self._process.kill()
        self._process.wait()

    def history(self) -> History:
        return read_histories([self.options.out])

    def mark(self) -> int:
        """The current position in the history, for `events`."""
        self._read()
        return self._read_bytes

    def events(self, mark: int) -> Iterator[Event]:
        """Events since the mark."""
        return read_events(self.options.out, mark)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def _read(self) -> None:
        try:
            with self.options.out.open("rb") as file:
                file.seek(self._read_bytes)
                fresh = file.read()
        except FileNotFoundError:
            return
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            event = decode(line.decode())
            kind = type(event)
            self._last[kind] = event
            if kind in self._counts:
                self._counts[kind] += 1

    def _last_words(self) -> str:
        noted = self._last.get(LibraryRemark)
        words = self.log.read_text("utf-8", "replace").splitlines()[-10:] if self.log.exists() else []
        return "\n".join([noted.text if isinstance(noted, LibraryRemark) else "", *words])


def history_of(clients: Iterable[ClientProcess]) -> History:
    """One history of several clients."""
    return read_histories([client.options.out for client in clients])
