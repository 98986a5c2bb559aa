"""Generates the Python source of an encoder for one (API, version, kind) and compiles it.

The encoder relies on the checks of `struct` and `write`. When one of them refuses, `explain` walks the tables to find
the field; so the fast path checks only mistakes that would silently write wrong bytes.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from io import BytesIO
from struct import Struct, pack
from typing import Any

from ha_core.wire.decoding import SMALL_ARRAY, CodecSource, default_of
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.tables import FIXED, Field
from ha_core.wire.varint import write_tags, write_uvarint

Encoder = Callable[[Mapping[str, Any]], bytes]
Pieces = list[bytes | memoryview]
"""Pieces to write, in this order."""
PiecesEncoder = Callable[[Mapping[str, Any]], Pieces]

_SHORT = [write_uvarint(value) for value in range(1024)]
_MAX_STRING = 32_767
_BYTES = (bytes, bytearray, memoryview)
_APART_BYTES = 4096
"""Below this size a copy is cheaper than one more piece."""


def _refuse(path: str, value: Any, wanted: str) -> LocalProtocolError:
    return LocalProtocolError(f"{path}={value!r:.80}: {wanted}")


def _uuid(value: Any) -> Any:
    if not isinstance(value, bytes) or len(value) != 16:
        raise TypeError
    return value


class _InPieces(BytesIO):
    """Keeps records as separate pieces."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: Pieces = []

    def write_records(self, data: bytes | bytearray | memoryview) -> None:
        if len(data) < _APART_BYTES:
            self.write(data)
            return
        self._pieces += (self.getvalue(), memoryview(data))
        self.seek(0)
        self.truncate()

    def pieces(self) -> Pieces:
        return [*self._pieces, self.getvalue()]


class _EncoderSource(CodecSource):
    write = "w"
    in_pieces = False

    def write_records(self) -> str:
        return "out.write_records" if self.in_pieces and self.write == "w" else self.write

    def flush(self) -> None:
        """Emits the write of the pending run of fixed fields."""
        expressions, codes = self.run()
        if codes:
            name = "s_" + codes.replace("?", "o")
            self.names[name] = Struct(">" + codes).pack
            self.add(f"{self.write}({name}({expressions}))")

    def uvarint(self, expression: str) -> None:
        self.flush()
        self.add(f"{self.write}(short[{expression}] if {expression} < 1024 else uv({expression}))")


def build(fields: tuple[Field, ...], version: int, flexible: bool, title: str) -> Encoder:
    """Compiles the encoder: message -> bytes. It raises anything; `codec.encode` then calls `explain`."""
    src = _EncoderSource(version, flexible)
    # Not a list of pieces: joining a million of them is a single call, during which no other thread runs.
    encoder: Encoder = _compiled(src, fields, title, BytesIO, "getvalue")
    return encoder


def build_in_pieces(fields: tuple[Field, ...], version: int, flexible: bool, title: str) -> PiecesEncoder:
    """Like `build`, but in pieces: records are views of the message's."""
    src = _EncoderSource(version, flexible)
    src.in_pieces = True
    encoder: PiecesEncoder = _compiled(src, fields, title, _InPieces, "pieces")
    return encoder


def _compiled(src: _EncoderSource, fields: tuple[Field, ...], title: str, out: type[BytesIO], result: str) -> Any:
    src.add("out = Out()", "w = out.write")
    _struct(src, fields, "m", title)
    src.flush()
    src.add(f"return out.{result}()")
    scope = {
        "Out": out,
        "uv": write_uvarint,
        "short": _SHORT,
        "pack": pack,
        "put_tags": write_tags,
        "uuid": _uuid,
        "refuse": _refuse,
        "BYTES": _BYTES,
    }
    return src.compiled(f"encode {title}", "m", scope)


def _struct(src: _EncoderSource, fields: tuple[Field, ...], message: str, path: str, checked: bool = True) -> None:
    get = src.var()
    if checked:
        known = f"known_{get}"
        src.names[known] = frozenset(field.name for field in fields) | {"_tags"}
        src.add(f"if not {message}.keys() <= {known}: raise KeyError")
    src.add(f"{get} = {message}.get")
    present = [field for field in fields if field.at(src.version)]
    for field in present:
        if field.tag is None:
            _value(src, field, f"{get}({field.name!r}, {default_of(field)})", f"{path}.{field.name}")
    src.flush()
    if not src.flexible:
        return
    tags = src.var()
    src.add(f"{tags} = {get}('_tags')")
    tagged = [field for field in present if field.tag is not None]
    if not tagged:
        src.add(f"{src.write}(put_tags({tags}) if {tags} else b'\\0')")
        return
    src.add(f"{tags} = dict({tags}) if {tags} else {{}}")
    for field in tagged:
        value, part = src.var(), src.var()
        src.add(f"{value} = {get}({field.name!r}, {default_of(field)})")
        with src.block(f"if {value} != {default_of(field)}:"):
            outer, src.write = src.write, f"{part}.append"
            src.add(f"{part} = []")
            _value(src, field, value, f"{path}.{field.name}")
            src.flush()
            src.write = outer
            src.add(f"{tags}[{field.tag}] = b''.join({part})")
    src.add(f"{src.write}(put_tags({tags}))")


