"""The changes that a node has read of a source: the times at which it can tell the content, and that content.

If a key is changed twice, a node that reads between the changes sees both versions, and a node that reads after them
may see the second one only. At a commit time between the two the former would serve the first version, and the latter
the content before it. So the sum of all reads up to T is not the content at T, and a node has to know whether it can
tell that: by an interval `[exact_from_us, through_us]`.

The content that it tells for a T in the interval is right. That content has of each key the last version made up to T.
A version made up to T ≤ `through_us` was read, unless the source did not keep it. Then it had been replaced up to
`exact_from_us` ≤ T, so it is not the last one up to T, and the last one was read. A deletion that was not kept would
leave the key here for good; an answer that may lack one is not taken, and everything is read anew.

Each answer has an `exact_from_us` of its own. If that is at or before the time up to which all had been read, the rows
lack nothing: versions replaced up to then were made before then. If it is later, it is the new beginning of the
interval; while it is later than `through_us`, no content can be told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from ha_core.datacache.core.digest import replaced
from ha_core.datacache.core.packed import Rows, packed, row_of
from ha_core.datacache.core.source import Changes, Row


class KeyChange(NamedTuple):
    """A key's difference between two contents. None: the key does not exist."""

    key: str
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class Content:
    """The rows at one time, by key, without deleted ones.

    :ivar newer: time and fingerprint of the content that this one was made from, and the newer versions.
    """

    at_us: int = 0
    rows: Rows = field(default_factory=Rows)
    fingerprint: int = 0
    newer: tuple[int, int, Sequence[Row]] | None = field(default=None, repr=False, compare=False)

    def after(self, versions: Sequence[Row], at_us: int) -> Content:
        """With newer versions, in order of their times."""
        newer = (self.at_us, self.fingerprint, versions)
        return Content(at_us, self.rows.after(versions), self.fingerprint_after(versions), newer)

    def changes(self, before: Content) -> Iterator[KeyChange]:
        """Differences from another content: at once where this one was made from it, else row by row."""
        old, new = before.rows.records, self.rows.records
        if not old:
            yield from (KeyChange(key, None, row_of(key, record)) for key, record in new.entries())
            return
        if self.newer is not None and self.newer[:2] == (before.at_us, before.fingerprint):
            keys: Iterable[str] = dict.fromkeys(row.key for row in self.newer[2])
        else:
            keys = chain(old, (key for key in new if key not in old))
        for key in keys:
            was, is_ = old.get(key), new.get(key)
            if was is is_ or was == is_:
                continue
            change = KeyChange(
                key, None if was is None else row_of(key, was), None if is_ is None else row_of(key, is_)
            )
            if change.before != change.after:
                yield change

    def fingerprint_after(self, versions: Sequence[Row]) -> int:
        """The fingerprint of `after(versions)`, without making it."""
        newest = {row.key: row for row in versions}
        gone = (old[0] for key in newest if (old := self.rows.records.get(key)) is not None)
        come = (row.changed_us for row in newest.values() if row.value is not None)
        return replaced(self.fingerprint, gone, come)


class Interval(NamedTuple):
    """Times at which a node can tell the content; empty where the first is greater."""

    from_us: int
    through_us: int


class UncommittedChanges:
    """Grows by each read, and drops versions that are no longer needed.

    :ivar exact_from_us: from here to `through_us` the content can be told.
    :ivar deletions_from_us: of keys whose deletion up to then was not kept, it has never read anything either.
    """

    def __init__(self, base: Content | None = None) -> None:
        """:param base: the content up to its time; None: nothing was read."""
        self._base = base or Content()
        self._later: list[Row] = []
        """Versions made after the base's time, in order."""
        self.exact_from_us = self.through_us = self._base.at_us
        self.deletions_from_us = 0

    def __len__(self) -> int:
        """Versions that are kept besides one content."""
        return len(self._later)

    def add(self, changes: Changes) -> None:
        """Adds the answer to a question for changes after `through_us`, if it lacks no deletions."""
        if self.through_us == 0:
            self.deletions_from_us = changes.deletions_from_us
        if changes.exact_from_us > self.through_us:
            self.exact_from_us = max(self.exact_from_us, changes.exact_from_us)
        self._later += map(packed, changes.rows)
        self.through_us = changes.through_us

    def lacks_deletions(self, changes: Changes) -> bool:
        """Whether the answer may lack a deletion of a key that was read: then everything has to be read anew.

        Keys whose deletion was forgotten before the first page was read are in no page.
        """
        return 0 < max(self.through_us, self.deletions_from_us) < changes.deletions_from_us

    def can_tell(self, at_us: int) -> bool:
        return self.exact_from_us <= at_us <= self.through_us

    def at(self, at_us: int) -> Content:
        """The content at a time that it can tell."""
        return self._base.after(self._up_to(at_us), at_us)

    def fingerprint_at(self, at_us: int) -> int:
        return self._base.fingerprint_after(self._up_to(at_us))

    def let_go(self, content: Content) -> None:
        """Keep this content, one of `at`, instead of the versions up to its time. Earlier times cannot be told then."""
        del self._later[: len(self._up_to(content.at_us))]
        self._base = content
        self.exact_from_us = max(self.exact_from_us, content.at_us)

    def shrink(self, floor_us: int) -> None:
        """Let go of versions below a time before which no content will be needed."""
        at_us = min(max(floor_us, self.exact_from_us), self.through_us)
        if at_us > self._base.at_us:
            self.let_go(self.at(at_us))

    def _up_to(self, at_us: int) -> list[Row]:
        return self._later[: bisect_right(self._later, at_us, key=attrgetter("changed_us"))]
