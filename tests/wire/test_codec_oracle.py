"""Bodies against kio's codec, an independent implementation of the protocol."""

import importlib
import io
import random
import uuid
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_writer

from ha_core.wire import ApiKey, decode, encode
from ha_core.wire.schemas import SCHEMAS

CASES = [
    pytest.param(key, version, kind, id=f"{ApiKey(key).name}-{version}-{kind}")
    for key, api in sorted(SCHEMAS.items())
    for version in range(api.versions[0], api.versions[1] + 1)
    for kind in ("request", "response")
]
INTEGER_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
# Where this package's names are shorter than Kafka's.
RENAMED = {"results_by_topic_v3_and_below": "results_by_topic"}


def kio_class(key: int, version: int, kind: str) -> Any:
    name = api_key_map[key]
    module = importlib.import_module(f"kio.schema.{name}.v{version}.{kind}")
    wanted = name.replace("_", "") + kind
    return next(getattr(module, attribute) for attribute in dir(module) if attribute.lower() == wanted)


@cache
def typed_fields(cls: Any) -> list[tuple[Any, Any]]:
    hints = get_type_hints(cls)
    return [(field, hints[field.name]) for field in fields(cls)]


def instance(cls: Any, rnd: random.Random, nulls: float) -> Any:
    return cls(**{field.name: value(field, kind, rnd, nulls) for field, kind in typed_fields(cls)})


def value(field: Any, kind: Any, rnd: random.Random, nulls: float) -> Any:
    options = get_args(kind)
    if type(None) in options:
        if rnd.random() < nulls:
            return None
        (kind,) = (option for option in options if option is not type(None))
    if get_origin(kind) is tuple:
        count = rnd.choice((0, 1, 2, 3) if is_dataclass(get_args(kind)[0]) else (0, 1, 5, 200))
        return tuple(value(field, get_args(kind)[0], rnd, nulls) for _ in range(count))
    if is_dataclass(kind):
        return instance(kind, rnd, nulls)
    return scalar(field.metadata["kafka_type"], rnd)


def scalar(kind: str, rnd: random.Random) -> Any:
    if kind in INTEGER_BITS:
        bits = INTEGER_BITS[kind]
        return rnd.choice((0, -1, -(2**bits), 2**bits - 1, rnd.randrange(2**bits)))
    if kind == "bool":
        return rnd.random() < 0.5
    if kind == "string":
        return "".join(rnd.choice("abcXYZ09.-_é漢🐈") for _ in range(rnd.choice((0, 1, 7, 126, 127, 128, 300))))
    if kind in ("bytes", "records"):
        return rnd.randbytes(rnd.choice((0, 1, 126, 127, 128, 1100)))
    if kind == "float64":
        return rnd.choice((0.0, -1.5, 1e300, rnd.random()))
    if kind == "uuid":
        return uuid.UUID(bytes=rnd.randbytes(16))
    if kind.startswith("timedelta"):
        return timedelta(milliseconds=rnd.choice((0, -1, 1, 2**31 - 1, rnd.randrange(2**31))))
    if kind == "datetime_i64":
        return datetime.fromtimestamp(rnd.randrange(2**32), UTC)
    assert kind == "error_code", kind
    return rnd.choice(list(KioErrorCode))


def same(ours: Any, theirs: Any) -> bool:
    """Compares by field name, so that two neighbours of one type in the wrong order are found."""
    if is_dataclass(theirs):
        for field in fields(theirs):
            name = RENAMED.get(field.name, field.name).removeprefix("v3_and_below_")
            name = name if name in ours else f"{name}_ms"
            if not same(ours[name], getattr(theirs, field.name)):
                return False
        return True
    if isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    if isinstance(theirs, timedelta):
        return bool(ours == round(theirs / timedelta(milliseconds=1)))
    if isinstance(theirs, uuid.UUID):
        return bool(ours == theirs.bytes)
    if isinstance(theirs, datetime):
        return bool(ours == round(theirs.timestamp() * 1000))
    if theirs is None:  # kio uses None for "no time" and "no id" as well, which are -1 and zeros on the wire
        return ours in (None, -1, bytes(16))
    return bool(ours == theirs)


@pytest.mark.parametrize(("key", "version", "kind"), CASES)
def test_a_body_written_by_kio_is_read_field_by_field_and_written_back_byte_for_byte(
    key: int, version: int, kind: str
) -> None:
    cls = kio_class(key, version, kind)
    write = entity_writer(cls)
    rnd = random.Random(key * 1000 + version)
    for nulls in (0.0, 0.3, 0.3, 1.0):
        # Given a message that kio has written
        entity = instance(cls, rnd, nulls)
        buffer = io.BytesIO()
        write(buffer, entity)
        body = buffer.getvalue()
        # When it is read
        message = decode(key, version, kind, body)  # type: ignore[arg-type]
        # Then it has the same fields, and is written as kio does
        assert same(message, entity)
        assert encode(key, version, kind, message) == body  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "version", "kind"), CASES)
def test_an_empty_message_is_written_with_kafkas_defaults(key: int, version: int, kind: str) -> None:
    message = decode(key, version, kind, encode(key, version, kind, {}))  # type: ignore[arg-type]
    names = {field.name for field in SCHEMAS[key].fields(kind)}
    assert message.keys() == names
    for field, _ in typed_fields(kio_class(key, version, kind)):
        if isinstance(field.default, int | str):
            name = field.name if field.name in message else f"{field.name}_ms"
            assert message[name] == field.default
