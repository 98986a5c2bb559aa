"""ZooKeeper's multiRead (opcode 22, since 3.6), which kazoo lacks: many reads in one request."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ha_core.store.errors import StoreError
from ha_core.store.tree import Node

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
    """A request that kazoo's connection can send, and whose reply it can read."""

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
