"""Documents as bytes: JSON, except that long maps and last sequences are compressed."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TypeVar

from ha_core.model import Document, LastSequences, Operation, Topic, UnreadableDocumentError

COMPRESSED_FROM_BYTES = 1024
"""Of JSON: about seven partitions of two extents. What is shorter stays readable in a ZooKeeper shell, and would gain
little: a node costs some 200 bytes of a revision besides its data. A map of 50 partitions becomes a fourth to a
seventh, for a tenth of the time that it takes to parse."""
MAX_PLAIN_BYTES = 64 * 1024 * 1024
_COMPRESSED: Mapping[type[Document], int] = {
    Topic: COMPRESSED_FROM_BYTES,
    LastSequences: COMPRESSED_FROM_BYTES,
    Operation: 32 * COMPRESSED_FROM_BYTES,
}
"""What grows with partitions, and from which length on. An operation keeps what it found of each of them, in the same
revision as their maps; most are short."""
_ZLIB = 0x78
"""First byte of a zlib stream with the usual window; JSON documents start with `{`."""

D = TypeVar("D", bound=Document)


def to_bytes(document: Document) -> bytes:
    """As stored. Whatever has to fit into a write is measured by this."""
    data = document.to_bytes()
    longest = _COMPRESSED.get(type(document))
    return zlib.compress(data) if longest is not None and len(data) > longest else data


def from_bytes(kind: type[D], data: bytes, path: str) -> D:
    """Parse what is stored at `path`, in either form.

    :raises UnreadableDocumentError: not a document of this kind, or more than 64 MiB when decompressed.
    """
    if data[:1] == bytes([_ZLIB]):
        data = _decompress(data, path)
    return kind.from_bytes(data, path)


def _decompress(data: bytes, path: str) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, MAX_PLAIN_BYTES)
    except zlib.error as error:
        raise UnreadableDocumentError(f"{path}: neither JSON nor zlib: {error}") from error
    if stream.unconsumed_tail:
        raise UnreadableDocumentError(f"{path}: more than {MAX_PLAIN_BYTES} bytes when decompressed")
    if not stream.eof:
        raise UnreadableDocumentError(f"{path}: the compressed document is cut off after {len(data)} bytes")
    return plain
