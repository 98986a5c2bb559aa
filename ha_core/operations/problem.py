"""Something that waits for a human."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ha_core.plan.verdict import Code


@dataclass(frozen=True, slots=True)
class Problem:
    """`about` is the thing, `text` what is the matter, `remedy` what to do.

    Where a verdict says the same before a move, `code` is its code, and `number` how much of it there is.
    """

    about: str
    text: str
    remedy: str
    code: Code | Literal[""] = ""
    number: int | None = None
