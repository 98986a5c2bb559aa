"""Registrations, of gateways and others: ephemeral nodes, which are made again after a session loss."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from ha_core.model import Document, ExpectedGateway, ExpectedNumber, GatewayRecord, UnreadableDocumentError
from ha_core.store import documents, paths
from ha_core.store.documents import readable
from ha_core.store.errors import AlreadyRegisteredError, StoreError, StoreUnavailableError
from ha_core.store.tree import OnTree, PreconditionError, Remove, ReplyLostError, State, Tree, once, placed, remove

log = logging.getLogger(__name__)
D = TypeVar("D", bound=Document)

RETRY_S = 0.2
CHECK_S = 5.0
"""How often the node is checked without an event: this restores a node that an operator deleted by hand."""


class Registration(Generic[D]):
    """Keeps the node equal to the newest record. Level-triggered: each wake-up compares and repairs.

    :ivar session: the node's session at the last check; a new value means that the node was gone for a while.
    """

    def __init__(self, tree: Tree, record: D) -> None:
        """Register, waiting up to a session timeout for a dead predecessor's node to vanish.

        :raises AlreadyRegisteredError: the node of another session stays.
        """
        self._tree, self._path = tree, paths.path_of(type(record), paths.name_of(record))
        self._what = f"{record.FOLDER[1:-1].replace('_', ' ')} {paths.name_of(record)}"
        self._record = record
        self._stored: D | None = None
        self.session = 0
        self._work = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._register_first()
        self._unlisten = tree.listen(self._on_state)
        self._thread = threading.Thread(target=self._run, name=f"store-registration-{self._path}", daemon=True)
        self._thread.start()

    @property
    def stored(self) -> D | None:
        """The record known to be in the store; None while the session is lost and the node not yet made again."""
        return self._stored

    def update(self, record: D) -> None:
        """Store a newer record soon; returns at once, never raises for want of a connection. The newest wins."""
        if paths.name_of(record) != paths.name_of(self._record):
            raise ValueError(f"{self._what} cannot become {paths.name_of(record)}: register that one by itself")
        self._record = record
        self._wake.set()

    def held(self) -> bool:
        """Whether the node belongs to this session now; False: another session has it.

        :raises StoreUnavailableError: ZooKeeper does not answer; at once where the connection is lost.
        """
        self._tree.confirm()
        return self._repair() is None

    def close(self) -> None:
        """Delete the node (it vanishes at the session's end if ZooKeeper is out of reach)."""
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
        except (PreconditionError, ReplyLostError, StoreUnavailableError) as error:
            log.warning("%s is left to the end of the session: %s", self._path, error)
        self._stored = None

    def _register_first(self) -> None:
        started = time.monotonic()
        patience_s = self._tree.session_timeout_s * 1.5
        while (other := self._repair()) is not None:
            waited_s = time.monotonic() - started
            if waited_s > patience_s:
                raise AlreadyRegisteredError(self._what, other, waited_s)
            time.sleep(RETRY_S)

    def _on_state(self, state: State) -> None:
        if state == "lost":
            self._stored = None
        if state == "connected":
            self._wake.set()

    def _run(self) -> None:
        delay_s, named = CHECK_S, 0
        while True:
            self._wake.wait(delay_s)
            self._wake.clear()
            if self._closing:
                return
            delay_s = RETRY_S
            try:
                other = self._repair()
            except StoreUnavailableError as error:
                log.warning("%s is not registered: %s", self._what, error)
            except StoreError as error:
                # The fault is this record's, for example its size. The next one may be accepted.
                log.warning("%s stays as it was: %s", self._what, error)
                delay_s = CHECK_S
            else:
                if other is None:
                    delay_s, named = CHECK_S, 0
                elif other != named:
                    # Logged once: this runs five times a second for as long as the other session lives.
                    named = other
                    log.error(
                        "%s: ZooKeeper session 0x%x has registered the same name: another process runs under it; "
                        "give each its own",
                        self._what,
                        other,
                    )

    def _repair(self) -> int | None:
        """Make the node hold the newest record; returns the session that has the node, if it is another one."""
        with self._work:
            while True:
                record = self._record
                session = self._tree.session
                node = self._tree.get(self._path)
                if node is not None and node.owner != session:
                    return node.owner
                data = documents.to_bytes(record)
                if node is not None and node.data == data:
                    self._stored, self.session = record, session
                    if record is self._record:
                        return None
                    continue
                try:
                    self._tree.write([placed(self._path, data, node, ephemeral=True)])
                except (PreconditionError, ReplyLostError):
                    # Read the node again: that also shows whether a write whose reply was lost is ours.
                    continue


def record_at(path: str, data: bytes) -> GatewayRecord:
    """A live gateway with an unreadable record is still there: operations must wait for it, not skip it."""
    try:
        return GatewayRecord.from_bytes(data, path)
    except UnreadableDocumentError as error:
        log.warning("taken as revision 0: %s", error)
        return GatewayRecord(id=paths.decode(path.rpartition("/")[2]), host="", port=0, node_id=0)


class ExpectedGateways(OnTree):
    def expect_gateway(self, expected: ExpectedGateway) -> None:
        """Record a gateway that has registered. It is expected until `gateway_stopped` or `forget_gateway`."""

        def change(stored: ExpectedGateway | None) -> ExpectedGateway:
            return expected.changed(declared=expected.declared or (stored is not None and stored.declared))

        self._change_expected(expected.gateway, change)

    def declare_gateway(self, gateway: str) -> None:
        """Expect a gateway by name, whether it has registered or not."""

        def change(stored: ExpectedGateway | None) -> ExpectedGateway:
            return (stored or ExpectedGateway(gateway=gateway)).changed(declared=True)

        self._change_expected(gateway, change)

    def gateway_stopped(self, gateway: str, at: str) -> None:
        """A gateway ends by request. It is expected no longer, unless it is declared: then the stop is recorded."""

        def change(stored: ExpectedGateway | None) -> ExpectedGateway | None:
            return stored.changed(stopped=at) if stored is not None and stored.declared else None

        self._change_expected(gateway, change)

    def _change_expected(
        self, gateway: str, change: Callable[[ExpectedGateway | None], ExpectedGateway | None]
    ) -> None:
        """Replace the document; None: remove it. One that this version cannot read is replaced."""
        path = paths.path_of(ExpectedGateway, gateway)

        def write() -> None:
            node = self._tree.get(path)
            changed = change(self.expected_gateways().get(gateway))
            if changed is not None:
                self._tree.write([placed(path, documents.to_bytes(changed), node)])
            elif node is not None:
                self._tree.write([Remove(path, node.version)])

        once(self._tree, f"expecting gateway {gateway}", write)

    def expect_number(self, expected: ExpectedNumber | None) -> None:
        """Expect so many gateways; None: no number is expected."""
        path = paths.path_of(ExpectedNumber, ExpectedNumber.model_fields["name"].default)

        def write() -> None:
            if expected is None:
                remove(self._tree, path)
            else:
                self._tree.write([placed(path, documents.to_bytes(expected), self._tree.get(path))])

        once(self._tree, "expecting a number of gateways", write)

    def expected_number(self) -> ExpectedNumber | None:
        return next(iter(readable(self._tree, ExpectedNumber)), None)

    def forget_gateway(self, gateway: str) -> bool:
        """Expect the gateway no longer; returns whether it was expected."""
        forget = partial(remove, self._tree, paths.path_of(ExpectedGateway, gateway))
        return once(self._tree, f"forgetting gateway {gateway}", forget)

    def expected_gateways(self) -> dict[str, ExpectedGateway]:
        """By name; documents that this version cannot read are left out."""
        return {one.gateway: one for one in readable(self._tree, ExpectedGateway)}
