"""Seals of ended operations (`model/seal`): written with the release of their locks, in one write with the newest hash.

Two operations that end at once both write `/seals`, whose version is checked, so the later one takes the other's hash.
A damaged `/seals` never keeps locks: the operation ends without a seal, and `history verify` names it.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ha_core.model import Operation, PushCursor, Seal, StrictHistory, UnreadableDocumentError
from ha_core.model.seal import SealedOperation, SealHead, digest_of, seal_key
from ha_core.store import paths
from ha_core.store.documents import from_bytes, nodes_of, plain_bytes, readable
from ha_core.store.errors import StoreError
from ha_core.store.tree import (
    Check,
    Create,
    Node,
    OnTree,
    Op,
    Put,
    Reads,
    Remove,
    Tree,
    check_size,
    existing,
    once,
    placed,
)

log = logging.getLogger(__name__)

PAGE = 500
"""Seals that are read at once."""
TRIMMED_AT_ONCE = 20
"""Operations that one write removes, with all entries of their histories."""


def head_of(node: Node | None) -> SealHead:
    """:raises StoreError: the node is missing or damaged."""
    if node is None:
        raise StoreError(f"{Seal.FOLDER} is missing: `switchyard history verify` shows the damage")
    if not node.data:
        return SealHead()
    try:
        return SealHead.model_validate_json(node.data)
    except ValueError as error:
        raise StoreError(
            f"{Seal.FOLDER} does not hold the newest seal: restore it from a backup, or write there what "
            "`switchyard history verify` prints as its way out"
        ) from error


def _to_bytes(head: SealHead) -> bytes:
    return head.model_dump_json().encode()


def _plain(node: Node | None, path: str) -> Any:
    """The stored JSON, as no version has interpreted it; None: the node is missing, or holds none."""
    try:
        return None if node is None else json.loads(plain_bytes(node.data, path))
    except (ValueError, UnreadableDocumentError) as error:
        log.warning("%s holds no JSON: %s", path, error)
        return None


def stored(tree: Reads, operation_id: str) -> tuple[Any, list[Any]]:
    """The operation's document and history, as JSON that no version has interpreted. Damaged entries are None."""
    path = paths.path_of(Operation, operation_id)
    entries = nodes_of(tree, paths.history(operation_id))
    document, *found = tree.get_many([path, *entries])
    return _plain(document, path), [_plain(node, entry) for node, entry in zip(found, entries, strict=True)]


def sealing(tree: Tree, operation_id: str, at: str) -> list[Op]:
    """The part of a write that seals the operation; empty if it has not ended, or is sealed already, or if the newest
    seal cannot be read.

    The caller's write has to check the operation's epoch: no other executor may add to its history meanwhile.
    """
    marker = paths.sealed(operation_id)
    operation, history = stored(tree, operation_id)
    if tree.get(marker) is not None or not isinstance(operation, Mapping) or not operation.get("ended"):
        return []
    try:
        folder, head = _newest(tree)
    except StoreError as error:
        log.warning("operation %s ends without a seal: %s", operation_id, error)
        return []
    seal = Seal(
        number=head.number + 1,
        operation=operation_id,
        at=at,
        entries=len(history),
        digest=digest_of(operation, history),
        before=head.hash,
    )
    new = head.changed(number=seal.number, hash=seal.hash)
    path = paths.path_of(Seal, seal.key)
    return [Put(Seal.FOLDER, _to_bytes(new), folder.version), Create(path, seal.to_bytes()), _mark(marker, seal)]


def _newest(tree: Tree) -> tuple[Node, SealHead]:
    """`/seals` and its content. :raises StoreError: it is damaged, or is older than the newest seal."""
    while True:
        folder = tree.get(Seal.FOLDER)
        head = head_of(folder)
        assert folder is not None
        path = f"{Seal.FOLDER}/{seal_key(head.number + 1)}"
        if tree.get(path) is None:
            return folder, head
        again = tree.get(Seal.FOLDER)
        if again is not None and again.version == folder.version:
            raise StoreError(f"{path} exists, and {Seal.FOLDER} says that seal {head.number} is the newest")
        # Another operation has ended in between: a seal is written together with the newest.


def _mark(path: str, seal: Seal) -> Create:
    return Create(path, str(seal.number).encode())


