"""How gateways share a quota: by what their clients use of it, and would use.

A gateway lets its clients use its share of a quota, and no more, whatever the others do: so together they never exceed
it by what nobody could know yet. Each tells once a second, for each scope, two sums that only grow: what was used, in
seconds of the whole quota, and the same times how long the user had to wait for it. The first says at which rate a
gateway's clients use the quota. The second, a second, is how much they are kept waiting with at a time: it does not
depend on the share that they have now. At one broker all who wait would wait equally long; so do they here, if shares
are as these amounts. All gateways read the same and come to the same shares.

- Whose clients do not wait gets what they use, and a quarter more.
- The rest is for those whose clients wait, by how much waits there; or, where nobody waits, for all alike.
- Who is in none of this yet has an equal share for the second or two until he is (`QuotaShares.first`), and begins
as if what others use had been used here (`QuotaShares.seed_s`).
- A gateway that begins, or has heard nothing for a while, takes it that others have used all: or each start would let
  through what may be used after a pause, ten seconds' worth, beside what the others use.

While nobody can tell anything, because ZooKeeper is away, the last shares stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

HEADROOM = 1.25
"""Whose clients do not wait may use so much more before they do."""
LEAST = 0.1
"""No share is smaller than that part of an equal one: whoever waits long is seldom seen to use anything."""
NEWEST = 0.25
"""How much the newest second counts, of rates: who waits for seconds uses something now and then only."""
STEP = 0.3
"""So much of the way a share goes in a second."""
HEARINGS = 4
"""How often others are heard until it is known at which rates they use what: they tell as soon as they have seen this
gateway, and a rate is what lies between two tellings."""
SETTLED = 1e-3
"""Amounts below that, in seconds of a quota, are none."""


class ScopeUse(NamedTuple):
    """:ivar used: in seconds of the whole quota.
    :ivar waited: the same, times the seconds of the wait behind it.
    """

    used: float
    waited: float


class UsageReport(NamedTuple):
    """What one gateway says of all scopes, by their keys.

    :ivar since: another one: it has begun to count anew.
    :ivar at_s: by a clock that only the gateway knows.
    """

    gateway: str
    since: str
    at_s: float
    uses: Mapping[str, ScopeUse]


@dataclass(slots=True)
class _Followed:
    last: UsageReport
    rates: dict[str, ScopeUse] = field(default_factory=dict)
    """A second."""


class QuotaShares:
    """:ivar own: this gateway's share of each scope in which it has one.
    :ivar first: its share of all others.
    """

    def __init__(self, own_id: str) -> None:
        self._own_id = own_id
        self._followed: dict[str, _Followed] = {}
        self._elsewhere: dict[str, float] = {}
        self._shares: dict[str, dict[str, float]] = {}
        """Key → gateway → share."""
        self._unheard = 0
        self.own: Mapping[str, float] = {}
        self.first = 1.0

    def alone(self, gateways: int = 1) -> None:
        """Nobody uses anything elsewhere; `gateways`: that might."""
        self._followed, self._elsewhere, self._shares, self.own = {}, {}, {}, {}
        self._unheard, self.first = 0, 1.0 / max(gateways, 1)

    def begin_anew(self) -> None:
        """What others use is not known (any more)."""
        self._unheard = HEARINGS

    def seed_s(self, key: str) -> float:
        """How many seconds of the quota have been used elsewhere in each ten."""
        return 10.0 * (1.0 if self._unheard else min(self._elsewhere.get(key, 0.0), 1.0))

    def learn(self, tellings: Iterable[UsageReport], gateways: int) -> None:
        """What those tell that live; `gateways`: how many there are."""
        told = {telling.gateway: telling for telling in tellings}
        self._followed = {name: known for name, known in self._followed.items() if name in told}
        for name, telling in told.items():
            known = self._followed.get(name)
            if known is None or known.last.since != telling.since:
                self._followed[name] = _Followed(telling)
            elif telling.at_s > known.last.at_s:
                _follow(known, telling)
        self.first = 1.0 / max(gateways, len(told), 1)
        self._unheard = max(0, self._unheard - 1)
        self._divide()

    def _divide(self) -> None:
        by_key: dict[str, dict[str, ScopeUse]] = {}
        for name, known in self._followed.items():
            for key, rate in known.rates.items():
                if rate.used > SETTLED:
                    by_key.setdefault(key, {})[name] = rate
        self._shares = {key: _nearer(self._shares.get(key, {}), divided(rates)) for key, rates in by_key.items()}
        self.own = {key: shares[self._own_id] for key, shares in self._shares.items() if self._own_id in shares}
        self._elsewhere = {
            key: sum(rate.used for name, rate in rates.items() if name != self._own_id) for key, rates in by_key.items()
        }


def divided(rates: Mapping[str, ScopeUse]) -> dict[str, float]:
    """The share of each, by what is used and waited for there each second. They make 1."""
    waiting = {name: rate.waited for name, rate in rates.items() if rate.waited > SETTLED}
    calm = {name: min(rate.used, 1.0) * HEADROOM for name, rate in rates.items() if name not in waiting}
    calm_all = sum(calm.values())
    # However much calm ones use, something is left for those who wait: an equal part each.
    most = len(calm) / len(rates)
    if calm_all > most:
        calm = {name: share * most / calm_all for name, share in calm.items()}
        calm_all = most
    spare, waited_all = 1.0 - calm_all, sum(waiting.values())
    if not waiting:
        found = {name: share + spare / len(calm) for name, share in calm.items()}
    else:
        found = calm | {name: spare * waited / waited_all for name, waited in waiting.items()}
    return _whole({name: max(share, LEAST / len(found)) for name, share in found.items()})


def _nearer(shares: Mapping[str, float], wanted: Mapping[str, float]) -> dict[str, float]:
    """Some of the way from what shares are to what they should be. Who comes anew begins with an equal one."""
    begun = _whole({name: shares.get(name, 1.0 / len(wanted)) for name in wanted})
    return {name: begun[name] + (share - begun[name]) * STEP for name, share in wanted.items()}


def _whole(shares: Mapping[str, float]) -> dict[str, float]:
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _follow(known: _Followed, telling: UsageReport) -> None:
    before, known.last = known.last, telling
    passed_s = telling.at_s - before.at_s
    rates: dict[str, ScopeUse] = {}
    for key, use in telling.uses.items():
        then, old = before.uses.get(key, ScopeUse(0.0, 0.0)), known.rates.get(key)
        rate = ScopeUse(max(0.0, use.used - then.used) / passed_s, max(0.0, use.waited - then.waited) / passed_s)
        if old is not None:
            rate = ScopeUse(_between(old.used, rate.used), _between(old.waited, rate.waited))
        rates[key] = rate
    known.rates = rates


def _between(old: float, new: float) -> float:
    return old + (new - old) * NEWEST
