"""Many entries from one form: all of them, or none with all the reasons."""

from typing import Any

import pytest

from ha_core.platform import documents
from ha_core.platform.batch import MAX_ENTRIES, Keys, keys_of, made, wanted_entries
from ha_core.platform.changing import put
from ha_core.platform.errors import BusyError, InvalidError
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.wire.sasl_scram import key_text, scram_key

BY, WHY = "operator", "a test"
WHOLE = """
users:
  - {name: alice, owner: shop, groups: [tills, counters], contact: shop@example.org}
  - {name: ops, super_user: true}
  - {name: a b}
rules:
  - {principal: "User:alice", operation: read, resource_type: topic, name: orders}
  - {principal: "User:alice", operation: describe, resource_type: topic, name: orders}
  - {principal: "Group:tills", operation: write, resource_type: topic, name: till-, pattern: prefixed, host: 10.0.0.7,
     effect: deny}
  - {principal: "User:ops", operation: describe, resource_type: cluster}
  - {principal: "User:a b", operation: read, resource_type: group, name: "*"}
quotas:
  - {user: alice, topic: orders, producer_byte_rate: 1000000}
  - {instance: app, request_percentage: 12.5}
"""
READ = '{principal: "User:alice", operation: read, resource_type: topic, name: orders}'


def make(
    registry: Platform, put: str = "", delete: str = "", dry_run: bool = False, keys: Keys | None = None
) -> list[str]:
    wanted = wanted_entries(documents.parsed(put, "put"), documents.parsed(delete, "delete"), keys)
    return [step.what for step in made(registry, wanted, BY, WHY, dry_run)]


def values(registry: Platform, kind: str) -> list[dict[str, Any]]:
    return [entry.to_json()["value"] for entry in registry.read.page(kind).stored]


def text(password: str = "secret") -> str:
    return key_text(scram_key("SCRAM-SHA-512", password, b"salt-of-the-test", 4096))


def test_all_entries_are_made_in_one_change_and_repeating_them_changes_nothing(registry: Platform) -> None:
    assert make(registry, WHOLE) == ["made"] * 10

    users = {value["name"]: value for value in values(registry, "users")}
    assert users["alice"]["groups"] == ["counters", "tills"]
    assert users["ops"]["super_user"]
    assert "a b" in users
    rules = {(value["principal"], value["operation"], value["name"]): value for value in values(registry, "rules")}
    denied = rules["Group:tills", "write", "till-"]
    assert (denied["pattern"], denied["effect"], denied["host"]) == ("prefixed", "deny", "10.0.0.7")
    assert rules["User:ops", "describe", "kafka-cluster"]["resource_type"] == "cluster"
    assert {value["producer_byte_rate"] for value in values(registry, "quotas")} == {1_000_000, None}
    history = [entry for kind in ("users", "rules", "quotas") for entry in registry.read.history(kind).stored]
    assert {(entry.by, entry.reason) for entry in history} == {(BY, WHY)}
    # And repeated
    assert set(make(registry, WHOLE)) == {"stands"}
    assert len([entry for kind in ("users", "rules", "quotas") for entry in registry.read.history(kind).stored]) == 10


def test_a_dry_run_returns_the_steps_and_writes_nothing(registry: Platform) -> None:
    assert make(registry, WHOLE, dry_run=True) == ["made"] * 10
    assert values(registry, "users") == []


