"""Users' usage: how long it counts, how it is withdrawn, and when it expires."""

import os
from collections.abc import Collection
from datetime import datetime, timedelta

from ha_core.model import Usage, Use
from ha_core.model.numeral import whole_number
from ha_core.model.usage import LIVE_WITHIN
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.access.usage_age import COUNTS_DAYS, KEPT_DAYS, MAX_COUNTS_DAYS, Split, split
from ha_core.store.errors import StoreError
from ha_core.store.usage import Sighting, only, sightings

DAYS_VARIABLE = "SWITCHYARD_USAGE_DAYS"


def known_usage(environment: Environment) -> Split:
    """Usage of all users: the part that counts for a move, and the part that is too old.

    :raises RefusedError: the environment variable has no number of days.
    """
    return split(environment.store.usage(), environment.now(), counts_days())


def counts_days() -> int:
    """Days for which a use counts after it was last seen.

    :raises RefusedError: the environment variable has no number of days.
    """
    value = os.environ.get(DAYS_VARIABLE)
    if value is None:
        return COUNTS_DAYS
    days = whole_number(value, MAX_COUNTS_DAYS)
    if not days:
        raise RefusedError(f"{DAYS_VARIABLE}={value[:20]!r}: give a number of days from 1 to {MAX_COUNTS_DAYS}.")
    return days


def forget_usage(
    environment: Environment,
    user: str,
    topics: Collection[str] = (),
    groups: Collection[str] = (),
    instance: str | None = None,
    recent: bool = False,
    dry_run: bool = False,
) -> tuple[Sighting, ...]:
    """Withdraw uses of `user`: all, or those of the named topics and groups, or of one instance.

    :param recent: also uses that were seen within a day. A gateway reports a client that it has seen again only some
        hours later, so a move in between would miss a client that is still running.
    :returns: the withdrawn uses.
    :raises RefusedError: there is no such use, or one was seen within a day.
    """
    now = datetime.fromisoformat(environment.now())
    named = bool(topics or groups)

    def goes(sighting: Sighting) -> bool:
        if named and sighting.name not in (topics if sighting.what == "topic" else groups):
            return False
        return instance is None or sighting.use.instance == instance

    def change(usage: Usage) -> Usage:
        going = [one for one in sightings(usage) if goes(one)]
        recent_uses = sorted({f"{one.what} {one.name}" for one in going if _live(one.use, now)})
        if recent_uses and not recent:
            raise RefusedError(
                f"{user} was seen to use {recent_uses[0]}"
                + (f" and {len(recent_uses) - 1} more" if len(recent_uses) > 1 else "")
                + " within a day, and may still: a move would leave it there. Stop the client and try again a day "
                "later; or give --recent if no such client exists."
            )
        if not going:
            raise RefusedError(f"No such use of {user} is known. `switchyard usage list` shows those that are.")
        return usage if dry_run else only(usage, lambda one: None if goes(one) else one.use)

    was = environment.store.change_usage(user, change)
    if was is None:
        raise RefusedError(f"No use of {user} is known. `switchyard usage list` shows those that are.")
    return tuple(one for one in sightings(was) if goes(one))


def expire_usage(environment: Environment) -> int:
    """Delete uses that were not seen for `KEPT_DAYS`, and give those without a time the present one, so that live
    clients replace it and others expire. Returns the number of deleted uses."""
    at = environment.now()
    now, max_age = datetime.fromisoformat(at), timedelta(days=KEPT_DAYS)
    gone = 0

    def aged(sighting: Sighting) -> Use | None:
        use = sighting.use
        if use.how == "declared":
            return use
        idle = use.idle(now)
        if idle is None:
            return use.changed(last=at)
        return None if idle > max_age else use

    for user, usage in environment.store.usage().items():
        if only(usage, aged) == usage:
            continue
        try:
            was = environment.store.change_usage(user, lambda one: only(one, aged))
        except StoreError as error:
            environment.say(f"usage of {user!r} was not expired: {error}")
            continue
        if was is not None:
            gone += sum(aged(one) is None for one in sightings(was))
    return gone


def _live(use: Use, now: datetime) -> bool:
    idle = use.idle(now)
    return idle is not None and idle <= LIVE_WITHIN
