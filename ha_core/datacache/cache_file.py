"""A node's content in a file, so that the node can serve it after a restart while the source is away.

A line is a block: its digest, and JSON with rows. The last block of a state has its time and fingerprint; blocks after
it are the changes up to the next state. So a change costs a line, and the file is rewritten only now and then. A torn
end or damage ends the reading of the file: the complete states before it were served once, with their times.

It is no SQLite database, because a gateway with 100,000 users and a million rules has to be in force after 5 s of CPU,
and takes 3.5. With a row of SQLite for each version, its value as JSON, rules took 2.4 times as long to load and users
3.6 times (200,000 of each, one crowded machine), which makes 6.6 s. The files were 3.4 and 1.5 times as large, and the
commit of one change took 18 ms in place of 4. SQLite does not notice damaged bytes either: digests and the fingerprint
would stay.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ha_core.datacache.core.blocks import (
    BLOCK_ROWS,
    Block,
    BlockContent,
    ColumnsReader,
    blocks,
    blocks_of_changes,
)
from ha_core.datacache.core.digest import fingerprint
from ha_core.datacache.core.errors import DataCacheError
from ha_core.datacache.core.packed import Record, Rows
from ha_core.datacache.core.source import Row
from ha_core.datacache.core.uncommitted import Content
from ha_core.model.layered import Layered
from ha_core.store.watching import no_search

log = logging.getLogger(__name__)

SCHEMA = 2
"""Schema 1 had rows, not columns. Such files are not used."""
PAUSE_S = 0.001
"""Pause after each block, for other threads: a million rows take seconds."""
CURRENT_S = 10.0
"""How often the file's time is renewed while its content is still all that the source has."""
RETRY_S = 30.0
MAX_LINE_BYTES = 64 << 20
_DIGEST_BYTES = 16
_HEAD = 2 * _DIGEST_BYTES + 1
"""Digest in hexadecimal digits, and a space."""
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class CacheFileError(DataCacheError):
    """The file cannot be written; serving does not depend on it."""


@dataclass(frozen=True, slots=True)
class CachedContent:
    """:ivar age_s: time since it was all that the source had, by this machine's clock."""

    content: Content
    age_s: float


class CacheFile:
    """Not thread-safe.

    :ivar content: the newest state in the file; None: none can be used.
    """

    def __init__(self, path: Path, source: str) -> None:
        """:param source: identifies the source and the kind of rows: content of another one is not used."""
        self._path, self._source = path, source
        self.content: Content | None = None
        self._appended = 0
        """Rows since the file was rewritten."""

    def load(self) -> CachedContent | None:
        """None: there is no state that can be used."""
        try:
            with self._path.open("rb") as file, no_search():
                age_s = max(0.0, time.time() - os.fstat(file.fileno()).st_mtime)
                found = _read(file, self._source)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            found = None  # It cannot be read, or has complete blocks in an unknown form.
        if found is None:
            log.warning(
                "%s is not used: it is of an older version or another source, damaged, or cannot be read. The content "
                "is read from the source, and the file written anew",
                self._path,
            )
            return None
        if found.sound:
            self.content, self._appended = found.content, found.appended
        # Else the next state rewrites the file: blocks must not be appended to a torn end.
        return CachedContent(found.content, age_s)

    def keep(self, content: Content, current_s: float) -> None:
        """:param current_s: when it was all that the source had, in seconds since the epoch.
        :raises CacheFileError: it is not written; the file has its former content, or nothing.
        """
        try:
            if content is not self.content:
                self._store(content)
                self.content = content
            os.utime(self._path, (current_s, current_s))
        except OSError as error:
            self.content = None  # The file's content is unknown now: the next state rewrites it.
            raise CacheFileError(f"{self._path} cannot be written: {error.strerror}") from None

    def _store(self, content: Content) -> None:
        if self.content is not None and self._appended <= max(BLOCK_ROWS, len(content.rows) // 2):
            self._append(self.content, content)
        else:
            self._write(content)

    def _append(self, before: Content, content: Content) -> None:
        rows = [change.after or Row(change.key, content.at_us, None) for change in content.changes(before)]
        with self._path.open("ab") as file:
            _put(file, content, blocks_of_changes(rows))
        self._appended += len(rows)

    def _write(self, content: Content) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f"{self._path.name}.new")
        new.unlink(missing_ok=True)
        # It holds password keys, so other users must never be able to read it.
        with open(new, "wb", opener=lambda path, flags: os.open(path, flags | os.O_EXCL, 0o600)) as file:
            file.write(_line({"schema": SCHEMA, "source": self._source}))
            _put(file, content, blocks(content.rows))
        new.replace(self._path)
        self._appended = 0


