"""How much one scope of a quota uses, and how long it has to wait for it.

The rate is that of a broker: the sum of 11 samples, of a second each, by the time since the oldest began, which counts
as 10 seconds at least (`Rate`, `SampledStat`, quota.window.num and .size.seconds). A token bucket of ten seconds would
come to the same in the long run. But clients are told how long they have to wait, and operators compare that with what
a broker says: with the same samples it is the same number after every request, after a pause too.

Where a broker differs is what is owed for longer than a client can be held: its samples end after 11 seconds, and with
them what one request of a minute's worth has used. Here that is carried on, for a minute at most.
"""

from __future__ import annotations

from collections import deque

WINDOW_S = 1.0
FULL_WINDOWS = 10
"""Of time that count before they are over: who begins may use ten seconds' worth at once."""
KEPT_S = 11.0
"""A sample counts so long after the last that was added to it."""
MAX_SAMPLES = 12
MAX_OWED_S = 60.0
"""Nobody has to wait longer than that, whatever he has used."""
CARRIED_S = 5.0
"""What is owed for longer is owed also when its samples have ended."""

_BEGAN, _LAST, _AMOUNT = 0, 1, 2


class Meter:
    """Seconds are those of the caller's clock.

    :ivar used: by clients of this gateway, since it began.
    :ivar throttled_until: until when somebody was last told to wait.
    :ivar kept: whether it is to outlive those who have it.
    """

    __slots__ = (
        "__weakref__", "_bound", "_carried_until", "_elsewhere_s", "_fed_at", "_samples", "_total", "kept",
        "throttled_until", "used",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        self._samples: deque[list[float]] = deque()
        self._total = 0.0
        self._bound = 0.0
        self._carried_until = now
        self._elsewhere_s = 0.0
        self._fed_at = now
        self.used = 0.0
        self.throttled_until = 0.0
        self.kept = False

    def take(self, amount: float, bound: float, now: float) -> float:
        """Counts what was used, and says for how many seconds nothing more may be."""
        self.used += amount
        if self._elsewhere_s:
            amount += self._since_fed(now)
        self._add(amount, now)
        if bound != self._bound:
            self._bound, self._carried_until = bound, now  # what was owed by another quota is not owed by this one
        carried = self._carried_until > now
        if carried:
            self._carried_until += amount / bound
        wait_s = self._wait_s(bound, now)
        if wait_s <= 0.0:
            return 0.0
        if wait_s > CARRIED_S and not carried:
            self._carried_until = now + wait_s
        self.throttled_until = max(self.throttled_until, now + wait_s)
        return wait_s

    def owed_s(self, bound: float, now: float) -> float:
        """For how many seconds nothing may be used now."""
        return max(0.0, self._wait_s(bound, now))

    def rate(self, now: float) -> float:
        """Of all gateways together, a second."""
        self._expire(now)
        return self._total / self._elapsed_s(now) if self._samples else 0.0

    def elsewhere(self, per_s: float, now: float) -> None:
        """Other gateways use so much a second, from now on and until something else is said."""
        if self._elsewhere_s:
            self._add(self._since_fed(now), now)
        self._elsewhere_s, self._fed_at = per_s, now

    def idle(self, now: float) -> bool:
        """Whether to forget it would change nothing."""
        self._expire(now)
        return not self._samples and not self._elsewhere_s and now >= max(self._carried_until, self.throttled_until)

    def _since_fed(self, now: float) -> float:
        fed_s, self._fed_at = min(now - self._fed_at, KEPT_S), now
        return self._elsewhere_s * fed_s

    def _add(self, amount: float, now: float) -> None:
        samples = self._samples
        if samples and now - samples[-1][_BEGAN] < WINDOW_S:
            newest = samples[-1]
            newest[_LAST] = now
            newest[_AMOUNT] += amount
        else:
            samples.append([now, now, amount])
            if len(samples) > MAX_SAMPLES:
                self._total -= samples.popleft()[_AMOUNT]
        self._total += amount

    def _expire(self, now: float) -> None:
        samples = self._samples
        while samples and now - samples[0][_LAST] >= KEPT_S:
            self._total -= samples.popleft()[_AMOUNT]
        if not samples:
            self._total = 0.0  # without what rounding has left

    def _elapsed_s(self, now: float) -> float:
        elapsed_s = now - self._samples[0][_BEGAN]
        full = int(elapsed_s / WINDOW_S)
        return elapsed_s + (FULL_WINDOWS - full) * WINDOW_S if full < FULL_WINDOWS else elapsed_s

    def _wait_s(self, bound: float, now: float) -> float:
        """What is above the bound, by the bound, times the time: `QuotaUtils.throttleTime`. Below zero: none."""
        self._expire(now)
        wait_s = self._total / bound - self._elapsed_s(now) if self._samples else 0.0
        return min(max(wait_s, self._carried_until - now), MAX_OWED_S)