def test_entries_are_deleted_by_their_keys_and_omitted_fields_stay(registry: Platform) -> None:
    make(registry, WHOLE)
    rules = WHOLE[WHOLE.index("rules:") : WHOLE.index("quotas:")]

    what = make(
        registry,
        put="{users: [{name: alice, disabled: true}],"
        " quotas: [{instance: app, request_percentage: null, consumer_byte_rate: 5}]}",
        delete=f'{rules}  - {{principal: "User:alice", operation: write, resource_type: topic, name: none}}\n'
        "quotas: [{user: alice, topic: orders}]",
    )

    assert sorted(what) == ["changed"] * 2 + ["deleted"] * 6 + ["stands"]
    assert values(registry, "rules") == []
    (quota,) = values(registry, "quotas")
    assert (quota["consumer_byte_rate"], quota["request_percentage"]) == (5, None)
    (alice,) = [value for value in values(registry, "users") if value["name"] == "alice"]
    assert (alice["disabled"], alice["owner"], alice["groups"]) == (True, "shop", ["counters", "tills"])
    assert make(registry, "users: [{name: alice, disabled: false}, {name: ops, disabled: true}]") == ["changed"] * 2
    # And a quota that no longer limits anything is deleted, too
    assert make(registry, "quotas: [{instance: app, consumer_byte_rate: null}]") == ["deleted"]


def test_entries_of_every_kind_may_be_put(registry: Platform) -> None:
    document = """
        clusters: [{name: east, bootstrap: "e-1:9092"}]
        users: [{name: alice}]
        topics: [{name: orders, owner: alice, cluster: east}]
        settings: [{type: user_rate, value: 5}]
    """
    assert make(registry, document) == ["made"] * 4
    assert make(registry, "topics: [{name: orders, level: 1}]", "settings: [{type: user_rate}]") == [
        "changed",
        "deleted",
    ]
    assert [(value["owner"], value["level"]) for value in values(registry, "topics")] == [("alice", 1)]


def test_a_disabled_user_has_its_password_when_it_is_enabled_again(registry: Platform) -> None:
    keys = keys_of({"alice": {"SCRAM-SHA-512": text()}})
    make(registry, "users: [{name: alice}]", keys=keys)

    make(registry, "users: [{name: alice, disabled: true}]")
    make(registry, "users: [{name: alice, disabled: false}]")

    entry = registry.read.get("users", "alice").entry
    assert isinstance(entry, UserEntry)
    assert dict(entry.scram) == dict(keys["alice"])


def test_keys_are_for_new_users_and_replace_no_password(registry: Platform) -> None:
    keys = keys_of({"alice": {"SCRAM-SHA-512": text()}})
    make(registry, "users: [{name: alice}]", keys=keys)

    assert make(registry, "users: [{name: alice}]", keys=keys_of({"alice": {"SCRAM-SHA-512": text("another")}})) == [
        "stands"
    ]

    entry = registry.read.get("users", "alice").entry
    assert isinstance(entry, UserEntry)
    assert dict(entry.scram) == dict(keys["alice"])


def test_every_invalid_entry_is_named_and_nothing_is_changed(registry: Platform) -> None:
    bad = """
        users: [{name: alice, colour: red}, {owner: shop}, {name: carol, disabled: "yes"}]
        rules:
          - {principal: "User:bob", operation: read, resource_type: topic}
          - {principal: "User:bob", operation: fly, resource_type: topic, name: x}
          - {principal: bob, operation: read, resource_type: topic, name: x}
        quotas:
          - {user: bob}
          - {user: bob, topic: a, producer_byte_rate: fast}
          - {user: bob, topic: b, producer_byte_rate: 0}
          - {producer_byte_rate: 1}
    """
    with pytest.raises(InvalidError) as refused:
        make(registry, bad, "quotas: [{user: [bob]}]")

    said = str(refused.value)
    assert said.startswith("11 entries are invalid. ")
    for words in (
        "'colour' is no field",
        "users: name name an entry: give texts",
        "disabled",
        "name is missing: give a topic",
        "operation",
        "bob' is no principal",
        "a quota limits nothing",
        "producer_byte_rate: Input should be a valid integer",
        "would block everything",
        "a quota without an entity",
        "user, topic, instance name an entry: give texts",
    ):
        assert words in said, words
    assert values(registry, "users") == values(registry, "rules") == values(registry, "quotas") == []


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("[users]", "give a list for each kind"),
        ("users: alice", "give a list of values"),
        ("users: [alice]", "give a list of values"),
        ("people: [{name: alice}]", "kind 'people' is not known"),
        ("users: [{name: alice, scram: {}}]", "scram does not belong into a form"),
        ("users: [{name: &a alice}, {name: *a}]", "neither JSON nor YAML without aliases"),
        ("users: [", "neither JSON nor YAML"),
        ("[" * 20_000, "too deeply"),
        ("users: [{name: !!int x}]", "neither JSON nor YAML"),
        ("x" * (documents.MAX_BYTES + 1), "split it"),
    ],
)
def test_a_form_that_is_no_document_of_entries_is_refused(registry: Platform, document: str, words: str) -> None:
    for put_, delete in ((document, ""), ("", document)):
        with pytest.raises(InvalidError, match=words):
            make(registry, put_, delete)


