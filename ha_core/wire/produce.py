"""Produce without its records: a scan of a request that has only begun to arrive, and offsets patched in an answer."""

from collections.abc import Mapping
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.header import response_body_at, skip_tags
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.varint import MAX_TAGS, read_uvarint

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_TWO_INTS = Struct(">ii").unpack_from
_ACKS = Struct(">hi").unpack_from
_LONG = Struct(">q")
_VERSIONS = (3, 9)
_FLEXIBLE = 9
# Two strings of 32767 bytes and the numbers around them: whoever has not named a partition by then never will.
_MAX_BEFORE_PARTITION = 70_000


class ProduceScan(NamedTuple):
    """What the request says so far.

    partitions: (topic, partition, position of its records, their length in bytes or -1 for null). The records, all but
    those of the last entry, are in the buffer. complete: the request names no further partition.
    """

    acks: int
    timeout_ms: int
    transactional_id: bytes | None
    partitions: list[tuple[bytes, int, int, int]]
    complete: bool


Entry = tuple[bytes, int, int, int]


class _NotYetError(Exception):
    """The buffer ends here, the frame does not."""


class _LastTagsError(Exception):
    """The buffer ends here, and no partition can follow."""


def scan_produce(buf: Any, pos: int, end: int, version: int, body_at: int, frame_end: int) -> ProduceScan | None:
    """Reads what is there of a produce request; None if that does not reach after the first partition header.

    pos: the request header, body_at: after it, end: after the bytes that have arrived, frame_end: after the frame
    (may lie after `end`). RemoteProtocolError if no bytes to come can make it a request.
    """
    if not _VERSIONS[0] <= version <= _VERSIONS[1]:
        raise RemoteProtocolError(f"Produce version {version}: {_VERSIONS[0]} to {_VERSIONS[1]} are read")
    partitions: list[Entry] = []
    end = min(end, frame_end)
    head, topics = (_flexible_head, _flexible_topics) if version >= _FLEXIBLE else (_classic_head, _classic_topics)
    try:
        transactional_id, acks, timeout_ms, count, p = head(buf, body_at, end, frame_end)
        p = topics(buf, p, end, frame_end, count, partitions)
    except _LastTagsError:
        p = frame_end
    except _NotYetError:
        if end >= frame_end:
            raise RemoteProtocolError(f"produce request of {frame_end - pos} bytes ends inside a field") from None
        if partitions:
            return ProduceScan(acks, timeout_ms, transactional_id, partitions, complete=False)
        if end - body_at > _MAX_BEFORE_PARTITION:
            raise RemoteProtocolError(f"produce request names no partition in its first {end - pos} bytes") from None
        return None
    if p != frame_end:
        raise RemoteProtocolError(f"{frame_end - p} bytes follow the produce request")
    return ProduceScan(acks, timeout_ms, transactional_id, partitions, complete=True)


Head = tuple[bytes | None, int, int, int, int]
"""(transactional id, acks, timeout in ms, count of topics, position after them)"""


def _classic_head(buf: Any, p: int, end: int, frame_end: int) -> Head:
    if end - p < 2:
        raise _NotYetError
    size = _SHORT(buf, p)[0]
    p += 2
    transactional_id = None
    if size >= 0:
        if end - p < size:
            raise _NotYetError
        transactional_id = bytes(buf[p : p + size])
        p += size
    elif size != -1:
        raise _bad("transactional id", size)
    if end - p < 10:
        raise _NotYetError
    acks, timeout_ms = _ACKS(buf, p)
    topics = _INT(buf, p + 6)[0]
    p += 10
    if topics < 0 or topics * 6 > frame_end - p or topics > DEFAULT_LIMITS.max_partitions:
        raise _bad("count of topics", topics)
    return transactional_id, acks, timeout_ms, topics, p


