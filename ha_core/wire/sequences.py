"""Arithmetic of producer sequences, which count records modulo 2^31: after 2147483647 comes 0."""

MODULUS = 1 << 31


def last_sequence(base: int, count: int) -> int:
    """The sequence of the last of `count` >= 1 records that begin at `base`."""
    return (base + count - 1) % MODULUS


def following(sequence: int) -> int:
    """The sequence that must come after this one; 0 after -1 (none yet)."""
    return (sequence + 1) % MODULUS


def at_or_before(sequence: int, last: int) -> bool:
    """True if `sequence` is `last` or in the half circle before it."""
    return (last - sequence) % MODULUS < MODULUS // 2
