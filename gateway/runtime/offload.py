"""Runs work in a thread that would block the event loop for too long.

There is one thread, because more would only wait for each other. It is separate from the loop's pool, which confirms
the lease: that must not queue after a client's list of all topics.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from ha_core.store.watching import no_search

LARGE_BYTES = 32 << 10
"""Longer messages are encoded or decoded in the thread; for shorter ones the handover takes as long as the work."""
MAX_ITEMS = 400
"""Most items, in lists of a message and in lists of their items, that are processed on the loop."""
SWITCH_S = 0.0001
"""How long the loop waits for the thread to release the interpreter, each time; for `sys.setswitchinterval`.

It waits once for each event, so this bounds how many clients are answered meanwhile."""

P = ParamSpec("P")
R = TypeVar("R")

_THREAD = ThreadPoolExecutor(1, "heavy")


async def offload(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The function's result, computed in the thread. Cancelling the caller does not stop it."""

    def work() -> R:
        with no_search():
            return function(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)


class DeferredFreeList(list[Any]):
    """A long list of a message, whose items are freed in a thread, one by one, after its last reference is gone: freed
    at once, fifty thousand topics hold the interpreter for some 40 ms, and so the loop."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items)
        _start_freeing()

    def __del__(self) -> None:
        # May run at any point of the program, so it uses a queue that takes no Python lock.
        items = self[:]
        self.clear()  # else the thread that drops the last reference frees them
        _to_free.put(items)


_to_free = SimpleQueue[list[Any]]()


@cache
def _start_freeing() -> None:
    threading.Thread(target=_free_loop, name="freeing", daemon=True).start()


def _free_loop() -> None:
    while True:
        free(_to_free.get())


def free(items: list[Any]) -> None:
    """Empties a long list. Between two items other threads may run."""
    while items:
        items.pop()


def heavy(message: Mapping[str, Any]) -> bool:
    """Whether a message has too many items to be processed on the loop."""
    items = 0
    for outer in message.values():
        if isinstance(outer, list):
            items += len(outer)
            if items > MAX_ITEMS:  # checked first: items are visited only where they are few
                return True
            messages = (item for item in outer if isinstance(item, dict))
            items += sum(len(inner) for item in messages for inner in item.values() if isinstance(inner, list))
    return items > MAX_ITEMS
