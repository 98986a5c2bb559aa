"""Broker limits on clients that have no topic-level setting, so that two clusters may differ in them.

A client that keeps within the limits of the origin may exceed those of the target. It fails after the cut, with an
error that client libraries treat as fatal. The limits that clients need are unknown, so each narrower one gives a
warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class BrokerLimit(NamedTuple):
    """:ivar upper: whether a lower value allows less.
    :ivar otherwise: effect on clients that need more than the target allows.
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


LIMITS: Mapping[str, BrokerLimit] = {
    "group.max.session.timeout.ms": BrokerLimit(
        True, "members that ask for a longer session.timeout.ms cannot join (INVALID_SESSION_TIMEOUT), and fail"
    ),
    "group.min.session.timeout.ms": BrokerLimit(
        False, "members that ask for a shorter session.timeout.ms cannot join (INVALID_SESSION_TIMEOUT), and fail"
    ),
    "group.max.size": BrokerLimit(True, "larger groups lose members (GROUP_MAX_SIZE_REACHED)"),
    "offset.metadata.max.bytes": BrokerLimit(
        True, "commits with longer metadata are refused, those that a move carries over as well"
    ),
    "offsets.retention.minutes": BrokerLimit(
        True, "groups without members lose their commits earlier, and begin at auto.offset.reset"
    ),
    "producer.id.expiration.ms": BrokerLimit(
        True, "later retries are not recognised as duplicates, and stale copiers of mirrors are refused for less long"
    ),
    "socket.request.max.bytes": BrokerLimit(True, "larger requests end their connection"),
    "transaction.max.timeout.ms": BrokerLimit(
        True, "producers with a longer transaction.timeout.ms cannot start (INVALID_TRANSACTION_TIMEOUT), and fail"
    ),
}


def narrower(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[Narrower]:
    """Limits of the target that allow less than the origin's; unknown ones are left out."""
    for key, limit in LIMITS.items():
        ours, theirs = _number(here.get(key)), _number(there.get(key))
        if ours is not None and theirs is not None and (theirs < ours if limit.upper else theirs > ours):
            yield Narrower(key, ours, theirs)


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() else None
