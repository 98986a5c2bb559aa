"""Text from clients in a form that is safe to show: in terminals, logs, pages and tasks.

Users, client ids, groups and transactional ids are any text. An escape character moves a terminal's cursor, sets its
title and writes its clipboard; a line break forges a log line; direction marks and zero-width characters make one name
look like another. Each of these is shown as Python's escape sequence.

Code that writes for people passes its text through here once, at the end; code that makes the text need not.
"""

import logging
import re
from types import TracebackType

_BLANK_LETTERS = "\u115f\u1160\u3164\uffa0\u2800"
"""Letters or symbols for Unicode that have no glyph."""
_HIDDEN_IN_JSON = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u08e2\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\uffff\U000110bd\U000110cd\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def shown(text: str) -> str:
    """The text in one line, with every character visible or a space."""
    if text.isprintable() and not any(blank in text for blank in _BLANK_LETTERS):
        return text
    return "".join(c if c.isprintable() and c not in _BLANK_LETTERS else _number(c) for c in text)


def shown_lines(text: str) -> str:
    """`shown` for several lines: lines after the first are indented, so that they are not taken for log lines."""
    return "\n  ".join(shown(line) for line in text.split("\n"))


def shown_json(document: str) -> str:
    """A JSON document with such characters escaped; its value does not change."""
    return _HIDDEN_IN_JSON.sub(_json_number, document)


class ShownFormatter(logging.Formatter):
    """Log lines: one per record, with tracebacks indented below."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of the standard library
        return shown(super().formatMessage(record))

    def formatException(  # noqa: N802 - of the standard library
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        return f"  {shown_lines(super().formatException(ei))}"

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - of the standard library
        return f"  {shown_lines(super().formatStack(stack_info))}"


def _number(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _json_number(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
