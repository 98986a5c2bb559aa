"""Documents for readers to whom one that cannot be read is no reason to do without the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TypeVar

from ha_core.model import Document, UnreadableDocumentError
from ha_core.store import documents, paths
from ha_core.store.tree import Reads

log = logging.getLogger(__name__)

D = TypeVar("D", bound=Document)


def readable(tree: Reads, kind: type[D], wanted: Sequence[str] | None = None) -> Iterator[D]:
    """The documents at the paths `wanted` (None: of the whole folder); missing and unreadable ones are left out."""
    if wanted is None:
        folder = paths.FOLDERS[kind]
        wanted = [f"{folder}/{name}" for name in sorted(tree.children(folder))]
    for path, node in zip(wanted, tree.get_many(wanted), strict=True):
        if node is None:
            continue
        try:
            yield documents.from_bytes(kind, node.data, path)
        except UnreadableDocumentError as error:
            log.warning("left out: %s", error)
