"""Quotas in the tree: changed one by one, each with a note, and followed by the notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ha_core.model import QuotaUse, UnreadableDocumentError
from ha_core.model.quota import Limits, QuotaEntity, QuotaKind, check_entity, check_limits
from ha_core.store import quota_nodes
from ha_core.store.documents import readable
from ha_core.store.errors import QuotaNameTakenError, QuotaPublishedError
from ha_core.store.quota_nodes import CHANGES, CLIENTS, USERS, StoredQuota, note_path, number_of, path_of
from ha_core.store.quota_writes import noting, placing
from ha_core.store.rereading import Rereading
from ha_core.store.tree import Node, OnTree, Reads, Tree, once

POLL_S = 10.0
Change = Mapping[QuotaKind, float | None]
"""None: remove the limit."""


class QuotasFound:
    """:ivar readable: path → the quota.
    :ivar unreadable: path → why this version cannot read it.
    """

    def __init__(self) -> None:
        self.readable: dict[str, StoredQuota] = {}
        self.unreadable: dict[str, str] = {}

    def place(self, path: str, node: Node | None) -> None:
        """A node that has become unreadable keeps its last good quota."""
        self.unreadable.pop(path, None)
        try:
            found = None if node is None else quota_nodes.from_bytes(path, node.data)
        except UnreadableDocumentError as error:
            self.unreadable[path] = str(error)
            return
        if found is None:
            self.readable.pop(path, None)
        else:
            self.readable[path] = found


class QuotaNodes(OnTree):
    def quotas(self) -> QuotasFound:
        """All current quotas."""
        found = QuotasFound()
        _read_all(self._tree, found)
        return found

    def change_quota(self, entity: QuotaEntity, change: Change) -> Limits:
        """Sets some limits of a quota and removes others; returns its limits after that, empty if it is removed.

        :raises ValueError: the limits are not valid.
        :raises QuotaPublishedError: it is the platform's.
        :raises QuotaNameTakenError: another quota has the path, because names have dots.
        :raises UnreadableDocumentError: this version cannot read the node at the path.
        """
        check_entity(entity)
        path = path_of(entity)

        def write() -> Limits:
            node = self._tree.get(path)
            stored = None if node is None else quota_nodes.from_bytes(path, node.data)
            if stored is not None and stored.entity not in (None, entity):
                raise QuotaNameTakenError(path, str(stored.entity), str(entity))
            before: Limits = {} if stored is None else stored.limits
            after = {kind: value for kind, value in {**before, **change}.items() if value is not None}
            if stored is not None and stored.published:
                if after != before:
                    raise QuotaPublishedError(str(entity))
                return after
            if after:
                check_limits(entity, after)
            data = quota_nodes.to_bytes(entity, after)
            if after == before and (node is None or not after or node.data == data):
                return after
            self._tree.write([*placing(self._tree, path, data, node, gone=not after), *noting(self._tree, [path])])
            return after

        return once(self._tree, f"the quota for {entity}", write)

    def quota_uses(self) -> list[QuotaUse]:
        """The quota use that each live gateway reports."""
        return list(readable(self._tree.impatient(), QuotaUse))

    def watch_quotas(self, on_quotas: Callable[[QuotasFound], None]) -> QuotaWatcher:
        """Delivers all quotas, and again after each change, from a thread of its own. Returns at once."""
        return QuotaWatcher(self._tree, on_quotas)


def _read_all(tree: Reads, found: QuotasFound) -> None:
    users = [f"{USERS}/{name}" for name in tree.children(USERS)]
    paths = [f"{CLIENTS}/{name}" for name in tree.children(CLIENTS)] + users
    for user in users:
        paths += [f"{user}/clients/{name}" for name in tree.children(f"{user}/clients")]
    for gone in (found.readable.keys() | found.unreadable.keys()) - set(paths):
        found.place(gone, None)
    for path, node in zip(paths, tree.get_many(paths), strict=True):
        found.place(path, node)


class FollowedQuotas:
    """The quotas that were read, updated by the notes; reread as a whole where notes may be missing."""

    def __init__(self, tree: Reads) -> None:
        self._tree = tree
        self._notes: set[int] | None = None
        self.found = QuotasFound()

    def read(self, wake: Callable[[], None], anew: bool) -> bool:
        """Whether something may have changed. `wake` is called when it is worth reading again."""
        # Read notes before quotas: later changes wake again.
        notes = {number for name in self._tree.children(CHANGES, wake) if (number := number_of(name)) is not None}
        before = self._notes
        if not anew and notes == before:
            return False
        if anew or not before or max(before) not in notes:
            _read_all(self._tree, self.found)
        elif not notes - before:
            self._notes = notes
            return False
        else:
            # Compare sets, not the highest number: a note with an arbitrary number must hide no other.
            nodes = self._tree.get_many([note_path(number) for number in sorted(notes - before)])
            paths = [None if node is None else quota_nodes.note_from_bytes(node.data) for node in nodes]
            changed = [path for path in dict.fromkeys(paths) if path is not None and quota_nodes.entity_at(path)]
            if None in paths:
                _read_all(self._tree, self.found)
            else:
                for path, node in zip(changed, self._tree.get_many(changed), strict=True):
                    self.found.place(path, node)
        self._notes = notes
        return True


class QuotaWatcher:
    """The quotas that were read last stay in force while ZooKeeper is away."""

    def __init__(self, tree: Tree, on_quotas: Callable[[QuotasFound], None], poll_s: float = POLL_S) -> None:
        self._followed = FollowedQuotas(tree.impatient())
        self._on_quotas = on_quotas
        self._rereading = Rereading(tree, "quotas", self._read, poll_s)

    def close(self) -> None:
        """`on_quotas` is not called after this returns."""
        self._rereading.close()

    def _read(self, wake: Callable[[], None], anew: bool) -> Callable[[], None] | None:
        return (lambda: self._on_quotas(self._followed.found)) if self._followed.read(wake, anew) else None
