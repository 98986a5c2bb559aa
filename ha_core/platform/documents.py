"""JSON and YAML that operators write: values of entries, in a file or in a form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from ha_core.platform.errors import InvalidError

MAX_BYTES = 1 << 20


class _Loader(yaml.SafeLoader):
    """Without aliases: a few of them, each naming the one before twice, would make gigabytes of a short text."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError
        return super().compose_node(parent, index)


def parsed(text: str, where: str) -> Any:
    """:raises InvalidError: it is neither JSON nor YAML. The text never contains the content."""
    if len(text) > MAX_BYTES:
        raise InvalidError(f"{where} has more than {MAX_BYTES} characters: give less at once")
    try:
        # First as JSON, since YAML takes a number such as 1e6 for a text.
        return json.loads(text)
    except RecursionError:
        raise InvalidError(f"{where} is nested too deeply") from None
    except ValueError:
        pass
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InvalidError(f"{where} is neither JSON nor YAML without aliases") from None


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
