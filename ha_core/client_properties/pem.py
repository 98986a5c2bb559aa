"""Reads PEM as Kafka's Java code does: skips text between blocks, and accepts any white space in a block (KIP-651).

In a properties file a block may be in one line, which OpenSSL would not accept.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_BLOCKS = 10_000
_BEGIN = re.compile(r"-----BEGIN\s+([A-Z0-9 ]{1,64}?)\s*-----")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_LINE = 64


class PemBlock(NamedTuple):
    """
    :ivar label: as in `-----BEGIN label-----`.
    :ivar text: the block, split into lines for OpenSSL.
    """

    label: str
    text: str


class PemError(ValueError):
    """The text is not PEM."""


def blocks(text: str) -> Iterator[PemBlock]:
    """:raises PemError: a block does not end, or there are more than `MAX_BLOCKS`."""
    at = 0
    for _ in range(MAX_BLOCKS):
        begin = _BEGIN.search(text, at)
        if begin is None:
            return
        label = begin.group(1)
        end = f"-----END {label}-----"
        until = text.find(end, begin.end())
        if until < 0:
            raise PemError(f"a {label} block does not end")
        at = until + len(end)
        yield PemBlock(label, f"-----BEGIN {label}-----\n{_lines(text[begin.end() : until])}{end}\n")
    raise PemError(f"more than {MAX_BLOCKS} blocks")


def _lines(body: str) -> str:
    if _BASE64.fullmatch(body) is None:  # the older form has headers, whose lines have a meaning
        return f"{body.strip()}\n"
    packed = "".join(body.split())
    return "".join(f"{packed[at : at + _LINE]}\n" for at in range(0, len(packed), _LINE))
