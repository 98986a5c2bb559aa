"""Filters topics, groups and settings by lists of patterns, as MirrorMaker 2's default filters do.

A list is separated by commas. Each part is a name, or a regular expression that must match a whole name. Excludes win
over includes. A blank list matches nothing.

Patterns are matched in linear time (`LinearPattern`), which rules out look-ahead. The one that files for MirrorMaker
have, since it had no excludes for long, is at the beginning of a pattern: `(?!internal).*`. It is taken apart.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ha_core.flows.errors import FlowError
from ha_core.flows.own_filters import OwnFilter
from ha_core.model.linear_pattern import LinearPattern, PatternError

_SHOWN = 200
"""Characters of a pattern in an error."""
_SEPARATOR = re.compile(r"\s*,\s*")
_EXCLUDE = ".exclude"
_EXCEPT = "(?!"
_MOST_JUDGED = 100_000
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
"""Flags without an end: they would count for alternatives that are matched apart, too."""


def parts(text: str) -> tuple[str, ...]:
    """Parts of a comma-separated list, without blank ones."""
    return tuple(part for part in _SEPARATOR.split(text.strip()) if part)


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


@dataclass(frozen=True)
class NamePattern:
    """:ivar unless: patterns that must not match a beginning of the name."""

    pattern: LinearPattern
    unless: tuple[LinearPattern, ...] = ()

    def matches(self, name: str) -> bool:
        return self.pattern.matches(name) and not any(one.begins(name) for one in self.unless)


@dataclass(frozen=True)
class Patterns:
    """A list of patterns. `Patterns.of` compiles it once."""

    texts: tuple[str, ...]
    compiled: tuple[NamePattern, ...]

    @classmethod
    def of(cls, key: str, texts: Iterable[str]) -> "Patterns":
        """:param key: key of the configuration, for errors.
        :raises FlowError: a part cannot be used as a regular expression."""
        kept = tuple(texts)
        for text in kept:
            try:
                compiled = tuple(_name_patterns(text))
            except PatternError as error:
                raise FlowError(f"{key}: {_short(text)} cannot be used {_why(error, key)}") from None
        if len(kept) > 1:
            try:
                compiled = tuple(_name_patterns("|".join(kept)))
            except PatternError as error:
                raise FlowError(
                    f"{key}: its parts cannot be used together ({error}). Give each group another name, and write "
                    "flags for one part only, as (?i:orders.*)."
                ) from None
        return cls(kept, compiled if kept else ())

    def matches(self, name: str) -> bool:
        return any(one.matches(name) for one in self.compiled)


@dataclass(frozen=True)
class NameFilter:
    """Topics (`topics`, `topics.exclude`) or groups (`groups`, `groups.exclude`) of a flow."""

    include: Patterns
    exclude: Patterns
    own: OwnFilter | None = None
    """In place of both lists."""
    _judged: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Names that were judged: a worker asks for all topics of its source every few seconds."""

    def accepts(self, name: str) -> bool:
        found = self._judged.get(name)
        if found is None:
            if len(self._judged) >= _MOST_JUDGED:
                self._judged.clear()
            found = self._judged[name] = self._judge(name)
        return found

    def _judge(self, name: str) -> bool:
        if self.own is not None:
            return self.own.accepts(name)
        return self.include.matches(name) and not self.exclude.matches(name)


def _why(error: PatternError, key: str) -> str:
    if not error.backtracks:
        return (
            f"as a regular expression here ({error}). Java's classes such as \\p{{Alpha}} and its set operations have "
            "to be written as ranges, [A-Za-z]."
        )
    way_out = "" if key.endswith(_EXCLUDE) else f" Names that are to be left out belong in {key}{_EXCLUDE}."
    return (
        f"here ({error}): patterns are matched in linear time by RE2, as Kafka's brokers match those of consumers. It "
        "has no look-behind, back-references or possessive quantifiers, and here (?!…) only where a pattern begins."
        f"{way_out}"
    )


def _name_patterns(text: str) -> Iterator[NamePattern]:
    """:raises PatternError: the text cannot be used."""
    if _EXCEPT not in text or _FLAGS.search(text):
        yield NamePattern(LinearPattern(text))
        return
    _require_valid(text)
    plain = list[str]()
    for alternative in _split(text, "|"):
        rest, unless = alternative.removeprefix("^"), list[LinearPattern]()
        while rest.startswith(_EXCEPT):
            inner, rest = _taken_apart(rest)
            unless.append(LinearPattern(inner))
        if unless:
            yield NamePattern(LinearPattern(rest), tuple(unless))
        else:
            plain.append(alternative)
    if plain:
        yield NamePattern(LinearPattern("|".join(plain)))


def _require_valid(text: str) -> None:
    try:
        LinearPattern(text)
    except PatternError as error:
        if not error.backtracks:
            raise


def _taken_apart(text: str) -> tuple[str, str]:
    """(inside, rest) of a pattern that begins with a negative look-ahead."""
    inside = next(_split(text[len(_EXCEPT) :], ")"))
    return inside, text[len(_EXCEPT) + len(inside) + 1 :]


def _split(text: str, separator: str) -> Iterator[str]:
    """Splits a valid pattern at each separator that is neither in a group, nor in a set, nor escaped."""
    begin = at = depth = 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] == separator and not depth:
            yield text[begin:at]
            begin = at + 1
        elif text[at] == "[":
            at += 2 if text[at + 1] == "^" else 1
            at += 2 if text[at] == "\\" else 1  # a bracket that comes first is a member of the set
            while text[at] != "]":
                at += 2 if text[at] == "\\" else 1
        else:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    yield text[begin:]
