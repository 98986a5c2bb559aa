"""The stack's one error for people."""


class StackError(Exception):
    """An error that an operator can act on; its text names the thing, the value and the way out."""