def _classic_topics(buf: Any, p: int, end: int, frame_end: int, topics: int, partitions: list[Entry]) -> int:
    """Appends the partitions of all topics; the position after them, which may lie after `end`."""
    while topics:
        topics -= 1
        if end - p < 2:
            raise _NotYetError
        size = _SHORT(buf, p)[0]
        if size < 0:
            raise _bad("topic", size)
        q = p + 2 + size
        if end - q < 4:
            raise _NotYetError
        topic = bytes(buf[p + 2 : q])
        count = _INT(buf, q)[0]
        p = q + 4
        if count < 0 or count * 8 > frame_end - p or count > DEFAULT_LIMITS.max_partitions:
            raise _bad("count of partitions", count)
        while count:
            count -= 1
            if end - p < 8:
                raise _NotYetError
            partition, size = _TWO_INTS(buf, p)
            p += 8
            if size < -1 or size > frame_end - p:
                raise _bad("records", size)
            _add(partitions, (topic, partition, p, size))
            if size > 0:
                p += size
    return p


def _flexible_head(buf: Any, p: int, end: int, frame_end: int) -> Head:
    size, p = _uvarint(buf, p, end)
    transactional_id = None
    if size:
        q = p + size - 1
        if size > 32_768:
            raise _bad("transactional id", size - 1)
        if q > end:
            raise _NotYetError
        transactional_id = bytes(buf[p:q])
        p = q
    if end - p < 6:
        raise _NotYetError
    acks, timeout_ms = _ACKS(buf, p)
    topics, p = _uvarint(buf, p + 6, end)
    topics -= 1
    if topics < 0 or topics * 3 > frame_end - p or topics > DEFAULT_LIMITS.max_partitions:
        raise _bad("count of topics", topics)
    return transactional_id, acks, timeout_ms, topics, p


def _flexible_topics(buf: Any, p: int, end: int, frame_end: int, topics: int, partitions: list[Entry]) -> int:
    """As `_classic_topics`, and after the body's own tags. _LastTagsError: only tagged sections are not in yet."""
    count = 0
    while topics:
        size, p = _uvarint(buf, p, end)
        if not 0 < size <= 32_768:
            raise _bad("topic", size - 1)
        q = p + size - 1
        if q > end:
            raise _NotYetError
        topic = bytes(buf[p:q])
        count, p = _uvarint(buf, q, end)
        count -= 1
        topics -= 1
        if count < 0 or count * 6 > frame_end - p or count > DEFAULT_LIMITS.max_partitions:
            raise _bad("count of partitions", count)
        while count:
            if end - p < 5:
                raise _NotYetError
            partition = _INT(buf, p)[0]
            size, p = _uvarint(buf, p + 4, end)
            q = p + size - 1 if size else p
            if q + 3 > frame_end:  # three tagged sections follow at least
                raise _bad("records", size - 1)
            _add(partitions, (topic, partition, p, size - 1))
            count -= 1
            p = _after_tags(buf, q, end, frame_end, count or topics)
        p = _after_tags(buf, p, end, frame_end, topics)
    return _after_tags(buf, p, end, frame_end, 0)


def _add(partitions: list[Entry], entry: Entry) -> None:
    if len(partitions) >= DEFAULT_LIMITS.max_partitions:
        raise RemoteProtocolError(f"produce request names more than {DEFAULT_LIMITS.max_partitions} partitions")
    partitions.append(entry)


def _bad(what: str, size: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"produce request: {what} of {size}, which the frame cannot hold or the protocol not say"
    )


def _uvarint(buf: Any, p: int, end: int) -> tuple[int, int]:
    if p >= end:
        raise _NotYetError
    value: int = buf[p]
    if value < 128:
        return value, p + 1
    window = bytes(buf[p : min(end, p + 5)])
    try:
        value, used = read_uvarint(window, 0)
    except IndexError:
        raise _NotYetError from None
    return value, p + used


