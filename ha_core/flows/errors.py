"""Errors of flows."""


class FlowError(Exception):
    """A configuration or record cannot be used. The text names the thing, the value and the way out."""


class MirrorClientError(Exception):
    """A cluster or an internal topic cannot be read. The text names it and the reason."""
