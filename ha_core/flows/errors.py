"""Errors of flows."""


class FlowError(Exception):
    """A configuration or a record that cannot be used. The text names the thing, the value and the way out."""
