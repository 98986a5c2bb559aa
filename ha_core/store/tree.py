"""The layer below the store: a tree of versioned nodes with atomic writes and sessions.

ZooKeeper and an in-memory tree implement it; the layers above are common to both.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeVar

from ha_core.store.errors import StoreError, StoreUnavailableError, TooLargeError
from ha_core.store.members import MemberAway

T = TypeVar("T")
State = Literal["connected", "suspended", "lost"]
"""`suspended`: no connection, the session may live on. `lost`: the session is over, its ephemeral nodes are gone."""
MAX_LOST, MAX_REFUSED = 20, 100
"""How often `once` repeats a write: each refusal means that another write was made."""
MAX_REQUEST_BYTES = 1_040_000
"""ZooKeeper's `jute.maxbuffer` is 1,048,575 by default, and it closes connections that send more."""
_OVERHEAD_BYTES = 100
"""Per operation of a write: headers, lengths, access list."""


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Remove:
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Op = Create | Put | Remove | Check


class Node(NamedTuple):
    data: bytes
    version: int
    owner: int
    """Session of an ephemeral node, else 0."""
    written_ms: int = 0
    """When it was last written, by ZooKeeper's clock, whichever process wrote."""
    created: int = 0
    """Greater than that of every node from an earlier write. Children are listed in no order at all."""


class PreconditionError(Exception):
    """Nothing was written, because the node of operation `index` is not as expected."""

    def __init__(self, index: int) -> None:
        self.index = index
        super().__init__(f"operation {index}")


class ReplyLostError(Exception):
    """A write was sent and its reply is lost: it may have been made, or may still be."""


class Reads(Protocol):
    """Reading. Paths are relative to the root. Every method may raise StoreUnavailableError."""

    def get(self, path: str, wake: Callable[[], None] | None = None) -> Node | None:
        """`wake` is called once, from any thread, after the node changed or the connection was lost."""

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """In order of `paths`. Not one point in time."""

    def children(self, path: str, wake: Callable[[], None] | None = None) -> list[str]:
        """Node names, in any order; empty for a missing node. `wake` as for `get`, when a child comes or goes."""

    def sync(self) -> None:
        """Reads that follow see everything that any session wrote before this call."""


class Tree(Reads, Protocol):
    """One session. Its own reads wait for a lost connection to return, up to a bound."""

    @property
    def session(self) -> int:
        """Id of the session that lives now; it changes after a session loss. Waits as reads do."""

    @property
    def session_timeout_s(self) -> float: ...

    def impatient(self) -> Reads:
        """Reads that fail at once when the connection is lost, for callers that must report that without delay."""

    def write(self, ops: Sequence[Op]) -> None:
        """All or nothing.

        :raises PreconditionError: nothing was made.
        :raises ReplyLostError: unknown whether it was made.
        """

    def confirm(self) -> None:
        """`sync` without waiting for a lost connection."""

    def members_away(self) -> Sequence[MemberAway]:
        """Servers of the tree that do not serve while others do."""

    def listen(self, listener: Callable[[State], None]) -> Callable[[], None]:
        """Call `listener` with the current state and each new one; it must not block. Returns a function to stop."""

    def close(self) -> None: ...


class OnTree:
    """A part of the store, over one session of a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree


def check_size(ops: Sequence[Op]) -> None:
    """:raises TooLargeError: ZooKeeper would close the connection instead of answering."""
    sizes = [
        (_OVERHEAD_BYTES + len(op.path.encode()) + (len(op.data) if isinstance(op, Create | Put) else 0), op.path)
        for op in ops
    ]
    total = sum(size for size, _ in sizes)
    if total > MAX_REQUEST_BYTES:
        size, path = max(sizes)
        raise TooLargeError(
            f"a write of {len(ops)} nodes is {total} bytes, ZooKeeper takes {MAX_REQUEST_BYTES} at once "
            f"(the largest is {path} with {size}): change fewer documents at once"
        )


def once(tree: Tree, what: str, write: Callable[[], T], recognise: Callable[[], T | None] = lambda: None) -> T:
    """The result of `write`, made once even if replies are lost.

    It is repeated where it is refused, because other writes have changed what it had read, or where its reply is lost.
    `recognise` looks for the write in the tree: None if it is not there. Once a reply was lost it is also called after
    a refusal: the first write may have arrived late, so that the second one collides with it. It is not needed where
    writing twice does no harm.

    :raises StoreUnavailableError: other writes always come first; or the outcome is unknown, since the tree cannot be
        read.
    """
    lost = refused = 0
    while lost < MAX_LOST and refused < MAX_REFUSED:
        try:
            return write()
        except ReplyLostError:
            lost += 1
        except PreconditionError:
            refused += 1
            time.sleep(random.uniform(0, 0.001 * min(refused, 20)))
        except StoreError:
            found = _look(tree, what, recognise) if lost else None
            if found is None:
                raise
            return found
        found = _look(tree, what, recognise) if lost else None
        if found is not None:
            return found
    if refused == MAX_REFUSED:
        raise StoreUnavailableError(f"{what}: {MAX_REFUSED} times others wrote first; repeat it")
    raise StoreUnavailableError(
        f"{what}: {MAX_LOST} replies were lost, and the write was not found; "
        "check the network between here and ZooKeeper, then repeat"
    )


def _look(tree: Tree, what: str, recognise: Callable[[], T | None]) -> T | None:
    try:
        tree.sync()
        return recognise()
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{what}: the reply was lost, and it is unknown whether the write was made; "
            f"repeat it, a write that was made is recognised: {error}"
        ) from error


def placed(path: str, data: bytes, read: Node | None, ephemeral: bool = False) -> Create | Put:
    """The operation that makes `path` hold `data` if it still is as `read`; None: missing."""
    return Create(path, data, ephemeral) if read is None else Put(path, data, read.version)


def remove(tree: Tree, path: str) -> bool:
    """Remove the node at `path`, if there is one. Returns whether there was.

    :raises PreconditionError: it has changed since it was read; `once` reads it again.
    """
    node = tree.get(path)
    if node is not None:
        tree.write([Remove(path, node.version)])
    return node is not None


def existing(tree: Reads, paths: Sequence[str]) -> Iterator[tuple[str, Node]]:
    """(path, node) of those of `paths` that exist."""
    return ((path, node) for path, node in zip(paths, tree.get_many(paths), strict=True) if node is not None)
