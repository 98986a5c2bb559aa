"""Operations: their locks, their append-only history, and the executor: epoch and hold.

The epoch is the ZooKeeper version of a node of its own; taking an operation over writes it, and every write on behalf
of the operation checks it. So an executor that was believed dead and wakes up again can no longer write.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from ha_core.model import HistoryEntry, Lock, Operation, UnreadableDocumentError, WaitingApproval
from ha_core.store import documents, paths
from ha_core.store.commits import fenced_off
from ha_core.store.documents import nodes_of, readable
from ha_core.store.errors import (
    ConflictError,
    LockedError,
    StillHeldError,
    StoreError,
    StoreUnavailableError,
    UnknownOperationError,
)
from ha_core.store.seals import sealing
from ha_core.store.tree import (
    Check,
    Create,
    Node,
    OnTree,
    Op,
    PreconditionError,
    Put,
    Remove,
    check_size,
    existing,
    once,
    placed,
    remove,
)

log = logging.getLogger(__name__)

WAIT_STEP_S = 0.1


class ExecutorHold(NamedTuple):
    """The executor of `epoch` works on the operation as long as `held` is true."""

    epoch: int
    held: bool


class Operations(OnTree):
    def create_operation(
        self, operation: Operation, lock_keys: Sequence[str], first: HistoryEntry | None = None
    ) -> int:
        """Create the operation and all its locks, or nothing; returns the epoch, 0.

        :param first: the first entry of its history, so that no operation begins without it.
        :raises LockedError: another operation has one of the locks.
        :raises ConflictError: the operation's id exists.
        """
        path, data = paths.path_of(Operation, operation.id), documents.to_bytes(operation)
        nonce = uuid.uuid4().hex.encode()
        ops: list[Op] = [
            Create(path, data),
            Create(paths.epoch(operation.id), nonce),
            Create(paths.history(operation.id)),
            *([Create(paths.history_entry(operation.id, 0), first.to_bytes())] if first is not None else ()),
        ]
        for key in sorted(set(lock_keys)):
            lock = Lock(key=key, operation=operation.id, by=operation.by, since=operation.started)
            ops.append(Create(paths.path_of(Lock, key), lock.to_bytes()))
        check_size(ops)

        def write() -> int:
            try:
                self._tree.write(ops)
            except PreconditionError as refused:
                taken = self._tree.get(ops[refused.index].path)
                if taken is None:
                    raise
                if refused.index == 0:
                    raise ConflictError(path, None, taken.version) from None
                raise _locked(ops[refused.index].path, taken) from None
            return 0

        def recognise() -> int | None:
            return 0 if self._written(paths.epoch(operation.id), nonce) else None

        return once(self._tree, f"creating operation {operation.id}", write, recognise)

    def release_locks(self, operation_id: str, epoch: int, at: str) -> None:
        """Delete all locks of the operation, and seal it if it has ended. Neither left to do is fine.

        :param at: the time of the seal.
        :raises FencedOffError:
        """

        def removals() -> list[Op]:
            own = [paths.path_of(Lock, lock.key) for lock in self.locks() if lock.operation == operation_id]
            removed = [Remove(path, node.version) for path, node in existing(self._tree, own)]
            return [*removed, *sealing(self._tree, operation_id, at)]

        # Repeating it is harmless, and shows whether the first one was done.
        self._write_fenced(operation_id, epoch, f"releasing the locks of {operation_id}", removals)

    def locks(self) -> list[Lock]:
        """All locks by key. One that this version cannot read locks its scope like any other."""
        nodes = existing(self._tree, nodes_of(self._tree, Lock.FOLDER))
        return sorted((_lock_at(path, node) for path, node in nodes), key=lambda lock: lock.key)

    def lock_keys(self) -> frozenset[str]:
        """The keys of all locks, without reading their operations."""
        return frozenset(map(paths.decode, self._tree.children(Lock.FOLDER)))

    def take_over(self, operation_id: str, wait_s: float = 0.0) -> int:
        """Fence off every earlier executor; returns the new epoch.

        :param wait_s: how long to wait for a dead executor's hold to vanish: up to the session time-out.
        :raises StillHeldError: an executor works on it.
        :raises UnknownOperationError: there is no such operation.
        """
        deadline = time.monotonic() + wait_s
        nonce = uuid.uuid4().hex.encode()
        holder, epoch_path = paths.holder(operation_id), paths.epoch(operation_id)

        def write() -> int:
            while True:
                node = self._tree.get(epoch_path)
                if node is None:
                    raise UnknownOperationError(operation_id)
                try:
                    # Creating and removing the holder node proves that there is no holder at this very moment.
                    self._tree.write([Create(holder), Remove(holder, 0), Put(epoch_path, nonce, node.version)])
                except PreconditionError as refused:
                    if refused.index == 0:
                        self._wait_for_holder(operation_id, deadline)
                    continue
                return node.version + 1

        def recognise() -> int | None:
            return node.version if (node := self._written(epoch_path, nonce)) else None

        return once(self._tree, f"taking over {operation_id}", write, recognise)

    def _wait_for_holder(self, operation_id: str, deadline: float) -> None:
        held = self._tree.get(paths.holder(operation_id))
        if held is None:
            return
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            raise self._still_held(operation_id, held)
        time.sleep(min(WAIT_STEP_S, remaining_s))

    def _still_held(self, operation_id: str, held: Node) -> StillHeldError:
        by = next((operation.by for operation in self._read([operation_id])), "somebody")
        return StillHeldError(operation_id, by, held.owner)

    def require_epoch(self, operation_id: str, epoch: int) -> None:
        """Ask ZooKeeper's leader whether the epoch still is the operation's. :raises FencedOffError:"""
        # It changes nothing, so it may be repeated.
        self._write_fenced(operation_id, epoch, f"asking for the epoch of {operation_id}", list)

    def holding(self, operation_id: str) -> ExecutorHold | None:
        """Whether an executor works on the operation now; None for an unknown one."""
        epoch, holder = self._tree.get_many([paths.epoch(operation_id), paths.holder(operation_id)])
        return None if epoch is None else ExecutorHold(epoch.version, holder is not None)

    @contextmanager
    def hold(self, operation_id: str, epoch: int) -> Iterator[None]:
        """While inside, no other executor can take the operation over, as long as this session lives.

        :raises FencedOffError: taken over before.
        :raises StillHeldError: another executor holds it.
        """
        path = paths.holder(operation_id)
        nonce = uuid.uuid4().hex.encode()

        def create() -> list[Op]:
            return [Create(path, nonce, ephemeral=True)]

        def refused() -> None:
            if held := self._tree.get(path):
                raise self._still_held(operation_id, held)

        def recognise() -> bool | None:
            node = self._written(path, nonce)
            return True if node and node.owner == self._tree.session else None

        self._write_fenced(operation_id, epoch, f"holding {operation_id}", create, recognise, refused)
        try:
            yield
        finally:
            self._let_go(path, nonce)

    def _let_go(self, path: str, nonce: bytes) -> None:
        """The step is over even if this fails: a node that cannot be deleted goes with the session."""

        def write() -> None:
            if node := self._written(path, nonce):
                self._tree.write([Remove(path, node.version)])

        try:
            once(self._tree, f"letting {path} go", write)
        except StoreUnavailableError as error:
            log.warning("%s is left to the end of the session: %s", path, error)

    def update_operation(self, operation: Operation, epoch: int) -> None:
        """Replace the operation's document. :raises FencedOffError:"""
        path, data = paths.path_of(Operation, operation.id), documents.to_bytes(operation)

        def put() -> list[Op]:
            node = self._tree.get(path)
            if node is None:
                raise UnknownOperationError(operation.id)
            return [Put(path, data, node.version)]

        what = f"updating operation {operation.id}"
        self._write_fenced(operation.id, epoch, what, put, lambda: self._written(path, data))

    def append_history(self, operation_id: str, epoch: int, entry: HistoryEntry) -> None:
        """Add one line to the operation's history. :raises FencedOffError:"""
        data = entry.to_bytes()
        tried: set[str] = set()

        def create() -> list[Op]:
            path = paths.history_entry(operation_id, len(self._tree.children(paths.history(operation_id))))
            tried.add(path)
            return [Create(path, data)]

        def recognise() -> Node | None:
            return next((node for path in sorted(tried) if (node := self._written(path, data))), None)

        self._write_fenced(operation_id, epoch, f"writing the history of {operation_id}", create, recognise)

    def _write_fenced(
        self,
        operation_id: str,
        epoch: int,
        what: str,
        ops: Callable[[], list[Op]],
        recognise: Callable[[], object] = lambda: None,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        """Write the result of `ops` while the epoch is the operation's; again where other writes came first.

        :param recognise: see `once`.
        :param refused: raises where it is of no use to repeat the write.
        """

        def write() -> object:
            fenced = [Check(paths.epoch(operation_id), epoch), *ops()]
            check_size(fenced)
            try:
                self._tree.write(fenced)
            except PreconditionError as error:
                if error.index == 0:
                    raise fenced_off(self._tree, operation_id, epoch) from None
                refused()
                raise
            return True

        once(self._tree, what, write, recognise)

    def _written(self, path: str, data: bytes) -> Node | None:
        """The node at `path` if it holds exactly `data`, so that a write whose reply was lost was made."""
        node = self._tree.get(path)
        return node if node is not None and node.data == data else None

    def operations(self, limit: int, before: str | None = None) -> list[Operation]:
        """A page of all operations ever run, newest first by the time in their ids. No more than `limit` are read.

        Those that this version cannot read are left out.

        :param before: an operation's id: only older ones; the last id of a page names the next page.
        """
        names = sorted(map(paths.decode, self._tree.children(Operation.FOLDER)), key=_age, reverse=True)
        if before is not None:
            names = [name for name in names if _age(name) < _age(before)]
        found: list[Operation] = []
        while names and len(found) < limit:
            missing = limit - len(found)
            found += self._read(names[:missing])
            names = names[missing:]
        return found

    def running(self) -> list[Operation]:
        """The operations that hold a lock, newest first: each does from its creation to its end. The cost depends on
        the running operations only. One that has just ended may be among them.
        """
        names = {lock.operation for lock in self.locks()}
        return self._read(sorted(names, key=_age, reverse=True))

    def history(self, operation_id: str, newest: int | None = None) -> list[HistoryEntry]:
        """The operation's history, oldest first; empty for an unknown operation.

        :param newest: only so many of its last entries.
        """
        found = nodes_of(self._tree, paths.history(operation_id))
        first = 0 if newest is None else max(0, len(found) - newest)
        return list(readable(self._tree, HistoryEntry, found[first:]))

    def _read(self, names: Sequence[str]) -> list[Operation]:
        return list(readable(self._tree, Operation, [paths.path_of(Operation, name) for name in names]))


class Approvals(OnTree):
    """Approvals that Airflow runs wait for, before they have an operation."""

    def await_approval(self, approval: WaitingApproval) -> None:
        """Record that a run waits for its approval; remove the records of all runs whose time to answer is over."""
        path = paths.path_of(WaitingApproval, approval.run)

        def write() -> None:
            ops: list[Op] = [placed(path, documents.to_bytes(approval), self._tree.get(path))]
            for waiting in self.waiting_approvals():
                old = paths.path_of(WaitingApproval, waiting.run)
                node = self._tree.get(old) if waiting.answer_by < approval.since and old != path else None
                if node is not None:
                    ops.append(Remove(old, node.version))
            self._tree.write(ops)

        once(self._tree, f"the approval of {approval.run}", write)

    def end_approval(self, run: str) -> None:
        """Remove the record of a run, if there is one."""
        once(self._tree, f"the approval of {run}", partial(remove, self._tree, paths.path_of(WaitingApproval, run)))

    def waiting_approvals(self) -> list[WaitingApproval]:
        """All recorded approvals, the oldest first; documents that this version cannot read are left out."""
        return sorted(readable(self._tree, WaitingApproval), key=lambda one: (one.since, one.run))


def _lock_at(path: str, node: Node) -> Lock:
    """The node's name is its scope, even if this version cannot read the document."""
    try:
        return Lock.from_bytes(node.data, path)
    except UnreadableDocumentError as error:
        log.warning("its operation is unknown: %s", error)
        key = paths.decode(path.rpartition("/")[2])
        return Lock.unreadable(key)


def _locked(path: str, node: Node) -> StoreError:
    lock = _lock_at(path, node)
    way_out = "" if lock.readable else lock.way_out_if_unreadable
    return LockedError(lock.key, lock.operation, lock.by, lock.since, way_out)


_TIME = re.compile(r"-(\d{8}-\d{6})(?!\d)")


def _age(name: str) -> tuple[str, str]:
    """Sort key: the time in an operation's id, so that no document has to be read to find the newest."""
    at = _TIME.search(name)
    return (at.group(1) if at else "", name)
