"""Filters of topics, groups and settings by lists of patterns, as MirrorMaker 2's default filters apply them.

A list is comma-separated; each part is a name or a regular expression that has to match the whole name. Excludes win
over includes. A blank list matches nothing.
"""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from ha_core.flows.errors import FlowError

_SEPARATOR = re.compile(r"\s*,\s*")


def parts(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated list; blank ones are left out."""
    return tuple(part for part in _SEPARATOR.split(text.strip()) if part)


@dataclass(frozen=True)
class Patterns:
    """A list of patterns. `Patterns.of` compiles it once."""

    texts: tuple[str, ...]
    compiled: re.Pattern[str] | None

    @classmethod
    def of(cls, key: str, texts: Iterable[str]) -> "Patterns":
        """:param key: of the configuration, for the error.
        :raises FlowError: a part is no regular expression that Python knows."""
        kept = tuple(texts)
        for text in kept:
            try:
                # Java's intersections and nested sets compile here, with a warning, and mean something else.
                with warnings.catch_warnings(action="error", category=FutureWarning):
                    re.compile(text)
            except (re.error, FutureWarning) as error:
                raise FlowError(
                    f"{key}: {text!r} is no regular expression here ({error}). Java's classes such as \\p{{Alpha}} and "
                    "its set operations have to be written as ranges, [A-Za-z]."
                ) from None
        return cls(kept, re.compile("|".join(kept)) if kept else None)

    def matches(self, name: str) -> bool:
        return self.compiled is not None and self.compiled.fullmatch(name) is not None


@dataclass(frozen=True)
class NameFilter:
    """Topics (`topics`, `topics.exclude`) or groups (`groups`, `groups.exclude`) of a flow."""

    include: Patterns
    exclude: Patterns

    def accepts(self, name: str) -> bool:
        return self.include.matches(name) and not self.exclude.matches(name)
