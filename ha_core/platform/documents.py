"""JSON and YAML that operators write: values of entries, in a file or in a form."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from ha_core.platform.errors import InvalidError

MAX_BYTES = 1 << 20
MAX_DEPTH = 100
"""Collections in one another."""


class _TwiceError(Exception):
    """A mapping has a key twice: the earlier value would be lost."""


_PARSER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, ten times as fast; PyYAML's own if it was built without."""
_PLAIN: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"~|null|"), lambda _text: None),
    (re.compile(r"true|false"), lambda text: text == "true"),
    (re.compile(r"[-+]?(?:0|[1-9][0-9]*)"), int),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"), float),
)
"""YAML 1.2's plain values: no octal `0100`, no `1:30` in base 60, no `yes` for true, no dates. Others are texts."""
_DONE = object()


def _yaml(text: str) -> Any:
    """The value of one document, made of the parser's events: PyYAML's constructors take ten times as long.

    Without aliases: a few of them, each naming the one before twice, would make gigabytes of a short text. Without
    tags: their constructors raise errors of many kinds, whose texts have the content.

    :raises yaml.YAMLError: it is no YAML, or has more than one document, an alias, a tag, or a key that is no scalar.
    """
    events = yaml.parse(text, _PARSER)
    found = []
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            found.append(_value(next(events), events, MAX_DEPTH))
    if len(found) > 1:
        raise yaml.YAMLError
    return found[0] if found else None


def _value(event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Any:
    """The value that begins with `event`; `_DONE` for the end of the collection around it."""
    if isinstance(event, yaml.CollectionEndEvent):
        return _DONE
    if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) is not None:
        raise yaml.YAMLError
    if isinstance(event, yaml.ScalarEvent):
        plain = (make for pattern, make in _PLAIN if event.implicit[0] and pattern.fullmatch(event.value))
        return next(plain, str)(event.value)
    if depth == 0:
        raise RecursionError
    values = iter(lambda: _value(next(events), events, depth - 1), _DONE)
    return list(values) if isinstance(event, yaml.SequenceStartEvent) else _once_each(zip(values, values, strict=True))


def _once_each(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for key, value in pairs:
        if key in made:
            raise _TwiceError
        made[key] = value
    return made


def parsed(text: str, where: str) -> Any:
    """:raises InvalidError: it is neither JSON nor YAML, or has a key twice. The text never contains the content."""
    if len(text) > MAX_BYTES:
        raise InvalidError(
            f"{where} has more than {MAX_BYTES:,} characters: split it, and make one change of each part"
        )
    try:
        try:
            return json.loads(text, object_pairs_hook=_once_each)
        except ValueError:
            return _yaml(text)
    except _TwiceError:
        raise InvalidError(f"{where} has a key twice in one place: give each key once") from None
    except RecursionError:
        raise InvalidError(f"{where} is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise InvalidError(f"{where} is neither JSON nor YAML without aliases and tags{_place(error)}") from None


def _place(error: Exception) -> str:
    """Where the parser has stopped, for people who look for a quotation mark; its text would have the content."""
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f": look at line {mark.line + 1}, and above it"


def read(file: Path) -> Any:
    """:raises InvalidError: the file cannot be read, or not as JSON or YAML."""
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidError(f"{file} cannot be read here: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidError(f"{file} is no text in UTF-8") from None
    return parsed(text, str(file))
