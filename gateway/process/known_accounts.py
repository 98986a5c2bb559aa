"""Builds the accounts, and the settings of logins for sessions, from the configuration."""

import math
import secrets
from collections.abc import Callable

from gateway.authentication.accounts import KnownAccounts, LoginAccount, Phantoms
from gateway.authentication.jwks import Jwks
from gateway.config.authentication import AuthenticationSection
from gateway.session.login_rate_limiter import LoginRateLimiter
from gateway.session.shared import Authentication


def known_accounts(
    section: AuthenticationSection, find: Callable[[str], LoginAccount | None] | None = None
) -> tuple[KnownAccounts, Jwks | None]:
    """The accounts, and the keys of tokens, which the caller begins and ends.

    :param find: the account of a user; None: the configuration has them.
    """
    in_the_open = find is None and all(account.password is not None for account in section.users.values())
    find = find or section.users.get
    # Without SCRAM no salt is shown to clients: any secret will do.
    phantoms = Phantoms(section.phantom_secret or secrets.token_bytes(32), section.iterations)
    oauth = section.oauth
    if oauth is None:
        return KnownAccounts(find, phantoms, in_the_open=in_the_open), None
    from gateway.authentication.tokens import BearerTokens, Expected

    jwks = Jwks(section.jwks, oauth.refresh_s)
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


def authentication(section: AuthenticationSection, accounts: KnownAccounts) -> Authentication:
    """The settings of logins that sessions follow."""
    return Authentication(
        anonymous=section.anonymous,
        mechanisms=tuple(section.mechanisms),
        accounts=accounts,
        login_rate_limiter=LoginRateLimiter(section.failures_per_address),
        session_s=section.session_ms / 1000 or math.inf,
        delay_s=section.failed_delay_ms / 1000,
    )
