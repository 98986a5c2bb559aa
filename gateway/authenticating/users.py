"""The users file: YAML, `{user: password}`, or `{user: {SCRAM-SHA-512: "salt=…,stored_key=…,…"}}` as Kafka keeps such a
key and `switchyard users entry` writes it. With keys PLAIN works as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.authenticating.accounts import Account
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.sasl_scram import HASHES, parse_key


class UsersError(ValueError):
    """What is wrong, and with which user; never a password or a key."""


def accounts(found: Mapping[Any, Any]) -> dict[str, Account]:
    """User → account.

    :raises UsersError: an entry cannot be used.
    """
    users: dict[str, Account] = {}
    for user, kept in found.items():
        if not isinstance(user, str) or not user or "\0" in user:
            raise UsersError(f"{user!r}: not a user name; write it as quoted text")
        users[user] = _keys(user, kept) if isinstance(kept, Mapping) else _password(user, kept)
    return users


def _password(user: str, password: Any) -> Account:
    if not isinstance(password, str) or not password:
        raise UsersError(f"{user}: the password is not text; put it in quotes")
    return Account(password)


def _keys(user: str, kept: Mapping[Any, Any]) -> Account:
    keys = {}
    for mechanism, text in kept.items():
        if mechanism not in HASHES:
            raise UsersError(f"{user}: {mechanism!r}: no such mechanism; known are {', '.join(HASHES)}")
        try:
            keys[mechanism] = parse_key(mechanism, str(text))
        except LocalProtocolError as error:
            raise UsersError(f"{user}: {error}; make the entry anew with `switchyard users entry {user}`") from None
    if not keys:
        raise UsersError(f"{user}: has neither password nor key; make an entry with `switchyard users entry {user}`")
    return Account(keys=keys)
