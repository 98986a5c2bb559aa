"""How often the logins of one address may fail before the next ones are not looked at any more.

A failure is forgiven after a while, and so many are borne at once. Behind one address may be many clients, so a user
who has logged in from there before is counted for himself: somebody who guesses passwords keeps no such user out,
unless he guesses that one's. What is not looked at is not refused either: the connection ends without a word, as by a
fault of the network, and clients try again.

Both tables are bounded: what was used longest ago is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from ipaddress import AddressValueError, IPv6Address

MAX_KNOWN = 10_000


class Brake:
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
        """Whether a login is looked at."""
        owed_s = self._forgiven_at.get(self._key(address, user), now) - now
        lets = owed_s <= (self._most - 1) * self._forgive_s
        self.braked += not lets
        return lets

    def failed(self, address: str, user: str, now: float) -> None:
        key = self._key(address, user)
        self._forgiven_at[key] = max(self._forgiven_at.get(key, now), now) + self._forgive_s
        self._forgiven_at.move_to_end(key)
        if len(self._forgiven_at) > MAX_KNOWN:
            self._forgiven_at.popitem(last=False)

    def succeeded(self, address: str, user: str) -> None:
        known = (network(address), user)
        self._been_here[known] = None
        self._been_here.move_to_end(known)
        if len(self._been_here) > MAX_KNOWN:
            self._been_here.popitem(last=False)

    def _key(self, address: str, user: str) -> Hashable:
        known = (network(address), user)
        return known if known in self._been_here else known[0]


def network(address: str) -> str:
    """What one host can choose its addresses from: of IPv6 the first half."""
    if ":" not in address:
        return address
    try:
        return IPv6Address(address).packed[:8].hex()
    except AddressValueError:
        return address
