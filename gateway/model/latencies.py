"""How long PRODUCE and FETCH take through the gateway, and how long brokers take: the difference is the gateway.

A request counts from the moment at which the gateway handles it whole, until its answer begins to go to the client. Its
broker counts from the sending of the whole request until the answer begins to come. Like a broker's own figures, those
of FETCH contain the time for which it waits for records.

Most answers go out the moment they come, of requests that went to their broker as they came: they are tallied once, and
count for both.
"""

from bisect import bisect_left
from collections.abc import Iterable

from prometheus_client.core import HistogramMetricFamily, Metric

from ha_core.wire import ApiKey

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LABELS = {int(ApiKey.PRODUCE): "produce", int(ApiKey.FETCH): "fetch"}
"""API key → label; the keys are 0 and 1."""
LAST_TIMED = max(_LABELS)
"""Requests up to this API key are timed."""


class TimeTally:
    """Times by upper bound: plain numbers, since each request adds to one."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class Latencies:
    """:ivar direct: by API key; requests and answers that nothing held up in the gateway.
    :ivar requests: all others, as the client sees them.
    :ivar brokers: all other answers of brokers; a request that goes to several brokers has several.
    """

    __slots__ = ("brokers", "direct", "requests")

    def __init__(self) -> None:
        self.direct = tuple(TimeTally() for _ in _LABELS)
        self.requests = tuple(TimeTally() for _ in _LABELS)
        self.brokers = tuple(TimeTally() for _ in _LABELS)

    def passed(self, key: int, came_at: float, sent_at: float, now: float) -> None:
        """An answer goes out as it comes.

        :param sent_at: 0: the request was sent as it came.
        """
        if not sent_at or sent_at == came_at:
            # As `TimeTally.add`, without the call: nearly all requests come here.
            tally, seconds = self.direct[key], now - came_at
            tally.counts[bisect_left(BOUNDS_S, seconds)] += 1
            tally.total_s += seconds
        else:
            self.heard(key, sent_at, now)
            self.answered(key, came_at, now)

    def heard(self, key: int, sent_at: float, now: float) -> None:
        """A broker's answer begins to come."""
        if key <= LAST_TIMED:
            self.brokers[key].add(now - sent_at)

    def answered(self, key: int, came_at: float, now: float) -> None:
        """An answer begins to go to the client.

        :param came_at: 0: no client has asked for it.
        """
        if key <= LAST_TIMED and came_at:
            self.requests[key].add(now - came_at)

    def collect(self, prefix: str) -> Iterable[Metric]:
        text = "Time from handling a client's whole request until its answer begins to go to the client."
        yield _family(f"{prefix}request_seconds", text, self.direct, self.requests)
        text = "Time from sending a client's whole request to a broker until the broker's answer begins to come."
        yield _family(f"{prefix}broker_seconds", text, self.direct, self.brokers)


def _family(name: str, text: str, direct: tuple[TimeTally, ...], others: tuple[TimeTally, ...]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=("api",))
    for key, label in _LABELS.items():
        both = direct[key], others[key]
        family.add_metric([label], cumulative(both), sum(tally.total_s for tally in both))
    return family


def cumulative(tallies: Iterable[TimeTally]) -> list[tuple[str, float]]:
    """Upper bound → how many took no longer, of all tallies together."""
    found, sum_ = [], 0
    for bound, counts in zip((*BOUNDS_S, "+Inf"), zip(*(tally.counts for tally in tallies), strict=True), strict=True):
        sum_ += sum(counts)
        found.append((str(bound), float(sum_)))
    return found
