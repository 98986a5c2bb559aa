"""Writes of a quota: its node, missing parents, and a note of the change."""

from __future__ import annotations

from collections.abc import Sequence

from ha_core.store import quota_nodes
from ha_core.store.quota_nodes import CHANGES, MAX_NOTE, note_path, number_of, parents_of
from ha_core.store.tree import Create, Node, Op, Reads, Remove, placed

KEPT_MS = 15 * 60 * 1000
"""The writer of a note removes notes that are older than the newest one by this: as brokers do."""
MAX_NOTES = 1000
"""Most younger notes that are kept."""
MAX_PURGED = 200
"""Most notes removed at once."""


def placing(tree: Reads, path: str, data: bytes, node: Node | None, gone: bool) -> list[Op]:
    """:param node: as it was read."""
    if gone and node is not None and not tree.children(path):
        return [Remove(path, node.version)]
    parents = parents_of(path) if node is None else ()
    above = zip(parents, tree.get_many(parents), strict=True)
    return [*(Create(parent) for parent, found in above if found is None), placed(path, data, node)]


def noting(tree: Reads, paths: Sequence[str]) -> list[Op]:
    """A note for each path, above the newest number, and the removal of expired notes."""
    numbers = sorted(number for name in tree.children(CHANGES) if (number := number_of(name)) is not None)
    first = _free(numbers, len(paths))
    notes: list[Op] = [
        Create(note_path(number), quota_nodes.note_to_bytes(path)) for number, path in enumerate(paths, first)
    ]
    if not numbers:
        return notes
    oldest = numbers[:MAX_PURGED]
    *nodes, newest = tree.get_many([*map(note_path, oldest), note_path(numbers[-1])])
    surplus = len(numbers) + len(paths) - 1 - MAX_NOTES
    old = [
        Remove(note_path(number), node.version)
        for place, (number, node) in enumerate(zip(oldest, nodes, strict=True))
        if node is not None
        and newest is not None
        and number != numbers[-1]
        and (place < surplus or newest.written_ms - node.written_ms > KEPT_MS)
    ]
    return [*notes, *old]


def _free(numbers: Sequence[int], count: int) -> int:
    """The first of `count` consecutive free numbers: above the newest, or in the last gap if numbers end there."""
    end = MAX_NOTE + 1
    for number in reversed(numbers):
        if number + count < end:
            return number + 1
        end = number
    return 0
