"""Request and response headers, and the frames made of a header and a body.

Positions point after the 4-byte size of a frame: at the API key of a request, at the correlation id of a response.
"""

import struct
from struct import Struct
from typing import Any, NamedTuple

from ha_core.wire.apis import APIS, Destination, flexible
from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.varint import MAX_TAGS, read_uvarint

_FIXED = Struct(">hhih")  # API key, version, correlation id, length of the client id
_SHORT = Struct(">h").unpack_from
_SIZE = Struct(">i")
_SIZED_ID = Struct(">ii")

# Longer tags would never fit a reader's buffer, which would then wait endlessly.
_MAX_TAG_BYTES = 4096


class RequestHeader(NamedTuple):
    """`body_at`: position of the first byte of the body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def header_versions(api_key: int, version: int) -> tuple[int, int]:
    """(request header version, response header version)."""
    if not flexible(api_key, version):
        return 1, 0
    # The answer to ApiVersions keeps header 0: its reader does not know the broker's versions yet (KIP-511).
    return 2, 0 if api_key == ApiKey.API_VERSIONS else 1


def read_request_header(buf: Any, pos: int, end: int) -> RequestHeader | None:
    """The header at `pos`; None if it is incomplete before `end`. RemoteProtocolError if it cannot become valid.

    For an API that is not offered only the fields up to the client id are read.
    """
    if end - pos < 10:
        return None
    api_key, version, correlation_id, length = _FIXED.unpack_from(buf, pos)
    if length < -1:
        raise RemoteProtocolError(f"request header of API key {api_key}: client id of length {length}")
    pos += 10
    client_id = None
    if length >= 0:
        at, pos = pos, pos + length
        if pos > end:
            return None
        client_id = str(buf[at:pos], "utf-8", "replace")
    if flexible(api_key, version):
        if pos >= end:
            return None
        if buf[pos] == 0:
            pos += 1
        else:
            after = _skip_header_tags(buf, pos, end)
            if after is None:
                return None
            pos = after
    return RequestHeader(api_key, version, correlation_id, client_id, pos)


def _skip_header_tags(buf: Any, start: int, end: int) -> int | None:
    window = bytes(buf[start : min(end, start + _MAX_TAG_BYTES)])
    try:
        size = skip_tags(window, 0, _MAX_TAG_BYTES)
    except IndexError:
        if len(window) < _MAX_TAG_BYTES:
            return None
        raise RemoteProtocolError(f"header tags at byte {start} exceed {_MAX_TAG_BYTES} bytes") from None
    return start + size if size <= len(window) else None


def skip_tags(buf: Any, pos: int, limit: int) -> int:
    """The position after the tagged section at `pos`, which may be beyond the available bytes.

    IndexError if a count or size is cut off, RemoteProtocolError if the section passes `limit`.
    """
    count, pos = read_uvarint(buf, pos)
    if count > MAX_TAGS:
        raise RemoteProtocolError(f"tagged section of {count} tags before byte {pos}")
    while count:
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > limit:
            raise RemoteProtocolError(f"tagged section runs to byte {pos}, past its end at {limit}")
        count -= 1
    return pos


def peek_group(api_key: int, version: int, buf: Any, body_at: int, end: int) -> bytes:
    """The group in the first field of a request to a group's coordinator, without decoding the rest.

    KeyError for requests to other destinations.
    RemoteProtocolError for a version that is not offered, and for a group that is null or cut off.
    """
    row = APIS[api_key]
    if row.destination is not Destination.GROUP:
        raise KeyError(f"{row.key.name} names no group in its first field")
    if version > row.max_version:
        raise RemoteProtocolError(f"{row.key.name} v{version}: {row.max_version} is the last version offered")
    try:
        if flexible(api_key, version):
            length, used = read_uvarint(bytes(buf[body_at : body_at + 5]), 0)
        else:
            length, used = _SHORT(buf, body_at)[0] + 1, 2
    except (IndexError, struct.error):
        length, used = end - body_at + 2, 0
    if not length:
        raise RemoteProtocolError(f"{row.key.name} v{version}: the group is null")
    at = body_at + used
    if not 0 < length <= end - at + 1:
        raise RemoteProtocolError(f"{row.key.name} v{version}: {end - body_at} bytes end in its first string")
    return bytes(buf[at : at + length - 1])


def response_body_at(api_key: int, version: int, buf: Any, pos: int, end: int | None = None) -> int:
    """Position of the body of the response whose correlation id is at `pos`. RemoteProtocolError if it is cut off."""
    stop = len(buf) if end is None else end
    at = pos + 4
    if header_versions(api_key, version)[1]:
        if at < stop and buf[at] == 0:
            return at + 1
        try:
            at = skip_tags(buf, at, stop)
        except IndexError:
            at = stop + 1
    if at > stop:
        raise RemoteProtocolError(f"response to API key {api_key} v{version}: {stop - pos} bytes end in its header")
    return at


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes) -> bytes:
    """A whole request frame, size first. LocalProtocolError for a number or client id that does not fit."""
    return request_head(api_key, version, correlation_id, client_id, len(body)) + body


def request_head(api_key: int, version: int, correlation_id: int, client_id: str | None, body_bytes: int) -> bytes:
    """The bytes before the body of a request, size first. LocalProtocolError like `encode_request`."""
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if flexible(api_key, version) else b""
    try:
        head = _FIXED.pack(api_key, version, correlation_id, -1 if client_id is None else len(name))
        return b"".join((_SIZE.pack(len(head) + len(name) + len(tags) + body_bytes), head, name, tags))
    except struct.error as error:
        raise LocalProtocolError(
            f"request header {api_key=} {version=} {correlation_id=}, client id of {len(name)} bytes: {error}"
        ) from error


def encode_response(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A whole response frame, size first. LocalProtocolError for a correlation id that does not fit."""
    tags = b"\0" if header_versions(api_key, version)[1] else b""
    try:
        return _SIZED_ID.pack(4 + len(tags) + len(body), correlation_id) + tags + body
    except struct.error as error:
        raise LocalProtocolError(f"response header {api_key=} {version=} {correlation_id=}: {error}") from error
