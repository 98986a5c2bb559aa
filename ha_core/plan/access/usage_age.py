"""Splits usage into uses that count and dormant ones: a single request of last year is no sign of a current user.

Gateways record live clients again every few hours (`ha_core.model.usage`). Declared uses always count, and so do uses
recorded without a time: unknown is not old.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from ha_core.model import Usage, Use, UserBindings
from ha_core.model.usage import FAMILY, LIVE_WITHIN

COUNTS_DAYS = 100
"""A job that runs once a quarter is live."""
MAX_COUNTS_DAYS = 365
KEPT_DAYS = 400
"""A job that runs once a year is reported as dormant, and does not count."""


class Split(NamedTuple):
    """Usage by user: uses that count, and dormant ones."""

    counts: dict[str, Usage]
    dormant: dict[str, Usage]


def split(usage: Mapping[str, Usage], now: str, days: int = COUNTS_DAYS) -> Split:
    """:param now: UTC, ISO 8601.
    :param days: days that a use counts after it was last seen.
    """
    at, max_age = datetime.fromisoformat(now), timedelta(days=days)

    def old(use: Use) -> bool:
        idle = use.idle(at)
        return idle is not None and idle > max_age

    def part(of: Usage, dormant: bool) -> Usage:
        topics, groups = (
            {name: kept for name, uses in table.items() if (kept := tuple(u for u in uses if old(u) is dormant))}
            for table in (of.topics, of.groups)
        )
        return of.model_copy(update={"topics": topics, "groups": groups})

    found = Split({}, {})
    for user, one in usage.items():
        for by_user, dormant in ((found.counts, False), (found.dormant, True)):
            if not (these := part(one, dormant)).empty:
                by_user[user] = these
    return found


class Churn(NamedTuple):
    """A user's client ids that change at each start: `family` is their common pattern."""

    user: str
    thing: str
    family: str
    instances: int


def churning(usage: Mapping[str, Usage], now: str) -> Iterator[Churn]:
    """Churn by topic and group. A pool of clients with numbered ids is not churn: its members are seen again."""
    at = datetime.fromisoformat(now)
    for user, one in usage.items():
        for kind, table in (("topic", one.topics), ("group", one.groups)):
            for name, uses in table.items():
                yield from (Churn(user, f"{kind} {name}", *found) for found in _families(uses, at))


def by_instance(usage: Mapping[str, Usage], bindings: Mapping[str, UserBindings]) -> dict[str, Usage]:
    """`usage` with client ids replaced by their instances, by the forms of their users."""

    def named(table: Mapping[str, tuple[Use, ...]], bound: UserBindings) -> dict[str, tuple[Use, ...]]:
        return {
            name: tuple(use.changed(instance=bound.instance(use.instance)) for use in uses)
            for name, uses in table.items()
        }

    return {
        user: one.changed(topics=named(one.topics, bound), groups=named(one.groups, bound))
        if (bound := bindings.get(user)) is not None and bound.client_ids
        else one
        for user, one in usage.items()
    }


def _families(uses: Collection[Use], at: datetime) -> Iterator[tuple[str, int]]:
    families: dict[str, dict[str, bool]] = {}
    for use in uses:
        if use.family != use.instance:
            idle = use.idle(at)
            gone = idle is not None and idle > LIVE_WITHIN
            members = families.setdefault(use.family, {})
            members[use.instance] = members.get(use.instance, True) and gone
    for family, members in families.items():
        if len(members) >= FAMILY and sum(members.values()) >= FAMILY - 1:
            yield family, len(members)
