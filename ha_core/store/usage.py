"""What users use, merged from many gateways, bounded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from ha_core.model import Usage, Use
from ha_core.store import paths
from ha_core.store.documents import readable
from ha_core.store.tree import OnTree, once, placed

MAX_NAMES = 1000
"""Topics per user, and groups per user."""
MAX_USES = 20
MAX_BYTES = 900_000
_ENTRY_BYTES = 8
"""Quotes, colon, brackets and comma around a new name."""


class Sighting(NamedTuple):
    """One use of a topic or group."""

    what: Literal["topic", "group"]
    name: str
    use: Use


class Usages(OnTree):
    def record_usage(self, user: str, uses: Iterable[Sighting]) -> int:
        """Merge first uses into the user's usage; returns how many did not fit.

        Per user and topic or group, the first use of each (instance, how) is kept, with the software that it was last.
        Bounds: 1000 topics and 1000 groups
        per user, 20 uses per entry, 900,000 bytes in all. What lies beyond is not stored and counted in the return
        value: the closure of a move then rests on what is stored, so callers report it.
        """
        path = paths.path_of(Usage, user)
        seen = list(uses)

        def write() -> int:
            node = self._tree.get(path)
            old = Usage(user=user) if node is None else Usage.from_bytes(node.data, path)
            merged, left_out = merge(old, seen)
            if merged != old:
                self._tree.write([placed(path, merged.to_bytes(), node)])
            return left_out

        return once(self._tree, f"usage of {user}", write)

    def forget_usage(self, topics: Collection[str]) -> None:
        """Drop all uses of topics that do not exist any more."""
        for usage in readable(self._tree, Usage):
            if usage.topics.keys().isdisjoint(topics):
                continue
            path = paths.path_of(Usage, usage.user)

            def write(path: str = path) -> None:
                node = self._tree.get(path)
                if node is None:
                    return
                old = Usage.from_bytes(node.data, path)
                left = old.changed(topics={name: uses for name, uses in old.topics.items() if name not in topics})
                if left != old:
                    self._tree.write([placed(path, left.to_bytes(), node)])

            once(self._tree, f"usage of {usage.user}", write)

    def usage(self) -> dict[str, Usage]:
        """Usage of all users by user; entries that this version cannot read are left out."""
        return {usage.user: usage for usage in readable(self._tree, Usage)}


def merge(usage: Usage, seen: Iterable[Sighting]) -> tuple[Usage, int]:
    """`usage` with the first uses among `seen` added, and how many did not fit."""
    topics, groups = dict(usage.topics), dict(usage.groups)
    size = len(usage.to_bytes())
    left_out = 0
    for what, name, use in seen:
        table = topics if what == "topic" else groups
        known = table.get(name, ())
        same = next((one for one in known if (use.instance, use.how) == (one.instance, one.how)), None)
        if same is not None:
            newer = same if use.software is None else same.changed(software=use.software)
            size += _size(newer) - _size(same)
            table[name] = tuple(newer if one is same else one for one in known)
            continue
        added = _size(use) + (0 if known else len(name.encode()) + _ENTRY_BYTES)
        if len(known) >= MAX_USES or (not known and len(table) >= MAX_NAMES) or size + added > MAX_BYTES:
            left_out += 1
            continue
        table[name] = (*known, use)
        size += added
    return usage.model_copy(update={"topics": topics, "groups": groups}), left_out


def _size(use: Use) -> int:
    return len(use.model_dump_json(exclude_none=True).encode()) + 1
