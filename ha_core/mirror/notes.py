"""Intents, progresses and pages of runs as records of the copy log, a compacted topic with a fixed set of keys.

Per partition the log keeps one progress, `SLOTS` intents, and a page for each `PAGE_RUNS` gaps of its source. Keys
begin with the link, the topic and the partition; values are JSON of arrays in a fixed order, compressed when they are
long.
"""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ha_core.mirror.partition import SLOTS
from ha_core.mirror.progress import (
    Copied,
    CopyDamagedError,
    Intent,
    Progress,
    RunPage,
    TopicIds,
    Writer,
)
from ha_core.model import Run

_SCHEMA = 1
_PACK_FROM_BYTES = 1024
_MAX_VALUE_BYTES = 64 << 20
"""Limit of the unpacked value; a longer one was not written by a copier."""
_PROGRESS, _PAGE = "progress", "runs-"
Note = Intent | Progress | RunPage


class CopyId(NamedTuple):
    """A partition of a link."""

    link: str
    topic: str
    partition: int

    @property
    def mirror(self) -> tuple[str, str]:
        """The mirror of the partition."""
        return self[:2]


COPIERS = "switchyard-copy-"
"""Prefix of copiers' transactional ids."""


def transactional_id(copy: CopyId) -> str:
    """Transactional id of a partition's copier. Each partition has its own, so a takeover stops only that copier."""
    return f"{COPIERS}{copy.link}-{copy.topic}-{copy.partition}"


def log_partition(copy: CopyId, count: int) -> int:
    """The partition of the copy log with the notes of `copy`. It never changes: the log gets no more partitions."""
    return zlib.crc32("\0".join(map(str, copy)).encode()) % count


def encode(copy: CopyId, note: Note) -> tuple[bytes, bytes]:
    """(key, value)"""
    match note:
        case Intent():
            slot: int | str = note.number % SLOTS
            fields: list[Any] = [note.writer, note.number, note.leader_epoch, note.batches]
        case RunPage():
            slot = f"{_PAGE}{note.number}"
            fields = [note.number, note.runs]
        case Progress():
            slot = _PROGRESS
            producers = [[key, *value] for key, value in note.producers.items()]
            fields = [note.writer, note.number, note.leader_epoch, note.source, note.target, note.sequence]
            fields += [note.runs, producers, note.pages, note.forgotten, note.topics, note.base, note.source_base]
            if note.overtaken:  # mirrors never have it, so earlier versions can read their notes
                fields.append(note.overtaken)
    value = json.dumps([_SCHEMA, *fields], separators=(",", ":")).encode()
    if len(value) >= _PACK_FROM_BYTES:
        value = zlib.compress(value, 1)
    return _encoded_key(copy, slot), value


def _encoded_key(copy: CopyId, slot: int | str) -> bytes:
    return json.dumps([*copy, slot], separators=(",", ":")).encode()


def decode(key: bytes, value: bytes) -> tuple[CopyId, Note]:
    """:raises CopyDamagedError: no note, or one of a newer version of this program."""
    try:
        copy, slot = _key(key)
        if isinstance(slot, str) and slot.startswith(_PAGE):
            page, runs = _fields(value)
            return copy, RunPage(page, tuple(Run(*run) for run in runs))
        writer, number, leader_epoch, *rest = _fields(value)
        if slot != _PROGRESS:
            (batches,) = rest
            return copy, Intent(Writer(*writer), number, tuple(Copied(*batch) for batch in batches), leader_epoch)
        source, target, sequence, runs, producers, pages, forgotten, topics, *more = rest
        # A progress written before mirrors could be reversed has none of these, and most have only two.
        base, source_base, overtaken = [*more, 0, 0, 0][: max(len(more), 3)]
        return copy, Progress(
            Writer(*writer),
            source,
            target,
            sequence,
            number,
            leader_epoch,
            tuple(Run(*run) for run in runs),
            {producer: (epoch, last) for producer, epoch, last in producers},
            pages,
            forgotten,
            TopicIds(*topics),
            base,
            source_base,
            overtaken,
        )
    except (ValueError, TypeError, zlib.error) as error:
        raise CopyDamagedError(f"the note {key!r} of the copy log cannot be read: {error}") from error


