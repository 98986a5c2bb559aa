"""YAML and JSON that operators write into forms and files."""

from typing import Any

import pytest

from ha_core.platform.documents import MAX_BYTES, parsed
from ha_core.platform.errors import InvalidError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-0.5", -0.5),
        ("1e6", 1e6),
        ("true", True),
        ("~", None),
        ("0100", "0100"),
        ("1:30", "1:30"),
        ("yes", "yes"),
        ("on", "on"),
        ("2020-01-01", "2020-01-01"),
    ],
)
def test_plain_values_are_what_people_read(text: str, value: Any) -> None:
    assert parsed(f"entry: {text}", "the form") == {"entry": value}


@pytest.mark.parametrize(
    "text",
    [
        "users: [a]\nusers: [b]",
        "- {name: a, owner: b, owner: c}",
        "{1: a, 1.0: b}",
        '{"users": [], "users": []}',
        '[{"a": 1, "a": 1}]',
    ],
)
def test_a_key_that_is_given_twice_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="the form has a key twice in one place: give each key once"):
        parsed(text, "the form")


@pytest.mark.parametrize(
    "text",
    [
        '!!bool "secret"',
        '!!int ""',
        '!!float ""',
        "!!timestamp secret",
        "!!python/object:secret {}",
        "a: &a secret\nb: *a",
        "? [a]\n: secret",
        "\tsecret: [",
        "9" * 5000,
    ],
)
def test_other_content_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidError) as refused:
        parsed(text, "the form")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a:\n  - [1, {b: }]\n  - 'true'\n  - |\n    x\n", {"a": [[1, {"b": None}], "true", "x\n"]}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("- &x a\n- b", ["a", "b"]),
    ],
)
def test_collections_and_quoted_values_are_read(text: str, value: Any) -> None:
    assert parsed(text, "the form") == value


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 1", "a: *b", "{[a]: b}", "{{a: 1}: b}"])
def test_two_documents_unknown_aliases_and_collections_as_keys_are_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="neither JSON nor YAML"):
        parsed(text, "the form")


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 100_000, "a: " + "[" * 101])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match=r"nested too deeply|neither JSON nor YAML"):
        parsed(text, "the form")


def test_a_document_above_the_limit_is_refused_with_the_limit_and_the_way_out() -> None:
    with pytest.raises(InvalidError, match="the form has more than 1,048,576 characters: split it"):
        parsed("x" * (MAX_BYTES + 1), "the form")


def test_a_text_that_is_no_yaml_is_refused_with_the_line_where_reading_stopped() -> None:
    with pytest.raises(InvalidError, match="look at line 4, and above it") as refused:
        parsed("users:\n  - {name: alice, owner: shop}\n  - {name: 's3cret, owner: shop}\n", "the field put")
    assert "s3cret" not in str(refused.value)
