"""Arithmetic of producer sequences, which count records modulo 2^31: after 2147483647 comes 0."""

MODULUS = 1 << 31


def last_sequence(base: int, count: int) -> int:
    """The sequence of the last of `count` >= 1 records that begin at `base`."""
    return (base + count - 1) % MODULUS


def following(sequence: int) -> int:
    """The sequence that has to come after this one; after -1 (nothing yet) comes 0."""
    return (sequence + 1) % MODULUS


def at_or_before(sequence: int, last: int) -> bool:
    """Whether `sequence` is `last` or lies in the half circle before it."""
    return (last - sequence) % MODULUS < MODULUS // 2
