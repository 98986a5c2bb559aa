"""The store in ZooKeeper (3.6 or newer) through kazoo."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar

from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

from ha_core.store import paths
from ha_core.store.connection import ZooKeeperConnection, open_connection
from ha_core.store.errors import NoStateError, StoreError
from ha_core.store.members import MemberAway, members_away
from ha_core.store.security import StoreSecurity, from_environment
from ha_core.store.store import Store
from ha_core.store.tree import Check, Create, Node, Op, PreconditionError, Put, Reads, Remove, check_size

_MAX_ROOTS = 20
"""Most nodes at the top of ZooKeeper's tree that are searched for a state, where the given root has none."""
_GET_DATA = 4
_ERROR = -1
_NO_NODE = -101
_HEADER = struct.Struct("!i?i")
"""Type, done, error: before each part, and once more with done at the end."""
_LENGTH = struct.Struct("!i")
_STAT = struct.Struct("!q16xqi8xq16x")
"""Fields of the 68 bytes of a node's stat: zxid of its creation, time of its last write, version, ephemeral owner."""
FIRST_BATCH = 50
MAX_BATCH = 500
"""Paths per request; more bring nothing."""
TARGET_REPLY_BYTES = 4_000_000
"""The server builds a whole reply in memory, so large documents are read in smaller batches."""


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Many reads in one request, which kazoo lacks (opcode 22, since 3.6). Its connection can send this one, and read
    the reply with it."""

    paths: Sequence[str]
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        part = _HEADER.pack(_GET_DATA, False, -1)
        out = bytearray()
        for path in self.paths:
            encoded = path.encode()
            out += part
            out += _LENGTH.pack(len(encoded))
            out += encoded
            out += b"\0"  # no watch
        out += _HEADER.pack(-1, True, -1)
        return bytes(out)

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[Node | None]:
        """Nodes in order of the paths; None for a missing one."""
        nodes: list[Node | None] = []
        kind, done, _ = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        while not done:
            (number,) = _LENGTH.unpack_from(data, offset)
            offset += _LENGTH.size
            if kind == _ERROR:
                if number != _NO_NODE:
                    raise StoreError(f"ZooKeeper refused to read a node (error {number}): check its access list")
                nodes.append(None)
            else:
                end = offset + max(number, 0)
                created, written_ms, version, owner = _STAT.unpack_from(data, end)
                nodes.append(Node(bytes(data[offset:end]), version, owner, written_ms, created))
                offset = end + _STAT.size
            kind, done, _ = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
        return nodes


def read_in_batches(paths: Sequence[str], read: Callable[[Sequence[str]], list[Node | None]]) -> list[Node | None]:
    """All nodes, in batches as large as the documents allow."""
    nodes: list[Node | None] = []
    batch = FIRST_BATCH
    while len(nodes) < len(paths):
        part = read(paths[len(nodes) : len(nodes) + batch])
        nodes += part
        mean_bytes = sum(len(node.data) for node in part if node is not None) / len(part)
        batch = min(MAX_BATCH, max(1, int(TARGET_REPLY_BYTES / (mean_bytes + _STAT.size))))
    return nodes


@dataclass(frozen=True, slots=True)
class _Watch:
    """Equal for equal `wake`, so that kazoo keeps one however often the node is read."""

    wake: Callable[[], None]

    def __call__(self, event: object) -> None:
        self.wake()


def _watch(wake: Callable[[], None] | None) -> _Watch | None:
    return None if wake is None else _Watch(wake)


class ZooKeeperReads:
    """Reading below `root`."""

    def __init__(self, connection: ZooKeeperConnection, root: str, waits: bool) -> None:
        """:param waits: for a lost connection to return; else reads fail at once."""
        self.connection, self._root = connection, root
        self._read = partial(connection.read, waits=waits)

    def get(self, path: str, wake: Callable[[], None] | None = None) -> Node | None:
        watch = _watch(wake)
        try:
            data, stat = self._read(lambda: self.connection.client.get_async(self._root + path, watch=watch))
        except NoNodeError:
            return None
        return Node(data or b"", stat.version, stat.ephemeralOwner, stat.mtime, stat.czxid)

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return read_in_batches([self._root + path for path in paths], self._multi_read)

    def children(self, path: str, wake: Callable[[], None] | None = None) -> list[str]:
        watch, client = _watch(wake), self.connection.client
        try:
            names: list[str] = self._read(lambda: client.get_children_async(self._root + path, watch=watch))
        except NoNodeError:
            return []
        return names

    def sync(self) -> None:
        self._read(lambda: self.connection.client.sync_async(self._root or "/"))

    def _multi_read(self, paths: Sequence[str]) -> list[Node | None]:
        request = MultiRead(paths)

        def send() -> Any:
            reply = self.connection.client.handler.async_result()
            self.connection.client._call(request, reply)
            return reply

        nodes: list[Node | None] = self._read(send)
        return nodes


class ZooKeeperTree(ZooKeeperReads):
    """The tree below `root`, over one session."""

    def __init__(
        self, connection: ZooKeeperConnection, root: str, session_timeout_s: float, security: StoreSecurity
    ) -> None:
        super().__init__(connection, root, waits=True)
        self.session_timeout_s, self._security = session_timeout_s, security
        self.listen, self.close = connection.listen, connection.close
        if root:
            self._read(lambda: connection.client.ensure_path_async(root))

    @property
    def session(self) -> int:
        return self.connection.session

    def impatient(self) -> Reads:
        return ZooKeeperReads(self.connection, self._root, waits=False)

    def write(self, ops: Sequence[Op]) -> None:
        check_size(ops)
        transaction = self.connection.client.transaction()
        for op in ops:
            _add(transaction, op, self._root + op.path)
        for index, result in enumerate(self.connection.write(transaction.commit_async)):
            if isinstance(result, NodeExistsError | NoNodeError | BadVersionError | NotEmptyError):
                raise PreconditionError(index)
            # In a refused write, these stand for the operations before and after the refused one.
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                where = f"{self._root}{ops[index].path}"
                raise StoreError(
                    f"ZooKeeper at {self.connection.hosts} refused to write {where}: {type(result).__name__}"
                )

    def confirm(self) -> None:
        """A `sync` and not a read: a server that is cut off from its leader still answers reads for a while, when the
        leader may have ended this session already.
        """
        self.impatient().sync()

    def members_away(self) -> Sequence[MemberAway]:
        return members_away(self.connection.hosts, self._security)


def _add(transaction: Any, op: Op, path: str) -> None:
    if isinstance(op, Create):
        transaction.create(path, op.data, ephemeral=op.ephemeral)
    elif isinstance(op, Put):
        transaction.set_data(path, op.data, version=op.version)
    elif isinstance(op, Remove):
        transaction.delete(path, version=op.version)
    else:
        assert isinstance(op, Check)
        transaction.check(path, version=op.version)


def connect(
    hosts: str,
    root: str = "/switchyard",
    session_timeout_s: float = 6.0,
    connect_timeout_s: float = 5.0,
    patience_s: float = 5.0,
    create: bool = True,
    security: StoreSecurity | None = None,
) -> Store:
    """Open a session, and create the nodes that an empty tree lacks.

    :param hosts: `host:port[,host:port…]`.
    :param root: an absolute path, or empty for the top of ZooKeeper's tree.
    :param session_timeout_s: after it, ephemeral nodes of a dead process vanish; the server may raise it to two ticks.
    :param connect_timeout_s: limit of the first connection attempt. Later ones have none.
    :param patience_s: how long each call waits for an interrupted connection, and for its answer.
    :param create: False: do not create a missing root, which may be mistyped, and would show an empty state.
    :param security: None: from the environment (`StoreSecurity`).
    :raises StoreSecurityError: the configuration for reaching ZooKeeper cannot be used.
    :raises StoreUnavailableError: none of the hosts answered in time.
    :raises NoStateError: there is nothing at the root, and `create` is false.
    """
    if root and (not root.startswith("/") or root.endswith("/")):
        raise ValueError(f"root {root!r}: it must start with a slash and not end with one, as in /switchyard")
    secured = from_environment() if security is None else security
    connection = open_connection(hosts, secured, session_timeout_s, connect_timeout_s, patience_s)
    try:
        if not create:
            _require_state(connection, root)
        return Store(ZooKeeperTree(connection, root, session_timeout_s, secured))
    except BaseException:
        connection.close()
        raise


def _require_state(connection: ZooKeeperConnection, root: str) -> None:
    """:raises NoStateError: names the roots below the top that have a state, those most like `root` first."""
    top = ZooKeeperReads(connection, "", waits=True)
    if top.get(f"{root}{paths.CHANGES}") is not None:
        return
    names = get_close_matches(root.strip("/"), top.children("/"), n=_MAX_ROOTS, cutoff=0.0)
    others = [f"/{name}" for name in names if top.get(f"/{name}{paths.CHANGES}") is not None]
    raise NoStateError.at(connection.hosts, root, others)
