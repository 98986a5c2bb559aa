"""A problem that waits for an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ha_core.plan.facts.verdict import Code


@dataclass(frozen=True, slots=True)
class Problem:
    """`about` is the thing, `text` what is the matter, `remedy` what to do.

    If a verdict reports it before a move, `code` and `number` are those of the verdict.
    """

    about: str
    text: str
    remedy: str
    code: Code | Literal[""] = ""
    number: int | None = None
