"""Names that clients choose are shown in full, wherever people read them."""

import json
import logging
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model.shown import ShownFormatter, shown, shown_json, shown_lines

HOSTILE = {
    "escape": "\x1b[1A\x1b[2K\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;ZXZpbA==\x1b\\",
    "line break": "a\nadmin",
    "carriage return": "a\rb",
    "vertical tab": "a\x0bb",
    "backspace": "a\x08b",
    "C1": "a\x9b2Kb\x90\x85",
    "delete": "a\x7fb",
    "bidi": "user\u202eexe.\u2066x\u2069\u061c",
    "zero width": "ad\u200bmin\u200d\ufeff\u2060",
    "soft hyphen": "ad\xadmin",
    "line separator": "a\u2028b\u2029c",
    "tags": "a\U000e0041",
    "blank letter": "a\u3164b\u2800",
    "lone surrogate": "a\ud800b",
    "NUL": "a\0b",
    "noncharacter": "a\uffffb",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_invisible_characters_are_escaped(text: str) -> None:
    visible = shown(text)

    assert visible.isprintable()
    assert "\\" in visible
    visible.encode()


@pytest.mark.parametrize("text", ["orders", "Zähler-1", "用户", "user+app#topic", "a b", "", "emoji 🙂", r"back\slash"])
def test_visible_characters_stay_as_they_are(text: str) -> None:
    assert shown(text) == text


@given(st.text(st.characters()))
def test_any_text_is_shown_in_one_line_of_visible_characters(text: str) -> None:
    visible = shown(text)

    assert visible.isprintable()
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in visible)
    assert shown(visible) == visible


@given(st.text(st.characters()))
def test_a_json_document_stays_the_same_document(text: str) -> None:
    document = shown_json(json.dumps({text: text}, ensure_ascii=False))

    assert json.loads(document) == {text: text}
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in document)
    document.encode()


def test_lines_after_a_line_break_are_indented() -> None:
    assert shown_lines("wrong\n2026-11-29 CRITICAL lost\x1b") == "wrong\n  2026-11-29 CRITICAL lost\\x1b"


def test_a_record_of_a_log_is_one_line_and_its_traceback_is_indented() -> None:
    form = ShownFormatter("%(levelname)s %(message)s")
    try:
        raise ValueError("x\nCRITICAL the cluster is lost")  # noqa: TRY301
    except ValueError:
        failed = logging.LogRecord("n", logging.ERROR, "f", 1, "user %s", ("e\nCRITICAL lost",), sys.exc_info())

    first, *below = form.format(failed).split("\n")

    assert first == "ERROR user e\\nCRITICAL lost"
    assert below
    assert all(line.startswith("  ") for line in below)
