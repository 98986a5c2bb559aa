"""Paths below the root, and how names become node names.

All paths here are relative to the root and start with a slash, as in change notes. The classes of documents have their
folders.
"""

from urllib.parse import quote, unquote

from ha_core.model import Document, Operation
from ha_core.model.document import DOCUMENT_KINDS

CHANGES = "/changes"
PRODUCER_IDS = "/producer_ids"
CLUSTER_ID = "/cluster_id"
CLOCK = "/clock"
"""Written to read ZooKeeper's clock."""


def encode(name: str) -> str:
    """The node name of a user, topic, group … (any text that is not empty)."""
    if not name:
        raise ValueError("an empty name has no node")
    if name == ".":
        return "%2E"
    if name == "..":
        return "%2E%2E"
    return quote(name, safe="")


def decode(node: str) -> str:
    return unquote(node)


def name_of(document: Document) -> str:
    """The name of a document in the tree."""
    name: str = getattr(document, document.KEY)
    return name


def path_of(kind: type[Document], name: str) -> str:
    return f"{kind.FOLDER}/{encode(name)}"


def parse(path: str) -> tuple[type[Document], str] | None:
    """The kind and name of the document at `path`; None if it is not a document's path."""
    folder, _, node = path.rpartition("/")
    kind = DOCUMENT_KINDS.get(folder)
    return (kind, decode(node)) if kind is not None and node else None


def note(revision: int) -> str:
    return f"{CHANGES}/change-{revision:010d}"


def epoch(operation_id: str) -> str:
    return f"{path_of(Operation, operation_id)}/epoch"


def holder(operation_id: str) -> str:
    return f"{path_of(Operation, operation_id)}/holder"


def history(operation_id: str) -> str:
    return f"{path_of(Operation, operation_id)}/history"


def history_entry(operation_id: str, number: int) -> str:
    return f"{history(operation_id)}/entry-{number:08d}"


def sealed(operation_id: str) -> str:
    """Exists when the operation is sealed; holds the number of its seal."""
    return f"{path_of(Operation, operation_id)}/sealed"
