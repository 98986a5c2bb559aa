"""Documents as bytes: JSON, except that long last sequences are compressed."""

from __future__ import annotations

import zlib
from typing import TypeVar

from ha_core.model import Document, LastSequences, UnreadableDocumentError

COMPRESSED_FROM_BYTES = 100_000
MAX_PLAIN_BYTES = 64 * 1024 * 1024
_ZLIB = 0x78
"""First byte of a zlib stream with the usual window; JSON documents start with `{`."""

D = TypeVar("D", bound=Document)


def to_bytes(document: Document) -> bytes:
    data = document.to_bytes()
    if isinstance(document, LastSequences) and len(data) > COMPRESSED_FROM_BYTES:
        return zlib.compress(data)
    return data


def from_bytes(kind: type[D], data: bytes, path: str) -> D:
    """Parse what is stored at `path`.

    :raises UnreadableDocumentError: not a document of this kind, or more than 64 MiB when decompressed.
    """
    if kind is LastSequences and data[:1] == bytes([_ZLIB]):
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
