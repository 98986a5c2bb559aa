"""Messages, batches and broken bytes for several tests of the wire package."""

import random
from collections.abc import Iterator
from struct import pack
from typing import Any

import google_crc32c
from hypothesis import strategies as st

from ha_core.wire.schemas import SCHEMAS
from ha_core.wire.tables import FIXED, WIDTH, Field


def batch(
    base: int, count: int, *, producer: int = -1, sequence: int = -1, epoch: int = 3, body: bytes = b"records" * 9
) -> bytes:
    """A batch of magic 2 with a valid checksum; nothing here reads its records."""
    covered = pack(">hiqqqhii", 0, count - 1, 11, 12, producer, 0 if producer >= 0 else -1, sequence, count) + body
    return pack(">qiibI", base, 9 + len(covered), epoch, 2, google_crc32c.value(covered)) + covered


def legacy(offset: int, magic: int, attributes: int = 0, body: bytes = b"old message body") -> bytes:
    return pack(">qiIbb", offset, 6 + len(body), 7, magic, attributes) + body


def message(fields: tuple[Field, ...], version: int, rnd: random.Random) -> dict[str, Any]:
    return {field.name: _value(field, version, rnd) for field in fields if field.at(version)}


def _value(field: Field, version: int, rnd: random.Random) -> Any:
    if field.nullable(version) and rnd.random() < 0.2:
        return None
    if field.is_array:
        inner = Field(field.name, field.type[2:] or "{}", field.versions, None, None, None, field.fields)
        return [_value(inner, version, rnd) for _ in range(rnd.choice((0, 1, 2, 3)))]
    if field.type == "{}":
        return message(field.fields, version, rnd)
    if field.type == "bool":
        return rnd.random() < 0.5
    if field.type in FIXED:
        return rnd.randrange(-1, 1 << (8 * WIDTH[FIXED[field.type]] - 1))
    if field.type == "string":
        return "t" * rnd.choice((0, 1, 9, 140))
    return rnd.randbytes(16 if field.type == "uuid" else rnd.choice((0, 1, 130)))


CASES = [
    (key, version, kind)
    for key, api in sorted(SCHEMAS.items())
    for version in range(api.versions[0], api.versions[1] + 1)
    for kind in ("request", "response")
]


def damaged(data: bytes, rnd: random.Random) -> bytes:
    """One to three bytes changed, a piece cut out, or a piece put in."""
    out = bytearray(data)
    for _ in range(rnd.randint(1, 3)):
        at = rnd.randrange(len(out) + 1)
        match rnd.randrange(4):
            case 0 | 1 if at < len(out):
                out[at] = rnd.choice((0, 1, 0x7F, 0x80, 0xFF, rnd.randrange(256)))
            case 2:
                del out[at : at + rnd.randint(1, 8)]
            case _:
                out[at:at] = rnd.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80", b"\0", rnd.randbytes(5)))
    return bytes(out)


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    at = 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        if cut > at:
            yield data[at:cut]
            at = cut


cut_lists = st.lists(st.integers(0, 1 << 20), max_size=30)
seeds = st.integers(0, 1 << 40)
