"""The platform's entries, as tables: for each kind the columns of its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ha_core.present.page import Page, Table


def entries_page(documents: Sequence[Mapping[str, Any]], with_key: bool = False) -> Page:
    """:param documents: stored ones of one kind, with `version` and `value`."""
    columns = list(documents[0]["value"]) if documents else []
    if not columns:
        return ["Nothing is registered."]
    shown = ("key", "version") if with_key else ("version",)
    rows = [[*(_cell(one["value"][name]) for name in columns), *(one[name] for name in shown)] for one in documents]
    return [Table([*columns, *shown], rows)]


def history_page(documents: Sequence[Mapping[str, Any]]) -> Page:
    rows = [
        [one["changed"], one["key"], one["version"], one["by"], one["reason"], _values(one["value"])]
        for one in documents
    ]
    return [Table(["changed", "key", "version", "by", "reason", "value"], rows)]


def change_line(document: Mapping[str, Any], dry_run: bool) -> str:
    what = "is deleted" if document["value"] is None else f"is {_values(document['value'])}"
    would = "Would write: " if dry_run else ""
    return f"{would}{document['kind']} {document['key']} {what} (version {document['version']})."


def batch_page(steps: Sequence[tuple[str, str, str]]) -> Page:
    """:param steps: kind and value of each entry, and the effect."""
    counts = Counter(what for _, _, what in steps)
    yield ", ".join(f"{count} {what}" for what, count in counts.items()) + "."
    yield Table(["kind", "entry", "what"], [list(step) for step in steps])


def _values(value: Mapping[str, Any] | None) -> str:
    if value is None:
        return "deleted"
    return ", ".join(f"{name} {_cell(one)}" for name, one in value.items() if one not in (None, "", [], {}))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple):
        return ", ".join(map(str, value))
    return str(value)
