"""Quotas that gateways enforce, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ha_core.model.quota import KINDS
from ha_core.present.page import Marked, Page, Table


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
        rows = [[*_who(line), *(_cell(line.limits.get(name)) for name in KINDS)] for line in lines]
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
        what = ", ".join(f"{name} {_cell(value)}" for name, value in line.limits.items())
        yield f"{'Would be: ' if dry_run else ''}{who}: {what or 'not limited any more'}."
    for problem in problems:
        yield Marked(f"Not in force: {problem}", "warning")


def _who(line: QuotaLine) -> tuple[str, str, str]:
    return line.user or "", line.topic or "", line.instance or ""


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"
