"""Verifies bearer tokens (RFC 7519, RFC 8725): signature, issuer, audience, time, and the user that they name.

The signature comes first: no claim counts before the signing key is known. The accepted algorithms are configured and
never the token's choice, each takes keys of its own type only, and neither a key nor an address of one is ever taken
from the token.
"""

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, NamedTuple

import jwt

from gateway.authentication.jwks import Key, UnknownKeyError
from ha_core.wire.sasl_steps import LoginVerdict

MAX_USER = 255
MAX_CLAIMS = 8192
"""Characters of the claims that are parsed before the signature is verified."""
_WRONG: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "it is of another issuer"),
    (jwt.MissingRequiredClaimError, "a claim that is required is missing"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidAlgorithmError, "its algorithm is not accepted"),
)
"""Texts for the log; the library's own may contain parts of the token."""


class Expected(NamedTuple):
    """:ivar required: claims that have to be present, besides those that are checked.
    :ivar user_claim: the claim that names the user.
    :ivar skew_s: tolerated difference of clocks.
    """

    issuer: str
    audience: tuple[str, ...]
    algorithms: tuple[str, ...]
    required: tuple[str, ...] = ()
    user_claim: str = "sub"
    skew_s: float = 30.0


class BearerTokens:
    def __init__(self, expected: Expected, find: Callable[[str | None, str], Key]) -> None:
        """:param find: the key with this id for this algorithm; raises UnknownKeyError."""
        self._expected, self._find = expected, find

    def verify(self, token: str) -> LoginVerdict:
        try:
            claims = self._claims(token)
        except UnknownKeyError as error:
            return LoginVerdict(None, f"a token: {error}", unsure=not error.certain)
        except Exception as error:  # any error that the library raises for a client's input
            why = next((text for kind, text in _WRONG if isinstance(error, kind)), "it cannot be read")
            return LoginVerdict(None, f"a token: {why}")
        user = claims.get(self._expected.user_claim)
        if not isinstance(user, str) or not 0 < len(user) <= MAX_USER or not user.isprintable():
            return LoginVerdict(None, f"a token: {self._expected.user_claim} names no user")
        try:
            good_for_s = float(claims["exp"]) + self._expected.skew_s - time.time()
        except OverflowError:
            return LoginVerdict(None, "a token: its expiry is no time")
        return LoginVerdict(user, good_for_s=good_for_s)

    def claimed(self, token: str) -> str:
        """The user that a token names, unverified; empty: none. Quick: for the event loop."""
        payload = token.split(".", 2)[1:2]
        if not payload or len(payload[0]) > MAX_CLAIMS:
            return ""
        try:
            user = json.loads(urlsafe_b64decode(payload[0] + "=" * (-len(payload[0]) % 4)))[self._expected.user_claim]
        except (ValueError, KeyError, TypeError, RecursionError):
            return ""
        return user if isinstance(user, str) and len(user) <= MAX_USER else ""

    def _claims(self, token: str) -> dict[str, Any]:
        expected, header = self._expected, jwt.get_unverified_header(token)
        alg, kid = header.get("alg"), header.get("kid")
        if alg not in expected.algorithms or "crit" in header or not isinstance(kid, str | None):
            raise jwt.InvalidAlgorithmError
        return jwt.decode(
            token,
            self._find(kid, alg).public,
            algorithms=[alg],
            audience=list(expected.audience),
            issuer=expected.issuer,
            leeway=expected.skew_s,
            options={"require": ["exp", "iss", "aud", expected.user_claim, *expected.required]},
        )
