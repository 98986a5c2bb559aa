"""Reads `sasl.jaas.config`: one login module with its options, quoted as Kafka's Java code expects (KIP-85).

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="say \\"hi\\"";

Java splits the text by `java.io.StreamTokenizer`. A digit, a point or a minus sign begins a number, which Java does not
accept as a value: such a value needs quotes. An unquoted slash begins a comment.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_CHARACTERS = 1 << 16
MAX_OPTIONS = 100
CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")

_LETTERS = r"A-Za-z_$\u00a0-\U0010ffff"
_TOKEN = re.compile(
    r"(?P<space>[\x00-\x20]+|/\*(?:.*?\*/|.*)|//[^\r\n]*|/(?:.[^\r\n]*)?)"
    r"|(?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*))"
    rf"|(?P<word>[{_LETTERS}][{_LETTERS}0-9.\-]*)"
    r"|\"(?P<double>(?:[^\"\\\r\n]|\\.)*)\""
    r"|'(?P<single>(?:[^'\\\r\n]|\\.)*)'"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is not a login module. The error shows no value, because any value may be a password."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """:ivar name: the module's Java class."""

    name: str
    options: Mapping[str, str] = field(repr=False)


class _Token(NamedTuple):
    """
    :ivar text: a word, or a quoted text; None: the token is something else, such as a number.
    :ivar sign: the character of any other token, or `number`.
    """

    text: str | None
    sign: str = ""


_END = _Token(None)


def login_module(text: str) -> LoginModule:
    """:raises JaasError: the text names the wrong part and the way out."""
    if len(text) > MAX_CHARACTERS:
        raise JaasError(f"longer than {MAX_CHARACTERS} characters; this is not a login module")
    tokens = _tokens(text)
    first = next(tokens, _END)
    if first is _END:
        raise JaasError('names no login module; write it as in: CLASS required username="…" password="…";')
    if first.text is None:
        raise JaasError("does not begin with the class of a login module")
    flag = next(tokens, _END).text
    if flag is None or flag.lower() not in CONTROL_FLAGS:
        raise JaasError(f"has no control flag after the login module's class; write one of {', '.join(CONTROL_FLAGS)}")
    options = dict(_options(tokens))
    if next(tokens, _END) is not _END:
        raise JaasError("has more than one login module, or text after its semicolon; a client has one module")
    return LoginModule(first.text, options)


def _options(tokens: Iterator[_Token]) -> Iterator[tuple[str, str]]:
    for count, token in enumerate(tokens):
        if token.sign == ";":
            return
        if token.text is None:
            raise JaasError('has something that is no option where one is expected; write each as name="value"')
        if count >= MAX_OPTIONS:
            raise JaasError(f"has more than {MAX_OPTIONS} options")
        value = next(tokens, _END).sign == "=" and next(tokens, _END).text
        if not isinstance(value, str):
            raise JaasError(
                f'the option after {count} others has no value that Java reads; write name="value", in quotes where '
                "the value begins with a digit, or has other signs than letters, digits, '.', '-', '_', '$'"
            )
        yield token.text, value
    raise JaasError("does not end with a semicolon")


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind, value = found.lastgroup, found.group(found.lastgroup or 0)
        if kind == "word":
            yield _Token(value)
        elif kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescaped, value))
        elif kind == "number":
            yield _Token(None, "number")
        elif kind == "sign":
            if value in "\"'":
                raise JaasError("a quoted text is not closed in its line; close it, and write \\ before a quote inside")
            yield _Token(None, value)


def _unescaped(found: re.Match[str]) -> str:
    sign = found.group(1)
    return chr(int(sign, 8)) if sign[0] in "01234567" else _ESCAPED.get(sign, sign)
