"""Locks of operations, and who may execute an operation: epoch and hold.

The epoch is the ZooKeeper version of a node of its own; whoever takes the operation over writes it, and every write on
behalf of the operation checks it. So an executor that was believed dead and wakes up again cannot write any more.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ha_core.model import Lock, Operation, UnreadableDocumentError
from ha_core.store import documents, paths
from ha_core.store.commits import fenced_off
from ha_core.store.errors import (
    ConflictError,
    LockedError,
    StillHeldError,
    StoreError,
    StoreUnavailableError,
    UnknownOperationError,
)
from ha_core.store.once import once
from ha_core.store.protocol import Holding
from ha_core.store.tree import Check, Create, Node, Op, Put, RefusedError, Remove, ReplyLostError, Tree, check_size

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 20
"""Against others that take or release the same locks at the same moment."""
WAIT_STEP_S = 0.1


def create_operation(tree: Tree, operation: Operation, lock_keys: Sequence[str]) -> int:
    """See `Store.create_operation`."""
    path, data = paths.path_of(Operation, operation.id), documents.to_bytes(operation)
    nonce = uuid.uuid4().hex.encode()
    ops: list[Op] = [
        Create(path, data),
        Create(paths.epoch(operation.id), nonce),
        Create(paths.history(operation.id)),
    ]
    for key in sorted(set(lock_keys)):
        lock = Lock(key=key, operation=operation.id, by=operation.by, since=operation.started)
        ops.append(Create(paths.path_of(Lock, key), lock.to_bytes()))
    check_size(ops)

    def write() -> int:
        for _ in range(MAX_ATTEMPTS):
            try:
                tree.write(ops)
            except RefusedError as refused:
                taken = tree.get(ops[refused.index].path)
                if taken is None:
                    continue
                if refused.index == 0:
                    raise ConflictError(path, None, taken.version) from None
                raise _locked(ops[refused.index].path, taken) from None
            return 0
        raise StoreUnavailableError(f"operation {operation.id}: its locks come and go, none could be had; repeat it")

    def recognise() -> int | None:
        node = tree.get(paths.epoch(operation.id))
        return 0 if node is not None and node.data == nonce else None

    return once(tree, f"creating operation {operation.id}", write, recognise)


def _locked(path: str, node: Node) -> StoreError:
    parsed = paths.parse(path)
    key = parsed[1] if parsed else path
    try:
        lock = Lock.from_bytes(node.data, path)
    except UnreadableDocumentError:
        return LockedError(key, "(unreadable)", "somebody", "an unknown time")
    return LockedError(key, lock.operation, lock.by, lock.since)


def release_locks(tree: Tree, operation_id: str, epoch: int) -> None:
    """See `Store.release_locks`."""

    def write() -> bool:
        for _ in range(MAX_ATTEMPTS):
            removals: list[Op] = [
                Remove(path, node.version) for lock, path, node in _locks(tree) if lock.operation == operation_id
            ]
            ops: list[Op] = [Check(paths.epoch(operation_id), epoch), *removals]
            try:
                tree.write(ops)
            except RefusedError as refused:
                if refused.index == 0:
                    raise fenced_off(tree, operation_id, epoch) from None
                continue
            return True
        raise StoreUnavailableError(f"operation {operation_id}: its locks change all the time; release them again")

    # Doing it again is harmless, and tells whether the first one was done.
    once(tree, f"releasing the locks of {operation_id}", write, lambda: None)


def locks(tree: Tree) -> list[Lock]:
    """See `Store.locks`."""
    return sorted((lock for lock, _, _ in _locks(tree)), key=lambda lock: lock.key)


def lock_keys(tree: Tree) -> frozenset[str]:
    """See `Store.lock_keys`."""
    return frozenset(map(paths.decode, tree.children(paths.LOCKS)))


def _locks(tree: Tree) -> Iterator[tuple[Lock, str, Node]]:
    found = [f"{paths.LOCKS}/{name}" for name in tree.children(paths.LOCKS)]
    for path, node in zip(found, tree.get_many(found), strict=True):
        if node is None:
            continue
        try:
            yield Lock.from_bytes(node.data, path), path, node
        except UnreadableDocumentError as error:
            log.warning("left out: %s", error)


def take_over(tree: Tree, operation_id: str, wait_s: float) -> int:
    """See `Store.take_over`."""
    deadline = time.monotonic() + wait_s
    nonce = uuid.uuid4().hex.encode()
    holder, epoch_path = paths.holder(operation_id), paths.epoch(operation_id)

    def write() -> int:
        while True:
            node = tree.get(epoch_path)
            if node is None:
                raise UnknownOperationError(operation_id)
            try:
                # That the holder can be made and removed again proves that nobody holds at this very moment.
                tree.write([Create(holder), Remove(holder, 0), Put(epoch_path, nonce, node.version)])
            except RefusedError as refused:
                if refused.index == 0:
                    _wait_for_holder(tree, operation_id, deadline)
                continue
            return node.version + 1

    def recognise() -> int | None:
        node = tree.get(epoch_path)
        return node.version if node is not None and node.data == nonce else None

    return once(tree, f"taking over {operation_id}", write, recognise)


def _wait_for_holder(tree: Tree, operation_id: str, deadline: float) -> None:
    held = tree.get(paths.holder(operation_id))
    if held is None:
        return
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise _still_held(tree, operation_id, held)
    time.sleep(min(WAIT_STEP_S, remaining_s))


def _still_held(tree: Tree, operation_id: str, held: Node) -> StillHeldError:
    path = paths.path_of(Operation, operation_id)
    node = tree.get(path)
    try:
        by = documents.from_bytes(Operation, node.data, path).by if node is not None else "somebody"
    except UnreadableDocumentError:
        by = "somebody"
    return StillHeldError(operation_id, by, held.owner)


def require_epoch(tree: Tree, operation_id: str, epoch: int) -> None:
    """See `Store.require_epoch`."""

    def write() -> bool:
        try:
            tree.write([Check(paths.epoch(operation_id), epoch)])
        except RefusedError:
            raise fenced_off(tree, operation_id, epoch) from None
        return True

    # It changes nothing: asked again, it tells the same or better.
    once(tree, f"the epoch of {operation_id}", write, lambda: None)


def holding(tree: Tree, operation_id: str) -> Holding | None:
    """See `Store.holding`."""
    epoch, holder = tree.get_many([paths.epoch(operation_id), paths.holder(operation_id)])
    return None if epoch is None else Holding(epoch.version, holder is not None)


@contextmanager
def hold(tree: Tree, operation_id: str, epoch: int) -> Iterator[None]:
    """See `Store.hold`."""
    path = paths.holder(operation_id)
    nonce = uuid.uuid4().hex.encode()

    def write() -> bool:
        try:
            tree.write([Check(paths.epoch(operation_id), epoch), Create(path, nonce, ephemeral=True)])
        except RefusedError as refused:
            if refused.index == 0:
                raise fenced_off(tree, operation_id, epoch) from None
            held = tree.get(path)
            if held is None:
                return write()
            raise _still_held(tree, operation_id, held) from None
        return True

    def recognise() -> bool | None:
        node = tree.get(path)
        return True if node is not None and node.data == nonce and node.owner == tree.session else None

    once(tree, f"holding {operation_id}", write, recognise)
    try:
        yield
    finally:
        _let_go(tree, path, nonce)


def _let_go(tree: Tree, path: str, nonce: bytes) -> None:
    """The step is over whatever happens here; a node that cannot be deleted goes with the session."""
    try:
        for _ in range(MAX_ATTEMPTS):
            node = tree.get(path)
            if node is None or node.data != nonce:
                return
            try:
                tree.write([Remove(path, node.version)])
            except ReplyLostError:
                continue
    except (RefusedError, StoreUnavailableError) as error:
        log.warning("%s is left to the end of the session: %s", path, error)
