"""Errors between two peers that speak Kafka's protocol."""

from ha_core.wire.protocol_detection import Speech


class WireError(Exception):
    """Base class of both; any other exception from this package is a bug in it."""


class RemoteProtocolError(WireError):
    """The peer sent bytes that the protocol does not allow, or that exceed the limits: close its connection."""


class TooManyElementsError(RemoteProtocolError):
    """A message has more elements than the reader accepts here. The rest is not read."""


class ForeignProtocolError(RemoteProtocolError):
    """The peer speaks another protocol than Kafka's.

    :ivar spoken: that protocol.
    """

    def __init__(self, spoken: Speech, text: str) -> None:
        super().__init__(text)
        self.spoken = spoken


class LocalProtocolError(WireError):
    """The caller's message cannot be written; the peer is not at fault."""
