"""Request and response headers, and the frames made of a header and a body.

Positions point behind the 4-byte size of a frame: at the API key of a request, at the correlation id of a response.
"""

import struct
from struct import Struct
from typing import Any, NamedTuple

from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.varint import MAX_TAGS, read_uvarint

_FIXED = Struct(">hhih")  # API key, version, correlation id, length of the client id
_SIZE = Struct(">i")
_SIZED_ID = Struct(">ii")

# A header whose tags go on for longer than this would never fit a reader's buffer, which then would wait for ever.
_MAX_TAG_BYTES = 4096

# First version with compact lengths and tags (KIP-482); None: never. Later APIs than those named were born with them.
_FLEXIBLE_FROM: dict[int, int | None] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.LEADER_AND_ISR: 4,
    ApiKey.STOP_REPLICA: 2,
    ApiKey.UPDATE_METADATA: 6,
    ApiKey.CONTROLLED_SHUTDOWN: 3,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 6,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 6,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 3,
    ApiKey.SASL_HANDSHAKE: None,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DESCRIBE_ACLS: 2,
    ApiKey.CREATE_ACLS: 2,
    ApiKey.DELETE_ACLS: 2,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.CREATE_DELEGATION_TOKEN: 2,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.OFFSET_DELETE: None,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.ALTER_PARTITION: 0,
}
_LAST_KEY = max(ApiKey)
_NEVER = 1 << 15
_FROM = [
    _NEVER if (first := _FLEXIBLE_FROM.get(key, 0)) is None else first for key in range(_LAST_KEY + 1)
]  # a list: this is looked up for every request


class RequestHeader(NamedTuple):
    """`body_at`: position of the first byte of the body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def flexible(api_key: int, version: int) -> bool:
    """Whether this version has compact lengths and tags. Keys that Kafka does not know count as not flexible."""
    return 0 <= api_key <= _LAST_KEY and version >= _FROM[api_key]


def header_versions(api_key: int, version: int) -> tuple[int, int]:
    """(request header version, response header version)."""
    if not flexible(api_key, version):
        return 1, 0
    # The answer to ApiVersions keeps header 0: its reader cannot know yet what the broker speaks (KIP-511).
    return 2, 0 if api_key == ApiKey.API_VERSIONS else 1


def read_request_header(buf: Any, pos: int, end: int) -> RequestHeader | None:
    """The header at `pos`; None if it is not yet whole before `end`. RemoteProtocolError if it cannot become one.

    Of an API key that Kafka does not know only the fields up to the client id are read.
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
    """The position behind the tagged section at `pos`, which may lie behind the bytes that are there.

    IndexError where a count or size is cut off, RemoteProtocolError where the section passes `limit`.
    """
    count, pos = read_uvarint(buf, pos)
    if count > MAX_TAGS:
        raise RemoteProtocolError(f"tagged section of {count} tags before byte {pos}")
    while count:
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > limit:
            raise RemoteProtocolError(f"tagged section runs to byte {pos}, behind its end at {limit}")
        count -= 1
    return pos


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
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if flexible(api_key, version) else b""
    try:
        head = _FIXED.pack(api_key, version, correlation_id, -1 if client_id is None else len(name))
        return b"".join((_SIZE.pack(len(head) + len(name) + len(tags) + len(body)), head, name, tags, body))
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
