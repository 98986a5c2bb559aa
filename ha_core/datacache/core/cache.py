"""One node's cache: the main part, which alone is served, and the changes read that are not committed.

```
 source ─ changes ─▶ fresh ─ whole ─▶ held ─ commit T, fingerprint as agreed ─▶ main
                       ▲  reload: everything is read anew, while held and main stay in force
```

A main part is replaced by that of a later commit time, or by one of equal time and fingerprint (repaired). Content that
differs from the agreed one for its time is refused: the node goes on serving its main part, reads everything anew once,
and if it still differs waits for the next commit time. So even a source that rewrites its history gives no two contents
to one commit time; from its next change on all nodes have the new one.
"""

from enum import Enum
from typing import NamedTuple

from ha_core.datacache.core.errors import BrokenSourceError, DataCacheError, SourceWentBackError
from ha_core.datacache.core.source import Changes, check
from ha_core.datacache.core.uncommitted import Content, Interval, UncommittedChanges

SHRINK_ROWS = 100_000
MAX_ROWS = 3_000_000
"""Limit for versions that are not committed: some 1 GB."""


class ContentCommit(NamedTuple):
    """The agreed content: that of a time, with its fingerprint."""

    at_us: int
    fingerprint: int


class CommitOutcome(Enum):
    """The effect of a commit."""

    THERE = "the main part is of this time, or of a later one"
    COMMITTED = "the main part is of this time from now on"
    NOTHING_READ = "nothing was read yet"
    NOT_READ_YET = "it was not read so far yet"
    AHEAD = "versions that were replaced before they were read are unknown: a later time is waited for"
    REFUSED = "the content read differs from the agreed one"


class TooMuchUncommittedError(DataCacheError):
    """Reading pauses, to bound memory."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count} changes are not committed, more than the {MAX_ROWS} that are kept; nothing more is read until "
            "there is a commit: see whether ZooKeeper can be reached, and which node holds up the others. For a first "
            "read of a source that has more, prune its history"
        )


class Cache:
    """Not thread-safe, except `main`: a content never changes, so a request that takes it once has one state.

    :ivar main: None before the first commit.
    :ivar reloads: how often everything was read anew, without the first time.
    :ivar refused: the last commit time that was refused; 0: none.
    """

    def __init__(self, main: Content | None = None) -> None:
        """:param main: that of an earlier process, to continue from."""
        self.main = main
        self._held = None if main is None else UncommittedChanges(main)
        self._fresh = UncommittedChanges() if main is None else None
        self._whole = False
        """`_fresh` has all that its source has."""
        self._floor_us = 0 if main is None else main.at_us
        """The greatest commit time that it knows: no earlier content is needed."""
        self.reloads = 0
        self.refused = 0

    @property
    def holds(self) -> Interval | None:
        """None: nothing was read yet."""
        return None if self._held is None else Interval(self._held.exact_from_us, self._held.through_us)

    @property
    def uncommitted(self) -> int:
        """Versions that are kept besides the main part."""
        return sum(len(part) for part in (self._held, self._fresh) if part is not None)

    @property
    def after_us(self) -> int:
        """The time after which the source is asked for changes next."""
        return self._reading.through_us

    def accept(self, changes: Changes, after_us: int, limit: int) -> bool:
        """Take the source's answer to a question for `limit` rows after `after_us`; returns whether to ask on at once.

        :raises DataCacheError: nothing of it was taken.
        """
        if after_us != self.after_us:
            return True  # A reload began while the source answered.
        try:
            check(changes, after_us, limit)
        except SourceWentBackError:
            if self._fresh is not None:
                self._fresh, self._whole = (
                    UncommittedChanges(),
                    False,
                )  # Its earlier content may include the lost changes.
            raise
        if self._reading.lacks_deletions(changes):
            # Bounded, since a source may do so again and again: a second restart waits for the next read.
            again = self._fresh is not None
            self.reload()
            if again:
                raise BrokenSourceError("up deletions while it was read: others were kept before")
            return True
        reading = self._reading
        if len(reading) + len(changes.rows) > SHRINK_ROWS:
            reading.shrink(self._floor_us)
        if len(reading) + len(changes.rows) > MAX_ROWS:
            raise TooMuchUncommittedError(len(reading) + len(changes.rows))
        reading.add(changes)
        more = len(changes.rows) == limit
        self._whole = self._fresh is not None and not more
        return more

    def reload(self) -> None:
        """Read everything anew. Held and served content stay in force until that is complete."""
        self._fresh, self._whole = UncommittedChanges(), False
        self.reloads += 1

    def reads_anew(self) -> bool:
        """Whether a reload, or the first read, is in progress."""
        return self._fresh is not None

    def adopt(self) -> bool:
        """Replace the held content by a complete reload; returns whether that replaced the main part, too.

        :raises SourceWentBackError: it ends before the main part's time; it is thrown away.
        """
        if self._fresh is None or not self._whole:
            return False
        fresh, self._fresh, self._whole = self._fresh, None, False
        main = self.main
        if main is not None and fresh.through_us < main.at_us:
            raise SourceWentBackError(main.at_us, fresh.through_us)
        self._held = fresh
        if main is None or not fresh.can_tell(main.at_us):
            return False
        content = fresh.at(main.at_us)
        if content.fingerprint != main.fingerprint:
            self._refuse(fresh, main.at_us)
            return False
        self.main = content
        fresh.let_go(content)
        return True

    def commit(self, commit: ContentCommit) -> CommitOutcome:
        """Go to the agreed content, if this node can."""
        self._floor_us = max(self._floor_us, commit.at_us)
        held, main = self._held, self.main
        if main is not None and commit.at_us <= main.at_us:
            return CommitOutcome.THERE
        if held is None:
            return CommitOutcome.NOTHING_READ
        if not held.can_tell(commit.at_us):
            if commit.at_us > held.through_us:
                return CommitOutcome.NOT_READ_YET
            return CommitOutcome.REFUSED if commit.at_us == self.refused else CommitOutcome.AHEAD
        if held.fingerprint_at(commit.at_us) != commit.fingerprint:
            if self.refused != commit.at_us and self._fresh is None:
                self.reload()
            self._refuse(held, commit.at_us)
            return CommitOutcome.REFUSED
        self.main = held.at(commit.at_us)
        held.let_go(self.main)
        return CommitOutcome.COMMITTED

    def proposal(self, at_us: int) -> ContentCommit | None:
        """The content at a time, to be agreed on; None: this node cannot tell it."""
        if self.main is not None and at_us == self.main.at_us:
            return ContentCommit(at_us, self.main.fingerprint)
        if self._held is None or not self._held.can_tell(at_us):
            return None
        return ContentCommit(at_us, self._held.fingerprint_at(at_us))

    def _refuse(self, held: UncommittedChanges, at_us: int) -> None:
        self.refused = at_us
        held.exact_from_us = max(held.exact_from_us, at_us + 1)

    @property
    def _reading(self) -> UncommittedChanges:
        reading = self._held if self._fresh is None else self._fresh
        assert reading is not None
        return reading
