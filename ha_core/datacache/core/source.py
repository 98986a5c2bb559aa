"""The interface between a cache and its source, and the source's promises.

- Each change has a time of its own, in microseconds since the epoch, strictly increasing in the order in which changes
  are committed: a reader that has read up to t has seen all there will ever be up to t. Nodes compare these times with
  one another only, so no node's clock matters; the source's own may be off or jump, as long as its times increase.
- A version of a key is never changed. A deletion is a version, too.
- `exact_from_us` is right about versions that are no longer kept.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ha_core.datacache.core.errors import BrokenSourceError, SourceWentBackError

MAX_KEY_CHARS = 2048
MAX_US = (1 << 63) - 1
"""Beyond the year 290,000, and the greatest value of a database's BIGINT."""


class Row(NamedTuple):
    """One version of a key.

    :ivar value: plain JSON; None: the key was deleted.
    """

    key: str
    changed_us: int
    value: Mapping[str, Any] | None


class Changes(NamedTuple):
    """Versions in order of their times, and the times for which they suffice.

    :ivar rows: the versions made after the requested time, oldest first, at most as many as requested.
    :ivar through_us: there is no other version up to this time: that of the last row where there may be more, else that
        of the newest change in the source, never a clock's.
    :ivar exact_from_us: a version that was replaced at or before it may be missing. 0: every version was kept. A source
        that prunes gives the time up to which it has; one that keeps only the newest version of each key gives the time
        of its newest change, and then nodes agree only when nothing is changed while they read.
    :ivar deletions_from_us: a deletion that was made at or before it may be missing, with all earlier versions of the
        key. So it is not greater than `exact_from_us`. 0: each was kept.
    """

    rows: tuple[Row, ...]
    through_us: int
    exact_from_us: int
    deletions_from_us: int = 0


class Source(Protocol):
    """Both may raise anything; the cache's content stays in force. Both must return or raise in bounded time."""

    def changes(self, after_us: int, limit: int) -> Changes:
        """The versions made after `after_us`; as many as `limit` where there may be more, else all.

        The rows and the three times are of one moment: one transaction.
        """

    def digest(self, through_us: int) -> str | None:
        """`digest.of_rows` of the content at that time; None: the source cannot tell it any more, or not yet."""


def check(changes: Changes, after_us: int, limit: int) -> None:
    """Checks an answer against the source's promises, before anything of it is taken.

    :raises SourceWentBackError: the source has lost changes.
    :raises BrokenSourceError: it has broken another promise.
    """
    if changes.through_us < after_us:
        raise SourceWentBackError(after_us, changes.through_us)
    if len(changes.rows) > limit:
        raise BrokenSourceError(f"{len(changes.rows)} rows, no more than {limit} were asked for")
    if not 0 <= changes.through_us <= MAX_US:
        raise BrokenSourceError(f"a time of {changes.through_us}, it must be 0 to {MAX_US} microseconds")
    if not 0 <= changes.deletions_from_us <= changes.exact_from_us <= MAX_US:
        raise BrokenSourceError(
            f"exact_from_us {changes.exact_from_us} and deletions_from_us {changes.deletions_from_us}: "
            "forgetting a deletion means forgetting the versions that it replaced"
        )
    last_us = after_us
    for row in changes.rows:
        if not row.key or len(row.key) > MAX_KEY_CHARS:
            raise BrokenSourceError(f"a key of {len(row.key)} characters, it must have 1 to {MAX_KEY_CHARS}")
        if row.changed_us <= last_us:
            raise BrokenSourceError(
                f"the change of {row.key!r} at {row.changed_us} after one at {last_us}: times must increase"
            )
        last_us = row.changed_us
    if last_us > changes.through_us:
        raise BrokenSourceError(f"a change at {last_us}, later than the {changes.through_us} that all is read through")
    if len(changes.rows) == limit and last_us != changes.through_us:
        raise BrokenSourceError(
            f"{limit} rows up to {last_us} and the claim that all is read through {changes.through_us}: "
            "where there may be more it must be the last row's time"
        )