def test_contradicting_entries_are_refused_and_repeated_entries_are_made_once(registry: Platform) -> None:
    make(registry, WHOLE)
    line = READ.replace("read", "write")

    assert make(registry, f"rules: [{line}, {line}]") == ["made"]
    for put_, delete in (
        (f"rules: [{line}]", f"rules: [{line}]"),
        ("users: [{name: alice, disabled: true}, {name: alice, disabled: false}]", ""),
        ("quotas: [{user: alice, producer_byte_rate: 1}, {user: alice, consumer_byte_rate: 1}]", ""),
    ):
        with pytest.raises(InvalidError, match="another one contradicts"):
            make(registry, put_, delete)


def test_a_rule_for_an_unknown_user_refuses_all_entries(registry: Platform) -> None:
    with pytest.raises(InvalidError, match="user 'alice'"):
        make(registry, f"users: [{{name: bob}}]\nrules: [{READ}]")

    assert values(registry, "users") == []


def changed_by_another(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Another writer changes alice before each of the next changes."""
    apply, left = Platform.apply, [times]

    def meanwhile(own: Platform, *arguments: Any) -> Any:
        if left[0]:
            left[0] -= 1
            user = own.read.get("users", "alice")
            assert isinstance(user.entry, UserEntry)
            other = user.entry.model_copy(update={"owner": f"another {left[0]}"})
            apply(own, [put(other, user.version)], "another", WHY)
        return apply(own, *arguments)

    monkeypatch.setattr(Platform, "apply", meanwhile)


def test_entries_that_others_change_meanwhile_are_read_again(
    registry: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(registry, WHOLE)
    changed_by_another(monkeypatch, times=1)

    make(registry, "users: [{name: alice, disabled: true}]")

    entry = registry.read.get("users", "alice").entry
    assert isinstance(entry, UserEntry)
    assert (entry.owner, entry.disabled) == ("another 0", True)


def test_a_form_that_loses_every_race_changes_nothing(registry: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    make(registry, WHOLE)
    changed_by_another(monkeypatch, times=100)

    with pytest.raises(BusyError):
        make(registry, "users: [{name: alice, disabled: true}, {name: bob}]")

    assert {value["name"]: value["disabled"] for value in values(registry, "users")} == {
        "alice": False,
        "ops": False,
        "a b": False,
    }


@pytest.mark.parametrize("count", [0, MAX_ENTRIES + 1])
def test_no_entry_and_too_many_are_refused(count: int) -> None:
    with pytest.raises(InvalidError, match=f"give 1 to {MAX_ENTRIES}"):
        wanted_entries({"users": [{"name": "alice"}] * count}, None)


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


def test_keys_of_a_user_whom_the_form_does_not_put_are_refused(registry: Platform) -> None:
    with pytest.raises(InvalidError, match="keys for 'bob', whom the form does not put"):
        make(registry, "users: [{name: alice}]", keys=keys_of({"bob": {"SCRAM-SHA-512": text()}}))
