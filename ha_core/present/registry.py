"""Entries of the platform, and quotas that gateways enforce, as tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ha_core.model.quota import KINDS
from ha_core.present.page import Marked, Page, Table


def entries_page(documents: Sequence[Mapping[str, Any]], with_key: bool = False) -> Page:
    """:param documents: stored ones of one kind, with `version` and `value`."""
    columns = list(documents[0]["value"]) if documents else []
    if not columns:
        return ["Nothing is registered."]
    shown = ("key", "version") if with_key else ("version",)
    rows = [
        [*(_cell(document["value"][name]) for name in columns), *(document[name] for name in shown)]
        for document in documents
    ]
    return [Table([*columns, *shown], rows)]


def history_page(documents: Sequence[Mapping[str, Any]], with_kind: bool = False) -> Page:
    rows = [
        [
            document["changed"],
            *([document["kind"]] if with_kind else []),
            document["key"],
            document["version"],
            document["by"],
            document["reason"],
            _changed(document),
        ]
        for document in documents
    ]
    kind = ["kind"] if with_kind else []
    return [Table(["changed", *kind, "key", "version", "by", "reason", "value"], rows)]


def _changed(document: Mapping[str, Any]) -> str:
    """The value; of a deletion the one before it, as far as it is known: keys of rules and quotas say nothing."""
    before = document.get("before")
    return f"deleted, it was {_values(before)}" if before and document["value"] is None else _values(document["value"])


def change_line(document: Mapping[str, Any], dry_run: bool) -> str:
    what = f"is {_changed(document)}"
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


@dataclass(frozen=True, slots=True)
class QuotaLine:
    user: str | None
    topic: str | None
    instance: str | None
    limits: Mapping[str, float]
    """Empty: the limits are removed."""

    def to_json(self) -> dict[str, Any]:
        return {"user": self.user, "topic": self.topic, "instance": self.instance, **self.limits}


def quotas_page(lines: Sequence[QuotaLine], unreadable: Mapping[str, str]) -> Page:
    if lines:
        rows = [
            [line.user or "", line.topic or "", line.instance or "", *(_limit(line.limits.get(name)) for name in KINDS)]
            for line in lines
        ]
        yield Table(["user", "topic", "instance", *KINDS], rows)
    else:
        yield "No quota is set."
    for why in unreadable.values():
        yield Marked(f"Not in force as it is now: {why}", "warning")


def changes_page(lines: Sequence[QuotaLine], dry_run: bool, problems: Sequence[str] = ()) -> Page:
    if not lines:
        yield "Nothing to change."
    for line in lines:
        who = ", ".join(
            f"{what} {name}"
            for what, name in zip(("user", "topic", "instance"), (line.user, line.topic, line.instance), strict=True)
            if name is not None
        )
        what = ", ".join(f"{name} {_limit(value)}" for name, value in line.limits.items())
        yield f"{'Would be: ' if dry_run else ''}{who}: {what or 'not limited any more'}."
    for problem in problems:
        yield Marked(f"Not in force: {problem}", "warning")


def _limit(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"
