"""Produce without reading records: scans a request of which only the start has arrived, and patches answers."""

from collections.abc import Mapping
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import RemoteProtocolError, TooManyElementsError
from ha_core.wire.header import response_body_at, skip_tags
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.varint import read_uvarint

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_TWO_INTS = Struct(">ii").unpack_from
_ACKS = Struct(">hi").unpack_from
_LONG = Struct(">q")
_FIRST, _LAST = 3, 9
_MAX_PARTITIONS, _MAX_STRING = DEFAULT_LIMITS.max_partitions, DEFAULT_LIMITS.max_string
_FLEXIBLE = 9
# Two strings of 32767 bytes and the numbers around them: a request without a partition by then never has one.
_MAX_BEFORE_PARTITION = 70_000


Entry = tuple[bytes, int, int, int]


class ProduceScan(NamedTuple):
    """The part of the request that has arrived.

    partitions: (topic, partition, position of its records, their length in bytes or -1 for null). The records, except
    those of the last entry, are in the buffer. complete: no further partition follows.
    """

    acks: int
    timeout_ms: int
    transactional_id: bytes | None
    partitions: list[Entry]
    complete: bool


class _NotYetError(Exception):
    """The buffer ends here, the frame does not."""


class _LastTagsError(Exception):
    """The buffer ends here, and no partition can follow."""


def scan_produce(
    buf: Any, pos: int, end: int, version: int, body_at: int, frame_end: int, max_partitions: int = _MAX_PARTITIONS
) -> ProduceScan | None:
    """Reads the available part of a produce request; None if that does not include the first partition's header.

    pos: the request header, body_at: after it, end: after the bytes that have arrived, frame_end: after the frame (may
    be above `end`). TooManyElementsError if it has more than `max_partitions` topics or partitions, RemoteProtocolError
    if no further bytes can make it valid.
    """
    if not _FIRST <= version <= _LAST:
        raise RemoteProtocolError(f"Produce version {version}: {_FIRST} to {_LAST} are read")
    partitions: list[Entry] = []
    end = end if end < frame_end else frame_end
    tagged = version >= _FLEXIBLE
    try:
        transactional_id, acks, timeout_ms, p = _head(buf, body_at, end, tagged)
        p = _topics(buf, p, end, frame_end, tagged, partitions, max_partitions)
    except _LastTagsError:
        p = frame_end
    except _NotYetError:
        if end >= frame_end:
            raise RemoteProtocolError(f"produce request of {frame_end - pos} bytes ends inside a field") from None
        if partitions:
            return ProduceScan(acks, timeout_ms, transactional_id, partitions, False)
        if end - body_at > _MAX_BEFORE_PARTITION:
            raise RemoteProtocolError(f"produce request names no partition in its first {end - pos} bytes") from None
        return None
    if p != frame_end:
        raise RemoteProtocolError(f"{frame_end - p} bytes follow the produce request")
    return ProduceScan(acks, timeout_ms, transactional_id, partitions, True)


def _head(buf: Any, p: int, end: int, tagged: bool) -> tuple[bytes | None, int, int, int]:
    transactional_id, p = _text(buf, p, end, tagged)
    if end - p < 6:
        raise _NotYetError
    return transactional_id, *_ACKS(buf, p), p + 6


def _topics(
    buf: Any, p: int, end: int, frame_end: int, tagged: bool, partitions: list[Entry], max_partitions: int
) -> int:
    """Appends the partitions of all topics; returns the position after the request, which may be above `end`.

    _LastTagsError: only tagged sections are missing.
    """
    # Minimum bytes of a topic, of a partition up to its records, and of the tags after them.
    least_topic, least_partition, least_tags = (3, 5, 3) if tagged else (6, 8, 0)
    topics, p = _length(buf, p, end, tagged)
    if topics < 0 or topics * least_topic > frame_end - p or topics > _MAX_PARTITIONS:
        raise _bad("count of topics", topics)
    if topics > max_partitions:
        raise TooManyElementsError(f"produce request with {topics} topics, above {max_partitions}")
    while topics:
        topics -= 1
        topic, p = _text(buf, p, end, tagged)
        if topic is None:
            raise _bad("topic", -1)
        count, p = _length(buf, p, end, tagged)
        left = _MAX_PARTITIONS - len(partitions)
        if count < 0 or count * least_partition > frame_end - p or count > left:
            raise _bad("count of partitions", count)
        if len(partitions) + count > max_partitions:
            raise TooManyElementsError(f"produce request with more than {max_partitions} partitions")
        while count:
            count -= 1
            if end - p < least_partition:
                raise _NotYetError
            if tagged:
                partition = _INT(buf, p)[0]
                size, p = _length(buf, p + 4, end, True)
            else:
                partition, size = _TWO_INTS(buf, p)
                p += 8
            after = p + size if size > 0 else p
            if size < -1 or after + least_tags > frame_end:
                raise _bad("records", size)
            partitions.append((topic, partition, p, size))
            p = _after_tags(buf, after, end, frame_end, count or topics) if tagged else after
        if tagged:
            p = _after_tags(buf, p, end, frame_end, topics)
    return _after_tags(buf, p, end, frame_end) if tagged else p


