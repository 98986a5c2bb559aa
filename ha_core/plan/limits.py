"""Limits that brokers set to clients, and that no topic can have of its own: two clusters differ in them.

A client that keeps within those of its cluster may not within those of the other one. It finds out behind the cut, by
an error that libraries take for the end. Which limits clients need is not known, so it is told before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Limit(NamedTuple):
    """:ivar upper: whether a lower value allows less.
    :ivar otherwise: what happens to whoever needs more than the target allows.
    """

    upper: bool
    otherwise: str


class Narrower(NamedTuple):
    """A limit that allows less in the target."""

    key: str
    here: int
    there: int

    @property
    def otherwise(self) -> str:
        return LIMITS[self.key].otherwise


LIMITS: Mapping[str, Limit] = {
    "group.max.session.timeout.ms": Limit(
        True, "members that ask for a longer session.timeout.ms cannot join (INVALID_SESSION_TIMEOUT), and end"
    ),
    "group.min.session.timeout.ms": Limit(
        False, "members that ask for a shorter session.timeout.ms cannot join (INVALID_SESSION_TIMEOUT), and end"
    ),
    "group.max.size": Limit(True, "larger groups lose members (GROUP_MAX_SIZE_REACHED)"),
    "offset.metadata.max.bytes": Limit(
        True, "commits with longer metadata are refused, those that a move carries over as well"
    ),
    "offsets.retention.minutes": Limit(
        True, "groups without members lose their commits earlier, and begin at auto.offset.reset"
    ),
    "producer.id.expiration.ms": Limit(
        True, "retries that come later are no duplicates any more, and copiers of mirrors are not refused so long"
    ),
    "socket.request.max.bytes": Limit(True, "larger requests end their connection"),
    "transaction.max.timeout.ms": Limit(
        True, "producers with a longer transaction.timeout.ms cannot begin (INVALID_TRANSACTION_TIMEOUT), and end"
    ),
}


def narrower(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[Narrower]:
    """Limits of the target that allow less than the origin's; of what is not known nothing is said."""
    for key, limit in LIMITS.items():
        ours, theirs = _number(here.get(key)), _number(there.get(key))
        if ours is not None and theirs is not None and (theirs < ours if limit.upper else theirs > ours):
            yield Narrower(key, ours, theirs)


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() else None
