"""Where each document lives below the root, and how names become node names.

All paths here are relative to the root and start with a slash, as change notes and followers name them.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from ha_core.model import (
    Cluster,
    Document,
    Group,
    KnownGroup,
    KnownTopic,
    LastSequences,
    Lock,
    Operation,
    Topic,
    Usage,
    UserBindings,
    VirtualNode,
)

CHANGES = "/changes"
OPERATIONS = "/operations"
LOCKS = "/locks"
USAGE = "/usage"
GATEWAYS = "/gateways"
NODES = "/nodes"
PRODUCER_IDS = "/producer_ids"
CLUSTER_ID = "/cluster_id"
CLOCK = "/clock"
"""Written by who wants to know what time it is for the tree."""

FOLDERS: dict[type[Document], str] = {
    Cluster: "/clusters",
    UserBindings: "/bindings",
    Topic: "/topics",
    LastSequences: "/sequences",
    Group: "/groups",
    Operation: OPERATIONS,
    Lock: LOCKS,
    Usage: USAGE,
    VirtualNode: NODES,
    KnownTopic: "/known_topics",
    KnownGroup: "/known_groups",
}
VIEW_KINDS: tuple[type[Document], ...] = (Cluster, UserBindings, Topic, LastSequences, Group)
"""What a `View` is made of."""
CHANGED_KINDS: tuple[type[Document], ...] = (*VIEW_KINDS, Operation)
"""What a `Change` may write."""

_KIND_OF_FOLDER = {folder: kind for kind, folder in FOLDERS.items()}


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
    """The name by which the tree knows a document."""
    if isinstance(document, UserBindings | Usage):
        return document.user
    if isinstance(document, Operation):
        return document.id
    if isinstance(document, Lock | VirtualNode | KnownTopic | KnownGroup):
        return document.key
    if isinstance(document, Cluster | Topic | LastSequences | Group):
        return document.name
    raise TypeError(f"{type(document).__name__} is not a named document of the tree")


def path_of(kind: type[Document], name: str) -> str:
    return f"{FOLDERS[kind]}/{encode(name)}"


def parse(path: str) -> tuple[type[Document], str] | None:
    """The kind and name of the document at `path`; None for a path of anything else."""
    folder, _, node = path.rpartition("/")
    kind = _KIND_OF_FOLDER.get(folder)
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


def gateway(gateway_id: str) -> str:
    return f"{GATEWAYS}/{encode(gateway_id)}"
