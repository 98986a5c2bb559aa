"""The stored keys of a password, salted as RFC 5802 and RFC 7677 require, for both of Kafka's mechanisms.

Like Kafka, this takes the password's UTF-8 bytes without SASLprep.
"""

import secrets
from base64 import b64decode, b64encode
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ha_core.platform.errors import InvalidError
from ha_core.wire.sasl_scram import HASHES, SALT_BITS, salt_text, scram_key
from ha_core.wire.sasl_steps import ScramKey

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16_384
"""Kafka's bounds."""
ITERATIONS = 8192
MAX_PASSWORD_BYTES = 1024


def _base64(text: str) -> str:
    try:
        b64decode(text, validate=True)
    except ValueError:
        raise ValueError("is not base64") from None
    return text


_Base64 = Annotated[str, Field(min_length=4, max_length=172), AfterValidator(_base64)]


class ScramKeys(BaseModel):
    """Keys of one user and mechanism; binary values in base64."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    salt: _Base64
    stored_key: _Base64
    server_key: _Base64
    iterations: int = Field(ge=MIN_ITERATIONS, le=MAX_ITERATIONS)

    @classmethod
    def of(cls, key: ScramKey) -> Self:
        return cls(
            salt=b64encode(key.salt).decode(),
            stored_key=b64encode(key.stored_key).decode(),
            server_key=b64encode(key.server_key).decode(),
            iterations=key.iterations,
        )


def derive(password: str, mechanism: str, salt: bytes, iterations: int) -> ScramKeys:
    """:raises InvalidError: the mechanism, the iterations or the password are outside of Kafka's bounds."""
    if mechanism not in HASHES:
        raise InvalidError(f"mechanism {mechanism!r} is not known; one of {', '.join(HASHES)}")
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise InvalidError(f"{iterations} iterations: Kafka takes {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    _require_password(password)
    return ScramKeys.of(scram_key(mechanism, password, salt, iterations))


def derive_all(password: str, iterations: int = ITERATIONS) -> dict[str, ScramKeys]:
    """Keys for both mechanisms, each with its own salt. Their form equals that which gateways show for unknown users:
    a different one would reveal which users exist."""
    return {name: derive(password, name, salt_text(secrets.randbits(SALT_BITS)), iterations) for name in HASHES}


def _require_password(password: str) -> None:
    if any(character < " " or character == "\x7f" for character in password):
        raise InvalidError("the password has control characters, such as the end of a line; leave them out")
    try:
        data = password.encode()
    except UnicodeEncodeError:
        raise InvalidError("the password is no Unicode text") from None
    if not 1 <= len(data) <= MAX_PASSWORD_BYTES:
        raise InvalidError(f"a password of {len(data)} bytes: give 1 to {MAX_PASSWORD_BYTES}")
