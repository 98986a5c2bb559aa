"""A problem that waits for an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ha_core.plan.facts.verdict import Code


@dataclass(frozen=True, slots=True)
class Problem:
    """`about` is the thing, `text` the problem, `remedy` the way out.

    A problem that a verdict reports before a move has the `code` and `number` of that verdict.
    """

    about: str
    text: str
    remedy: str
    code: Code | Literal[""] = ""
    number: int | None = None
