"""Filters topics, groups and settings by lists of patterns, as MirrorMaker 2's default filters do.

A list is separated by commas. Each part is a name, or a regular expression that must match a whole name. Excludes win
over includes. A blank list matches nothing.
"""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from ha_core.flows.errors import FlowError

_SHOWN = 200
"""Characters of a pattern in an error."""
_SEPARATOR = re.compile(r"\s*,\s*")


def parts(text: str) -> tuple[str, ...]:
    """Parts of a comma-separated list, without blank ones."""
    return tuple(part for part in _SEPARATOR.split(text.strip()) if part)


def _no_pattern(text: str) -> str:
    """Why it is no regular expression; "": it is one."""
    try:
        # Java's intersections and nested sets compile here, with a warning, and mean something else.
        with warnings.catch_warnings(action="error", category=FutureWarning):
            re.compile(text)
    except (re.error, FutureWarning, OverflowError) as error:
        return str(error)
    except RecursionError:
        return "its groups are nested too deeply"
    return ""


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


@dataclass(frozen=True)
class Patterns:
    """A list of patterns. `Patterns.of` compiles it once."""

    texts: tuple[str, ...]
    compiled: re.Pattern[str] | None

    @classmethod
    def of(cls, key: str, texts: Iterable[str]) -> "Patterns":
        """:param key: key of the configuration, for errors.
        :raises FlowError: Python cannot use a part as a regular expression."""
        kept = tuple(texts)
        for text in kept:
            if reason := _no_pattern(text):
                raise FlowError(
                    f"{key}: {_short(text)} cannot be used as a regular expression here ({reason}). Java's classes "
                    "such as \\p{Alpha} and its set operations have to be written as ranges, [A-Za-z]."
                )
        whole = "|".join(kept)
        if reason := _no_pattern(whole):
            raise FlowError(
                f"{key}: its parts cannot be used together ({reason}). Give each group another name, and write flags "
                "for one part only, as (?i:orders.*)."
            )
        return cls(kept, re.compile(whole) if kept else None)

    def matches(self, name: str) -> bool:
        return self.compiled is not None and self.compiled.fullmatch(name) is not None


@dataclass(frozen=True)
class NameFilter:
    """Topics (`topics`, `topics.exclude`) or groups (`groups`, `groups.exclude`) of a flow."""

    include: Patterns
    exclude: Patterns

    def accepts(self, name: str) -> bool:
        return self.include.matches(name) and not self.exclude.matches(name)
