"""Charges of one client, and the meters of all clients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

from gateway.quotas.meter import QuotaMeter
from gateway.quotas.sharing import QuotaShares
from ha_core.model import Identity
from ha_core.model.quota import QuotaKind
from ha_core.plan.access.quotas import AppliedQuota, Quotas, QuotaScope

MAX_REQUEST_S = 1.0
"""Longest wait for request time, as on a broker."""
MAX_METERS = 100_000
MAX_METERS_OF_USER = 10_000
"""A client chooses its client id, and a default quota has a meter for each. Above this the user's own oldest meter is
dropped: a user who invents ids resets only its own meters."""


class Tally:
    """:ivar amount: bytes, or percents of a second, charged to quotas."""

    __slots__ = ("amount",)

    def __init__(self) -> None:
        self.amount = 0.0


class Charge:
    """One scope's meter, and the scope's limit."""

    __slots__ = ("_meters", "_tally", "bound", "meter", "scope")

    def __init__(self, scope: QuotaScope, meter: QuotaMeter, bound: float, meters: Meters) -> None:
        self.scope, self.meter, self.bound = scope, meter, bound
        self._meters, self._tally = meters, meters.used[scope.kind]

    def spend(self, amount: float, now: float) -> float:
        """Counts the amount; returns the seconds for which nothing more may be used."""
        meter = self.meter
        wait_s = meter.spend(amount, self.bound, now)
        self._tally.amount += amount
        if not meter.kept:
            self._meters.keep(self)
        if wait_s:
            if self.scope.kind is QuotaKind.REQUEST:
                wait_s = min(wait_s, MAX_REQUEST_S)
            self._meters.throttled[self.scope] = self
        return wait_s


Topics = Mapping[bytes, Charge]
NO_TOPICS: Topics = {}


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """Charges for the bytes of one direction.

    :ivar topics: topics with a quota of their own, which count for nothing else.
    """

    rest: Charge | None
    topics: Topics

    def rate(self, topics: Iterable[bytes]) -> float:
        """Bytes per second allowed in the least limited of these topics."""
        if not self.topics:
            return math.inf if self.rest is None else self.rest.bound
        charges = [self.topics.get(topic, self.rest) for topic in topics] or [self.rest]
        return max(math.inf if charge is None else charge.bound for charge in charges)

    def spend(self, size: int, of_topics: Mapping[bytes, int], now: float) -> float:
        """:param of_topics: bytes by topic, as far as a topic has its own quota."""
        rest = self.rest
        if not of_topics:
            return 0.0 if rest is None else rest.spend(max(size, 0), now)
        wait_s = 0.0
        for topic, part in of_topics.items():
            if (charge := self.topics.get(topic)) is not None:
                size -= part
                wait_s = max(wait_s, charge.spend(part, now))
        if rest is not None:
            wait_s = max(wait_s, rest.spend(max(size, 0), now))
        return wait_s

    def owed_s(self, now: float) -> float:
        """Seconds for which nothing may be used now, in any topic."""
        charges = (*self.topics.values(), self.rest)
        return max((charge.meter.owed_s(now) for charge in charges if charge is not None), default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Charges:
    """Charges for one client."""

    produce: Bytes | None
    fetch: Bytes | None
    request: Charge | None


class Meters:
    """Meters of a gateway: one per quota scope, kept after a disconnect so that reconnecting does not reset the quota.

    :ivar throttled: meters for which a client had to wait, until the audit has reported it.
    :ivar used: amounts charged to quotas.
    """

    def __init__(self, shares: QuotaShares | None = None) -> None:
        """:param shares: shares among gateways."""
        self._shares = QuotaShares("") if shares is None else shares
        self._meters: WeakValueDictionary[QuotaScope, QuotaMeter] = WeakValueDictionary()
        self._kept: dict[str | None, dict[QuotaScope, Charge]] = {}
        """By user, the longest kept first."""
        self._count = 0
        self.throttled: dict[QuotaScope, Charge] = {}
        self.used = {kind: Tally() for kind in QuotaKind}

    def __len__(self) -> int:
        return self._count

    def charges(self, quotas: Quotas, identity: Identity, now: float) -> Charges | None:
        """None: no quota applies to this client."""
        user, instance = identity.user, identity.instance
        produce = self._bytes(quotas, QuotaKind.PRODUCE, user, instance, now)
        fetch = self._bytes(quotas, QuotaKind.FETCH, user, instance, now)
        request = self._charge(quotas.of(QuotaKind.REQUEST, user, instance), now)
        return None if produce is None and fetch is None and request is None else Charges(produce, fetch, request)

    def keep(self, charge: Charge) -> None:
        """Keeps the meter, because it has state now."""
        of_user = self._kept.setdefault(charge.scope.user, {})
        if len(of_user) >= MAX_METERS_OF_USER:
            self._forget(next(iter(of_user.values())))
        elif self._count >= MAX_METERS:
            self._forget(next(iter(next(iter(self._kept.values())).values())))
        self._kept.setdefault(charge.scope.user, {})[charge.scope] = charge
        self._count += 1
        charge.meter.kept = True

    def share(self) -> None:
        """Applies changed shares."""
        own, first = self._shares.own, self._shares.first
        for charge in self.kept():
            share = own.get(charge.scope.key)
            charge.meter.settle(first if share is None else share, share is not None)

    def presume(self, now: float) -> None:
        """The use by other gateways is no longer known."""
        for charge in self.kept():
            charge.meter.presume(now)

    def kept(self) -> tuple[Charge, ...]:
        return tuple(charge for of_user in self._kept.values() for charge in of_user.values())

    def forget_idle(self, now: float) -> None:
        for charge in self.kept():
            if charge.meter.idle(now):
                self._forget(charge)

    def _forget(self, charge: Charge) -> None:
        of_user = self._kept[charge.scope.user]
        del of_user[charge.scope]
        if not of_user:
            del self._kept[charge.scope.user]
        self._count -= 1
        charge.meter.kept = False

    def _bytes(self, quotas: Quotas, kind: QuotaKind, user: str, instance: str, now: float) -> Bytes | None:
        rest = self._charge(quotas.of(kind, user, instance), now)
        topics = {
            topic.encode(): charge
            for topic, quota in quotas.of_topics(kind, user).items()
            if (charge := self._charge(quota, now)) is not None
        }
        return None if rest is None and not topics else Bytes(rest, topics or NO_TOPICS)

    def _charge(self, quota: AppliedQuota | None, now: float) -> Charge | None:
        if quota is None:
            return None
        meter = self._meters.get(quota.scope)
        if meter is None:
            shares, key = self._shares, quota.scope.key
            meter = self._meters[quota.scope] = QuotaMeter(now, shares.own.get(key, shares.first), shares.seed_s(key))
        return Charge(quota.scope, meter, quota.bound, self)
