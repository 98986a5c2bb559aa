"""How often the logins of one address may fail before the next ones are not looked at any more.

A failure is forgiven after a while, and so many are borne at once. Behind one address may be many clients, so a user
who has logged in from there before is looked at by that user's own failures: guesses of passwords, or forged tokens,
keep no such user out, unless they name that one. What is not looked at is not refused either: the connection ends
without a word, as by a fault of the network, and clients try again.

Who has been there must not be told. So a failure counts for its address, whoever it names, and where an address has
failed too often no failure is told any more (`silent`): wrong logins of users who were there end like all others.

Both tables are bounded: what was used longest ago is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from ipaddress import AddressValueError, IPv6Address

MAX_KNOWN = 10_000


class LoginRateLimiter:
    def __init__(self, most: int, forgive_s: float = 1.0) -> None:
        """:param most: failures in a row.
        :param forgive_s: after how many seconds one of them is forgotten.
        """
        self._most, self._forgive_s = most, forgive_s
        self._forgiven_at: OrderedDict[Hashable, float] = OrderedDict()
        """By address, or address and user: when nothing is left of its failures."""
        self._been_here: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.braked = 0
        """Logins that were not looked at."""

    def lets(self, address: str, user: str, now: float) -> bool:
        """Whether a login is looked at.

        :param user: whom it names; empty: nobody.
        """
        known = (network(address), user)
        lets = self._lets(known if known in self._been_here else known[0], now)
        self.braked += not lets
        return lets

    def silent(self, address: str, now: float) -> bool:
        """Whether failures of the address are not told."""
        return not self._lets(network(address), now)

    def failed(self, address: str, user: str, now: float) -> None:
        known = (network(address), user)
        self._fail(known[0], now)
        if known in self._been_here:
            self._fail(known, now)

    def succeeded(self, address: str, user: str) -> None:
        known = (network(address), user)
        self._been_here[known] = None
        self._been_here.move_to_end(known)
        if len(self._been_here) > MAX_KNOWN:
            self._been_here.popitem(last=False)

    def _lets(self, key: Hashable, now: float) -> bool:
        return self._forgiven_at.get(key, now) - now <= (self._most - 1) * self._forgive_s

    def _fail(self, key: Hashable, now: float) -> None:
        self._forgiven_at[key] = max(self._forgiven_at.get(key, now), now) + self._forgive_s
        self._forgiven_at.move_to_end(key)
        if len(self._forgiven_at) > MAX_KNOWN:
            self._forgiven_at.popitem(last=False)


def network(address: str) -> str:
    """What one host can choose its addresses from: of IPv6 the first half."""
    if ":" not in address:
        return address
    try:
        return IPv6Address(address).packed[:8].hex()
    except AddressValueError:
        return address
