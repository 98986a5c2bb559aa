"""Rate limiter for failed logins per address.

Each failure is forgotten after a while; a burst of failures is allowed. Many clients may share one address, so a user
who has logged in from it before is judged by that user's own failures: guessed passwords or forged tokens do not lock
such a user out unless they name that user. A login above the limit is not refused: the connection closes without an
answer, as on a network fault, and the client tries again.

Clients must not learn which users have logged in from an address. So each failure counts for its address, whichever
user it names, and once an address has failed too often, no failure is answered (`silent`): wrong logins of known and
unknown users then end alike.

All tables are bounded; the least recently used entry is evicted first.
"""

from collections import OrderedDict
from collections.abc import Hashable
from ipaddress import AddressValueError, IPv6Address

from gateway.session.token_buckets import TokenBuckets

MAX_KNOWN = 10_000


class LoginRateLimiter:
    def __init__(self, burst: int, forgive_s: float = 1.0) -> None:
        """:param burst: failures in a row.
        :param forgive_s: seconds after which one of them is forgotten.
        """
        self._burst, self._forgive_s = burst, forgive_s
        self._failures = TokenBuckets(MAX_KNOWN)
        """By address, or address and user: a failure takes a token."""
        self._known_users: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.unchecked = 0
        """Logins that were not checked."""

    def allows(self, address: str, user: str, now: float) -> bool:
        """True if the login may be checked.

        :param user: the user that the login names; empty: none.
        """
        key = (network(address), user)
        allowed = self._allows(key if key in self._known_users else key[0], now)
        self.unchecked += not allowed
        return allowed

    def silent(self, address: str, now: float) -> bool:
        """True if failures of this address get no answer."""
        return not self._allows(network(address), now)

    def failed(self, address: str, user: str, now: float) -> None:
        key = (network(address), user)
        self._fail(key[0], now)
        if key in self._known_users:
            self._fail(key, now)

    def succeeded(self, address: str, user: str) -> None:
        key = (network(address), user)
        self._known_users[key] = None
        self._known_users.move_to_end(key)
        if len(self._known_users) > MAX_KNOWN:
            self._known_users.popitem(last=False)

    def _allows(self, key: Hashable, now: float) -> bool:
        return self._failures.wait_s(key, now, self._forgive_s, self._burst) <= 0

    def _fail(self, key: Hashable, now: float) -> None:
        self._failures.spend(key, now, self._forgive_s)


def network(address: str) -> str:
    """The range from which one host can choose its address: for IPv6, its first 64 bits."""
    if ":" not in address:
        return address
    try:
        return IPv6Address(address).packed[:8].hex()
    except AddressValueError:
        return address