class CacheFileWriter:
    """Writes a cache's content to its file, in a thread of its own: a slow disk delays no commit. If several states
    arrive during a write, only the newest is written.

    :ivar error: why the served content is not in the file; empty: it is.
    """

    def __init__(self, name: str, file: CacheFile, age_s: Callable[[], float | None]) -> None:
        """:param age_s: time since the served content was all that the source had; None: unknown."""
        self._name, self._file, self._age_s = name, file, age_s
        self._served: Content | None = None
        self._wanted = threading.Event()
        self._closing = False
        self.error = ""
        self._thread = threading.Thread(target=self._run, name=f"datacache-keeping-{name}", daemon=True)

    def start(self, content: Content | None) -> None:
        """:param content: the content that is served already."""
        self._served = content
        self._wanted.set()
        self._thread.start()

    def keep(self, content: Content) -> None:
        """`content` is served from now on."""
        self._served = content
        self._wanted.set()

    def close(self) -> None:
        """The served content is written before this returns."""
        self._closing = True
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._wanted.wait(RETRY_S if self.error else CURRENT_S)
            self._wanted.clear()
            closing = self._closing
            try:
                self._look()
                self.error = ""
            except CacheFileError as error:
                self._note(str(error))
            except Exception as error:
                # A bug; serving does not depend on the file.
                log.exception("cache %s: the content could not be written to its file", self._name)
                self.error = type(error).__name__
            if closing:
                return

    def _look(self) -> None:
        served, age_s = self._served, self._age_s()
        if served is None:
            return
        if served is not self._file.content or age_s is not None:
            self._file.keep(served, time.time() - (0.0 if age_s is None else age_s))

    def _note(self, error: str) -> None:
        if error != self.error:
            log.warning("cache %s: not kept for a restart: %s", self._name, error)
        self.error = error


def _put(file: BinaryIO, content: Content, parts: Iterable[Block]) -> None:
    for block in parts:
        file.write(_line(block))
        time.sleep(PAUSE_S)
    file.write(_line({"at_us": content.at_us, "fingerprint": f"{content.fingerprint:x}"}))
    file.flush()
    os.fsync(file.fileno())


def _line(fields: dict[str, Any]) -> bytes:
    text = _encode(fields).encode()
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode() + b" " + text + b"\n"


class _Found(NamedTuple):
    content: Content
    appended: int
    """Rows after the first state."""
    sound: bool
    """Nothing else follows in the file, so more may be appended."""


def _read(file: BinaryIO, source: str) -> _Found | None:
    """The newest state that is complete and undamaged."""
    lines = _lines(file)
    head = next(lines, {})
    if head.get("schema") != SCHEMA or head.get("source") != source:
        return None
    records: dict[str, Record] = {}
    state: tuple[int, int] | None = None
    newer: list[BlockContent] = []
    appended, reading = 0, ColumnsReader()
    for line in lines:
        if "at_us" in line:
            appended += sum(block.put_in(records) for block in newer)
            newer, state, reading = [], (line["at_us"], int(line["fingerprint"], 16)), ColumnsReader()
        elif state is None:
            reading.read(line).put_in(records)
        else:
            newer.append(reading.read(line))
    if state is None or fingerprint(record[0] for record in records.values()) != state[1]:
        return None
    whole = not newer and file.tell() == os.fstat(file.fileno()).st_size
    return _Found(Content(state[0], Rows(Layered(records)), state[1]), appended, whole)


def _lines(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Lines up to the first that is damaged; the file is left positioned there."""
    begin = 0
    while line := file.readline(MAX_LINE_BYTES):
        text = line[_HEAD:-1]
        digest = blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode()
        if not line.endswith(b"\n") or line[: _HEAD - 1] != digest:
            file.seek(begin)
            return
        begin += len(line)
        yield json.loads(text)
