"""Work that takes longer than the event loop may stand still: done by one thread beside it.

One thread, because more of them would only wait for each other, and of its own, because the lease is confirmed by the
others: it must not queue behind somebody's list of all topics.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from ha_core.store.watching import no_search

LARGE_BYTES = 32 << 10
"""What is longer is encoded or decoded beside the loop; below, handing it over takes as long as doing it."""
MAX_ITEMS = 400
"""In lists of a message, and in the lists of their items, that are gone over on the loop."""
SWITCH_S = 0.0001
"""How long the loop waits for that thread to let go of the interpreter, each time; for `sys.setswitchinterval`.

It waits once for each event, so this bounds how many clients are answered meanwhile."""

P = ParamSpec("P")
R = TypeVar("R")

_THREAD = ThreadPoolExecutor(1, "heavy")


async def beside(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of the function, which runs in the thread. Whoever stops waiting does not stop it."""

    def work() -> R:
        with no_search():
            return function(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)


class DeferredFreeList(list[Any]):
    """A long list of a message, whose items are freed beside the loop, one after the other, when nobody has it any
    more: freed at once, fifty thousand topics hold the interpreter for some 40 ms, and so the loop."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items)
        _start_freeing()

    def __del__(self) -> None:
        # May be called in the middle of anything, so by a queue that takes no lock of Python's.
        items = self[:]
        self.clear()  # or whoever is faster would free them
        _to_free.put(items)


_to_free = SimpleQueue[list[Any]]()


@cache
def _start_freeing() -> None:
    threading.Thread(target=_free_for_ever, name="freeing", daemon=True).start()


def _free_for_ever() -> None:
    while True:
        free(_to_free.get())


def free(items: list[Any]) -> None:
    """Empties a long list. Between two items other threads may run."""
    while items:
        items.pop()


def heavy(message: Mapping[str, Any]) -> bool:
    """Whether a message has more items than are gone over on the loop."""
    items = 0
    for outer in message.values():
        if isinstance(outer, list):
            items += len(outer)
            if items > MAX_ITEMS:  # the items themselves are only looked at where they are few
                return True
            messages = (item for item in outer if isinstance(item, dict))
            items += sum(len(inner) for item in messages for inner in item.values() if isinstance(inner, list))
    return items > MAX_ITEMS
