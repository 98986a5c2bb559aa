"""The one error that the stack shows to people."""

from __future__ import annotations


class StackError(Exception):
    """Something an operator can act on; its text names the thing, the value and the way out."""
