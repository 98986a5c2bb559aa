"""Passwords and keys of users, and of those that do not exist."""

import hashlib
from collections.abc import Callable

import pytest

from gateway.authentication.accounts import KnownAccounts, LoginAccount, Phantoms
from gateway.authentication.users import UsersError, accounts, with_keys
from ha_core.operations.access.user_entries import entry
from ha_core.operations.engine.errors import RefusedError
from ha_core.wire.sasl_scram import HASHES, SCRAM_SHA_256, SCRAM_SHA_512, fits
from ha_core.wire.sasl_steps import Bearer, Candidate, KeyOf, LoginVerdict, Plain

SECRET = b"the same at all gateways"
USERS = accounts({"old": "in the open", **entry("alice", "wonder", 4096)})


def known(users: dict[str, LoginAccount] | None = None, in_the_open: bool = False) -> KnownAccounts:
    found = (USERS if users is None else users).get
    return KnownAccounts(found, Phantoms(SECRET, 4096), in_the_open=in_the_open)


def candidate(of: KnownAccounts, user: str, mechanism: str = SCRAM_SHA_512) -> Candidate:
    found = of.reply(KeyOf(mechanism, user))
    assert isinstance(found, Candidate)
    return found


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_user_that_does_not_exist_has_one_key_of_its_own_at_every_gateway(mechanism: str) -> None:
    here, there, other = known(), known(), KnownAccounts(USERS.get, Phantoms(b"another secret of others", 4096))
    nobody = candidate(here, "nobody", mechanism)
    assert not nobody.known
    assert candidate(there, "nobody", mechanism).key == nobody.key
    assert candidate(other, "nobody", mechanism).key.salt != nobody.key.salt
    assert candidate(here, "nobody2", mechanism).key.salt != nobody.key.salt
    assert candidate(here, "nobody", mechanism).nonce != nobody.nonce


def test_a_user_that_does_not_exist_looks_like_one_that_does() -> None:
    alice, nobody = (candidate(known(), user) for user in ("alice", "nobody"))
    assert alice.known
    assert nobody.key.iterations == alice.key.iterations
    assert len(nobody.key.stored_key) == len(alice.key.stored_key)
    for one in (alice, nobody):
        assert one.key.salt.isalnum()
        assert abs(len(one.key.salt) - 25) <= 3


def test_a_user_with_a_plain_text_password_has_no_key_and_is_unknown_to_scram() -> None:
    assert not candidate(known(), "old").known


def test_a_plain_text_password_is_verified_at_once() -> None:
    assert known().reply(Plain("", "old", "in the open")) == LoginVerdict("old")


@pytest.mark.parametrize("user", ["old", "nobody"])
def test_where_all_passwords_are_plain_text_a_wrong_one_is_refused_at_once(user: str) -> None:
    verdict = known(accounts({"old": "in the open"}), in_the_open=True).reply(Plain("", user, "wrong"))
    assert verdict == LoginVerdict(None, f"user {user!r}")


@pytest.mark.parametrize("user", ["old", "alice", "nobody"])
def test_where_keys_are_stored_every_wrong_password_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    done, of = counted(monkeypatch), known()
    claim = Plain("", user, "wrong")
    assert of.reply(claim) is None
    assert of.find_out(claim) == LoginVerdict(None, f"user {user!r}")
    assert done == ["sha512"]


def test_every_gateway_derives_an_equal_key_from_a_plain_text_password() -> None:
    phantoms = Phantoms(SECRET, 4096)
    users, again = (with_keys(USERS, HASHES, phantoms) for _ in range(2))
    assert users["old"].keys == again["old"].keys
    assert all(fits(mechanism, key, "in the open") for mechanism, key in users["old"].keys.items())
    assert users["old"].keys[SCRAM_SHA_256].salt == phantoms.key(SCRAM_SHA_256, "old").salt
    assert users["alice"] == USERS["alice"]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    slow: Callable[..., bytes] = hashlib.pbkdf2_hmac

    def counting(name: str, *more: object) -> bytes:
        done.append(name)
        return slow(name, *more)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counting)
    return done


def test_a_password_stored_as_a_key_is_verified_in_a_thread_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done, of = counted(monkeypatch), known()
    claim = Plain("", "alice", "wonder")
    assert of.reply(claim) is None
    assert of.find_out(claim) == LoginVerdict("alice")
    assert done == ["sha512"]
    assert of.reply(claim) == LoginVerdict("alice")


def test_only_the_right_password_is_remembered_and_for_its_user_alone() -> None:
    of = known()
    assert of.find_out(Plain("", "alice", "wrong")).user is None
    assert of.reply(Plain("", "alice", "wrong")) is None
    of.find_out(Plain("", "alice", "wonder"))
    assert of.reply(Plain("", "alice", "wrong")) is None
    assert of.reply(Plain("", "bob", "wonder")) is None


def test_a_password_that_was_changed_is_not_right_any_more() -> None:
    users = dict(USERS)
    of = known(users)
    of.find_out(Plain("", "alice", "wonder"))
    users |= accounts(entry("alice", "other", 4096))
    assert of.reply(Plain("", "alice", "wonder")) is None
    assert of.find_out(Plain("", "alice", "wonder")).user is None


def test_tokens_are_refused_unless_configured() -> None:
    of = known()
    assert of.reply(Bearer("", "x.y.z")) is None
    assert of.find_out(Bearer("", "x.y.z")).user is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"": "x"}, "not a user name"),
        ({7: "x"}, "not a user name"),
        ({"alice": ""}, "put it in quotes"),
        ({"alice": 1234}, "put it in quotes"),
        ({"alice": {}}, "neither password nor key"),
        ({"alice": {"SCRAM-SHA-1": "hunter2"}}, "no such mechanism"),
        ({"alice": {SCRAM_SHA_256: "hunter2"}}, "switchyard users entry alice"),
    ],
)
def test_an_invalid_entry_is_named_without_its_secret(found: dict[object, object], why: str) -> None:
    with pytest.raises(UsersError, match=why) as refused:
        accounts(found)
    assert "hunter2" not in str(refused.value)
    assert "1234" not in str(refused.value)


def test_neither_passwords_nor_keys_show_in_a_repr() -> None:
    for user, secret in (("old", "in the open"), ("alice", "stored_key")):
        assert secret not in repr(USERS[user])


@pytest.mark.parametrize(("user", "password", "iterations"), [("", "x", 4096), ("a\nb", "x", 4096), ("a", "", 4096)])
def test_an_entry_that_could_not_be_used_is_not_written(user: str, password: str, iterations: int) -> None:
    with pytest.raises(RefusedError):
        entry(user, password, iterations)