def _value(src: _EncoderSource, field: Field, expression: str, path: str) -> None:
    if field.type in FIXED:
        src.fixed(expression, FIXED[field.type])
    elif field.type == "uuid":
        src.fixed(f"uuid({expression})", "16s")
    elif field.type == "{}":
        src.flush()
        inner = src.var()
        src.add(f"{inner} = {expression}")
        null = field.nullable(src.version)
        if null:
            src.add(f"if {inner} is None: {src.write}(b'\\xff')")
        with src.block("else:" if null else None):
            if null:
                src.add(f"{src.write}(b'\\x01')")
            _struct(src, field.fields, inner, path)
    elif field.is_array:
        _array(src, field, expression, path)
    else:
        _sized(src, field, expression, path)


def _sized(src: _EncoderSource, field: Field, expression: str, path: str) -> None:
    value, length = src.var(), src.var()
    text = field.type == "string"
    src.add(f"{value} = {expression}")
    with _unless_null(src, field, value, "b''", length):
        if text:
            src.add(f"{value} = {value}.encode()")
        else:
            src.add(f"if not isinstance({value}, BYTES): raise TypeError")
        src.add(f"{length} = len({value})")
    if text and src.flexible:
        src.add(f"if {length} > {_MAX_STRING}: raise refuse({path!r}, {value}, 'longer than {_MAX_STRING} bytes')")
    _length(src, length, "h" if text else "i")
    src.add(f"{src.write_records() if field.type == 'records' else src.write}({value})")


def _unless_null(
    src: _EncoderSource, field: Field, value: str, empty: str, length: str
) -> AbstractContextManager[None]:
    """The block for a value that is not null; null has the length -1 and no bytes."""
    if not field.nullable(src.version):
        return src.block(None)
    src.add(f"if {value} is None: {value} = {empty}; {length} = -1")
    return src.block("else:")


def _length(src: _EncoderSource, length: str, code: str) -> None:
    """Emits the write of a length or a count."""
    if src.flexible:
        src.flush()
        src.add(f"{length} += 1")
        src.uvarint(length)
    else:
        src.fixed(length, code)
        src.flush()


def _array(src: _EncoderSource, field: Field, expression: str, path: str) -> None:
    value, count = src.var(), src.var()
    src.add(f"{value} = {expression}")
    with _unless_null(src, field, value, "()", count):
        src.add(f"if not isinstance({value}, (list, tuple)): raise TypeError", f"{count} = len({value})")
    _length(src, count, "i")
    element = field.element
    if element.type in FIXED:
        code = FIXED[element.type]
        name = f"a_{code.replace('?', 'o')}"
        src.names[name] = [Struct(f">{n}{code}").pack for n in range(SMALL_ARRAY)]
        src.add(
            f"{count} = len({value})",
            f"if {count} < {SMALL_ARRAY}: {src.write}({name}[{count}](*{value}))",
            f"else: {src.write}(pack('>%d{code}' % {count}, *{value}))",
        )
        return
    item = src.var()
    if element.type == "{}":  # checks only the first element, which has a misspelt name too: all would cost a fifth
        known = f"known_{item}"
        src.names[known] = frozenset(f.name for f in field.fields) | {"_tags"}
        src.add(f"if {value} and not {value}[0].keys() <= {known}: raise KeyError")
    with src.block(f"for {item} in {value}:"):
        if element.type == "{}":
            _struct(src, field.fields, item, path, checked=False)
        else:
            _value(src, element, item, path)
        src.flush()


def explain(
    fields: tuple[Field, ...], version: int, flexible: bool, message: Any, path: str
) -> LocalProtocolError | None:
    """Finds the first field that cannot be written, by writing each one alone; None if there is none."""
    if not isinstance(message, Mapping):
        return _refuse(path, message, "a mapping of field names is needed")
    unknown = message.keys() - {field.name for field in fields} - {"_tags"}
    if unknown:
        return LocalProtocolError(f"{path}: no version has the fields {sorted(map(str, unknown))}")
    for field in fields:
        if field.at(version) and field.name in message:
            error = _explain_value(field, version, flexible, message[field.name], f"{path}.{field.name}")
            if error:
                return error
    tags = message.get("_tags")
    try:
        build((), version, flexible, path)({"_tags": tags})
    except Exception:
        return _refuse(f"{path}._tags", tags, "a mapping of tag to bytes is needed")
    return None


def _explain_value(field: Field, version: int, flexible: bool, value: Any, path: str) -> LocalProtocolError | None:
    try:
        build((field,), version, flexible, path)({field.name: value})
    except Exception as error:
        inner: Iterable[LocalProtocolError | None] = ()
        if field.type == "{}" and value is not None:
            inner = (explain(field.fields, version, flexible, value, path),)
        elif field.is_array and isinstance(value, list | tuple):
            items = enumerate(value)
            inner = (_explain_value(field.element, version, flexible, item, f"{path}[{n}]") for n, item in items)
        null = "" if field.nullable(version) else ", and not null in this version"
        wanted = f"{field.type} is needed{null} ({error!r})"
        return next(filter(None, inner), None) or _refuse(path, value, wanted)
    return None
