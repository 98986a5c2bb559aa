"""The recipe: how a node takes part in a cache's agreement, over the store's tree.

Everything is level-triggered: a watch only demands a new read, and writes are made where ZooKeeper's content differs
from the wanted one. So watches lost with a session, lost replies, and nodes deleted by hand are repaired by the next
look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ha_core.datacache.core.cache import ContentCommit
from ha_core.datacache.core.errors import NodeIdTakenError, UnknownNodeError
from ha_core.datacache.nodes import (
    ROOT,
    LiveNode,
    Paths,
    Published,
    Reloads,
    commit_from_bytes,
    commit_to_bytes,
)
from ha_core.store.errors import StoreError, StoreUnavailableError
from ha_core.store.paths import decode
from ha_core.store.tree import Create, Node, PreconditionError, Put, Reads, Remove, ReplyLostError, Tree, once, placed

RETRY_S = 0.2
_ATTEMPTS = 10
"""How often own writes are repeated at once, after a lost reply or while other processes write."""


class CacheNodes:
    """One cache's nodes, as this session sees and writes them. Every method may raise StoreUnavailableError."""

    def __init__(self, tree: Tree, name: str) -> None:
        self._tree, self._paths, self.name = tree, Paths(name), name

    def create(self) -> None:
        """Create the missing permanent nodes of the cache."""
        wanted = [ROOT, self._paths.base, self._paths.commit, self._paths.sync, self._paths.reload, self._paths.changed]

        def write() -> None:
            missing = [
                Create(path) for path, node in zip(wanted, self._tree.get_many(wanted), strict=True) if node is None
            ]
            if missing:
                self._tree.write(missing)

        once(self._tree, f"creating the nodes of the cache {self.name}", write)

    def join(self, node: str, published: Published) -> None:
        """Register the node, waiting up to a session time-out and a half for that of a predecessor that was killed.

        :raises NodeIdTakenError: another live process has this id.
        """
        started = time.monotonic()
        while (other := self.publish(node, published)) is not None:
            waited_s = time.monotonic() - started
            if waited_s > self._tree.session_timeout_s * 1.5:
                raise NodeIdTakenError(self.name, node, holder(other), waited_s)
            time.sleep(RETRY_S)

    def publish(self, node: str, published: Published) -> LiveNode | None:
        """Make the node hold the record, while the session lives; returns the other process that has the id, if any."""
        path, data = self._paths.node(node), published.to_bytes()
        for _ in range(_ATTEMPTS):
            session = self._tree.session
            found = self._tree.get(path)
            if found is not None and found.owner != session:
                return _live(path, found)
            if found is not None and found.data == data:
                return None
            try:
                self._tree.write([placed(path, data, found, ephemeral=True)])
            except (PreconditionError, ReplyLostError):
                continue  # Read the node again.
        raise StoreUnavailableError(f"{path}: {_ATTEMPTS} writes were lost; the next look repeats it")

    def leave(self, node: str) -> None:
        """Delete the own node at once, instead of at the session's end."""
        path = self._paths.node(node)
        found = self._tree.get(path)
        if found is not None and found.owner == self._tree.session:
            try:
                self._tree.write([Remove(path, found.version)])
            except (PreconditionError, ReplyLostError) as error:
                raise StoreUnavailableError(f"{path} is left to the end of the session: {error}") from error

    def commit(self, reads: Reads, wake: Callable[[], None] | None = None) -> tuple[ContentCommit | None, Node | None]:
        """The last commit time, None where none can be read, and the node that it was read from."""
        node = reads.get(self._paths.commit, wake)
        return (None if node is None else commit_from_bytes(node.data, self._paths.commit)), node

    def write_commit(self, commit: ContentCommit, node: str, read: Node | None) -> bool:
        """Write if the node still is as `read`; False: another write came first, or it is unknown: read again."""
        try:
            self._tree.write([placed(self._paths.commit, commit_to_bytes(commit, node), read)])
        except (PreconditionError, ReplyLostError):
            return False
        return True

    def reloads(self, reads: Reads, wake: Callable[[], None] | None = None) -> Reloads:
        node = reads.get(self._paths.reload, wake)
        return Reloads() if node is None else Reloads.from_bytes(node.data, self._paths.reload)

    def changed(self, reads: Reads, wake: Callable[[], None] | None = None) -> tuple[int, int]:
        """A value that changes with each change of the source."""
        node = reads.get(self._paths.changed, wake)
        return (0, 0) if node is None else (node.created, node.version)

    def ask_reload(self, node: str | None = None) -> list[str]:
        """Ask a node, or all live ones, to read everything anew; returns their ids.

        :raises UnknownNodeError: no live node has this id.
        """
        live = sorted(each.member.node for each in Members(self._tree, self._paths, lambda: None).read())
        if node is not None and node not in live:
            raise UnknownNodeError(self.name, node, live)

        def write() -> None:
            found = self._tree.get(self._paths.reload)
            old = Reloads() if found is None else Reloads.from_bytes(found.data, self._paths.reload)
            if node is None:
                new = Reloads(old.nodes, old.everybody + 1)
            else:
                new = Reloads({**old.nodes, node: old.nodes.get(node, 0) + 1}, old.everybody)
            # Removing a number changes it, so only those of dead nodes may be removed.
            kept = {each: number for each, number in new.nodes.items() if each in live}
            data = Reloads(kept, new.everybody).to_bytes()
            self._tree.write([placed(self._paths.reload, data, found)])

        once(self._tree, f"asking nodes of the cache {self.name} to reload", write)
        return live if node is None else [node]

    def announce(self) -> None:
        """Make all nodes read the source at once, after a change of it. Without this they read it later."""

        def write() -> None:
            node = self._tree.get(self._paths.changed)
            if node is not None:
                self._tree.write([Put(self._paths.changed, b"", node.version)])

        once(self._tree, f"notifying nodes of the cache {self.name} of a change", write)

    def members(self, reads: Reads, wake: Callable[[], None]) -> Members:
        return Members(reads, self._paths, wake)


