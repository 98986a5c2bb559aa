"""Following the state: a watch on the revision wakes, the notes say what to read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue

from ha_core.model import UnreadableDocumentError, View
from ha_core.store.errors import StoreError
from ha_core.store.protocol import State
from ha_core.store.replica import Replica
from ha_core.store.tree import Tree

log = logging.getLogger(__name__)

POLL_S = 5.0
"""How long a failed read, or a wake-up that got lost, can go unnoticed."""


class TreeFollower:
    """One thread that reads and calls back. Wake-ups are never counted: each means "read the revision again"."""

    def __init__(
        self,
        tree: Tree,
        on_view: Callable[[View, frozenset[str]], None],
        on_state: Callable[[State], None] | None,
        poll_s: float = POLL_S,
    ) -> None:
        self._replica = Replica(tree.impatient())
        self._on_view, self._on_state, self._poll_s = on_view, on_state, poll_s
        self._events: SimpleQueue[State | None] = SimpleQueue()
        self._delivered = threading.Condition()
        self._view: View | None = None
        self._connected = False
        self._stale = True
        """Nothing loaded yet, or the session was lost: notes are not enough."""
        self._closing = False
        self._unlisten = tree.listen(self._events.put)
        self._thread = threading.Thread(target=self._run, name="store-follower", daemon=True)
        self._thread.start()

    @property
    def view(self) -> View | None:
        return self._view

    @property
    def unreadable(self) -> Mapping[str, str]:
        return self._replica.unreadable

    def wait_for(self, revision: int, timeout_s: float) -> View:
        with self._delivered:
            arrived = self._delivered.wait_for(
                lambda: self._view is not None and self._view.revision >= revision, timeout_s
            )
            if not arrived or self._view is None:
                at = "nothing" if self._view is None else f"revision {self._view.revision}"
                raise TimeoutError(f"revision {revision} was not delivered within {timeout_s} s, only {at}")
            return self._view

    def close(self) -> None:
        self._closing = True
        self._unlisten()
        self._events.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        self._events.put(None)

    def _run(self) -> None:
        while not self._closing:
            try:
                event = self._events.get(timeout=self._poll_s)
            except Empty:
                event = None
            if self._closing:
                return
            if event is not None:
                self._enter(event)
            if self._connected:
                self._read()

    def _enter(self, state: State) -> None:
        self._connected = state == "connected"
        if state == "lost":
            # Our ephemeral nodes are gone and others may have acted on that: trust nothing that was read before.
            self._stale = True
        if self._on_state is not None:
            self._call(lambda: self._on_state and self._on_state(state))

    def _read(self) -> None:
        first = self._view is None
        try:
            if self._stale:
                changed = self._replica.reload(self._wake)
                self._stale = False
            else:
                changed = self._replica.catch_up(self._wake)
        except (StoreError, UnreadableDocumentError) as error:
            log.warning("state not read, the last view stays in force: %s", error)
            return
        view = self._replica.view
        if first or self._view is None or view.revision != self._view.revision or changed:
            self._call(lambda: self._on_view(view, changed))
            with self._delivered:
                self._view = view
                self._delivered.notify_all()

    def _call(self, callback: Callable[[], object]) -> None:
        """A failing callback must not end the thread: every later change would go unseen."""
        try:
            callback()
        except Exception:
            log.exception("a follower's callback failed")
