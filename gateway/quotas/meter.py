"""Measures one quota scope's rate, and the wait that it demands.

The rate is that of a broker: the sum of 11 samples of one second each, divided by the time since the oldest began, at
least 10 seconds (`Rate`, `SampledStat`, quota.window.num and .size.seconds). A token bucket of ten seconds would give
the same in the long run. But clients see the throttle time, and operators compare it with a broker's: with the same
samples it is the same number after every request, also after a pause.

A broker differs for debts that outlast a client's longest wait: its samples end after 11 seconds, and with them the
debt of one request that used a minute's worth. Here that debt is carried on, for up to a minute.
"""

import math
from collections import deque

WINDOW_S = 1.0
FULL_S = 10.0
"""Time that counts as elapsed from the start: a new client may use ten seconds' worth at once."""
KEPT_S = 11.0
"""A sample counts for this long after its last addition."""
MAX_SAMPLES = 12
MAX_OWED_S = 60.0
"""Longest wait, whatever was used."""
CARRIED_S = 5.0
"""A longer debt remains after its samples have ended."""

_BEGAN, _LAST, _USED = 0, 1, 2


class QuotaMeter:
    """Usage is kept in seconds of the whole quota, so a changed quota or share needs no recount. Use at a gateway that
    has a third of a quota counts three times.

    :ivar share: this gateway's share of the quota.
    :ivar settled: True if that is known; else it is a guess.
    :ivar used_s: total use, in seconds of the whole quota.
    :ivar waited: total use, each multiplied by the seconds of the wait after it.
    :ivar throttled_until: end of the last wait that a client had.
    :ivar kept: True if it outlives its clients.
    """

    __slots__ = (
        "__weakref__", "_bound", "_carried_until", "_samples", "_seeded_until", "_total_s", "kept", "settled",
        "share", "throttled_until", "used_s", "waited",
    )  # fmt: skip

    def __init__(self, now: float, share: float = 1.0, seed_s: float = 0.0) -> None:
        """:param seed_s: seconds' worth of the last ten seconds' quota that count as used."""
        began = (now - passed for passed in range(int(FULL_S), 0, -1)) if seed_s else ()
        part_s = seed_s / FULL_S
        self._samples: deque[list[float]] = deque([at, at + WINDOW_S, part_s] for at in began)
        self._total_s = part_s * len(self._samples)
        self._bound = 0.0
        self._carried_until = now
        self._seeded_until = now if seed_s else -math.inf
        self.share = share
        self.settled = False
        self.used_s = 0.0
        self.waited = 0.0
        self.throttled_until = 0.0
        self.kept = False

    def spend(self, amount: float, bound: float, now: float) -> float:
        """Spends the amount; returns the seconds for which nothing more may be used."""
        if bound != self._bound:
            self._change(bound, now)
        used_s = amount / bound
        counted_s = used_s / self.share
        self.used_s += used_s
        samples = self._samples
        if samples and now - samples[0][_LAST] >= KEPT_S:
            self._expire(now)
        if samples and now - samples[-1][_BEGAN] < WINDOW_S:
            newest = samples[-1]
            newest[_LAST] = now
            newest[_USED] += counted_s
        else:
            samples.append([now, now, counted_s])
            if len(samples) > MAX_SAMPLES:
                self._total_s -= samples.popleft()[_USED]
        self._total_s += counted_s
        elapsed_s = now - samples[0][_BEGAN]
        wait_s = self._total_s - (elapsed_s if elapsed_s >= FULL_S else FULL_S + elapsed_s % WINDOW_S)
        if wait_s <= 0.0 and self._carried_until <= now:
            return 0.0
        return self._waits(wait_s, used_s, counted_s, now)

    def _waits(self, wait_s: float, used_s: float, counted_s: float, now: float) -> float:
        wait_s, latest = min(wait_s, MAX_OWED_S), now + MAX_OWED_S
        if self._carried_until > now:
            self._carried_until = min(self._carried_until + counted_s, latest)
            wait_s = max(wait_s, self._carried_until - now)
        elif wait_s > CARRIED_S:
            self._carried_until = now + wait_s
        self.waited += used_s * min(wait_s, CARRIED_S)
        self.throttled_until = max(self.throttled_until, now + wait_s)
        return wait_s

    def owed_s(self, now: float) -> float:
        """Seconds for which nothing may be used now: the excess over the quota, divided by the quota, times the window
        (`QuotaUtils.throttleTime`)."""
        self._expire(now)
        wait_s = self._total_s - self._elapsed_s(now) if self._samples else 0.0
        return min(max(wait_s, self._carried_until - now, 0.0), MAX_OWED_S)

    def rate(self, now: float) -> float:
        """Rate relative to the present share: 1 is all of it."""
        self._expire(now)
        return self._total_s / self._elapsed_s(now) if self._samples else 0.0

    def settle(self, share: float, known: bool) -> None:
        """Changes the share. Use under a guessed share is recounted with the known one."""
        if known and not self.settled:
            factor, self._carried_until = self.share / share, -math.inf
            for sample in self._samples:
                if sample[_BEGAN] >= self._seeded_until:
                    self._total_s += sample[_USED] * (factor - 1.0)
                    sample[_USED] *= factor
        self.share, self.settled = share, known

    def presume(self, now: float) -> None:
        """Assumes that other gateways used all of the quota in the last ten seconds. Existing debt remains."""
        self._total_s = FULL_S + self.owed_s(now)
        self._samples = deque([[now - FULL_S, now, self._total_s]])
        self._seeded_until, self.settled = now, False

    def idle(self, now: float) -> bool:
        """True if dropping it would change nothing."""
        self._expire(now)
        return not self._samples and now >= max(self._carried_until, self.throttled_until)

    def _change(self, bound: float, now: float) -> None:
        """Applies another quota: used bytes count by the new one, and debt from the old one ends."""
        if self._bound:
            for sample in self._samples:
                sample[_USED] *= self._bound / bound
            self._total_s *= self._bound / bound
            self._carried_until = now
        self._bound = bound

    def _expire(self, now: float) -> None:
        samples = self._samples
        while samples and now - samples[0][_LAST] >= KEPT_S:
            self._total_s -= samples.popleft()[_USED]
        if not samples:
            self._total_s = 0.0  # drop rounding errors

    def _elapsed_s(self, now: float) -> float:
        """Elapsed time, at least ten seconds; as long as it is less, ten seconds and the elapsed part of the newest
        second."""
        elapsed_s = now - self._samples[0][_BEGAN]
        return elapsed_s if elapsed_s >= FULL_S else FULL_S + elapsed_s % WINDOW_S
