"""CRC-32C of changed bytes, without reading the bytes that did not change.

A CRC is linear: the checksums of two texts of one length differ by the checksum of their difference, and a difference
of a few bytes followed by zeros is those few bytes, moved on by so many zeros. So a checksum is carried over to changed
bytes in a few microseconds whatever the length, before the rest has even arrived; and what was corrupt stays corrupt,
where a checksum computed anew would bless it.
"""

from functools import lru_cache

import google_crc32c

_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
_Table = tuple[tuple[int, ...], ...]


def crc_after_change(crc: int, before: bytes, after: bytes, following: int) -> int:
    """The CRC-32C of a text in which `before` became `after`, of the same length, with `following` bytes after."""
    # The start value and the final inversion are the same on both sides and cancel out.
    state = google_crc32c.value(before) ^ google_crc32c.value(after)
    return crc ^ _moved_on(state, following)


def _moved_on(state: int, zeros: int) -> int:
    """The register after so many zero bytes."""
    power = 0
    while zeros:
        if zeros & 1:
            t = _tables(power)
            state = t[0][state & 255] ^ t[1][state >> 8 & 255] ^ t[2][state >> 16 & 255] ^ t[3][state >> 24]
        zeros >>= 1
        power += 1
    return state


@lru_cache(maxsize=32)
def _tables(power: int) -> _Table:
    """What 2^power zero bytes do to a register, by each of its four bytes."""
    columns = _columns(power)
    return tuple(tuple(_times(columns[8 * byte : 8 * byte + 8], value) for value in range(256)) for byte in range(4))


@lru_cache(maxsize=32)
def _columns(power: int) -> tuple[int, ...]:
    """The same, by each bit of the register."""
    if power == 0:
        return tuple(_eight_steps(1 << bit) for bit in range(32))
    half = _columns(power - 1)
    return tuple(_times(half, column) for column in half)


def _eight_steps(register: int) -> int:
    for _ in range(8):
        register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
    return register


def _times(columns: tuple[int, ...], vector: int) -> int:
    result = 0
    for column in columns:
        if vector & 1:
            result ^= column
        vector >>= 1
    return result