def _after_tags(buf: Any, p: int, end: int, frame_end: int, more: int) -> int:
    """After the tagged section at p. more: 0 if no partition header can follow it."""
    if p < end and buf[p] == 0:
        return p + 1
    try:
        count, p = _uvarint(buf, p, end)
        if count > MAX_TAGS:
            raise _bad("count of tags", count)
        while count:
            _, p = _uvarint(buf, p, end)
            size, p = _uvarint(buf, p, end)
            p += size
            if p > frame_end:
                raise _bad("tag", size)
            count -= 1
    except _NotYetError:
        if more or end >= frame_end:
            raise
        raise _LastTagsError from None
    return p


def patch_produce_response(frame: bytearray, version: int, shift: Mapping[tuple[bytes, int], int]) -> int:
    """Adds the shift of its (topic, partition) to every base offset in place; returns how many were changed.

    frame: the answer without its size. A base offset of -1 says that there is none and stays. The log start offset of
    a shifted partition becomes -1 (unknown): the log that it speaks of begins in another cluster.
    """
    if not _VERSIONS[0] <= version <= _VERSIONS[1]:
        raise RemoteProtocolError(f"Produce version {version}: {_VERSIONS[0]} to {_VERSIONS[1]} are read")
    try:
        p = response_body_at(ApiKey.PRODUCE, version, frame, 0)
        changed, p = _patch_answer(frame, p, version, shift)
    except (struct_error, IndexError):
        raise RemoteProtocolError(f"produce response of {len(frame)} bytes ends inside a field") from None
    if p != len(frame):
        raise RemoteProtocolError(f"produce response of {len(frame)} bytes: its fields take {p}")
    return changed


def _patch_answer(frame: bytearray, p: int, version: int, shift: Mapping[tuple[bytes, int], int]) -> tuple[int, int]:
    changed, stop, tagged = 0, len(frame), version >= _FLEXIBLE
    topics, p = _count(frame, p, tagged)
    for _ in range(topics):
        topic, p = _string(frame, p, tagged)
        count, p = _count(frame, p, tagged)
        for _ in range(count):
            delta = shift.get((topic or b"", _INT(frame, p)[0]))
            base = _LONG.unpack_from(frame, p + 6)[0]
            if delta is not None:
                if base >= 0:
                    if not 0 <= base + delta < 1 << 63:
                        raise RemoteProtocolError(f"base offset {base} of {topic!r} shifted by {delta} is out of range")
                    _LONG.pack_into(frame, p + 6, base + delta)
                    changed += 1
                if version >= 5:
                    _LONG.pack_into(frame, p + 22, -1)
            p += 30 if version >= 5 else 22
            if version >= 8:
                errors, p = _count(frame, p, tagged)
                for _ in range(errors):
                    _, p = _string(frame, p + 4, tagged)
                    p = skip_tags(frame, p, stop) if tagged else p
                _, p = _string(frame, p, tagged)
            p = skip_tags(frame, p, stop) if tagged else p
        p = skip_tags(frame, p, stop) if tagged else p
    p += 4
    return changed, skip_tags(frame, p, stop) if tagged else p


def _count(frame: bytearray, p: int, tagged: bool) -> tuple[int, int]:
    if tagged:
        count, p = read_uvarint(frame, p)
        count -= 1
    else:
        count, p = _INT(frame, p)[0], p + 4
    if not 0 <= count <= len(frame) - p:
        raise RemoteProtocolError(f"produce response: count {count} before byte {p} of {len(frame)}")
    return count, p


def _string(frame: bytearray, p: int, tagged: bool) -> tuple[bytes | None, int]:
    if tagged:
        size, p = read_uvarint(frame, p)
        size -= 1
    else:
        size, p = _SHORT(frame, p)[0], p + 2
    if size < 0:
        return None, p
    if size > len(frame) - p:
        raise RemoteProtocolError(f"produce response: string of {size} bytes before byte {p} of {len(frame)}")
    return bytes(frame[p : p + size]), p + size
