"""A thread that follows a part of the tree by rereading it: when woken, by the clock, and in each new session."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from ha_core.model import UnreadableDocumentError
from ha_core.store.errors import StoreError
from ha_core.store.tree import State, Tree

log = logging.getLogger(__name__)


class Rereading:
    """Runs from its creation until `close`. Wake-ups are never counted: each means "read again"."""

    def __init__(
        self,
        tree: Tree,
        name: str,
        read: Callable[[Callable[[], None], bool], Callable[[], object] | None],
        poll_s: float,
        on_state: Callable[[State], object] = lambda state: None,
    ) -> None:
        """
        :param read: called only while connected, with `wake`, and whether earlier reads cannot be trusted: there was
            none, or the session was lost; this stays true until a read has not raised. Returns a callback that passes
            the result on; if that fails, the read still counts.
        :param poll_s: how long a failed read, or a wake-up that got lost, can go unnoticed.
        :param on_state: called with each state of the connection, in this thread.
        """
        self._name, self._reader, self._poll_s, self._on_state = name, read, poll_s, on_state
        self._events: SimpleQueue[State | None] = SimpleQueue()
        self._connected, self._anew, self._closing = False, True, False
        self._unlisten = tree.listen(self._events.put)
        self._thread = threading.Thread(target=self._run, name=f"store-{name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; nothing is called after it returns (unless called from a callback)."""
        self._closing = True
        self._unlisten()
        self._events.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _wake(self) -> None:
        self._events.put(None)

    def _run(self) -> None:
        while True:
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
        # Our ephemeral nodes are gone, and other processes may have acted on that.
        self._anew = self._anew or state == "lost"
        self._tell(lambda: self._on_state(state))

    def _read(self) -> None:
        try:
            callback = self._reader(self._wake, self._anew)
        except (StoreError, UnreadableDocumentError) as error:
            log.warning("%s not read, the last content stays in force: %s", self._name, error)
            return
        except Exception:
            # A bug that some node's content has triggered: it must not end the thread.
            log.exception("%s not read, the last content stays in force", self._name)
            return
        self._anew = False
        if callback is not None:
            self._tell(callback)

    def _tell(self, callback: Callable[[], object]) -> None:
        """A failing callback must not end the thread: every later change would go unseen."""
        try:
            callback()
        except Exception:
            log.exception("a follower of %s failed", self._name)
