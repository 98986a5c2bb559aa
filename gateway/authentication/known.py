"""Builds the accounts, and the settings of logins for sessions, from the configuration."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

from gateway import config
from gateway.authentication.accounts import KnownAccounts, LoginAccount
from gateway.authentication.jwks import Jwks
from gateway.authentication.phantoms import Phantoms
from gateway.session.login_rate_limiter import LoginRateLimiter
from gateway.session.shared import Authentication


def known_accounts(
    said: config.AuthenticationSection, find: Callable[[str], LoginAccount | None] | None = None
) -> tuple[KnownAccounts, Jwks | None]:
    """The accounts, and the keys of tokens, which the caller begins and ends.

    :param find: the account of a user; None: the configuration has them.
    """
    in_the_open = find is None and all(account.password is not None for account in said.users.values())
    find = find or said.users.get
    # Without SCRAM no salt is shown to clients: any secret will do.
    phantoms = Phantoms(said.phantom_secret or secrets.token_bytes(32), said.iterations)
    oauth = said.oauth
    if oauth is None:
        return KnownAccounts(find, phantoms, in_the_open=in_the_open), None
    from gateway.authentication.tokens import BearerTokens, Expected

    jwks = Jwks(said.jwks, oauth.refresh_s)
    expected = Expected(
        issuer=oauth.issuer,
        audience=tuple(oauth.audience),
        algorithms=tuple(oauth.algorithms),
        required=tuple(oauth.required_claims),
        user_claim=oauth.user_claim,
        skew_s=oauth.clock_skew_s,
    )
    tokens = BearerTokens(expected, jwks.find)
    return KnownAccounts(find, phantoms, tokens.verify, in_the_open, tokens.claimed), jwks


def authentication(said: config.AuthenticationSection, accounts: KnownAccounts) -> Authentication:
    """The settings of logins that sessions follow."""
    return Authentication(
        anonymous=said.anonymous,
        mechanisms=tuple(said.mechanisms),
        accounts=accounts,
        brake=LoginRateLimiter(said.failures_per_address),
        session_s=said.session_ms / 1000 or math.inf,
        delay_s=said.failed_delay_ms / 1000,
    )
