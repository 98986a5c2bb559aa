"""What members of a consumer group are assigned (ConsumerProtocolAssignment): their own bytes, which brokers keep."""

import struct

_HEAD, _SHORT, _INT = struct.Struct(">hi"), struct.Struct(">h"), struct.Struct(">i")


def assigned_topics(assignment: bytes) -> frozenset[str]:
    """Topics of which it names partitions, in any version; empty for bytes that are no assignment of consumers."""
    found: set[str] = set()
    try:
        (_, count), at = _HEAD.unpack_from(assignment), _HEAD.size
        for _ in range(count):
            (length,) = _SHORT.unpack_from(assignment, at)
            at += _SHORT.size + length
            name = assignment[at - length : at].decode()
            (partitions,) = _INT.unpack_from(assignment, at)
            at += _INT.size * (1 + partitions)
            if length < 0 or partitions < 0 or at > len(assignment):
                return frozenset()
            if partitions:
                found.add(name)
    except (struct.error, UnicodeDecodeError):
        return frozenset()
    return frozenset(found)
