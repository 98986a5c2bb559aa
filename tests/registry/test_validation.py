"""Allowed names, rules, quotas and settings."""

import contextlib
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.platform import platform
from ha_core.platform.entry import Entry, kind_of
from ha_core.platform.errors import InvalidError
from ha_core.platform.kinds.quotas import LIMITS, QuotaEntry
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.kinds.settings import TYPES, SettingEntry
from ha_core.platform.kinds.users import UserEntry

assert platform  # it fills the table of kinds

RULE = {"principal": "User:alice", "resource_type": "topic", "name": "orders", "operation": "read"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " alice",
        "alice ",
        ".",
        "..",
        "*",
        "<default>",
        "a\x00",
        "a\nb",
        "a\u202eb",
        "\ud800",
        "x" * 256,
        7,
        None,
        True,
    ],
)
def test_an_invalid_user_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidError, match="users: name"):
        UserEntry.read({"name": name})


@given(st.text(max_size=300))
def test_a_valid_user_name_is_stored_unchanged(name: str) -> None:
    try:
        user = UserEntry.read({"name": name})
    except InvalidError:
        return
    assert user.key == name
    assert json.loads(user.text())["name"] == name
    assert name.encode().decode() == name
    assert not any(unicodedata.category(character).startswith("C") for character in name if character.isascii())


@pytest.mark.parametrize("kind", ["users", "rules", "quotas", "topics", "clusters", "settings"])
@given(said=ANYTHING)
def test_any_value_is_parsed_or_refused_with_one_error(kind: str, said: Any) -> None:
    with contextlib.suppress(InvalidError):
        assert kind == kind_of(kind).read(said).KIND


@pytest.mark.parametrize("kind", ["users", "rules", "quotas", "topics", "clusters", "settings"])
@given(data=st.data())
def test_any_field_is_parsed_or_refused_with_one_error(kind: str, data: st.DataObject) -> None:
    fields = list(kind_of(kind).model_fields)
    said = data.draw(st.dictionaries(st.sampled_from(fields), ANYTHING, max_size=len(fields)))
    try:
        entry = kind_of(kind).read(said)
    except InvalidError:
        return
    assert kind_of(kind).read(json.loads(entry.text())) == entry
    assert 1 <= len(entry.key) <= 255


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"principal": "alice"}, "no principal"),
        ({"principal": "User:"}, "no principal"),
        ({"principal": "Group:*"}, "no group has all users"),
        ({"principal": "User:a\x00"}, "U\\+0000"),
        ({"name": "or/ders"}, "no topic"),
        ({"name": ".."}, "no topic"),
        ({"name": "*", "pattern": "prefixed"}, "begins with"),
        ({"resource_type": "group", "name": "a\nb"}, "U\\+000A"),
        ({"resource_type": "cluster"}, "kafka-cluster"),
        ({"resource_type": "cluster", "name": "kafka-cluster"}, "no operation read"),
        ({"operation": "cluster_action"}, "cluster only"),
        ({"operation": "READ"}, "operation"),
        ({"effect": "maybe"}, "effect"),
        ({"host": "east.example"}, "address"),
        ({"host": "10.0.0.0/8"}, "address"),
        ({"hosts": "*"}, "hosts"),
    ],
)
def test_a_meaningless_rule_is_refused(changed: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidError, match=named):
        RuleEntry.read({**RULE, **changed})


def test_a_rule_for_a_topic_must_name_it() -> None:
    with pytest.raises(InvalidError, match="name is missing"):
        RuleEntry.read({key: value for key, value in RULE.items() if key != "name"})


def test_equal_rules_in_different_forms_have_one_key() -> None:
    entry = RuleEntry.read({**RULE, "host": "::ffff:10.0.0.1"})

    assert entry.key == RuleEntry.read({**RULE, "host": "10.0.0.1", "pattern": "literal", "effect": "allow"}).key
    assert entry.key != RuleEntry.read(RULE).key


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"user": "alice"}, "limits nothing"),
        ({"producer_byte_rate": 1}, "without an entity"),
        ({"user": "alice", "producer_byte_rate": 0}, "producer_byte_rate 0 would block everything"),
        ({"user": "alice", "consumer_byte_rate": -1}, "block everything"),
        ({"user": "alice", "request_percentage": 0.0}, "block everything"),
        ({"user": "alice", "request_percentage": float("nan")}, "request_percentage"),
        ({"user": "alice", "request_percentage": float("inf")}, "request_percentage"),
        ({"user": "alice", "producer_byte_rate": 1 << 60}, "producer_byte_rate"),
        ({"user": "alice", "producer_byte_rate": 1.5}, "producer_byte_rate"),
        ({"user": "alice", "producer_byte_rate": "1"}, "producer_byte_rate"),
        ({"topic": "orders", "instance": "i", "producer_byte_rate": 1}, "name the user"),
        ({"user": "alice", "topic": "orders", "request_percentage": 5.0}, "bytes only"),
    ],
)
def test_a_meaningless_quota_is_refused(said: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidError, match=named):
        QuotaEntry.read(said)


@given(
    user=st.text("ab.+#", min_size=1, max_size=5), topic=st.text("ab.", min_size=1, max_size=5), other=st.text("ab.+#")
)
def test_two_quotas_have_one_key_only_for_one_entity(user: str, topic: str, other: str) -> None:
    try:
        entry = QuotaEntry.read({"user": user, "topic": topic, LIMITS[0]: 1})
        two = QuotaEntry.read({"user": other, LIMITS[0]: 1})
    except InvalidError:
        return
    assert entry.key != two.key


def test_the_types_of_settings_are_those_of_their_table() -> None:
    assert SettingEntry.model_fields["type"].annotation is not None
    assert set(SettingEntry.model_fields["type"].annotation.__args__) == set(TYPES)


@pytest.mark.parametrize(
    ("type_", "name", "value"),
    [("user_rate", "*", 0), ("address_rate", "east", 1), ("queued_requests", "East", 1), ("speed", "*", 1)],
)
def test_a_meaningless_setting_is_refused(type_: str, name: str, value: int) -> None:
    with pytest.raises(InvalidError):
        SettingEntry.read({"type": type_, "name": name, "value": value})


def test_an_error_names_no_value_of_a_secret() -> None:
    with pytest.raises(InvalidError) as refused:
        UserEntry.read({"name": "alice", "scram": {"SCRAM-SHA-256": {"salt": "s3cr3t!", "password": "s3cr3t!"}}})

    assert "s3cr3t" not in f"{refused.value} {refused.value.details}"


def test_an_unknown_kind_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidError, match="clusters, instances, quotas, rules, settings, topics, users"):
        kind_of("people")
    assert issubclass(kind_of("users"), Entry)
