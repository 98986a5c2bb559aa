"""Patches fetch answers while they are forwarded, chunk by chunk."""

from collections import Counter
from collections.abc import Generator
from struct import Struct
from typing import Any, NamedTuple, Protocol

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.records import PREFIX_BYTES, shift_all, shift_batch
from ha_core.wire.varint import read_uvarint

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i")
_LONG = Struct(">q")
_TWO_INTS = Struct(">ii")
_TWO_LONGS = Struct(">qq")
_THREE_LONGS = Struct(">qqq")
_VERSIONS = (4, 12)
_FLEXIBLE = 12
_MAX_OFFSET = (1 << 63) - 1
_MAX_STRING = 32_767
# The longest piece that must be in the buffer as a whole is a topic's name with its lengths.
MAX_CARRY_BYTES = _MAX_STRING + 16


SESSION_ID_BYTES = 19
"""Bytes of an answer, size included, up to and including the id of its fetch session."""


def session_id_of(buf: bytearray | memoryview, at: int, size: int, version: int) -> int:
    """The fetch session of an answer of `size` bytes, of which the first ones are in `buf` from `at` on; 0: none, or
    not in the place where brokers put it."""
    tagged = version >= _FLEXIBLE
    if version < 7 or size < SESSION_ID_BYTES or (tagged and buf[at + 8]):
        return 0
    return int(_INT.unpack_from(buf, at + 14 + tagged)[0])


class FetchShift(NamedTuple):
    """Patch of one partition of the answer; offsets of -1 (unknown) stay.

    :ivar delta: added to its offsets.
    :ivar log_start_unknown: the log start becomes -1, because the log begins in another cluster.
    :ivar least: the lowest log start and last stable offset, after the shift. The log may begin before the extent: with
        the markers that copiers have left in an empty copy, for example.
    """

    delta: int
    log_start_unknown: bool = True
    least: int = 0


class Shifts(Protocol):
    """Patches by topic and partition; None leaves a partition unchanged. A dict will do."""

    def get(self, key: tuple[bytes, int], /) -> FetchShift | None: ...


Feed = tuple[Any, int, int]


USUAL_VERSION = 12
"""The newest version, in which nearly all clients fetch."""
_USUAL, _USUAL_AT, _LEAST_USUAL = Struct(">ihqqqbi").unpack_from, 19, 21
"""Struct of a partition up to its records; position of the topics in a frame; minimum size of a partition."""
_NO_TAGS = bytes(3)
"""Empty tags of the partition, its topic, and the answer."""


def patch_usual(buf: bytearray, at: int, end: int, topic: bytes, shifts: Shifts) -> bool:
    """Does the work of `FetchPatcher` on a whole frame of `USUAL_VERSION`, with its size, if it has no partition, or
    one partition of `topic` with the usual fields. False: nothing was changed.

    :raises RemoteProtocolError: from `shifts`.
    """
    p = at + _USUAL_AT
    if end - at < _LEAST_USUAL or buf[at + 8]:
        return False
    if buf[p] == 1:
        return p + 2 == end and not buf[p + 1]
    size = len(topic)
    entry_at = p + 3 + size
    if not (end - entry_at > 39 and buf[p] == 2 == buf[entry_at - 1] and buf[p + 1] == size + 1 < 128):
        return False
    partition, _, high, stable, start, aborted, _ = _USUAL(buf, entry_at)
    try:
        length, records_at = read_uvarint(buf, entry_at + 35)
    except RemoteProtocolError:
        return False
    stop = records_at + length - 1 if length else records_at
    sound = stop + 3 == end and 0 <= aborted < 2
    if not (sound and buf.startswith(topic, p + 2) and buf.startswith(_NO_TAGS, stop)):
        return False
    shift = shifts.get((topic, partition))
    if shift is None or high != stable or high < 0:
        return False
    delta = shift.delta
    if shift.log_start_unknown:
        start = -1
    elif start >= 0:
        start = max(start + delta, shift.least)
        if start > _MAX_OFFSET:
            return False
    if not (0 <= high + delta <= _MAX_OFFSET and shift_all(buf, records_at, stop, delta)):
        return False
    _THREE_LONGS.pack_into(buf, entry_at + 6, high + delta, high + delta, start)
    return True