def _key(key: bytes) -> tuple[CopyId, int | str]:
    link, topic, partition, slot = json.loads(key)
    return CopyId(link, topic, partition), slot


@dataclass
class Notes:
    """The notes of one copy in the copy log. Later records of a key replace earlier ones.

    :ivar pages: empty unless `whole_map` is set.
    """

    copy: CopyId
    whole_map: bool = False
    progress: Progress | None = None
    intents: dict[int, Intent] = field(default_factory=dict)
    pages: dict[int, RunPage] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes) -> None:
        """Takes a record of the copy log with the copy's key. :raises CopyDamagedError: it cannot be read."""
        if not self.whole_map and is_page(key):
            return
        _, note = decode(key, value)
        match note:
            case Progress():
                self.progress = note
            case Intent():
                self.intents[note.number % SLOTS] = note
            case RunPage():
                self.pages[note.number] = note

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs up to the progress, if `whole_map` is set.

        :raises CopyDamagedError: a page is missing.
        """
        if self.progress is None:
            return ()
        try:
            pages = [self.pages[number] for number in range(self.progress.pages)]
        except KeyError as error:
            raise CopyDamagedError(f"page {error} of the map of {self.copy} is not in the copy log") from None
        return (*(run for page in pages for run in page.runs), *self.progress.runs)


@dataclass
class NotedCopies:
    """The copies that have notes in a partition of the copy log below an offset: others need no look below it.

    Compaction keeps the last note of each key, so a copy that has had notes there is never missing.

    :ivar log_id: topic id and leader epoch of the log.
    """

    log_id: str = ""
    end: int = 0
    _prefixes: set[bytes] = field(default_factory=set)

    def first(self, copy: CopyId) -> int:
        """The offset below which the copy has no notes."""
        return 0 if key_prefix(copy) in self._prefixes else self.end

    def of_log(self, log_id: str) -> None:
        """Forgets everything if the log may be another topic, or have lost records.

        :param log_id: "": that cannot be told (brokers before 2.8).
        """
        if not log_id or log_id != self.log_id:
            self.log_id, self.end = log_id, 0
            self._prefixes.clear()

    def read(self, start: int, end: int, prefixes: Iterable[bytes]) -> None:
        """
        :param prefixes: of all keys (`prefix_of`) between these offsets.
        """
        if start <= self.end <= end and self.log_id:
            self._prefixes.update(prefixes)
            self.end = end


_PAGE_IN_KEY = f',"{_PAGE}'.encode()


def is_page(key: bytes) -> bool:
    """Whether the note with this key is a page of runs."""
    return _PAGE_IN_KEY in key


def is_intent(key: bytes) -> bool:
    """Whether the note with this key is an intent: its slot is a number. Nearly all notes are."""
    return not key.endswith(b'"]')


def key_prefix(copy: CopyId) -> bytes:
    """The beginning of the keys of all notes of this copy, see `prefix_of`."""
    return prefix_of(_encoded_key(copy, 0))


def prefix_of(key: bytes) -> bytes:
    """The part of a key that tells the copy, without decoding it: slots have no comma."""
    return key[: key.rfind(b",")]


def copy_of(key: bytes) -> CopyId:
    """The copy of a record of the copy log. :raises CopyDamagedError: the key cannot be read."""
    try:
        return _key(key)[0]
    except (ValueError, TypeError) as error:
        raise CopyDamagedError(f"the key {key!r} of the copy log cannot be read: {error}") from error


def _fields(value: bytes) -> list[Any]:
    if not value.startswith(b"["):
        unpacking = zlib.decompressobj()
        value = unpacking.decompress(value, _MAX_VALUE_BYTES)
        if not unpacking.eof:
            raise ValueError("it is cut off, or longer than any note")
    fields: list[Any]
    schema, *fields = json.loads(value)
    if schema != _SCHEMA:
        raise ValueError(f"it has schema {schema}, and {_SCHEMA} is known: use a newer version")
    return fields
