"""Record batches of version 2 with a correct checksum, made by hand."""

import struct

import google_crc32c


def batch(
    base_offset: int = 0,
    *,
    count: int = 1,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    leader_epoch: int = 0,
    payload: bytes = b"x" * 20,
) -> bytes:
    """One batch whose records are opaque bytes: neither gateway nor test decodes them."""
    tail = struct.pack(">hiqqqhii", 0, count - 1, 1, 1, producer_id, epoch, sequence, count) + payload
    crc = google_crc32c.value(tail)
    return struct.pack(">qiibI", base_offset, 9 + len(tail), leader_epoch, 2, crc) + tail
