"""SCRAM keys of users that do not exist: always equal for a name, at every gateway and after every restart.

Otherwise a client that asks twice, or two gateways, would see the salt change, and so learn which users exist. The keys
derive from a secret that all gateways share; knowing it reveals the phantoms. The salt looks like those that Kafka's
tools and `switchyard users entry` make: a number of 130 bits in base 36, as text.
"""

from __future__ import annotations

import hashlib
import hmac

from ha_core.wire.sasl_scram import HASHES, salt_text
from ha_core.wire.sasl_steps import ScramKey


class Phantoms:
    def __init__(self, secret: bytes, iterations: int) -> None:
        """:param iterations: those of the users' keys."""
        self._secret, self._iterations = secret, iterations

    def key(self, mechanism: str, user: str) -> ScramKey:
        salt, stored, server = (self._of(what, mechanism, user) for what in ("salt", "stored", "server"))
        size = hashlib.new(HASHES[mechanism]).digest_size
        return ScramKey(salt_text(int.from_bytes(salt, "big")), stored[:size], server[:size], self._iterations)

    def _of(self, what: str, mechanism: str, user: str) -> bytes:
        return hmac.digest(self._secret, f"{what}\0{mechanism}\0{user}".encode(), "sha512")
