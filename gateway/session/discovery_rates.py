"""Rate limits for discovery requests, per user and per address.

Pure: the caller passes the time. Memory is bounded, whatever names and addresses come.
"""

from collections.abc import Mapping
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from gateway.session.login_rate_limiter import network
from gateway.session.token_buckets import TokenBuckets

EVERYBODY = "*"
"""In settings: the default for each user, address or cluster without its own value."""
BURST_S = 1.0
"""Requests of this many seconds may come at once."""
MAX_HOLD_S = 5.0
"""Longest wait, so that later heartbeats on the connection come in time (session timeouts begin at 6 s). So a limit is
kept as long as no more clients share it than may send one request each in that time; beyond, each may send one every
five seconds."""
MAX_KNOWN = 10_000
"""Tracked users and addresses together: as many as the default maximum of connections."""


class DiscoverySettings(NamedTuple):
    """Name, or `*` → value. The field names are those of the platform's types of settings."""

    user_rate: Mapping[str, int] = {}
    """Requests per second of a user."""
    address_rate: Mapping[str, int] = {}
    """Requests per second from an address."""
    queued_requests: Mapping[str, int] = {}
    """Requests that may wait for one cluster; one user may have half of them."""

    def max_queued(self, cluster: str, otherwise: int) -> int:
        return self.queued_requests.get(cluster, self.queued_requests.get(EVERYBODY, otherwise))


class DiscoveryLimit(Enum):
    """The limit that was exceeded. One of the first two, set for a name, replaces both general ones."""

    NAMED_USER = "named_user"
    NAMED_ADDRESS = "named_address"
    USER = "user"
    ADDRESS = "address"


class DiscoveryWait(NamedTuple):
    seconds: float
    limit: DiscoveryLimit
    per_s: int


_AT_ONCE_S = 0.0005
"""Shorter waits count as none: timers have a resolution of milliseconds."""
_SECONDS = attrgetter("seconds")


class DiscoveryRates:
    """Request counts of this gateway's clients. It has no clock, and is bounded: the least recent one is evicted first.

    :ivar settings: may be replaced at any time; requests held before keep their delay.
    """

    def __init__(self, settings: DiscoverySettings = DiscoverySettings(), max_names: int = MAX_KNOWN) -> None:  # noqa: B008 - frozen
        self.settings = settings
        self._requests = TokenBuckets(max_names)
        """By (True for a user, name)."""

    def __len__(self) -> int:
        return len(self._requests)

    def spend(self, user: str, address: str, now: float) -> DiscoveryWait | None:
        """Spends a token for a request; None: it may be handled at once."""
        users, addresses = self.settings.user_rate, self.settings.address_rate
        if not (users or addresses):
            return None
        if user in users and user != EVERYBODY:
            return self._spend(DiscoveryLimit.NAMED_USER, user, users[user], now)
        if address in addresses:
            return self._spend(DiscoveryLimit.NAMED_ADDRESS, address, addresses[address], now)
        of_user = self._spend(DiscoveryLimit.USER, user, users.get(EVERYBODY), now)
        of_address = self._spend(DiscoveryLimit.ADDRESS, network(address), addresses.get(EVERYBODY), now)
        return max((wait for wait in (of_user, of_address) if wait is not None), default=None, key=_SECONDS)

    def _spend(self, limit: DiscoveryLimit, name: str, per_s: int | None, now: float) -> DiscoveryWait | None:
        if per_s is None:
            return None
        each_s, burst = 1 / per_s, max(BURST_S * per_s, 1.0)
        key = (limit in (DiscoveryLimit.NAMED_USER, DiscoveryLimit.USER), name)
        wait_s = self._requests.wait_s(key, now, each_s, burst)
        self._requests.spend(key, now, each_s, (burst - 1) * each_s + MAX_HOLD_S)
        return DiscoveryWait(wait_s, limit, per_s) if wait_s > _AT_ONCE_S else None