def _text(buf: Any, p: int, end: int, tagged: bool) -> tuple[bytes | None, int]:
    if tagged:
        size, p = _length(buf, p, end, True)
    elif end - p < 2:
        raise _NotYetError
    else:
        size = _SHORT(buf, p)[0]
        p += 2
    if size == -1:
        return None, p
    if not 0 <= size <= _MAX_STRING:
        raise _bad("string", size)
    after = p + size
    if after > end:
        raise _NotYetError
    return bytes(buf[p:after]), after


def _length(buf: Any, p: int, end: int, tagged: bool) -> tuple[int, int]:
    """A count, or a length other than a string's, -1 for null; and the position after it. Tagged: compact."""
    if not tagged:
        if end - p < 4:
            raise _NotYetError
        return _INT(buf, p)[0], p + 4
    if p >= end:
        raise _NotYetError
    value: int = buf[p]
    if value < 128:
        return value - 1, p + 1
    window = bytes(buf[p : min(end, p + 5)])
    try:
        value, used = read_uvarint(window, 0)
    except IndexError:
        raise _NotYetError from None
    return value - 1, p + used


def _bad(what: str, size: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"produce request or response: {what} of {size}, which the frame cannot hold or the protocol not say"
    )


def _after_tags(buf: Any, p: int, end: int, frame_end: int, more: int = 0) -> int:
    """Position after the tagged section at p. more: 0 if no partition header can follow it."""
    if p < end and buf[p] == 0:
        return p + 1
    try:
        with memoryview(buf)[:end] as arrived:
            return skip_tags(arrived, p, frame_end)
    except IndexError:
        raise (_NotYetError if more or end >= frame_end else _LastTagsError) from None


def patch_produce_response(frame: bytearray, version: int, shift: Mapping[tuple[bytes, int], int], at: int = 0) -> int:
    """Adds the shift of its (topic, partition) to every base offset in place; returns how many were changed.

    frame: the answer, which begins at `at`, without its size. A base offset of -1 means none and stays. The log start
    offset of a shifted partition becomes -1 (unknown), because its log begins in another cluster.

    `ProduceAnswerTemplate.shift` repeats this rule for usual answers, in less than half the time; change both.
    """
    if not _FIRST <= version <= _LAST:
        raise RemoteProtocolError(f"Produce version {version}: {_FIRST} to {_LAST} are read")
    try:
        p = response_body_at(ApiKey.PRODUCE, version, frame, at)
        changed, p = _patch_answer(frame, p, version, shift)
    except (struct_error, _NotYetError):
        raise RemoteProtocolError(f"produce response of {len(frame) - at} bytes ends inside a field") from None
    if p != len(frame):
        raise RemoteProtocolError(f"produce response of {len(frame) - at} bytes: its fields take {p - at}")
    return changed


def _patch_answer(frame: bytearray, p: int, version: int, shift: Mapping[tuple[bytes, int], int]) -> tuple[int, int]:
    changed, stop, tagged = 0, len(frame), version >= _FLEXIBLE
    topics, p = _count(frame, p, stop, tagged)
    for _ in range(topics):
        topic, p = _text(frame, p, stop, tagged)
        count, p = _count(frame, p, stop, tagged)
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
                errors, p = _count(frame, p, stop, tagged)
                for _ in range(errors):
                    _, p = _text(frame, p + 4, stop, tagged)
                    p = _after_tags(frame, p, stop, stop) if tagged else p
                _, p = _text(frame, p, stop, tagged)
            p = _after_tags(frame, p, stop, stop) if tagged else p
        p = _after_tags(frame, p, stop, stop) if tagged else p
    p += 4
    return changed, _after_tags(frame, p, stop, stop) if tagged else p


def _count(frame: bytearray, p: int, stop: int, tagged: bool) -> tuple[int, int]:
    count, p = _length(frame, p, stop, tagged)
    if count < 0:
        raise _bad("count", count)
    return count, p
