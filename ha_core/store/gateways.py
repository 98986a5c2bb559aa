"""Gateways: an ephemeral node that is made again, with the newest record, after a session loss."""

from __future__ import annotations

import logging
import threading
import time

from ha_core.model import GatewayRecord, UnreadableDocumentError
from ha_core.store import paths
from ha_core.store.errors import AlreadyRegisteredError, StoreUnavailableError
from ha_core.store.tree import RefusedError, Remove, ReplyLostError, State, Tree, placed

log = logging.getLogger(__name__)

RETRY_S = 0.2
CHECK_S = 5.0
"""How often the node is looked at when nothing happens: it heals what an operator deleted by hand."""


class Registration:
    """Keeps the node equal to the newest record. Level-triggered: each wake-up compares and repairs."""

    def __init__(self, tree: Tree, record: GatewayRecord) -> None:
        """Register, waiting up to a session timeout for a dead predecessor's node to vanish.

        :raises AlreadyRegisteredError: the node of another session stays.
        """
        self._tree, self._path = tree, paths.path_of(GatewayRecord, record.id)
        self._record = record
        self._stored: GatewayRecord | None = None
        self._work = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._register_first()
        self._unlisten = tree.listen(self._on_state)
        self._thread = threading.Thread(target=self._run, name=f"store-registration-{record.id}", daemon=True)
        self._thread.start()

    @property
    def stored(self) -> GatewayRecord | None:
        """The record known to be in the store; None while the session is lost and the node not yet made again."""
        return self._stored

    def update(self, record: GatewayRecord) -> None:
        """Store a newer record soon; returns at once, never raises for want of a connection. The newest wins."""
        if record.id != self._record.id:
            raise ValueError(f"gateway {self._record.id} cannot become {record.id}: register that one by itself")
        self._record = record
        self._wake.set()

    def close(self) -> None:
        """Delete the node (by itself at the session's end if ZooKeeper is out of reach)."""
        if self._closing:
            return
        self._closing = True
        self._unlisten()
        self._wake.set()
        self._thread.join()
        try:
            with self._work:
                node = self._tree.get(self._path)
                if node is not None and node.owner == self._tree.session:
                    self._tree.write([Remove(self._path, node.version)])
        except (RefusedError, ReplyLostError, StoreUnavailableError) as error:
            log.warning("%s is left to the end of the session: %s", self._path, error)
        self._stored = None

    def _register_first(self) -> None:
        started = time.monotonic()
        patience_s = self._tree.session_timeout_s * 1.5
        while (other := self._repair()) is not None:
            waited_s = time.monotonic() - started
            if waited_s > patience_s:
                raise AlreadyRegisteredError(self._record.id, other, waited_s)
            time.sleep(RETRY_S)

    def _on_state(self, state: State) -> None:
        if state == "lost":
            self._stored = None
        if state == "connected":
            self._wake.set()

    def _run(self) -> None:
        delay_s = CHECK_S
        while not self._closing:
            self._wake.wait(delay_s)
            self._wake.clear()
            if self._closing:
                return
            try:
                other = self._repair()
            except StoreUnavailableError as error:
                log.warning("gateway %s is not registered: %s", self._record.id, error)
                delay_s = RETRY_S
                continue
            if other is not None:
                log.error("gateway %s: session 0x%x has registered the same id", self._record.id, other)
            delay_s = RETRY_S if other is not None else CHECK_S

    def _repair(self) -> int | None:
        """Make the node hold the newest record; returns the other session that has the node, if one has."""
        with self._work:
            while True:
                record = self._record
                session = self._tree.session
                node = self._tree.get(self._path)
                if node is not None and node.owner != session:
                    return node.owner
                data = record.to_bytes()
                if node is not None and node.data == data:
                    self._stored = record
                    if record is self._record:
                        return None
                    continue
                try:
                    self._tree.write([placed(self._path, data, node, ephemeral=True)])
                except (RefusedError, ReplyLostError):
                    # What stands there now is read, not guessed: also whether a write whose reply was lost is ours.
                    continue


def record_at(path: str, data: bytes) -> GatewayRecord:
    """A live gateway whose record cannot be read is still there: operations must wait for it, not skip it."""
    try:
        return GatewayRecord.from_bytes(data, path)
    except UnreadableDocumentError as error:
        log.warning("taken as revision 0: %s", error)
        return GatewayRecord(id=paths.decode(path.rpartition("/")[2]), host="", port=0, node_id=0)
