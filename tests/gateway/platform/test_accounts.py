"""Users of the platform as accounts, and connections that may stay when users change."""

from typing import Any

import pytest

from gateway.authentication.accounts import KnownAccounts, LoginAccount, Phantoms
from gateway.follow.platform.accounts import PlatformAccounts
from ha_core.datacache.core.packed import rows_of
from ha_core.datacache.core.source import Row
from ha_core.datacache.core.uncommitted import Content
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.scram import derive_all
from ha_core.wire.sasl_scram import SCRAM_SHA_256, SCRAM_SHA_512, fits
from ha_core.wire.sasl_steps import LoginVerdict, Plain

PASSWORD = "secret-of-the-test"


def value(password: str = PASSWORD, **said: Any) -> dict[str, Any]:
    return UserEntry.read({"name": "alice", "scram": derive_all(password, 4096), **said}).model_dump(mode="json")


def content(at_us: int, **values: dict[str, Any]) -> Content:
    return Content(at_us, rows_of(Row(name, at_us, said) for name, said in values.items()))


@pytest.fixture
def accounts() -> PlatformAccounts:
    made = PlatformAccounts()
    made.follow(content(1, alice=value(), bob=value(scram={})))
    return made


def test_a_password_fits_the_keys_that_the_platform_has_made_of_it(accounts: PlatformAccounts) -> None:
    account = accounts.find("alice")

    assert account is not None
    assert account.password is None
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
        assert fits(mechanism, account.keys[mechanism], PASSWORD)
        assert not fits(mechanism, account.keys[mechanism], "another")


def test_users_without_keys_cannot_log_in(accounts: PlatformAccounts) -> None:
    known_accounts = KnownAccounts(accounts.find, Phantoms(b"s" * 16, 4096))

    assert accounts.find("bob") == LoginAccount()
    assert accounts.find("carol") is None
    assert known_accounts.find_out(Plain("", "alice", PASSWORD)) == LoginVerdict("alice")
    for nobody in ("bob", "carol"):
        assert known_accounts.find_out(Plain("", nobody, PASSWORD)).user is None


@pytest.mark.parametrize(
    "broken",
    [
        {"salt": "%"},
        {"salt": ""},
        {"iterations": 1},
        {"iterations": "4096"},
        {"iterations": 1 << 40},
        {"stored_key": 7},
    ],
)
def test_an_unreadable_key_is_ignored(broken: dict[str, Any]) -> None:
    said = value()
    said["scram"][SCRAM_SHA_256] |= broken
    accounts = PlatformAccounts()
    accounts.follow(content(1, alice=said))

    account = accounts.find("alice")

    assert account is not None
    assert set(account.keys) == {SCRAM_SHA_512}


def test_deleted_users_and_lost_keys_are_reported_and_new_passwords_are_not(
    accounts: PlatformAccounts,
) -> None:
    only = {name: keys for name, keys in derive_all(PASSWORD, 4096).items() if name == SCRAM_SHA_512}

    assert accounts.follow(content(2, alice=value("another"), bob=value())) == frozenset()
    assert accounts.follow(content(3, alice=value(scram=only), bob=value())) == {"alice"}
    assert accounts.follow(content(4, alice=value(scram=only))) == {"bob"}


def test_a_user_may_stay_while_the_mechanism_of_the_login_still_works(accounts: PlatformAccounts) -> None:
    only = {name: keys for name, keys in derive_all(PASSWORD, 4096).items() if name == SCRAM_SHA_512}
    accounts.follow(content(2, alice=value(scram=only), bob=value(scram={})))

    stays = {mechanism: accounts.may_stay("alice", mechanism) for mechanism in ("PLAIN", SCRAM_SHA_256, SCRAM_SHA_512)}

    assert stays == {"PLAIN": True, SCRAM_SHA_256: False, SCRAM_SHA_512: True}
    assert not accounts.may_stay("bob", "PLAIN")
    assert not accounts.may_stay("carol", "PLAIN")
    assert accounts.may_stay("carol", "OAUTHBEARER")


@pytest.mark.parametrize("said", [True, None, "no", 0])
def test_a_disabled_user_cannot_log_in_and_may_not_stay(accounts: PlatformAccounts, said: object) -> None:
    # Given a user with a password, and one who logs in by tokens; a value that is neither true nor false disables
    changed = content(2, alice={**value(), "disabled": said}, bob={**value(scram={}), "disabled": said})
    # When they are disabled
    gone = accounts.follow(changed)
    # Then
    assert gone == {"alice", "bob"}
    assert accounts.find("alice") == LoginAccount()
    assert not accounts.may_stay("alice", "PLAIN")
    assert not accounts.may_stay("bob", "OAUTHBEARER")
    # And when they are enabled
    accounts.follow(content(3, alice={**value(), "disabled": False}, bob=value(scram={})))
    assert accounts.may_stay("alice", "SCRAM-SHA-512")
    assert accounts.may_stay("bob", "OAUTHBEARER")
