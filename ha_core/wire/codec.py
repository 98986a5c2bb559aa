"""Message bodies as plain dicts: `decode` and `encode` for every API in `schemas`.

Field names are Kafka's in snake case. Decoding fills fields that a version lacks with their defaults, so a handler
reads every version alike; encoding drops what the version lacks, takes defaults for what is missing and refuses names
that no version has. Null strings, arrays and bytes are None, a uuid is 16 bytes, records are the raw bytes. Tagged
fields that the tables do not know are kept under '_tags' (dict of tag to bytes; no such key if there are none) and
written again.

Two meanings still depend on the version: Metadata v0 asks for all topics with [] where later versions use None, and
fields whose null came later (JoinGroup's protocol_name before 7) must be given as "".
"""

import struct
from collections.abc import Mapping
from typing import Any, Literal

from ha_core.wire import decoding, encoding
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS, Limits
from ha_core.wire.schemas import SCHEMAS
from ha_core.wire.tables import Schema

Kind = Literal["request", "response"]

_decoders: dict[tuple[int, int, str], decoding.Decoder] = {}
_encoders: dict[tuple[int, int, str], encoding.Encoder] = {}


def supported(api_key: int) -> tuple[int, int] | None:
    """The versions that the codec knows, both ends included; None for an API without tables."""
    schema = SCHEMAS.get(api_key)
    return schema.versions if schema else None


def decode(
    api_key: int,
    version: int,
    kind: Kind,
    buf: bytes | bytearray | memoryview,
    pos: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, Any]:
    """Reads the body that begins at `pos`. RemoteProtocolError for anything wrong in it.

    A response has to end where `buf` ends; after a request there may be more, which is ignored as brokers do.
    """
    decoder = _decoders.get((api_key, version, kind))
    if decoder is None:
        schema = _schema(api_key, version, RemoteProtocolError)
        decoder = _decoders[api_key, version, kind] = decoding.build(schema, version, kind)
    data = buf if type(buf) is bytes else bytes(buf)
    try:
        message, at = decoder(data, pos, limits)
    except RemoteProtocolError as error:
        why = str(error)
    except (struct.error, IndexError):
        why = f"{len(data) - pos} bytes end in a field"
    except UnicodeDecodeError as error:
        why = f"a string is not UTF-8: {error}"
    else:
        # Brokers ignore what follows a request, and librdkafka relies on it: its Metadata v9 for all topics ends with
        # a tag section too many. After a response it can only be that the message was misread.
        if at == len(data) or kind == "request":
            return message
        why = f"{len(data) - at} bytes follow the message"
    raise RemoteProtocolError(f"{_title(api_key, version, kind)}: {why}")


def encode(api_key: int, version: int, kind: Kind, message: Mapping[str, Any]) -> bytes:
    """Writes a body. LocalProtocolError names the field that cannot be written."""
    encoder = _encoders.get((api_key, version, kind))
    if encoder is None:
        schema = _schema(api_key, version, LocalProtocolError)
        encoder = _encoders[api_key, version, kind] = encoding.build(schema, version, kind)
    try:
        return encoder(message)
    except (struct.error, TypeError, AttributeError, ValueError, KeyError, LocalProtocolError) as error:
        why = encoding.explain(SCHEMAS[api_key], version, kind, message)
        text = why or LocalProtocolError(f"{_title(api_key, version, kind)}: {error!r}")
        raise text from error


def _schema(api_key: int, version: int, wrong: type[Exception]) -> Schema:
    schema = SCHEMAS.get(api_key)
    if schema is None:
        raise wrong(f"API key {api_key}: no message tables; `schemas` lists those that the codec knows")
    if not schema.versions[0] <= version <= schema.versions[1]:
        raise wrong(
            f"{schema.key.name} version {version}: the codec knows {schema.versions[0]} to {schema.versions[1]}"
        )
    return schema


def _title(api_key: int, version: int, kind: str) -> str:
    return f"{SCHEMAS[api_key].key.name} v{version} {kind}"
