"""Runs blocking work in threads beside the copy loop; results are delivered in the loop."""

import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from ha_core.kafka.errors import KafkaAdminError
from ha_core.mirror.progress import CopyDamagedError

T = TypeVar("T")
_EXPECTED = (KafkaAdminError, CopyDamagedError)
Outcome: TypeAlias = T | KafkaAdminError | CopyDamagedError
"""The result, or the error."""


class BackgroundWork:
    """For selectors: readable when work has finished."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "copying")
        self._done: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)

    def fileno(self) -> int:
        return self._woken.fileno()

    def start(self, work: Callable[[], T], then: Callable[[Outcome[T]], None]) -> None:
        """`finish` calls `then`, and raises any error other than those of clusters and copies."""

        def over(future: Future[T]) -> None:
            if not future.cancelled():
                self._done.put(lambda: then(_outcome(future)))
                self.wake()

        self._pool.submit(work).add_done_callback(over)

    def wake(self) -> None:
        """From any thread: wakes the selector that waits for this to be readable."""
        with suppress(OSError):  # full, so it is readable; or closed
            self._waker.send(b"\0")

    def finish(self) -> None:
        """Delivers finished work."""
        with suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        with suppress(Empty):
            while True:
                self._done.get_nowait()()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._woken.close()
        self._waker.close()


def _outcome(future: Future[Any]) -> Any:
    error = future.exception()
    return error if isinstance(error, _EXPECTED) else future.result()
