"""What a node serves, kept in a file, so that it can serve it after a restart while the source is away.

A line is a block: its digest, and JSON with rows. The last block of a state has its time and fingerprint; what follows
are the changes up to the next state. So a change costs a line, and only now and then all is written anew. A torn end,
and whatever was damaged, ends what is read of the file: what was whole before it was served once, under that time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ha_core.datacache.core.digest import fingerprint
from ha_core.datacache.core.errors import DataCacheError
from ha_core.datacache.core.held import Content
from ha_core.datacache.core.packed import Packed, lean, plain, shared
from ha_core.datacache.core.source import Row
from ha_core.store.watching import no_search

SCHEMA = 1
BLOCK_ROWS = 1000
PAUSE_S = 0.001
"""Writing gives way to others after each block: a million rows take seconds."""
MAX_LINE_BYTES = 64 << 20
_DIGEST_BYTES = 16
_HEAD = 2 * _DIGEST_BYTES + 1
"""Digest in hexadecimal digits, and a space."""
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class KeptFileError(DataCacheError):
    """The file cannot be written; what is served does not depend on it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """:ivar age_s: so long ago it was all that the source had, by this machine's clock."""

    content: Content
    age_s: float


class KeptFile:
    """Not thread-safe.

    :ivar content: the newest state that lies there; None: none that can be used.
    """

    def __init__(self, path: Path, source: str) -> None:
        """:param source: where the rows come from, and of which kind: what was kept of another one is not used."""
        self._path, self._source = path, source
        self.content: Content | None = None
        self._appended = 0
        """Rows since all was written."""

    def load(self) -> Kept | None:
        """None: there is no state that can be used."""
        try:
            with self._path.open("rb") as file, no_search():
                age_s = max(0.0, time.time() - os.fstat(file.fileno()).st_mtime)
                found = _read(file, self._source)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # Blocks that are whole, and are none of ours.
        if found is None:
            return None
        if found.sound:
            self.content, self._appended = found.content, found.appended
        # Else all is written anew with the next state: behind a torn end nothing may be appended.
        return Kept(found.content, age_s)

    def keep(self, content: Content, current_s: float) -> None:
        """:param current_s: when it was all that the source had, in seconds since the epoch.
        :raises KeptFileError: it is not kept; the file has what it had, or nothing.
        """
        try:
            if self.content is not None and self._appended <= max(BLOCK_ROWS, len(content.rows) // 2):
                self._append(self.content, content)
            else:
                self._write(content)
            self.content = content
            os.utime(self._path, (current_s, current_s))
        except OSError as error:
            self.content = None  # What stands there now nobody knows: the next time all is written.
            raise KeptFileError(f"{self._path} cannot be written: {error.strerror}") from None

    def current(self, current_s: float) -> None:
        """What lies there was all that the source had at that time.

        :raises KeptFileError: the time is not kept.
        """
        try:
            os.utime(self._path, (current_s, current_s))
        except OSError as error:
            raise KeptFileError(f"{self._path} cannot be written: {error.strerror}") from None

    def _append(self, before: Content, content: Content) -> None:
        rows = [change.after or Row(change.key, content.at_us, None) for change in content.changes(before)]
        with self._path.open("ab") as file:
            _put(file, content, rows)
        self._appended += len(rows)

    def _write(self, content: Content) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f"{self._path.name}.new")
        new.unlink(missing_ok=True)
        # It holds keys of passwords: nobody else reads it, not even for a moment.
        with open(new, "wb", opener=lambda path, flags: os.open(path, flags | os.O_EXCL, 0o600)) as file:
            file.write(_line({"schema": SCHEMA, "source": self._source}))
            _put(file, content, content.rows.values())
        new.replace(self._path)
        self._appended = 0


def _put(file: BinaryIO, content: Content, rows: Iterable[Row]) -> None:
    for fields, alike in groupby(rows, _fields):
        while block := list(islice(alike, BLOCK_ROWS)):
            file.write(_line(_block(fields, block)))
            time.sleep(PAUSE_S)
    file.write(_line({"at_us": content.at_us, "fingerprint": f"{content.fingerprint:x}"}))
    file.flush()
    os.fsync(file.fileno())


def _fields(row: Row) -> tuple[str, ...] | None:
    return None if row.value is None else tuple(row.value)


def _block(fields: tuple[str, ...] | None, rows: Sequence[Row]) -> dict[str, Any]:
    """Without the names of fields in each row: it is half as long, and read twice as fast."""
    if fields is None:
        return {"gone": [(row.key, row.changed_us) for row in rows]}
    return {"fields": fields, "rows": [(row.key, row.changed_us, *(plain(row.value) or {}).values()) for row in rows]}


def _rows(block: dict[str, Any]) -> Iterator[Row]:
    if "fields" in block:
        fields = shared(tuple(block["fields"]))
        for key, changed_us, *values in block["rows"]:
            yield Row(key, changed_us, Packed(fields, lean(values)))
    for key, changed_us in block.get("gone", ()):
        yield Row(key, changed_us, None)


def _line(said: dict[str, Any]) -> bytes:
    text = _encode(said).encode()
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode() + b" " + text + b"\n"


class _Found(NamedTuple):
    content: Content
    appended: int
    """Rows behind the first state."""
    sound: bool
    """Nothing else lies behind it."""


def _read(file: BinaryIO, source: str) -> _Found | None:
    """The newest state of which everything is as it was written."""
    blocks = _blocks(file)
    head = next(blocks, {})
    if (head.get("schema"), head.get("source")) != (SCHEMA, source):
        return None
    rows: dict[str, Row] = {}
    state: tuple[int, int] | None = None
    newer: list[Row] = []
    appended = 0
    for block in blocks:
        newer += _rows(block)
        if "at_us" in block:
            appended += 0 if state is None else len(newer)
            for row in newer:
                if row.value is None:
                    rows.pop(row.key, None)
                else:
                    rows[row.key] = row
            newer, state = [], (block["at_us"], int(block["fingerprint"], 16))
    if state is None or fingerprint(row.changed_us for row in rows.values()) != state[1]:
        return None
    sound = not newer and file.tell() == os.fstat(file.fileno()).st_size
    return _Found(Content(state[0], rows, state[1]), appended, sound)


def _blocks(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Up to the first that is not as it was written, where the file is left standing."""
    begin = 0
    while line := file.readline(MAX_LINE_BYTES):
        text = line[_HEAD:-1]
        digest = blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode()
        if not line.endswith(b"\n") or line[: _HEAD - 1] != digest:
            file.seek(begin)
            return
        begin += len(line)
        yield json.loads(text)
