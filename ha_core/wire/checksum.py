"""CRC-32C of changed bytes, without reading the bytes that did not change.

A CRC is linear: the checksums of two texts of equal length differ by the checksum of their difference. A difference of
a few bytes followed by zeros is those few bytes, shifted by that many zeros. So a checksum is updated in a few
microseconds for any length, before the rest has even arrived; and corrupt data stay corrupt, whereas a recomputed
checksum would hide it.
"""

from functools import lru_cache

import google_crc32c

_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
_Table = tuple[tuple[int, ...], ...]


def crc_after_change(crc: int, before: bytes, after: bytes, following: int) -> int:
    """The CRC-32C of a text in which `before` became `after`, of equal length, followed by `following` bytes."""
    # The start value and the final inversion are the same on both sides and cancel out.
    state = google_crc32c.value(before) ^ google_crc32c.value(after)
    return crc ^ _moved_on(state, following)


def _moved_on(state: int, zeros: int) -> int:
    """The register after `zeros` zero bytes."""
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
    """Effect of 2^power zero bytes on a register, for each of its four bytes."""
    columns = _columns(power)
    return tuple(tuple(_times(columns[8 * byte : 8 * byte + 8], value) for value in range(256)) for byte in range(4))


@lru_cache(maxsize=32)
def _columns(power: int) -> tuple[int, ...]:
    """Effect of 2^power zero bytes on a register, for each of its bits."""
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
