"""The field of an answer with the time for which the client was, or must be, throttled: `throttle_time_ms`."""

from enum import Enum
from functools import cache
from struct import Struct

from ha_core.wire.apis import APIS, flexible
from ha_core.wire.codes import ApiKey
from ha_core.wire.header import response_body_at
from ha_core.wire.schemas import SCHEMAS

_INT = Struct(">i")
_FIELD = "throttle_time_ms"
HEAD_BYTES = 13
"""Bytes of an answer up to and including the field at its head: size, correlation id, no tags, the field."""
MAX_MS = 0x7FFF_FFFF


class ThrottleField(Enum):
    HEAD = "the first of the answer's fields"
    TAIL = "the last one; no tags of that answer are known"


@cache
def throttle_field(api_key: int, version: int) -> ThrottleField | None:
    """None: answers of that version lack the field."""
    if api_key not in APIS or api_key not in SCHEMAS:
        return None
    fields = [field.name for field in SCHEMAS[api_key].fields("response") if field.at(version) and field.tag is None]
    if _FIELD not in fields:
        return None
    if fields[0] == _FIELD:
        return ThrottleField.HEAD
    return ThrottleField.TAIL if fields[-1] == _FIELD else None


@cache
def bytes_before_throttle(api_key: int, version: int) -> int:
    """Bytes of an answer that must be there before a field at its head can be written; 0: no field at the head."""
    return HEAD_BYTES if throttle_field(api_key, version) is ThrottleField.HEAD else 0


_WAITS_FROM = {int(ApiKey.PRODUCE): 6, int(ApiKey.FETCH): 8}


def client_waits(api_key: int, version: int) -> bool:
    """True if a client of this version itself waits for the throttle time of an answer (KIP-219)."""
    return version >= _WAITS_FROM.get(api_key, 0)


def say_throttle(buf: bytearray | memoryview, at: int, end: int, api_key: int, version: int, ms: int) -> None:
    """Writes the throttle time into the frame `buf[at:end]`, size first, unless it has a longer one. If the field is at
    the head, the first `HEAD_BYTES` are enough."""
    field = throttle_field(api_key, version)
    if field is None:
        return
    if field is ThrottleField.HEAD:
        place = response_body_at(api_key, version, buf, at + 4, end)
    else:
        place = end - _INT.size - flexible(api_key, version)
        if flexible(api_key, version) and buf[end - 1]:
            return
    if at + 8 <= place <= end - _INT.size and _INT.unpack_from(buf, place)[0] < ms:
        _INT.pack_into(buf, place, min(ms, MAX_MS))
