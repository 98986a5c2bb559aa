"""The records of a log that a reader gets."""

from enum import IntEnum


class Isolation(IntEnum):
    """Isolation level of a reader; the numbers are those of FETCH and LIST_OFFSETS (KIP-98)."""

    UNCOMMITTED = 0
    """All records: those of aborted and of open transactions, too."""
    COMMITTED = 1
    """Records of committed transactions, and of producers without any."""

    def end(self, last_stable: int, high_watermark: int) -> int:
        """End of the log for such a reader, exclusive: nothing above the first open transaction is committed yet."""
        return last_stable if self is Isolation.COMMITTED else high_watermark
