"""What can go wrong between two peers that speak Kafka's protocol."""


class WireError(Exception):
    """Base of both; any other exception from this package is a bug in it."""


class RemoteProtocolError(WireError):
    """The peer sent bytes that the protocol does not allow, or that exceed the limits: close its connection."""


class LocalProtocolError(WireError):
    """Our side asked for something that cannot be written: the message, not the peer, is wrong."""
