"""SASL ends at the gateway: PLAIN now; SCRAM gets its own machine beside it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import NamedTuple

MECHANISMS = ("PLAIN",)


class Authentication(NamedTuple):
    """Who may enter.

    :ivar users: user → password.
    :ivar anonymous: whether clients may skip SASL; they are the user `anonymous` then.
    """

    users: Mapping[str, str]
    anonymous: bool

    def accepts(self, user: str, password: str) -> bool:
        """Compares in constant time, also for a user that does not exist."""
        known = self.users.get(user)
        same = hmac.compare_digest((known or "").encode(), password.encode())
        return known is not None and same
