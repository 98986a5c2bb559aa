"""Notes for `switchyard status --check`: the first sight of each problem, and the newest changes of the platform."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import partial

from ha_core.model import PlatformChange, SeenProblems
from ha_core.store import documents, paths
from ha_core.store.documents import readable
from ha_core.store.tree import OnTree, Op, PreconditionError, Remove, ReplyLostError, once, placed, remove

FORGOTTEN = timedelta(minutes=5)
"""Problems of a host whose last check is older were not seen meanwhile."""
NOTED_EVERY = timedelta(minutes=1)
"""Unchanged problems are noted again after this time."""
MAX_NOTED = 500


class CheckNotes(OnTree):
    def note_problems(self, by: str, now: str, seen: Collection[str]) -> Mapping[str, str]:
        """Note what this host sees; returns for each problem the first check of any host that saw it.

        :param now: UTC, ISO 8601.
        :param seen: keys of problems.
        """
        at = datetime.fromisoformat(now)
        fresh = [note for note in readable(self._tree, SeenProblems) if _age(note, at) <= FORGOTTEN]
        own = next((note for note in fresh if note.by == by), None)
        before = {} if own is None else own.since
        since = {key: before.get(key, now) for key in sorted(seen)[:MAX_NOTED]}
        if since != before or (own is not None and _age(own, at) >= NOTED_EVERY):
            self._note(SeenProblems(by=by, at=now, since=since))
        known: dict[str, str] = dict.fromkeys(seen, now)
        for note in [*(one for one in fresh if one.by != by), SeenProblems(by=by, at=now, since=since)]:
            known |= {key: min(known[key], at_first) for key, at_first in note.since.items() if key in known}
        return known

    def _note(self, noted: SeenProblems) -> None:
        """A note that another check of the host has overtaken is not repeated."""
        path = paths.path_of(SeenProblems, noted.by)
        node = self._tree.get(path)
        ops: list[Op] = [placed(path, documents.to_bytes(noted), node)] if noted.since else []
        if not noted.since and node is not None:
            ops = [Remove(path, node.version)]
        try:
            if ops:
                self._tree.write(ops)
        except (PreconditionError, ReplyLostError):
            return

    def note_platform_change(self, change: PlatformChange) -> None:
        """Note a change of the platform, unless a newer one is noted."""
        path = paths.path_of(PlatformChange, change.kind)

        def write() -> None:
            node = self._tree.get(path)
            if node is not None and PlatformChange.from_bytes(node.data, path).changed_us >= change.changed_us:
                return
            self._tree.write([placed(path, documents.to_bytes(change), node)])

        once(self._tree, f"noting a change of {change.kind}", write)

    def forget_platform_change(self, kind: str) -> bool:
        """Returns whether a change of the kind was noted."""
        forget = partial(remove, self._tree, paths.path_of(PlatformChange, kind))
        return once(self._tree, f"forgetting the change of {kind}", forget)

    def platform_changes(self) -> list[PlatformChange]:
        """The newest noted change of each kind; documents that this version cannot read are left out."""
        return sorted(readable(self._tree, PlatformChange), key=lambda one: one.kind)


def _age(note: SeenProblems, now: datetime) -> timedelta:
    return now - datetime.fromisoformat(note.at)
