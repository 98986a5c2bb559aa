"""What users use, merged from many gateways, bounded."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ha_core.model import UnreadableDocumentError, Usage, Use
from ha_core.store import paths
from ha_core.store.errors import StoreUnavailableError
from ha_core.store.once import once
from ha_core.store.protocol import Sighting
from ha_core.store.tree import Create, Node, Put, RefusedError, Tree

log = logging.getLogger(__name__)

MAX_NAMES = 1000
"""Topics per user, and groups per user."""
MAX_USES = 20
MAX_BYTES = 900_000
_ENTRY_BYTES = 8
"""Quotes, colon, brackets and comma around a new name."""
MAX_ATTEMPTS = 100


def record_usage(tree: Tree, user: str, uses: Iterable[Sighting]) -> int:
    """See `Store.record_usage`."""
    path = paths.path_of(Usage, user)
    seen = list(uses)

    def write() -> int:
        for _ in range(MAX_ATTEMPTS):
            node = tree.get(path)
            old = Usage(user=user) if node is None else Usage.from_bytes(node.data, path)
            merged, left_out = merge(old, seen)
            if merged == old:
                return left_out
            data = merged.to_bytes()
            try:
                tree.write([Create(path, data) if node is None else Put(path, data, node.version)])
            except RefusedError:
                continue
            return left_out
        raise StoreUnavailableError(f"usage of {user}: {MAX_ATTEMPTS} others wrote first; repeat it")

    # Merging again finds what was merged already: no other recognition is needed.
    return once(tree, f"usage of {user}", write, lambda: None)


def merge(usage: Usage, seen: Iterable[Sighting]) -> tuple[Usage, int]:
    """`usage` with the first uses among `seen` added, and how many did not fit."""
    topics, groups = dict(usage.topics), dict(usage.groups)
    size = len(usage.to_bytes())
    left_out = 0
    for what, name, use in seen:
        table = topics if what == "topic" else groups
        known = table.get(name, ())
        if any((use.instance, use.how) == (other.instance, other.how) for other in known):
            continue
        added = _size(use) + (0 if known else len(name.encode()) + _ENTRY_BYTES)
        if len(known) >= MAX_USES or (not known and len(table) >= MAX_NAMES) or size + added > MAX_BYTES:
            left_out += 1
            continue
        table[name] = (*known, use)
        size += added
    return usage.model_copy(update={"topics": topics, "groups": groups}), left_out


def _size(use: Use) -> int:
    return len(use.model_dump_json().encode()) + 1


def usage(tree: Tree) -> dict[str, Usage]:
    """See `Store.usage`."""
    found = sorted(f"{paths.USAGE}/{name}" for name in tree.children(paths.USAGE))
    readable: dict[str, Usage] = {}
    for path, node in zip(found, tree.get_many(found), strict=True):
        document = None if node is None else _readable(path, node)
        if document is not None:
            readable[document.user] = document
    return readable


def _readable(path: str, node: Node) -> Usage | None:
    try:
        return Usage.from_bytes(node.data, path)
    except UnreadableDocumentError as error:
        log.warning("left out: %s", error)
        return None
