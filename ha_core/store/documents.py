"""Documents as bytes: JSON, with long maps and last sequences compressed. And reading many of them."""

import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

from ha_core.model import Document, UnreadableDocumentError
from ha_core.store.errors import StoreError
from ha_core.store.tree import Node, Reads, existing

log = logging.getLogger(__name__)

MAX_PLAIN_BYTES = 64 * 1024 * 1024
_ZLIB = 0x78
"""First byte of a zlib stream with the usual window; JSON documents start with `{`."""

D = TypeVar("D", bound=Document)
V = TypeVar("V", int, str)


def to_bytes(document: Document) -> bytes:
    """As stored. Limits on the size of writes are checked against this."""
    data = document.to_bytes()
    longest = document.PLAIN_BYTES
    return zlib.compress(data) if longest is not None and len(data) > longest else data


def from_bytes(kind: type[D], data: bytes, path: str) -> D:
    """Parse the document stored at `path`, in either form.

    :raises UnreadableDocumentError: not a document of this kind, or more than 64 MiB when decompressed.
    """
    return kind.from_bytes(plain_bytes(data, path), path)


def plain_bytes(data: bytes, path: str) -> bytes:
    """The JSON of a node in either form, not parsed.

    :raises UnreadableDocumentError: it cannot be decompressed, or is more than 64 MiB then.
    """
    return _decompress(data, path) if data[:1] == bytes([_ZLIB]) else data


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


def readable(tree: Reads, kind: type[D], wanted: Sequence[str] | None = None) -> Iterator[D]:
    """The documents at the paths `wanted` (None: of the whole folder); missing and unreadable ones are left out."""
    if wanted is None:
        wanted = nodes_of(tree, kind.FOLDER)
    for path, node in existing(tree, wanted):
        try:
            yield from_bytes(kind, node.data, path)
        except UnreadableDocumentError as error:
            log.warning("left out: %s", error)


def demanded(tree: Reads, kind: type[D], cost: str, wanted: Sequence[str] | None = None) -> list[D]:
    """The documents at the paths `wanted` (None: of the whole folder), for a decision that must not miss one. Missing
    ones are left out.

    :param cost: the effect of removing a document of this kind by hand, for the error.
    :raises UnreadableDocumentError: this version cannot read one of them.
    """
    found = []
    for path, node in existing(tree, nodes_of(tree, kind.FOLDER) if wanted is None else wanted):
        try:
            found.append(from_bytes(kind, node.data, path))
        except UnreadableDocumentError as error:
            raise UnreadableDocumentError(
                f"{error}. Use the version of Switchyard that wrote it. If there is none, remove the document with "
                f"ZooKeeper's `zkCli.sh delete ROOT{path}` (ROOT as in --root); then {cost}."
            ) from error
    return found


def value_of(kind: type[V], node: Node | None, path: str, key: str, what: str) -> V:
    """The value of a node that holds a single value and no document.

    :raises StoreError: there is none.
    """
    try:
        return kind(json.loads(b"null" if node is None else node.data)[key])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} does not hold {what} ({error!r}): restore it from a backup") from error


def nodes_of(tree: Reads, folder: str) -> list[str]:
    """The paths of all nodes in a folder, sorted."""
    return sorted(f"{folder}/{name}" for name in tree.children(folder))
