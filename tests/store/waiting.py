"""Waiting for asynchronous effects."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ha_core.model import View
from ha_core.store.watching import StateWatcher
from tests.kit.waiting import until

DEADLINE_S = 120.0


def delivered(watcher: StateWatcher, revision: int) -> View:
    """The newest view, once the watcher has delivered one of at least `revision`."""
    until(lambda: watcher.view is not None and watcher.view.revision >= revision, f"revision {revision}")
    assert watcher.view is not None
    return watcher.view


def at_once(call: Callable[..., object], *arguments: tuple[Any, ...]) -> None:
    """Call it with each of these arguments, all at once, and return when all have returned. Raises what one raises."""
    with ThreadPoolExecutor(len(arguments)) as pool:
        for called in [pool.submit(call, *each) for each in arguments]:
            called.result()