class Members:
    """The live nodes. Only changed ones are read again."""

    def __init__(self, reads: Reads, paths: Paths, wake: Callable[[], None]) -> None:
        self._reads, self._paths, self._wake = reads, paths, wake
        self._known: dict[str, LiveNode] = {}
        """Name in ZooKeeper → the node as last read."""
        self._stale: set[str] = set()
        self._wakes: dict[str, Callable[[], None]] = {}

    def forget(self) -> None:
        """Read all again: watches may be lost."""
        self._known = {}

    def read(self) -> list[LiveNode]:
        """In any order."""
        names = self._reads.children(self._paths.sync, self._wake)
        for gone in self._known.keys() - set(names):
            del self._known[gone]
        for gone in self._wakes.keys() - set(names):
            del self._wakes[gone]
        for name in names:
            if name in self._stale or name not in self._known:
                self._read_one(name)
        return list(self._known.values())

    def _read_one(self, name: str) -> None:
        # Before the read, so that later changes wake again.
        self._stale.discard(name)
        path = f"{self._paths.sync}/{name}"
        wake = self._wakes.setdefault(name, self._wake_of(name))
        try:
            node = self._reads.get(path, wake)
        except StoreError:
            self._stale.add(name)
            raise
        if node is None:
            self._known.pop(name, None)
        else:
            self._known[name] = _live(path, node)

    def _wake_of(self, name: str) -> Callable[[], None]:
        def wake() -> None:
            self._stale.add(name)
            self._wake()

        return wake


def holder(node: LiveNode) -> str:
    """The process that has a node id, for people."""
    return f"{node.published.who or 'a process'} (ZooKeeper session 0x{node.session & 0xFFFF_FFFF_FFFF_FFFF:x})"


def _live(path: str, node: Node) -> LiveNode:
    return LiveNode.of(path.rpartition("/")[2], node.data, path, node.created, node.owner)


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """
    :ivar commit_us: the commit time that all nodes go to; None: there was none yet.
    :ivar nodes: live nodes, by id.
    """

    name: str
    commit_us: int | None
    nodes: tuple[LiveNode, ...]

    @property
    def lagging(self) -> Iterator[LiveNode]:
        """Nodes that serve an older state than the agreed one."""
        return (node for node in self.nodes if node.published.main_us < (self.commit_us or 0))

    @property
    def troubled(self) -> Iterator[LiveNode]:
        """Nodes that cannot read."""
        return (node for node in self.nodes if node.published.trouble)


def statuses(tree: Tree) -> tuple[CacheStatus, ...]:
    """All caches with live nodes, by name."""
    found = []
    for name in sorted(map(decode, tree.children(ROOT))):
        nodes = CacheNodes(tree, name)
        live = sorted(nodes.members(tree, lambda: None).read(), key=lambda node: node.member.node)
        if live:
            commit, _ = nodes.commit(tree)
            found.append(CacheStatus(name, None if commit is None else commit.at_us, tuple(live)))
    return tuple(found)
