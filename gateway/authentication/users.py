"""The users file: YAML, `{user: password}`, or `{user: {SCRAM-SHA-512: "salt=…,stored_key=…,…"}}` with a key in Kafka's
format, as `switchyard users entry` writes it. PLAIN works with keys as well."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.authentication.accounts import LoginAccount, Phantoms
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.sasl_scram import HASHES, parse_key, scram_key


class UsersError(ValueError):
    """The fault and its user; never a password or a key."""


def accounts(document: Mapping[Any, Any]) -> dict[str, LoginAccount]:
    """User → account.

    :raises UsersError: an entry cannot be used.
    """
    users: dict[str, LoginAccount] = {}
    for user, credentials in document.items():
        if not isinstance(user, str) or not user or "\0" in user:
            raise UsersError(f"{user!r}: not a user name; write it as quoted text")
        users[user] = _keys(user, credentials) if isinstance(credentials, Mapping) else _password(user, credentials)
    return users


def with_keys(
    users: Mapping[str, LoginAccount], mechanisms: Iterable[str], phantoms: Phantoms
) -> dict[str, LoginAccount]:
    """Adds keys to users with a plain-text password. Their salts derive from the secret that all gateways share: salts
    that changed between gateways or restarts would tell such users from phantoms."""
    return {user: _with_keys(user, account, tuple(mechanisms), phantoms) for user, account in users.items()}


def _with_keys(user: str, account: LoginAccount, mechanisms: tuple[str, ...], phantoms: Phantoms) -> LoginAccount:
    if account.password is None:
        return account
    like = {mechanism: phantoms.key(mechanism, user) for mechanism in mechanisms}
    keys = {name: scram_key(name, account.password, key.salt, key.iterations) for name, key in like.items()}
    return LoginAccount(account.password, keys)


def _password(user: str, password: Any) -> LoginAccount:
    if not isinstance(password, str) or not password:
        raise UsersError(f"{user}: the password is not text; put it in quotes")
    return LoginAccount(password)


def _keys(user: str, keys_by_mechanism: Mapping[Any, Any]) -> LoginAccount:
    keys = {}
    for mechanism, text in keys_by_mechanism.items():
        if mechanism not in HASHES:
            raise UsersError(f"{user}: {mechanism!r}: no such mechanism; known are {', '.join(HASHES)}")
        try:
            keys[mechanism] = parse_key(mechanism, str(text))
        except LocalProtocolError as error:
            raise UsersError(f"{user}: {error}; make a new entry with `switchyard users entry {user}`") from None
    if not keys:
        raise UsersError(f"{user}: has neither password nor key; make an entry with `switchyard users entry {user}`")
    return LoginAccount(keys=keys)
