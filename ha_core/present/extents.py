"""A topic's extents, drawn: widths on a bar, and words about an end that is not settled."""

import math
from collections.abc import Sequence

from ha_core.model import Extent

BAR_CELLS = 40


def widths(extents: Sequence[Extent], cells: int = BAR_CELLS) -> list[int]:
    """Cells per extent, at least 1 each. Logarithmic, so that a short extent between long ones stays visible."""
    weights = [12.0 if e.end is None else 1 + math.log2(1 + e.end - e.start) for e in extents]
    total = sum(weights)
    return [max(1, round(cells * weight / total)) for weight in weights]


def end_words(extent: Extent) -> str:
    """Empty if its end is as the map says."""
    if extent.found_end is not None and extent.end is not None and extent.found_end > extent.end:
        return f"LOST: its log goes on to {extent.found_end}, above the cut"
    if extent.found_end is not None:
        return f"LOST: held up to {extent.known_end}, has up to {extent.found_end}"
    return "" if extent.known_end is None else f"end not confirmed: known up to {extent.known_end}"