class Seals(OnTree):
    def seal_head(self) -> SealHead:
        """:raises StoreError: it is damaged."""
        return head_of(self._tree.get(Seal.FOLDER))

    def seals(self, after: int = 0, through: int | None = None) -> Iterator[Seal]:
        """The seals that exist and can be read, by their numbers, read in pages."""
        names = sorted(name for name in self._tree.children(Seal.FOLDER) if name > seal_key(after))
        last = None if through is None else seal_key(through)
        found = [f"{Seal.FOLDER}/{name}" for name in names if last is None or name <= last]
        for start in range(0, len(found), PAGE):
            for path, node in existing(self._tree, found[start : start + PAGE]):
                try:
                    yield from_bytes(Seal, node.data, path)
                except UnreadableDocumentError as error:
                    log.warning("left out: %s", error)

    def sealed_operations(self, after: int = 0, through: int | None = None) -> Iterator[SealedOperation]:
        """Sealed operations in the order of their seals."""
        for seal in self.seals(after, through):
            yield self.ended_operation(seal.operation, seal)

    def ended_operation(self, operation_id: str, seal: Seal | None = None) -> SealedOperation:
        """An operation as stored, whatever version has written it."""
        operation, history = stored(self._tree, operation_id)
        return SealedOperation(operation_id, operation if isinstance(operation, Mapping) else None, history, seal)

    def operation_names(self) -> set[str]:
        """Ids of all operations, those that run among them."""
        return set(map(paths.decode, self._tree.children(Operation.FOLDER)))

    def seal_ended(self, operation_id: str, at: str) -> bool:
        """Seal an operation that ended without: under an earlier version, or while the newest seal was damaged.

        :return: whether it is sealed now by this call.
        """

        def write() -> bool:
            epoch = self._tree.get(paths.epoch(operation_id))
            ops = sealing(self._tree, operation_id, at)
            if not ops or epoch is None:
                return False
            self._tree.write([Check(paths.epoch(operation_id), epoch.version), *ops])
            return True

        def recognise() -> bool | None:
            return True if self._tree.get(paths.sealed(operation_id)) is not None else None

        return once(self._tree, f"sealing operation {operation_id}", write, recognise)

    def strict_history(self) -> StrictHistory | None:
        """The setting that no operation begins without a seal; None: it is off."""
        return next(readable(self._tree, StrictHistory), None)

    def require_sealable(self) -> None:
        """:raises StoreError: the next operation that ends could not be sealed."""
        _, head = _newest(self._tree)
        if head.number > head.trimmed:
            path = f"{Seal.FOLDER}/{seal_key(head.number)}"
            node = self._tree.get(path)
            if node is None or from_bytes(Seal, node.data, path).hash != head.hash:
                raise StoreError(f"{path} is not the newest seal that {Seal.FOLDER} names")

    def push_cursor(self, receiver: str) -> PushCursor | None:
        """How far the history was pushed to it; None: not at all."""
        return next(readable(self._tree, PushCursor, [paths.path_of(PushCursor, receiver)]), None)

    def move_push_cursor(self, cursor: PushCursor) -> None:
        """If two processes push at once, the cursor that is further counts."""
        path = paths.path_of(PushCursor, cursor.receiver)

        def write() -> None:
            node = self._tree.get(path)
            stored = self.push_cursor(cursor.receiver)
            if stored is None or stored.through < cursor.through:
                self._tree.write([placed(path, cursor.to_bytes(), node)])

        once(self._tree, f"the cursor of {cursor.receiver}", write)

    def trim_history(self, through: int) -> list[str]:
        """Remove the oldest sealed operations, up to this seal; returns their ids. The hash of the last one stays as
        the anchor of those that are left.

        :raises StoreError: the seals up to there are not whole: nothing more is removed, or the damage would be lost.
        """
        gone: list[str] = []
        for _ in range(through):
            done = once(self._tree, "trimming the history", lambda: self._trim(through))
            if not done:
                break
            gone += done
        return gone

    def _trim(self, through: int) -> list[str]:
        node = self._tree.get(Seal.FOLDER)
        head = head_of(node)
        assert node is not None
        last = min(through, head.number, head.trimmed + TRIMMED_AT_ONCE)
        ops: list[Op] = []
        gone, before = [], head.anchor
        for seal in self.seals(head.trimmed, last):
            if (seal.number, seal.before) != (before.number + 1, before.hash):
                break
            ops += [*self._removal(seal)]
            gone.append(seal.operation)
            before = seal.fingerprint
        if len(gone) != last - head.trimmed:
            raise StoreError(
                f"seal {before.number + 1} is missing or does not follow seal {before.number}: nothing from there on "
                "is removed; `switchyard history verify` shows the damage"
            )
        if gone:
            trimmed = head.changed(trimmed=before.number, trimmed_hash=before.hash)
            ops = [Put(Seal.FOLDER, _to_bytes(trimmed), node.version), *ops]
            check_size(ops)
            self._tree.write(ops)
        return gone

    def _removal(self, seal: Seal) -> Iterator[Op]:
        own = paths.path_of(Operation, seal.operation)
        history = paths.history(seal.operation)
        entries = nodes_of(self._tree, history)
        wanted = [*entries, history, *_beside(self._tree, own, history), own, paths.path_of(Seal, seal.key)]
        for path, node in existing(self._tree, wanted):
            yield Remove(path, node.version)


def _beside(tree: Reads, own: str, history: str) -> Sequence[str]:
    return [path for path in nodes_of(tree, own) if path != history]
