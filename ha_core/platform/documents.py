"""JSON and YAML that operators write: values of entries, in a file or in a form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ha_core.platform.errors import InvalidError

MAX_BYTES = 1 << 20


class _TwiceError(Exception):
    """A mapping has a key twice: the earlier value would be lost."""


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain values: no octal `0100`, no `1:30` in base 60, no `yes` for true, no dates.

    Without aliases: a few of them, each naming the one before twice, would make gigabytes of a short text. Without
    tags: the constructors of PyYAML raise errors of many kinds, whose texts have the content.
    """

    # PyYAML reads it from the class; its stubs call it an attribute of the instance.
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}  # type: ignore[misc]

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) is not None:
            raise yaml.YAMLError
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        made = super().construct_mapping(node, deep)
        if len(made) < len(node.value):
            raise _TwiceError
        return made


for _tag, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _TwiceError
    return made


def parsed(text: str, where: str) -> Any:
    """:raises InvalidError: it is neither JSON nor YAML, or has a key twice. The text never contains the content."""
    if len(text) > MAX_BYTES:
        raise InvalidError(f"{where} has more than {MAX_BYTES} characters: give less at once")
    try:
        try:
            return json.loads(text, object_pairs_hook=_once_each)
        except ValueError:
            return yaml.load(text, _Loader)
    except _TwiceError:
        raise InvalidError(f"{where} has a key twice in one place: give each key once") from None
    except RecursionError:
        raise InvalidError(f"{where} is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError):
        raise InvalidError(f"{where} is neither JSON nor YAML without aliases and tags") from None


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
