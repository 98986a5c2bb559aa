"""Assignments of consumer group members (ConsumerProtocolAssignment): the clients' own bytes, which brokers keep."""

import struct

from ha_core.wire import decoding
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.tables import parse

_FIELDS = parse("""
version      int16
topics       []
  name       string
  partitions []int32
""")
_decode = decoding.build(_FIELDS, 0, False, "assignment")


def assigned_topics(assignment: bytes) -> frozenset[str]:
    """Topics with partitions in the assignment, in any version; empty for bytes that are no consumer assignment."""
    try:
        found, _ = _decode(assignment, 0, DEFAULT_LIMITS)
    except (RemoteProtocolError, struct.error, UnicodeDecodeError):
        return frozenset()
    return frozenset(topic["name"] for topic in found["topics"] if topic["partitions"])
