"""Divides a quota among gateways, by their clients' use and demand.

A gateway lets its clients use its share of a quota and no more, whatever the others do; so together they exceed the
quota at most by use that no gateway could know of yet. Each second, a gateway publishes two growing sums per scope: its
use, in seconds of the whole quota, and that use multiplied by the wait after it. The first gives the rate at which its
clients use the quota. The second, per second, is the amount that its clients wait with at a time; it does not depend on
their present share. At one broker all waiting clients would wait equally long; shares in proportion to these amounts
have the same effect. All gateways read the same sums and compute the same shares.

- A gateway whose clients do not wait gets their use, and a quarter more.
- The rest goes to gateways with waiting clients, by the waiting amount; if none wait, to all in equal parts.
- A gateway that is not in these sums yet has an equal share for a second or two (`QuotaShares.first`), and begins as if
  the others' use had happened here (`QuotaShares.seed_s`).
- A gateway that starts, or has heard nothing for a while, assumes that the others used all: otherwise each start would
  allow the burst that follows a pause, ten seconds' worth, beside the others' use.

While gateways cannot publish, because ZooKeeper is unavailable, the last shares stay.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

HEADROOM = 1.25
"""Factor by which clients that do not wait may raise their use before they wait."""
LEAST = 0.1
"""Least share, as a part of an equal one: a client with long waits is seldom seen to use anything."""
NEWEST = 0.25
"""Weight of the newest second in rates: a client that waits for seconds uses the quota only now and then."""
STEP = 0.3
"""Part of the way to its new value that a share goes per second."""
HEARINGS = 4
"""Reports that have to be heard until the others' rates are known: a gateway reports once it has seen this one, and a
rate needs two reports."""
SETTLED = 1e-3
"""Smaller amounts, in seconds of a quota, count as none."""


class ScopeUse(NamedTuple):
    """:ivar used: in seconds of the whole quota.
    :ivar waited: use multiplied by the seconds of the wait after it.
    """

    used: float
    waited: float


class UsageReport(NamedTuple):
    """One gateway's sums for all scopes, by their keys.

    :ivar since: changes when the gateway begins to count again from 0.
    :ivar at_s: on the gateway's own clock.
    """

    gateway: str
    since: str
    at_s: float
    uses: Mapping[str, ScopeUse]


@dataclass(slots=True)
class _Followed:
    last: UsageReport
    rates: dict[str, ScopeUse] = field(default_factory=dict)
    """Per second."""


class QuotaShares:
    """:ivar own: this gateway's share of each scope in which it has one.
    :ivar first: its share of all other scopes.
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
        """No other gateway uses anything; `gateways`: number of those that might."""
        self._followed, self._elsewhere, self._shares, self.own = {}, {}, {}, {}
        self._unheard, self.first = 0, 1.0 / max(gateways, 1)

    def begin_anew(self) -> None:
        """The use by other gateways is not known (any more)."""
        self._unheard = HEARINGS

    def seed_s(self, key: str) -> float:
        """Seconds of the quota that other gateways use in each ten."""
        return 10.0 * (1.0 if self._unheard else min(self._elsewhere.get(key, 0.0), 1.0))

    def learn(self, reports: Iterable[UsageReport], gateways: int) -> None:
        """Takes the reports of live gateways; `gateways`: their number."""
        latest = {report.gateway: report for report in reports}
        self._followed = {name: known for name, known in self._followed.items() if name in latest}
        for name, report in latest.items():
            followed = self._followed.get(name)
            if followed is None or followed.last.since != report.since:
                self._followed[name] = _Followed(report)
            elif report.at_s > followed.last.at_s:
                _follow(followed, report)
        self.first = 1.0 / max(gateways, len(latest), 1)
        self._unheard = max(0, self._unheard - 1)
        self._divide()

    def _divide(self) -> None:
        by_key: dict[str, dict[str, ScopeUse]] = {}
        for name, followed in self._followed.items():
            for key, rate in followed.rates.items():
                if rate.used > SETTLED:
                    by_key.setdefault(key, {})[name] = rate
        self._shares = {key: _nearer(self._shares.get(key, {}), divided(rates)) for key, rates in by_key.items()}
        self.own = {key: shares[self._own_id] for key, shares in self._shares.items() if self._own_id in shares}
        self._elsewhere = {
            key: sum(rate.used for name, rate in rates.items() if name != self._own_id) for key, rates in by_key.items()
        }


def divided(rates: Mapping[str, ScopeUse]) -> dict[str, float]:
    """Share of each gateway, by use and waiting amount per second. The shares sum to 1."""
    waiting = {name: rate.waited for name, rate in rates.items() if rate.waited > SETTLED}
    calm = {name: min(rate.used, 1.0) * HEADROOM for name, rate in rates.items() if name not in waiting}
    calm_all = sum(calm.values())
    # However much the calm gateways use, the waiting ones keep an equal part each.
    fair_share = len(calm) / len(rates)
    if calm_all > fair_share:
        calm = {name: share * fair_share / calm_all for name, share in calm.items()}
        calm_all = fair_share
    spare, waited_all = 1.0 - calm_all, sum(waiting.values())
    if not waiting:
        found = {name: share + spare / len(calm) for name, share in calm.items()}
    else:
        found = calm | {name: spare * waited / waited_all for name, waited in waiting.items()}
    return _whole({name: max(share, LEAST / len(found)) for name, share in found.items()})


def _nearer(shares: Mapping[str, float], wanted: Mapping[str, float]) -> dict[str, float]:
    """Moves shares a part of the way to their targets. A new gateway begins with an equal share."""
    begun = _whole({name: shares.get(name, 1.0 / len(wanted)) for name in wanted})
    return {name: begun[name] + (share - begun[name]) * STEP for name, share in wanted.items()}


def _whole(shares: Mapping[str, float]) -> dict[str, float]:
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _follow(followed: _Followed, report: UsageReport) -> None:
    before, followed.last = followed.last, report
    passed_s = report.at_s - before.at_s
    rates: dict[str, ScopeUse] = {}
    for key, use in report.uses.items():
        then, old = before.uses.get(key, ScopeUse(0.0, 0.0)), followed.rates.get(key)
        rate = ScopeUse(max(0.0, use.used - then.used) / passed_s, max(0.0, use.waited - then.waited) / passed_s)
        if old is not None:
            rate = ScopeUse(_between(old.used, rate.used), _between(old.waited, rate.waited))
        rates[key] = rate
    followed.rates = rates


def _between(old: float, new: float) -> float:
    return old + (new - old) * NEWEST