class FetchPatcher:
    """Patches one frame. `feed` it the buffer; forward the released bytes and keep the rest for the next feed.

    version: 4 to 12. frame_bytes: the frame without its size. The first byte fed is the first of the correlation id. In
    the partitions of `shifts` it changes high watermark, last stable offset, log start offset, the first offsets of
    aborted transactions, base offset and leader epoch of every batch, and among tagged fields the end offsets of
    diverging epoch and snapshot and the current leader (to -1: it is a node id of the broker's cluster). The preferred
    read replica stays: see `FetchScan.rack_at`.
    """

    def __init__(
        self,
        version: int,
        frame_bytes: int,
        shifts: Shifts,
        read: Counter[bytes] | None = None,
    ) -> None:
        """:param read: counts the bytes of records of each topic, as far as they were fed."""
        if not _VERSIONS[0] <= version <= _VERSIONS[1]:
            raise RemoteProtocolError(f"Fetch version {version}: {_VERSIONS[0]} to {_VERSIONS[1]} are patched")
        self.left = frame_bytes  # bytes of the frame that are not released yet
        self._walk = _walk(version, shifts, read)
        next(self._walk)

    @property
    def done(self) -> bool:
        """True when the whole frame was released."""
        return self.left == 0

    def feed(self, buf: bytearray | memoryview, pos: int, end: int) -> int:
        """Patches buf[pos:end]; returns the position up to which bytes may be forwarded, at most the end of the frame.

        The caller puts buf[returned:end] in front of the next bytes; that is MAX_CARRY_BYTES at most. When the frame is
        done, bytes after the returned position belong to the next one. RemoteProtocolError: the bytes are no fetch
        response, and the connection has to be closed.
        """
        stop = min(end, pos + self.left)
        try:
            at = self._walk.send((buf, pos, stop))
        except StopIteration as over:
            if over.value is None:  # a finished coroutine: the frame is done, or was refused
                raise RemoteProtocolError("fetch response: bytes after its end or after it was refused") from None
            at = over.value
            self.left -= at - pos
            if self.left:
                raise RemoteProtocolError(f"{self.left} bytes follow the fetch response in its frame") from None
            return int(at)
        self.left -= at - pos
        if self.left == stop - at:
            raise RemoteProtocolError(f"fetch response ends inside a field, in its last {self.left} bytes")
        if stop - at > MAX_CARRY_BYTES:
            raise RemoteProtocolError(f"fetch response: a field of more than {MAX_CARRY_BYTES} bytes")
        return at


Walk = Generator[int, Feed, int]


def _walk(version: int, shifts: Shifts, read: Counter[bytes] | None) -> Walk:
    """The frame as a coroutine: it yields its position, and is sent (buffer, position, end) from there on.

    Empty and short parts, which are the rule, are handled here without the cost of another coroutine.
    """
    tagged = version >= _FLEXIBLE
    fixed = 30 if version >= 5 else 22  # partition, error, high watermark, last stable offset, log start offset
    b, p, end = yield 0
    head = 4
    if tagged and end - p > 4 and b[p + 4] == 0:
        p, head = p + 5, 0
    elif tagged:
        while end - p < head:
            b, p, end = yield p
        b, p, end = yield from _tags(b, p + 4, end, None)
        head = 0
    head += 10 if version >= 7 else 4  # throttle time, error, session
    while end - p < head:
        b, p, end = yield p
    p += head
    if tagged and p < end and 0 < b[p] < 128:
        topics, p = b[p] - 1, p + 1
    else:
        topics, (b, p, end) = yield from _count(b, p, end, tagged)
    for _ in range(topics):
        if tagged and p < end and 0 < b[p] < 128 and end - p >= b[p]:
            name_at, p = p + 1, p + b[p]
            name = bytes(b[name_at:p])
        else:
            name, (b, p, end) = yield from _name(b, p, end, tagged)
        if tagged and p < end and 0 < b[p] < 128:
            partitions, p = b[p] - 1, p + 1
        else:
            partitions, (b, p, end) = yield from _count(b, p, end, tagged)
        for _ in range(partitions):
            while end - p < fixed:
                b, p, end = yield p
            shift = shifts.get((name, _INT.unpack_from(b, p)[0]))
            if shift:
                _patch_partition(b, p + 6, version, shift)
            p += fixed
            if tagged and p < end and b[p] < 2:
                aborted, p = 0, p + 1
            else:
                aborted, (b, p, end) = yield from _count(b, p, end, tagged)
            for _ in range(aborted):
                while end - p < 16:
                    b, p, end = yield p
                if shift:
                    _LONG.pack_into(b, p + 8, _moved(_LONG.unpack_from(b, p + 8)[0], shift.delta))
                p += 16
                if tagged and p < end and b[p] == 0:
                    p += 1
                elif tagged:
                    b, p, end = yield from _tags(b, p, end, None)
            if version >= 11:
                while end - p < 4:
                    b, p, end = yield p
                p += 4
            if tagged and end - p >= 5:
                size, p = read_uvarint(b, p)
                size = size - 1 if size else 0
            else:
                size, (b, p, end) = yield from _count(b, p, end, tagged)
            if read is not None:
                read[name] += size
            while size > 0:
                step = size
                if shift and size >= PREFIX_BYTES:
                    while end - p < PREFIX_BYTES:
                        b, p, end = yield p
                    step = min(shift_batch(b, p, shift.delta), size)
                size -= step
                while step > end - p:
                    step -= end - p
                    b, p, end = yield end
                p += step
            if tagged and p < end and b[p] == 0:
                p += 1
            elif tagged:
                b, p, end = yield from _tags(b, p, end, shift)
        if tagged and p < end and b[p] == 0:
            p += 1
        elif tagged:
            b, p, end = yield from _tags(b, p, end, None)
    if tagged and p < end and b[p] == 0:
        p += 1
    elif tagged:
        b, p, end = yield from _tags(b, p, end, None)
    return int(p)


