"""The usage of users, merged from many gateways, bounded."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from ha_core.model import Usage, Use
from ha_core.model.usage import FAMILY, LIVE_WITHIN, MAX_USERS, REWRITTEN_AFTER
from ha_core.store import paths
from ha_core.store.documents import nodes_of, readable
from ha_core.store.errors import StoreError
from ha_core.store.tree import OnTree, Remove, Tree, once, placed

MAX_NAMES = 1000
"""Topics per user, and groups per user."""
MAX_USES = 20
MAX_BYTES = 900_000
_ENTRY_BYTES = 8
"""Quotes, colon, brackets and comma around a new name."""
_COUNTED_FOR_S = 10.0


class TooManyUsersError(StoreError):
    """The user has no usage yet, and the limit of users is reached."""


class Sighting(NamedTuple):
    """One use of a topic or group."""

    what: Literal["topic", "group"]
    name: str
    use: Use


class Usages(OnTree):
    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._users = (0, float("-inf"))
        """Number of users with usage, and when they were counted."""

    def record_usage(self, user: str, uses: Iterable[Sighting]) -> int:
        """Merge uses into the user's usage; returns how many did not fit.

        Per user and topic or group, each (instance, how) is kept once, with its software and the time when it was last
        seen. Bounds: 20,000 users; 1000 topics and 1000 groups per user, 20 uses per entry, 900,000 bytes in all. A new
        use replaces one that was not seen for a day, or the oldest of a family of instances whose ids differ in numbers
        only. Uses beyond the bounds are not stored, and counted in the return value: the closure of a move then rests
        on the stored ones, so callers report it.

        :raises TooManyUsersError: the user has no usage yet, and 20,000 others have.
        """
        path = paths.path_of(Usage, user)
        seen = list(uses)

        def write() -> int:
            node = self._tree.get(path)
            if node is None:
                self._demand_room()
            old = Usage(user=user) if node is None else Usage.from_bytes(node.data, path)
            merged, left_out = merge(old, seen)
            if merged != old:
                self._tree.write([placed(path, merged.to_bytes(), node)])
            return left_out

        return once(self._tree, f"usage of {user!r}", write)

    def forget_usage(self, topics: Collection[str]) -> None:
        """Remove all uses of topics that do not exist any more."""
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

    def users_with_usage(self) -> int:
        """Number of users with usage."""
        return len(nodes_of(self._tree, Usage.FOLDER))

    def change_usage(self, user: str, change: Callable[[Usage], Usage]) -> Usage | None:
        """Replaces the user's usage by the result of `change`; removes it if that has no uses.

        :returns: the usage before; None: there was none.
        """
        path = paths.path_of(Usage, user)

        def write() -> Usage | None:
            node = self._tree.get(path)
            if node is None:
                return None
            old = Usage.from_bytes(node.data, path)
            new = change(old)
            if new.empty:
                self._tree.write([Remove(path, node.version)])
            elif new != old:
                self._tree.write([placed(path, new.to_bytes(), node)])
            return old

        return once(self._tree, f"usage of {user!r}", write)

    def _demand_room(self) -> None:
        count, counted_at = self._users
        now = time.monotonic()
        if now - counted_at > _COUNTED_FOR_S:
            count = self.users_with_usage()
            self._users = count, now
        if count >= MAX_USERS:
            raise TooManyUsersError(
                f"{count} users have usage, and no more are kept: withdraw those that clients made up "
                "(`switchyard usage forget USER`)"
            )
        self._users = count + 1, self._users[1]


def merge(usage: Usage, seen: Iterable[Sighting]) -> tuple[Usage, int]:
    """`usage` with `seen` merged into it, and how many did not fit."""
    topics, groups = dict(usage.topics), dict(usage.groups)
    size = len(usage.to_bytes())
    left_out = 0
    for what, name, use in seen:
        table = topics if what == "topic" else groups
        uses = table.get(name, ())
        equal = next((each for each in uses if (use.instance, use.how) == (each.instance, each.how)), None)
        replaced = equal if equal is not None or len(uses) < MAX_USES else _gives_way(uses, use)
        added = use if equal is None else _newer(equal, use)
        grows = _size(added) - (0 if replaced is None else _size(replaced))
        grows += 0 if uses else len(name.encode()) + _ENTRY_BYTES
        full = (len(uses) >= MAX_USES and replaced is None) or (not uses and len(table) >= MAX_NAMES)
        if full or (grows > 0 and size + grows > MAX_BYTES):
            left_out += equal is None
            continue
        kept = tuple(added if each is replaced else each for each in uses)
        table[name] = (*uses, added) if replaced is None else kept
        size += grows
    return usage.model_copy(update={"topics": topics, "groups": groups}), left_out


def only(usage: Usage, keeps: Callable[[Sighting], Use | None]) -> Usage:
    """`usage` with each use replaced by the result of `keeps`; None removes it."""

    def kept(what: Literal["topic", "group"], table: Mapping[str, tuple[Use, ...]]) -> dict[str, tuple[Use, ...]]:
        found = {
            name: tuple(use for each in uses if (use := keeps(Sighting(what, name, each))) is not None)
            for name, uses in table.items()
        }
        return {name: uses for name, uses in found.items() if uses}

    return usage.model_copy(update={"topics": kept("topic", usage.topics), "groups": kept("group", usage.groups)})


def sightings(usage: Usage) -> Iterator[Sighting]:
    """Every use in it."""
    for name, uses in usage.topics.items():
        yield from (Sighting("topic", name, use) for use in uses)
    for name, uses in usage.groups.items():
        yield from (Sighting("group", name, use) for use in uses)


def _newer(use: Use, seen: Use) -> Use:
    """`use` updated by `seen`; the very same object where nothing changes that is worth a write."""
    updated = use
    if seen.software is not None and seen.software != use.software:
        updated = updated.changed(software=seen.software)
    if seen.last is not None:
        idle = use.idle(datetime.fromisoformat(seen.last))
        if idle is None or idle >= REWRITTEN_AFTER:
            updated = updated.changed(last=seen.last)
    return updated


def _gives_way(uses: tuple[Use, ...], use: Use) -> Use | None:
    """The use that a new one replaces, of a full entry; None: all are live, and of different clients."""
    seen = [each for each in uses if each.how != "declared"]
    if use.last is not None:
        now = datetime.fromisoformat(use.last)
        dead = [each for each in seen if (idle := each.idle(now)) is not None and idle > LIVE_WITHIN]
        if dead:
            return min(dead, key=_seen_at)
    family, count = max(Counter(each.family for each in seen).items(), key=lambda found: found[1], default=("", 0))
    return min((each for each in seen if each.family == family), key=_seen_at) if count >= FAMILY else None


def _seen_at(use: Use) -> str:
    return use.last or use.since


def _size(use: Use) -> int:
    return len(use.model_dump_json(exclude_none=True).encode()) + 1
