"""The executor's texts name options of the command line; users of a form know its fields by their labels.

Commands in backticks stay: they are to be typed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ha_core.present.page import Marked, Page, Table

_COMMAND_OR_OPTION = re.compile(r"`[^`]*`|(?<![\w-])--(?P<option>[a-z]+(?:-[a-z]+)*)(?![\w-])")
_OTHER_NAMES: Mapping[str, str] = {"leave_setting": "settings_left_alone"}
"""Options whose fields have another name."""
_UNITS = ("", "_s", "_ms")
"""An option's name has no unit, the field's may have one."""


def labels_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Field of the form → its label, from Airflow's params."""
    schemas = ((name, getattr(params.get_param(name), "schema", {})) for name in params)  # type: ignore[attr-defined]
    return {name: str(schema["title"]) for name, schema in schemas if schema.get("title")}


def in_labels(text: str, labels: Mapping[str, str]) -> str:
    """`text` with the form's labels in place of options: `Say "Reason".`. Options without a field stay."""

    def labelled(match: re.Match[str]) -> str:
        name = (match["option"] or "").replace("-", "_")
        name = _OTHER_NAMES.get(name, name)
        label = next((labels[name + unit] for unit in _UNITS if name + unit in labels), None)
        return match[0] if label is None else f'"{label}"'

    return _COMMAND_OR_OPTION.sub(labelled, text)


def all_in_labels(value: Any, labels: Mapping[str, str]) -> Any:
    """Replaces options in every text of a document."""
    if isinstance(value, str):
        return in_labels(value, labels)
    if isinstance(value, dict):
        return {key: all_in_labels(one, labels) for key, one in value.items()}
    return [all_in_labels(one, labels) for one in value] if isinstance(value, list) else value


def page_in_labels(page: Page, labels: Mapping[str, str]) -> Iterator[str | Table]:
    for block in page:
        if isinstance(block, Table):
            rows = [[_text(cell, labels) if isinstance(cell, str) else cell for cell in row] for row in block.rows]
            yield replace(block, rows=rows)
        else:
            yield _text(block, labels)


def _text(text: str, labels: Mapping[str, str]) -> str:
    worded = in_labels(text, labels)
    return Marked(worded, text.mark) if isinstance(text, Marked) else worded
