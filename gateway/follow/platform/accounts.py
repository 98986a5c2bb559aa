"""Users of the platform as accounts: password keys, read from a row at each login."""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.authentication.accounts import LoginAccount
from ha_core.datacache.core.source import Row
from ha_core.datacache.core.uncommitted import Content
from ha_core.wire.sasl import PLAIN
from ha_core.wire.sasl_scram import HASHES, MAX_ITERATIONS, MIN_ITERATIONS
from ha_core.wire.sasl_steps import ScramKey


class PlatformAccounts:
    """The accounts of one state; `follow` takes the next one, from any thread."""

    def __init__(self) -> None:
        self._users = Content()

    def __len__(self) -> int:
        return len(self._users.rows)

    def find(self, user: str) -> LoginAccount | None:
        row = self._users.rows.get(user)
        return None if row is None else account(row)

    def follow(self, users: Content) -> frozenset[str]:
        """Users who can no longer log in by a mechanism by which they could before."""
        before, self._users = self._users, users
        changes = users.changes(before)
        return frozenset(
            name
            for name, was, is_ in changes
            if disabled(is_) or (was is not None and not _mechanisms(was) <= _mechanisms(is_))
        )

    def may_stay(self, user: str, mechanism: str) -> bool:
        """Whether a user who has logged in by the mechanism could still do so, whatever the password is now."""
        row = self._users.rows.get(user)
        if mechanism != PLAIN and mechanism not in HASHES:
            return not disabled(row)  # A token's issuer has verified the user, not the platform.
        mechanisms = _mechanisms(row)
        return bool(mechanisms) if mechanism == PLAIN else mechanism in mechanisms


def disabled(row: Row | None) -> bool:
    """A value that is neither true nor false counts as disabled."""
    return row is not None and row.value is not None and row.value.get("disabled", False) is not False


def account(row: Row) -> LoginAccount:
    """A row that cannot be read has no keys, so its user cannot log in."""
    return LoginAccount(keys=dict(_keys(row)))


def _keys(row: Row) -> Iterator[tuple[str, ScramKey]]:
    for mechanism, fields in _kept(row).items():
        try:
            salt, stored, server = (b64decode(fields[name], validate=True) for name in _BINARY)
            iterations = fields["iterations"]
        except (KeyError, TypeError, ValueError):
            continue
        if isinstance(iterations, int) and MIN_ITERATIONS <= iterations <= MAX_ITERATIONS and salt and stored:
            yield mechanism, ScramKey(salt, stored, server, iterations)


_BINARY = ("salt", "stored_key", "server_key")


def _mechanisms(row: Row | None) -> frozenset[str]:
    return frozenset(_kept(row))


def _kept(row: Row | None) -> dict[str, Any]:
    kept = None if row is None or row.value is None or disabled(row) else row.value.get("scram")
    return {name: kept[name] for name in HASHES if name in kept} if isinstance(kept, Mapping) else {}
