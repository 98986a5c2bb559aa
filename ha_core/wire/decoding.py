"""Generates the Python source of a decoder for one (API, version, kind) and compiles it.

A decoder is one function with nested loops: a run of fixed fields is one struct read, every length is checked before
its bytes are taken, every count before its list is filled. Reads past the end raise `struct.error` or `IndexError`;
`codec.decode` turns both into RemoteProtocolError.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from struct import Struct, unpack_from
from typing import Any

from ha_core.wire.errors import RemoteProtocolError, TooManyElementsError
from ha_core.wire.limits import WireLimits
from ha_core.wire.tables import FIXED, WIDTH, Field
from ha_core.wire.varint import MAX_TAGS, read_uvarint

# Short arrays of numbers (replicas, say) use a prepared struct; building its format costs more than the read.
SMALL_ARRAY = 16

Decoder = Callable[[bytes | memoryview, int, WireLimits], tuple[dict[str, Any], int]]


def _bad_length(path: str, length: int, at: int, end: int, limit: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{path}: length {length} at byte {at}: {end - at} bytes are left, the limit is {limit}")


def _bad_count(path: str, count: int, at: int, end: int, left: int) -> RemoteProtocolError:
    kind = TooManyElementsError if count >= 0 and left < count <= end - at else RemoteProtocolError
    return kind(f"{path}: {count} elements at byte {at}: {end - at} bytes and {left} elements are left")


def _null(path: str, at: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{path}: null at byte {at}, where this version has no null")


def _bad_tag(path: str, tag: int, at: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{path}: tag {tag} before byte {at} is out of order, repeated or of a wrong length")


def _read_tags(b: bytes | memoryview, p: int, end: int, path: str) -> tuple[dict[int, bytes], int]:
    """The tagged section at p."""
    count, p = read_uvarint(b, p)
    if count > min(end - p, MAX_TAGS):
        raise _bad_count(path + "._tags", count, p, end, count)
    out: dict[int, bytes] = {}
    last = -1
    for _ in range(count):
        tag, p = read_uvarint(b, p)
        size, p = read_uvarint(b, p)
        if tag <= last or size > end - p:
            raise _bad_tag(path, tag, p)
        out[tag] = bytes(b[p : p + size])
        p += size
        last = tag
    return out, p


class CodecSource:
    """The source of a codec function: lines, the names that they use, and a run of fixed fields that one struct reads
    or writes."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, Any] = {}
        self._count = 0
        self._run: list[tuple[str, str]] = []

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    @contextmanager
    def block(self, head: str | None) -> Iterator[None]:
        """Lines added inside are indented under `head`; None: not indented."""
        if head is not None:
            self.add(head)
            self.depth += 1
        yield
        self.depth -= head is not None

    def var(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def fixed(self, what: str, code: str) -> None:
        """Adds a variable or an expression, and its struct code, to the run."""
        self._run.append((what, code))

    def run(self) -> tuple[str, str]:
        """Ends the run: its variables or expressions, and its codes."""
        whats, codes = ", ".join(what for what, _ in self._run), "".join(code for _, code in self._run)
        self._run.clear()
        return whats, codes

    def compiled(self, title: str, arguments: str, scope: Mapping[str, Any]) -> Any:
        """The function; `title` is its file name in tracebacks."""
        text = f"def codec({arguments}):\n" + "\n".join(self.lines) + "\n"
        everything = {**self.names, **scope}
        exec(compile(text, f"<{title}>", "exec"), everything)  # the text is built from the tables in `schemas` only
        return everything["codec"]


class _DecoderSource(CodecSource):
    in_place = False
    """True if the decoder reads a view, and records stay views of it."""

    def taken(self, span: str, kind: str) -> str:
        """The value of a string, bytes, a uuid or records in this span."""
        if kind == "string":
            return f"str({span}, 'utf-8')" if self.in_place else f"{span}.decode()"
        return f"bytes({span})" if self.in_place and kind != "records" else span

    def flush(self) -> None:
        """Emits the read of the pending run of fixed fields."""
        targets, codes = self.run()
        if codes:
            name = "s_" + codes.replace("?", "o")
            self.names[name] = Struct(">" + codes).unpack_from
            self.add(f"{targets}{',' * (len(codes) == 1)} = {name}(b, p)", f"p += {sum(map(WIDTH.__getitem__, codes))}")

    def uvarint(self, var: str) -> None:
        self.flush()
        self.add(f"{var} = b[p]", "p += 1", f"if {var} > 127: {var}, p = uv(b, p - 1)")


def build(fields: tuple[Field, ...], version: int, flexible: bool, title: str, *, in_place: bool = False) -> Decoder:
    """Compiles the decoder: (bytes, position, limits) -> (message, position after it).

    :param in_place: it takes a memoryview, and records are views of the same memory.
    """
    src = _DecoderSource(version, flexible)
    src.in_place = in_place
    src.add("end = len(b)", "left = limits.max_elements", "most = limits.max_array", "longest = limits.max_string")
    out = _struct(src, fields, "")
    src.add(f"return {out}, p")
    scope = {
        "uv": read_uvarint,
        "unpack_from": unpack_from,
        "bad_length": _bad_length,
        "bad_count": _bad_count,
        "null": _null,
        "bad_tag": _bad_tag,
        "read_tags": _read_tags,
    }
    decoder: Decoder = src.compiled(f"decode {title}", "b, p, limits", scope)
    return decoder


def default_of(field: Field) -> str:
    """The source of a fresh default value."""
    if field.type == "{}" and field.null is None:
        return "{" + ", ".join(f"{f.name!r}: {default_of(f)}" for f in field.fields) + "}"
    return repr(field.default)


def smallest(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that the field can take on the wire."""
    if not field.at(version) or (flexible and field.tag is not None):
        return 0
    if field.type in FIXED:
        return WIDTH[FIXED[field.type]]
    if field.type == "uuid":
        return 16
    if field.type == "{}":
        return 1 if field.nullable(version) else smallest_struct(field.fields, version, flexible)
    if flexible:
        return 1
    return 2 if field.type == "string" else 4


def smallest_struct(fields: tuple[Field, ...], version: int, flexible: bool) -> int:
    return sum(smallest(f, version, flexible) for f in fields) + flexible


def _struct(src: _DecoderSource, fields: tuple[Field, ...], path: str) -> str:
    """Emits the reading of one struct; returns the name of its variable."""
    shown: list[str] = []
    tagged: list[tuple[Field, str]] = []
    for field in fields:
        var = src.var()
        if not field.at(src.version):
            shown.append(f"{field.name!r}: {default_of(field)}")
            continue
        shown.append(f"{field.name!r}: {var}")
        if field.tag is None:
            _value(src, field, var, f"{path}.{field.name}" if path else field.name)
        else:
            tagged.append((field, var))
    src.flush()
    out = src.var()
    extra = ""
    if src.flexible:
        extra = src.var()
        src.add(f"{extra} = None")
        src.add("if b[p]:", f"    {extra}, p = read_tags(b, p, end, {path!r})", "else: p += 1")
        for field, var in tagged:
            _tagged(src, field, var, extra, path)
    src.add(f"{out} = {{{', '.join(shown)}}}")
    if extra:
        src.add(f"if {extra}: {out}['_tags'] = {extra}")
    return out


def _tagged(src: _DecoderSource, field: Field, var: str, extra: str, path: str) -> None:
    """Emits the reading of a field from the bytes of its tag."""
    outer = src.var()
    src.add(f"{var} = {default_of(field)}")
    with src.block(f"if {extra} and {field.tag} in {extra}:"):
        src.add(f"{outer} = b, p, end", f"b, p = {extra}.pop({field.tag}), 0", "end = len(b)")
        _value(src, field, var, f"{path}.{field.name}" if path else field.name)
        src.flush()
        src.add(f"if p != end: raise bad_tag({path!r}, {field.tag}, p)", f"b, p, end = {outer}")


def _value(src: _DecoderSource, field: Field, var: str, path: str) -> None:
    if field.type in FIXED:
        src.fixed(var, FIXED[field.type])
    elif field.type == "uuid":
        src.flush()
        src.add(
            "if end - p < 16: raise bad_length(" + repr(path) + ", 16, p, end, 16)",
            f"{var} = {src.taken('b[p:p + 16]', field.type)}",
            "p += 16",
        )
    elif field.type == "{}":
        src.flush()
        null = field.nullable(src.version)
        if null:
            mark = src.var()
            src.fixed(mark, "b")
            src.flush()
            src.add(f"if {mark} < 0: {var} = None")
        with src.block("else:" if null else None):
            src.add(f"{var} = {_struct(src, field.fields, path)}")
    elif field.is_array:
        _array(src, field, var, path)
    else:
        _sized(src, field, var, path)


def _length(src: _DecoderSource, length: str, short: bool) -> None:
    """Emits the reading of a length or a count; then -1 is null, and lower values are invalid."""
    if src.flexible:
        src.uvarint(length)
        src.add(f"{length} -= 1")
    else:
        src.fixed(length, "h" if short else "i")
        src.flush()


def _sized(src: _DecoderSource, field: Field, var: str, path: str) -> None:
    length, stop = src.var(), src.var()
    text = field.type == "string"
    _length(src, length, text)
    src.add(f"if {length} < 0:")
    if field.nullable(src.version):
        src.add(f"    if {length} < -1: raise bad_length({path!r}, {length}, p, end, longest)", f"    {var} = None")
    else:
        src.add(f"    raise null({path!r}, p)")
    src.add("else:", f"    {stop} = p + {length}")
    bound = f"{stop} > end or {length} > longest" if text else f"{stop} > end"
    src.add(f"    if {bound}: raise bad_length({path!r}, {length}, p, end, longest)")
    src.add(f"    {var} = {src.taken(f'b[p:{stop}]', field.type)}", f"    p = {stop}")


def _array(src: _DecoderSource, field: Field, var: str, path: str) -> None:
    count = src.var()
    _length(src, count, False)
    element = field.element
    least = smallest(element, src.version, src.flexible)
    src.add(f"if {count} < 0:")
    if field.nullable(src.version):
        src.add(f"    if {count} < -1: raise bad_count({path!r}, {count}, p, end, left)", f"    {var} = None")
    else:
        src.add(f"    raise null({path!r}, p)")
    with src.block("else:"):
        src.add(
            f"if {count} * {least} > end - p or {count} > most or {count} > left: "
            f"raise bad_count({path!r}, {count}, p, end, left if left < most else most)",
            f"left -= {count}",
        )
        if element.type in FIXED:
            code = FIXED[element.type]
            name = f"a_{code.replace('?', 'o')}"
            src.names[name] = [Struct(f">{n}{code}").unpack_from for n in range(SMALL_ARRAY)]
            src.add(
                f"if {count} < {SMALL_ARRAY}: {var} = list({name}[{count}](b, p))",
                f"else: {var} = list(unpack_from('>%d{code}' % {count}, b, p))",
                f"p += {count} * {least}",
            )
            return
        src.add(f"{var} = []")
        with src.block(f"for _ in range({count}):"):
            if element.type == "{}":
                item = _struct(src, field.fields, path)
            else:
                item = src.var()
                _value(src, element, item, path)
                src.flush()
            src.add(f"{var}.append({item})")
