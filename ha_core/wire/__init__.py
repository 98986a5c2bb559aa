"""Kafka's protocol without I/O: bytes and dicts in, bytes and dicts out.

No module here imports asyncio, socket, time or logging, and none keeps time or peers: callers own sockets and clocks.
"""

from ha_core.wire.apis import APIS, Api, Route, advertised, flexible
from ha_core.wire.codec import decode, encode, supported
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError, WireError
from ha_core.wire.fetch import (
    FetchPartition,
    FetchPatcher,
    FetchScan,
    FetchShift,
    FetchTopic,
    scan_fetch_request,
)
from ha_core.wire.frames import CLOSED, NEED_DATA, FrameReader, frame_size
from ha_core.wire.header import (
    RequestHeader,
    encode_request,
    encode_response,
    header_versions,
    peek_group,
    read_request_header,
    response_body_at,
)
from ha_core.wire.limits import DEFAULT_LIMITS, Limits, inline
from ha_core.wire.produce import ProduceScan, patch_produce_response, peek_acks, scan_produce
from ha_core.wire.records import Batch, batches, rewrite_producer_id, shift_batches, trim
from ha_core.wire.sasl import Plain, SaslServer, parse_plain, plain_token
from ha_core.wire.sequences import at_or_before, covers, following, last_sequence, wraps

__all__ = [
    "APIS",
    "CLOSED",
    "DEFAULT_LIMITS",
    "NEED_DATA",
    "Api",
    "ApiKey",
    "Batch",
    "ErrorCode",
    "FetchPartition",
    "FetchPatcher",
    "FetchScan",
    "FetchShift",
    "FetchTopic",
    "FrameReader",
    "Limits",
    "LocalProtocolError",
    "Plain",
    "ProduceScan",
    "RemoteProtocolError",
    "RequestHeader",
    "Route",
    "SaslServer",
    "WireError",
    "advertised",
    "at_or_before",
    "batches",
    "covers",
    "decode",
    "encode",
    "encode_request",
    "encode_response",
    "flexible",
    "following",
    "frame_size",
    "header_versions",
    "inline",
    "last_sequence",
    "parse_plain",
    "patch_produce_response",
    "peek_acks",
    "peek_group",
    "plain_token",
    "read_request_header",
    "response_body_at",
    "rewrite_producer_id",
    "scan_fetch_request",
    "scan_produce",
    "shift_batches",
    "supported",
    "trim",
    "wraps",
]
