"""The SCRAM keys of users that do not exist: for each name always the same, at every gateway and after every restart.

Otherwise who asks twice, or two gateways, would learn who exists from a salt that changes. So they follow from a secret
that all gateways share; whoever knew it could tell them from others. The salt looks like those that Kafka's tools and
`switchyard users entry` make: a number of 130 bits in base 36, as text.
"""

from __future__ import annotations

import hashlib
import hmac

from ha_core.wire.sasl_scram import HASHES, salt_text
from ha_core.wire.sasl_steps import ScramKey


class Phantoms:
    def __init__(self, secret: bytes, iterations: int) -> None:
        """:param iterations: as the keys of users have them."""
        self._secret, self._iterations = secret, iterations

    def key(self, mechanism: str, user: str) -> ScramKey:
        salt, stored, server = (self._of(what, mechanism, user) for what in ("salt", "stored", "server"))
        size = hashlib.new(HASHES[mechanism]).digest_size
        return ScramKey(salt_text(int.from_bytes(salt, "big")), stored[:size], server[:size], self._iterations)

    def _of(self, what: str, mechanism: str, user: str) -> bytes:
        return hmac.digest(self._secret, f"{what}\0{mechanism}\0{user}".encode(), "sha512")
