"""Entries of users files: the keys that a gateway stores for a password."""

import secrets

from ha_core.operations.engine.errors import RefusedError
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.sasl_scram import HASHES, MIN_ITERATIONS, SALT_BITS, key_text, salt_text, scram_key

LEAST_ITERATIONS = MIN_ITERATIONS


def entry(user: str, password: str, iterations: int) -> dict[str, dict[str, str]]:
    """`{user: {mechanism: key}}`, with a salt of its own for each mechanism.

    :raises RefusedError: the name, the password or the number cannot be used.
    """
    if not user or "\0" in user or not user.isprintable():
        raise RefusedError(f"User {user!r}: not a name. Give one of printable characters.")
    try:
        keys = {
            mechanism: scram_key(mechanism, password, salt_text(secrets.randbits(SALT_BITS)), iterations)
            for mechanism in HASHES
        }
    except LocalProtocolError as error:
        raise RefusedError(f"User {user}: {error}.") from None
    return {user: {mechanism: key_text(key) for mechanism, key in keys.items()}}
