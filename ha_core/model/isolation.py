"""Isolation levels: which records of a log a reader gets."""

from enum import IntEnum


class Isolation(IntEnum):
    """Isolation level of a reader; the numbers are those of FETCH and LIST_OFFSETS (KIP-98)."""

    UNCOMMITTED = 0
    """All records, including those of aborted and open transactions."""
    COMMITTED = 1
    """Records of committed transactions, and records outside transactions."""

    def end(self, last_stable: int, high_watermark: int) -> int:
        """The log's end for a reader of this level, exclusive. Nothing above the first open transaction is committed
        yet."""
        return last_stable if self is Isolation.COMMITTED else high_watermark