def _moved(offset: int, delta: int, least: int | None = None) -> int:
    """:param least: a lower result becomes this one; None: it must not be negative."""
    if offset < 0:
        return offset
    if least is not None and offset + delta < least:
        return least
    if not 0 <= offset + delta <= _MAX_OFFSET:
        raise RemoteProtocolError(f"offset {offset} of a fetch response shifted by {delta} is out of range")
    return offset + delta


def _patch_partition(b: Any, p: int, version: int, shift: FetchShift) -> None:
    high, stable = _TWO_LONGS.unpack_from(b, p)
    delta = shift.delta
    if 0 <= high + delta <= _MAX_OFFSET and high == stable >= 0:  # the usual case
        high = stable = high + delta
    else:
        high, stable = _moved(high, delta), _moved(stable, delta, shift.least)
    if version < 5:
        _TWO_LONGS.pack_into(b, p, high, stable)
    elif shift.log_start_unknown:
        _THREE_LONGS.pack_into(b, p, high, stable, -1)
    else:
        _THREE_LONGS.pack_into(b, p, high, stable, _moved(_LONG.unpack_from(b, p + 16)[0], delta, shift.least))


def _count(b: Any, p: int, end: int, tagged: bool) -> Generator[int, Feed, tuple[int, Feed]]:
    """A count or the length of records; null counts as 0."""
    if tagged:
        value, (b, p, end) = yield from _number(b, p, end)
        return max(value - 1, 0), (b, p, end)
    while end - p < 4:
        b, p, end = yield p
    value = _INT.unpack_from(b, p)[0]
    if value < -1:
        raise RemoteProtocolError(f"fetch response: a count of {value}")
    return max(value, 0), (b, p + 4, end)


def _number(b: Any, p: int, end: int) -> Generator[int, Feed, tuple[int, Feed]]:
    while p >= end or b[p] > 127:
        try:
            value, width = read_uvarint(bytes(b[p : min(end, p + 5)]), 0)
        except IndexError:
            b, p, end = yield p
        else:
            return value, (b, p + width, end)
    return b[p], (b, p + 1, end)


def _name(b: Any, p: int, end: int, tagged: bool) -> Generator[int, Feed, tuple[bytes, Feed]]:
    if tagged:
        size, (b, p, end) = yield from _number(b, p, end)
        size -= 1
    else:
        while end - p < 2:
            b, p, end = yield p
        size = _SHORT(b, p)[0]
        p += 2
    if not 0 <= size <= _MAX_STRING:
        raise RemoteProtocolError(f"fetch response: a topic of {size} bytes")
    while end - p < size:
        b, p, end = yield p
    return bytes(b[p : p + size]), (b, p + size, end)


def _tags(b: Any, p: int, end: int, shift: FetchShift | None) -> Generator[int, Feed, Feed]:
    """Skips a tagged section; that of a shifted partition is patched."""
    count, (b, p, end) = yield from _number(b, p, end)
    for _ in range(count):
        tag, (b, p, end) = yield from _number(b, p, end)
        size, (b, p, end) = yield from _number(b, p, end)
        if shift and tag < len(_TAG_BYTES):
            least = _TAG_BYTES[tag]
            if size < least:
                raise RemoteProtocolError(f"fetch response: tag {tag} of {size} bytes, {least} are needed")
            while end - p < least:
                b, p, end = yield p
            _patch_tag(b, p, tag, shift.delta)
        while size > end - p:
            size -= end - p
            b, p, end = yield end
        p += size
    return b, p, end


# Fixed parts of a partition's tagged fields: diverging epoch (epoch, end offset), current leader (id, epoch),
# snapshot (end offset, epoch).
_TAG_BYTES = (12, 8, 12)


def _patch_tag(b: Any, p: int, tag: int, delta: int) -> None:
    if tag == 1:
        _TWO_INTS.pack_into(b, p, -1, -1)
        return
    at = p + 4 if tag == 0 else p
    _LONG.pack_into(b, at, _moved(_LONG.unpack_from(b, at)[0], delta))
