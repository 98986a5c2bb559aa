"""The notation of the message tables in `schemas`.

An API begins with a line `NAME first-last`, the range of known versions. `request` and `response` follow, each with a
table of one line per field, in wire order: `name type [versions] [null [versions]] [tag n] [= default]`.

- type: int8, int16, int32, int64, bool, float64, string, bytes, uuid, records; `[]int32` is an array of one of them,
  `[]` an array of structs and `{}` one struct, whose fields follow, indented by two more spaces.
- versions: `3` (only this), `3-5`, `3+` (up to the last that the API lists); without them all that the API lists, or
  those of the struct around it.
- null: the field may be null in these versions (all of its versions if none are given); a nullable struct has one byte
  in front that says whether it is null.
- tag: the field is in the tagged section (KIP-482), only if it differs from its default.
- default: value of a missing field in decoding and encoding; by default zero, "", [], or None for bytes and records
  that may be null.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ha_core.wire.codes import ApiKey

FIXED = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "bool": "?", "float64": "d"}
WIDTH = {"b": 1, "?": 1, "h": 2, "i": 4, "q": 8, "d": 8}
SIZED = ("string", "bytes", "records", "uuid")
_FOREVER = 1 << 15

Versions = tuple[int, int]
_ALWAYS: Versions = (0, _FOREVER)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message; `fields` only for structs and arrays of structs."""

    name: str
    type: str
    versions: Versions
    null: Versions | None
    tag: int | None
    default: Any
    fields: tuple["Field", ...] = ()

    def at(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def nullable(self, version: int) -> bool:
        return self.null is not None and self.null[0] <= version <= self.null[1]

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> "Field":
        """One item of an array, which is never null."""
        return Field(self.name, self.type[2:] or "{}", self.versions, None, None, None, self.fields)


@dataclass(frozen=True)
class Schema:
    """The messages of one API: the range of known versions, and its two tables."""

    key: ApiKey
    versions: Versions
    request: str = field(repr=False)
    response: str = field(repr=False)

    def fields(self, kind: str) -> tuple[Field, ...]:
        return parse(self.request if kind == "request" else self.response)


_API = re.compile(r"\n(\w+) (\d+)-(\d+)\n  request\n((?:    .*\n)*)  response\n((?:    .*\n)*)")


def read(text: str) -> dict[int, Schema]:
    """The schemas of a text, by API key. ValueError shows a line that is none."""
    rest = _API.sub("", text).strip()
    if rest:
        raise ValueError(f"neither an API nor a table: {rest[:200]!r}")
    apis = (match.groups() for match in _API.finditer(text))
    return {
        int(key := ApiKey[name]): Schema(key, (int(first), int(last)), request, response)
        for name, first, last, request, response in apis
    }


@cache
def parse(table: str) -> tuple[Field, ...]:
    """Parses one table. ValueError names a line that does not follow the notation."""
    lines = [line for line in table.splitlines() if line.strip()]
    if not lines:
        return ()
    margin = min(_indent(line) for line in lines)
    rest = iter([((_indent(line) - margin) // 2, line.split()) for line in lines] + [(-1, [])])
    fields, _ = _level(0, next(rest), rest)
    return fields


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


Line = tuple[int, list[str]]


def _level(depth: int, line: Line, rest: Iterator[Line]) -> tuple[tuple[Field, ...], Line]:
    out: list[Field] = []
    while line[0] == depth:
        words, line = line[1], next(rest)
        inner: tuple[Field, ...] = ()
        if words[1] in ("[]", "{}"):
            inner, line = _level(depth + 1, line, rest)
        out.append(_field(words, inner))
    if line[0] > depth:
        raise ValueError(f"table line {' '.join(line[1])!r} is indented under a field that is no struct")
    return tuple(out), line


def _field(words: list[str], inner: tuple[Field, ...]) -> Field:
    name, kind, *options = words
    versions = _versions(options.pop(0)) if options and options[0][0].isdigit() else _ALWAYS
    if kind not in ("[]", "{}") and kind.removeprefix("[]") not in FIXED and kind.removeprefix("[]") not in SIZED:
        raise ValueError(f"table line {' '.join(words)!r}: unknown type {kind!r}")
    null, tag, default = None, None, _zero(kind)
    while options:
        match options:
            case ["null", span, *more] if span[0].isdigit():
                null, options = _versions(span), more
            case ["null", *more]:
                null, options = versions, more
            case ["tag", number, *more]:
                tag, options = int(number), more
            case ["=", value]:
                default, options = _default(kind, value), []
            case _:
                raise ValueError(f"table line {' '.join(words)!r}: unknown option {options[0]!r}")
    if null and kind in ("bytes", "records", "{}"):
        default = None
    return Field(name, kind, versions, null, tag, default, inner)


def _versions(text: str) -> Versions:
    if text.endswith("+"):
        return int(text[:-1]), _FOREVER
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _zero(kind: str) -> Any:
    if kind.startswith("[]"):
        return []
    return {"string": "", "bytes": b"", "records": None, "uuid": bytes(16), "bool": False}.get(kind, 0)


def _default(kind: str, text: str) -> Any:
    if text == "null":
        return None
    if kind == "bool":
        return text == "true"
    return text if kind == "string" else int(text, 0)
