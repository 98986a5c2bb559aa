"""Kafka's protocol without I/O: bytes and dicts in, bytes and dicts out.

No module here imports asyncio, socket, time or logging, or keeps track of time or peers: callers own sockets and
clocks.
"""

from ha_core.wire.apis import APIS, Destination, advertised
from ha_core.wire.codec import decode, encode
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.errors import ForeignProtocolError, RemoteProtocolError, WireError
from ha_core.wire.header import (
    RequestHeader,
    encode_request,
    encode_response,
    peek_group,
    read_request_header,
    response_body_at,
)
from ha_core.wire.limits import WireLimits, inline
from ha_core.wire.sasl import SaslServer

__all__ = [
    "APIS",
    "ApiKey",
    "Destination",
    "ErrorCode",
    "ForeignProtocolError",
    "RemoteProtocolError",
    "RequestHeader",
    "SaslServer",
    "WireError",
    "WireLimits",
    "advertised",
    "decode",
    "encode",
    "encode_request",
    "encode_response",
    "inline",
    "peek_group",
    "read_request_header",
    "response_body_at",
]
