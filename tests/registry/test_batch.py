"""Many changes, one per line: all of them, or none with all the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ha_core.platform.batch import MAX_LINES, ChangeBatch, Keys, keys_of, made, planned
from ha_core.platform.changing import put
from ha_core.platform.errors import InvalidError
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.wire.sasl_scram import key_text, scram_key

BY, WHY = "operator", "a test"
WHOLE = ChangeBatch(
    create=["alice owner=shop groups=tills,counters contact=shop@example.org", "ops super", "'a b'"],
    grant=[
        "User:alice read,describe topic orders",
        "Group:tills write topic till- prefixed host 10.0.0.7 deny",
        "User:ops describe cluster",
        "User:'a b' read group *",
    ],
    quotas=["user=alice topic=orders producer_byte_rate=1000000", "instance=app request_percentage=12.5"],
)


def make(registry: Platform, dry_run: bool = False, keys: Keys | None = None, **lines: Sequence[str]) -> list[str]:
    return [step.what for step in made(registry, ChangeBatch(**lines, keys=keys), BY, WHY, dry_run)]


def values(registry: Platform, kind: str) -> list[dict[str, Any]]:
    return [one.to_json()["value"] for one in registry.read.page(kind).stored]


def text(password: str = "secret") -> str:
    return key_text(scram_key("SCRAM-SHA-512", password, b"salt-of-the-test", 4096))


def test_all_lines_are_made_in_one_change_and_repeating_them_changes_nothing(registry: Platform) -> None:
    steps = made(registry, WHOLE, BY, WHY)

    assert [step.what for step in steps] == ["made"] * 10
    users = {one["name"]: one for one in values(registry, "users")}
    assert users["alice"]["groups"] == ["counters", "tills"]
    assert users["ops"]["super_user"]
    assert "a b" in users
    rules = {(one["principal"], one["operation"], one["name"]): one for one in values(registry, "rules")}
    denied = rules["Group:tills", "write", "till-"]
    assert (denied["pattern"], denied["effect"], denied["host"]) == ("prefixed", "deny", "10.0.0.7")
    assert rules["User:ops", "describe", "kafka-cluster"]["resource_type"] == "cluster"
    assert {one["producer_byte_rate"] for one in values(registry, "quotas")} == {1_000_000, None}
    history = [one for kind in ("users", "rules", "quotas") for one in registry.read.history(kind).stored]
    assert {(one.by, one.reason) for one in history} == {(BY, WHY)}
    # And repeated
    assert {step.what for step in made(registry, WHOLE, BY, WHY)} == {"stands"}
    assert len([one for kind in ("users", "rules", "quotas") for one in registry.read.history(kind).stored]) == 10


def test_a_dry_run_returns_the_steps_and_writes_nothing(registry: Platform) -> None:
    assert [step.what for step in made(registry, WHOLE, BY, WHY, dry_run=True)] == ["made"] * 10
    assert values(registry, "users") == []


def test_grants_and_quotas_are_revoked_by_equal_lines(registry: Platform) -> None:
    made(registry, WHOLE, BY, WHY)

    what = make(
        registry,
        revoke=[*WHOLE.grant, "User:alice write topic none"],
        quotas=["user=alice topic=orders none", "instance=app request_percentage=none consumer_byte_rate=5"],
        disable=["alice"],
    )

    assert sorted(what) == ["changed"] * 2 + ["deleted"] * 6 + ["stands"]
    assert values(registry, "rules") == []
    (quota,) = values(registry, "quotas")
    assert (quota["consumer_byte_rate"], quota["request_percentage"]) == (5, None)
    assert [one["disabled"] for one in values(registry, "users") if one["name"] == "alice"] == [True]
    assert make(registry, enable=["alice"], disable=["ops"]) == ["changed", "changed"]


def test_a_disabled_user_has_its_password_when_it_is_enabled_again(registry: Platform) -> None:
    keys = keys_of({"alice": {"SCRAM-SHA-512": text()}})
    make(registry, create=["alice"], keys=keys)

    make(registry, disable=["alice"])
    make(registry, enable=["alice"])

    entry = registry.read.get("users", "alice").entry
    assert isinstance(entry, UserEntry)
    assert dict(entry.scram) == dict(keys["alice"])
    assert make(registry, create=["alice"]) == ["stands"]


def test_every_invalid_line_is_named_and_nothing_is_changed(registry: Platform) -> None:
    registry.apply([put(UserEntry(name="bob", owner="shop"))], BY, WHY)
    bad = ChangeBatch(
        create=["alice colour=red", "bob", "'half", "carol owner=a owner=b"],
        disable=["nobody", "bob extra"],
        grant=[
            "User:bob read",
            "User:bob read topic",
            "User:bob fly topic x",
            "bob read topic x",
            "User:bob read topic a b",
        ],
        revoke=[],
        quotas=[
            "user=bob",
            "user=bob producer_byte_rate=fast",
            "user=bob producer_byte_rate=0",
            "user=bob none consumer_byte_rate=1",
        ],
    )
    with pytest.raises(InvalidError) as refused:
        made(registry, bad, BY, WHY)

    said = str(refused.value)
    assert said.startswith("15 lines are invalid. ")
    for words in (
        "create, line 1, 'alice colour=red': 'colour=red': write owner=…",
        "create, line 2, 'bob': there is a user of this name",
        "quotation mark",
        "owner is given twice",
        "there is no such user",
        "which topic?",
        "'b': after the name write prefixed, deny, host ADDRESS",
        "producer_byte_rate 'fast': a number, or none",
        "would block everything",
    ):
        assert words in said, words
    assert len(values(registry, "users")) == 1
    assert values(registry, "rules") == values(registry, "quotas") == []


def test_contradicting_lines_are_refused_and_repeated_lines_are_done_once(registry: Platform) -> None:
    made(registry, WHOLE, BY, WHY)
    line = "User:alice write topic orders"

    assert make(registry, grant=[line, line]) == ["made"]
    for batch in (
        ChangeBatch(grant=[line], revoke=[line]),
        ChangeBatch(disable=["alice"], enable=["alice"]),
        ChangeBatch(quotas=["user=alice producer_byte_rate=1", "user=alice consumer_byte_rate=1"]),
    ):
        with pytest.raises(InvalidError, match="another line contradicts"):
            made(registry, batch, BY, WHY)


def test_a_rule_for_an_unknown_user_refuses_the_whole_batch(registry: Platform) -> None:
    with pytest.raises(InvalidError, match="user 'alice'"):
        make(registry, create=["bob"], grant=["User:alice read topic orders"])

    assert values(registry, "users") == []


def test_entries_that_others_change_meanwhile_are_read_again(
    registry: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(registry, WHOLE, BY, WHY)
    apply = Platform.apply

    def meanwhile(own: Platform, *arguments: Any) -> Any:
        monkeypatch.setattr(Platform, "apply", apply)
        user = own.read.get("users", "alice")
        assert isinstance(user.entry, UserEntry)
        apply(own, [put(user.entry.model_copy(update={"owner": "another"}), user.version)], "another", WHY)
        return apply(own, *arguments)

    monkeypatch.setattr(Platform, "apply", meanwhile)

    make(registry, disable=["alice"])

    entry = registry.read.get("users", "alice").entry
    assert isinstance(entry, UserEntry)
    assert (entry.owner, entry.disabled) == ("another", True)


@pytest.mark.parametrize("count", [0, MAX_LINES + 1])
def test_no_line_and_too_many_are_refused(registry: Platform, count: int) -> None:
    with pytest.raises(InvalidError, match=f"give 1 to {MAX_LINES}"):
        planned(registry, ChangeBatch(disable=["alice"] * count))


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {"alice": "secret"},
        {"alice": {"SCRAM-SHA-1": text()}},
        {"alice": {"SCRAM-SHA-512": "secret"}},
        {5: {"SCRAM-SHA-512": text()}},
    ],
)
def test_invalid_keys_are_refused_without_showing_them(found: object) -> None:
    with pytest.raises(InvalidError) as refused:
        keys_of(found)

    assert "secret" not in str(refused.value)
    assert "stored_key=…" in str(refused.value) or "users entry" in str(refused.value)


def test_keys_of_a_user_that_no_line_creates_are_refused(registry: Platform) -> None:
    with pytest.raises(InvalidError, match="keys for 'bob', whom no line creates"):
        make(registry, create=["alice"], keys=keys_of({"bob": {"SCRAM-SHA-512": text()}}))
