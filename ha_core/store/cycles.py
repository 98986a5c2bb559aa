"""Large loads without the search for reference cycles: what is made of documents and messages has none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search() -> Iterator[None]:
    """Half of the time of a large load would go into that search, and everybody waits for it, in all threads.

    What was made counts as old afterwards: as young objects all of it would be gone through at once.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.freeze()
            gc.unfreeze()
            gc.enable()
