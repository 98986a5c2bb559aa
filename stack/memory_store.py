"""The store in memory, for tests: several sessions on one tree, with faults as methods."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ha_core.store.errors import StoreUnavailableError
from ha_core.store.members import MemberAway
from ha_core.store.store import Store
from ha_core.store.tree import (
    Check,
    Create,
    Node,
    Op,
    PreconditionError,
    Put,
    Remove,
    ReplyLostError,
    State,
    check_size,
)


@dataclass
class _Memory:
    """State shared by all sessions."""

    nodes: dict[str, Node] = field(default_factory=dict)
    children: dict[str, set[str]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    watches: dict[str, dict[Callable[[], None], MemoryTree]] = field(default_factory=dict)
    """Watches by path; those of a node's children by the path and a slash."""
    sessions: int = 0
    writes: int = 0
    clock_s: Callable[[], float] = time.time

    def made(self, data: bytes, owner: int) -> Node:
        self.writes += 1
        return Node(data, 0, owner, int(self.clock_s() * 1000), self.writes)

    def put(self, old: Node, data: bytes) -> Node:
        return old._replace(data=data, version=old.version + 1, written_ms=int(self.clock_s() * 1000))

    def place(self, path: str, node: Node) -> None:
        if path not in self.nodes:
            parent, _, name = path.rpartition("/")
            self.children.setdefault(parent, set()).add(name)
        self.nodes[path] = node

    def drop(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        self.children[parent].discard(name)
        del self.nodes[path]

    def fire(self, paths: set[str]) -> None:
        for path in paths:
            for wake in self.watches.pop(path, {}):
                wake()

    def fire_parents(self, paths: set[str]) -> None:
        """For nodes that were created or deleted."""
        self.fire({path[: path.rindex("/") + 1] for path in paths})


class MemoryTree:
    """One session of the tree."""

    def __init__(self, memory: _Memory) -> None:
        self.session_timeout_s = 0.5
        self._memory = memory
        self._state: State = "connected"
        self._listeners: list[Callable[[State], None]] = []
        self._lost_replies: list[bool] = []
        self._new_session()

    @property
    def session(self) -> int:
        return self._session

    def get(self, path: str, wake: Callable[[], None] | None = None) -> Node | None:
        with self._memory.lock:
            self._check_connected()
            node = self._memory.nodes.get(path)
            if wake is not None and node is not None:
                self._memory.watches.setdefault(path, {})[wake] = self
            return node

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        with self._memory.lock:
            self._check_connected()
            return [self._memory.nodes.get(path) for path in paths]

    def children(self, path: str, wake: Callable[[], None] | None = None) -> list[str]:
        with self._memory.lock:
            self._check_connected()
            if wake is not None and path in self._memory.nodes:
                self._memory.watches.setdefault(f"{path}/", {})[wake] = self
            return list(self._memory.children.get(path, ()))

    def write(self, ops: Sequence[Op]) -> None:
        check_size(ops)
        with self._memory.lock:
            self._check_connected()
            lost = self._lost_replies.pop(0) if self._lost_replies else None
            if lost is not False:
                self._apply(ops)
            if lost is not None:
                raise ReplyLostError("the reply was dropped by the test")

    def impatient(self) -> MemoryTree:
        return self

    def sync(self) -> None:
        self._check_connected()

    def confirm(self) -> None:
        self._check_connected()

    def members_away(self) -> Sequence[MemberAway]:
        return ()

    def listen(self, listener: Callable[[State], None]) -> Callable[[], None]:
        with self._memory.lock:
            self._listeners.append(listener)
            listener(self._state)

        def stop() -> None:
            with self._memory.lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def close(self) -> None:
        with self._memory.lock:
            self._end_session()
            self._state = "lost"

    def expire(self) -> None:
        with self._memory.lock:
            self._end_session()
            self._turn("lost")
            self._new_session()
            self._turn("connected")

    def turn(self, state: State) -> None:
        """Lose the connection or restore it, and keep the session."""
        with self._memory.lock:
            self._turn(state)

    def lose_next_reply(self, made: bool) -> None:
        with self._memory.lock:
            self._lost_replies.append(made)

    @property
    def losses_left(self) -> int:
        return len(self._lost_replies)

    def _apply(self, ops: Sequence[Op]) -> None:
        memory = self._memory
        before: dict[str, Node | None] = {}
        try:
            for index, op in enumerate(ops):
                before.setdefault(op.path, memory.nodes.get(op.path))
                self._apply_one(index, op)
        except PreconditionError:
            for path, node in reversed(before.items()):
                if node is not None:
                    memory.place(path, node)
                elif path in memory.nodes:
                    memory.drop(path)
            raise
        changed = {path: node for path, node in before.items() if memory.nodes.get(path) != node}
        memory.fire(set(changed))
        memory.fire_parents({path for path, node in changed.items() if None in (node, memory.nodes.get(path))})

    def _apply_one(self, index: int, op: Op) -> None:
        memory = self._memory
        node = memory.nodes.get(op.path)
        if isinstance(op, Create):
            parent = op.path.rpartition("/")[0]
            if node is not None:
                raise PreconditionError(index)
            if parent and parent not in memory.nodes:
                raise PreconditionError(index)
            memory.place(op.path, memory.made(op.data, self._session if op.ephemeral else 0))
            return
        if node is None:
            raise PreconditionError(index)
        if node.version != op.version:
            raise PreconditionError(index)
        if isinstance(op, Check):
            return
        if isinstance(op, Put):
            memory.place(op.path, memory.put(node, op.data))
            return
        assert isinstance(op, Remove)
        if memory.children.get(op.path):
            raise PreconditionError(index)
        memory.drop(op.path)

    def _check_connected(self) -> None:
        if self._state != "connected":
            raise StoreUnavailableError("memory: the session is suspended or closed; resume it")

    def _new_session(self) -> None:
        with self._memory.lock:
            self._memory.sessions += 1
            self._session = self._memory.sessions

    def _end_session(self) -> None:
        owned = [path for path, node in self._memory.nodes.items() if node.owner == self._session]
        for path in owned:
            self._memory.drop(path)
        self._memory.fire(set(owned))
        self._memory.fire_parents(set(owned))
        for watches in self._memory.watches.values():
            for wake in [wake for wake, tree in watches.items() if tree is self]:
                del watches[wake]

    def _turn(self, state: State) -> None:
        if state != self._state:
            self._state = state
            for listener in list(self._listeners):
                listener(state)


class MemoryStore(Store):
    """A session on a tree in memory; `client()` opens further sessions on the tree."""

    def __init__(self, memory: _Memory | None = None) -> None:
        self._memory = memory or _Memory()
        self._memory_tree = MemoryTree(self._memory)
        super().__init__(self._memory_tree)

    def client(self) -> MemoryStore:
        """Another session on the tree."""
        return MemoryStore(self._memory)

    def expire_session(self) -> None:
        """End the session as ZooKeeper does after its timeout; a new one begins at once."""
        self._memory_tree.expire()

    def lose_next_reply(self, made: bool = True) -> None:
        """Lose the reply of the next write, which is made or not."""
        self._memory_tree.lose_next_reply(made)

    def losses_left(self) -> int:
        """Number of ordered losses that have not happened yet."""
        return self._memory_tree.losses_left

    def suspend(self) -> None:
        """Lose the connection; the session stays alive."""
        self._memory_tree.turn("suspended")

    def resume(self) -> None:
        """Restore the connection."""
        self._memory_tree.turn("connected")

    def set_clock(self, clock_s: Callable[[], float]) -> None:
        """Set the clock for the times at which nodes are written."""
        self._memory.clock_s = clock_s

    def plant(self, path: str, data: bytes) -> None:
        """Write any bytes to a path (relative to the root), as another version or a shell might."""
        with self._memory.lock:
            old = self._memory.nodes.get(path)
            node = self._memory.made(data, 0) if old is None else self._memory.put(old, data)._replace(owner=0)
            self._memory.place(path, node)
            self._memory.fire({path})
            self._memory.fire_parents({path} if old is None else set())

    def uproot(self, path: str) -> None:
        """Delete a node (relative to the root) without any session's knowledge."""
        with self._memory.lock:
            self._memory.drop(path)
            self._memory.fire({path})
            self._memory.fire_parents({path})
