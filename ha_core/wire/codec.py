"""Message bodies as plain dicts: `decode` and `encode` for every API in `schemas`.

Field names are Kafka's in snake case. Decoding fills fields that a version lacks with their defaults, so that handlers
treat all versions alike; encoding drops fields that the version lacks, uses defaults for missing ones and refuses names
that no version has. Null strings, arrays and bytes are None, a uuid is 16 bytes, records are the raw bytes. Unknown
tagged fields are kept under '_tags' (dict of tag to bytes; no such key if there are none) and encoded again.

Two meanings still depend on the version: Metadata v0 asks for all topics with [] where later versions use None, and
fields whose null came later (JoinGroup's protocol_name before 7) must be given as "".
"""

import struct
from collections.abc import Mapping
from typing import Any, Literal

from ha_core.wire import decoding, encoding
from ha_core.wire.apis import flexible
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS, WireLimits
from ha_core.wire.schemas import SCHEMAS
from ha_core.wire.tables import Field

Kind = Literal["request", "response"]

_REFUSALS = (struct.error, TypeError, AttributeError, ValueError, KeyError, LocalProtocolError)

_decoders: dict[tuple[int, int, str, bool], decoding.Decoder] = {}
_encoders: dict[tuple[int, int, str], encoding.Encoder] = {}
_encoders_in_pieces: dict[tuple[int, int, str], encoding.PiecesEncoder] = {}


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
    limits: WireLimits = DEFAULT_LIMITS,
) -> dict[str, Any]:
    """Decodes the body that begins at `pos`. RemoteProtocolError for anything invalid.

    A response has to end with `buf`; bytes after a request are ignored, as brokers do.
    """
    return _decode(api_key, version, kind, buf if type(buf) is bytes else bytes(buf), pos, limits, False)


def decode_in_place(
    api_key: int, version: int, kind: Kind, buf: memoryview, pos: int = 0, limits: WireLimits = DEFAULT_LIMITS
) -> dict[str, Any]:
    """Like `decode`, but records are not copied: they are views of `buf`, which must not change while they are used."""
    return _decode(api_key, version, kind, buf, pos, limits, True)


def _decode(
    api_key: int, version: int, kind: Kind, data: bytes | memoryview, pos: int, limits: WireLimits, in_place: bool
) -> dict[str, Any]:
    decoder = _decoders.get((api_key, version, kind, in_place))
    if decoder is None:
        layout = _layout(api_key, version, kind, RemoteProtocolError)
        decoder = _decoders[api_key, version, kind, in_place] = decoding.build(*layout, in_place=in_place)
    wrong = RemoteProtocolError
    try:
        message, at = decoder(data, pos, limits)
    except RemoteProtocolError as error:
        wrong, why = type(error), str(error)
    except (struct.error, IndexError):
        why = f"{len(data) - pos} bytes end in a field"
    except UnicodeDecodeError as error:
        why = f"a string is not UTF-8: {error}"
    else:
        # Brokers ignore bytes after a request, and librdkafka relies on it: its Metadata v9 for all topics has one
        # tag section too many. After a response they mean that the message was misread.
        if at == len(data) or kind == "request":
            return message
        why = f"{len(data) - at} bytes follow the message"
    title = _layout(api_key, version, kind, RemoteProtocolError)[-1]
    raise wrong(f"{title}: {why}")


def encode(api_key: int, version: int, kind: Kind, message: Mapping[str, Any]) -> bytes:
    """Writes a body. LocalProtocolError names the field that cannot be written."""
    encoder = _encoders.get((api_key, version, kind))
    if encoder is None:
        layout = _layout(api_key, version, kind, LocalProtocolError)
        encoder = _encoders[api_key, version, kind] = encoding.build(*layout)
    try:
        return encoder(message)
    except _REFUSALS as error:
        raise _refusal(api_key, version, kind, message, error) from error


def encode_in_pieces(api_key: int, version: int, kind: Kind, message: Mapping[str, Any]) -> encoding.Pieces:
    """Like `encode`, but records are not copied: they are separate pieces, which must not change before they are
    written."""
    encoder = _encoders_in_pieces.get((api_key, version, kind))
    if encoder is None:
        layout = _layout(api_key, version, kind, LocalProtocolError)
        encoder = _encoders_in_pieces[api_key, version, kind] = encoding.build_in_pieces(*layout)
    try:
        return encoder(message)
    except _REFUSALS as error:
        raise _refusal(api_key, version, kind, message, error) from error


def _refusal(
    api_key: int, version: int, kind: Kind, message: Mapping[str, Any], error: Exception
) -> LocalProtocolError:
    fields, _, tagged, title = _layout(api_key, version, kind, LocalProtocolError)
    why = encoding.explain(fields, version, tagged, message, title.lower())
    return why or LocalProtocolError(f"{title}: {error!r}")


def _layout(api_key: int, version: int, kind: Kind, wrong: type[Exception]) -> tuple[tuple[Field, ...], int, bool, str]:
    """Fields, version, True if it is flexible, and the message's title."""
    schema = SCHEMAS.get(api_key)
    if schema is None:
        raise wrong(f"API key {api_key}: no message tables; `schemas` lists those that the codec knows")
    name, (first, last) = schema.key.name, schema.versions
    if not first <= version <= last:
        raise wrong(f"{name} version {version}: the codec knows {first} to {last}")
    return schema.fields(kind), version, flexible(api_key, version), f"{name} v{version} {kind}"
