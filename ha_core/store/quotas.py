"""Quotas in the tree: changed one by one, each with a note, and followed by the notes.

Several processes may publish the platform's quotas, and none reverts a later publication. `/quota_publication` has the
time of the platform's change up to which quotas are published, and each publication writes it. A publisher reads it
before it reads the platform: a publication of another process in between fails its write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from ha_core.model import QuotaUse, UnreadableDocumentError
from ha_core.model.quota import Limits, QuotaEntity, QuotaKind, check_entity, check_limits
from ha_core.store import quota_nodes
from ha_core.store.documents import readable
from ha_core.store.errors import OvertakenError, QuotaNameTakenError, QuotaPublishedError
from ha_core.store.quota_nodes import (
    CHANGES,
    CLIENTS,
    MAX_NOTE,
    USERS,
    StoredQuota,
    note_path,
    number_of,
    parents_of,
    path_of,
)
from ha_core.store.tree import (
    Create,
    Node,
    OnTree,
    Op,
    PreconditionError,
    Reads,
    Remove,
    ReplyLostError,
    Tree,
    once,
    placed,
)
from ha_core.store.watching import Rereading

POLL_S = 10.0
Change = Mapping[QuotaKind, float | None]
"""None: remove the limit."""
KEPT_MS = 15 * 60 * 1000
"""The writer of a note removes notes that are older than the newest one by this: as brokers do."""
MAX_NOTES = 1000
"""Most younger notes that are kept."""
MAX_PURGED = 200
"""Most notes removed at once."""
_PUBLICATION = "/quota_publication"
AT_ONCE = 50
"""Quotas in one write."""


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
            quota = None if node is None else quota_nodes.from_bytes(path, node.data)
        except UnreadableDocumentError as error:
            self.unreadable[path] = str(error)
            return
        if quota is None:
            self.readable.pop(path, None)
        else:
            self.readable[path] = quota


def _placing(tree: Reads, path: str, data: bytes, node: Node | None, gone: bool) -> list[Op]:
    """:param node: as it was read."""
    if gone and node is not None and not tree.children(path):
        return [Remove(path, node.version)]
    parents = parents_of(path) if node is None else ()
    above = zip(parents, tree.get_many(parents), strict=True)
    return [*(Create(parent) for parent, found in above if found is None), placed(path, data, node)]


def noting(tree: Reads, paths: Sequence[str]) -> list[Op]:
    """A note for each path, above the newest number, and the removal of expired notes."""
    numbers = sorted(number for name in tree.children(CHANGES) if (number := number_of(name)) is not None)
    first = _free(numbers, len(paths))
    notes: list[Op] = [
        Create(note_path(number), quota_nodes.note_to_bytes(path)) for number, path in enumerate(paths, first)
    ]
    if not numbers:
        return notes
    oldest = numbers[:MAX_PURGED]
    *nodes, newest = tree.get_many([*map(note_path, oldest), note_path(numbers[-1])])
    surplus = len(numbers) + len(paths) - 1 - MAX_NOTES
    old = [
        Remove(note_path(number), node.version)
        for place, (number, node) in enumerate(zip(oldest, nodes, strict=True))
        if node is not None
        and newest is not None
        and number != numbers[-1]
        and (place < surplus or newest.written_ms - node.written_ms > KEPT_MS)
    ]
    return [*notes, *old]


def _free(numbers: Sequence[int], count: int) -> int:
    """The first of `count` consecutive free numbers: above the newest, or in the last gap if numbers end there."""
    end = MAX_NOTE + 1
    for number in reversed(numbers):
        if number + count < end:
            return number + 1
        end = number
    return 0


class Publication(NamedTuple):
    """:ivar through_us: time of the platform's change up to which its quotas are published; 0: none ever was.
    :ivar node: as it was read.
    """

    through_us: int
    by: str
    node: Node | None


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
            self._tree.write([*_placing(self._tree, path, data, node, gone=not after), *noting(self._tree, [path])])
            return after

        return once(self._tree, f"the quota for {entity}", write)

    def quota_uses(self) -> list[QuotaUse]:
        """The quota use that each live gateway reports."""
        return list(readable(self._tree.impatient(), QuotaUse))

    def watch_quotas(self, on_quotas: Callable[[QuotasFound], None]) -> QuotaWatcher:
        """Delivers all quotas, and again after each change, from a thread of its own. Returns at once."""
        return QuotaWatcher(self._tree, on_quotas)

    def follow_quotas(self) -> FollowedQuotas:
        """For callers that read the quotas again and again."""
        return FollowedQuotas(self._tree)

    def publication(self) -> Publication:
        node = self._tree.get(_PUBLICATION)
        if node is None:
            return Publication(0, "", None)
        try:
            fields = json.loads(node.data)
            return Publication(int(fields["through_us"]), str(fields["by"]), node)
        except (ValueError, TypeError, KeyError):
            # The next publication repairs it.
            return Publication(0, "", node)

    def publish(
        self, read: Publication, through_us: int, by: str, quotas: Sequence[tuple[QuotaEntity, Limits]]
    ) -> Publication:
        """Writes at most `AT_ONCE` quotas; a quota without limits is removed.

        :raises OvertakenError: another process has published, or changed one of them, since `read`.
        """
        data = json.dumps({"through_us": through_us, "by": by}, separators=(",", ":")).encode()
        # In order of paths, so that a node is created before nodes below it, with its own content.
        wanted = sorted(((path_of(entity), entity, limits) for entity, limits in quotas), key=itemgetter(0))
        paths = [path for path, _, _ in wanted]
        ops: dict[str, Op] = {_PUBLICATION: placed(_PUBLICATION, data, read.node)}
        for (path, entity, limits), node in zip(wanted, self._tree.get_many(paths), strict=True):
            written = quota_nodes.to_bytes(entity, limits, published=True) if limits else b""
            if node is not None or limits:
                for op in _placing(self._tree, path, written, node, gone=not limits):
                    ops.setdefault(op.path, op)
        notes = noting(self._tree, paths) if paths else []
        try:
            self._tree.write([*ops.values(), *notes])
        except (PreconditionError, ReplyLostError):
            raise OvertakenError("quotas were published, or changed, by another process at the same time") from None
        return Publication(through_us, by, Node(data, 0 if read.node is None else read.node.version + 1, 0))


def _read_all(tree: Reads, quotas: QuotasFound) -> None:
    users = [f"{USERS}/{name}" for name in tree.children(USERS)]
    paths = [f"{CLIENTS}/{name}" for name in tree.children(CLIENTS)] + users
    for user in users:
        paths += [f"{user}/clients/{name}" for name in tree.children(f"{user}/clients")]
    for gone in (quotas.readable.keys() | quotas.unreadable.keys()) - set(paths):
        quotas.place(gone, None)
    for path, node in zip(paths, tree.get_many(paths), strict=True):
        quotas.place(path, node)


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
