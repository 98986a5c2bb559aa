"""The summary that a Spark job leaves for whoever submitted it: keys of one that found out nothing, and says why."""

from __future__ import annotations

from typing import Final

REFUSED: Final = "refused"
"""It cannot help to run it again."""
FAILED: Final = "failed_because"
"""It may."""
