"""Rows as JSON that is read in bulk: a block has many rows of one shape, column by column.

A text of a column is stored once, in the first block that has it, however many rows have it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from sys import intern
from typing import Any, NamedTuple

from ha_core.datacache.core.packed import Record, Rows, RowShape, ShapeKey, record_of, shape_of
from ha_core.datacache.core.source import Row

BLOCK_ROWS = 1000
MAX_TEXTS = 1 << 18
"""Most texts of a column that are remembered while it is written or read."""
Block = dict[str, Any]
_Entry = tuple[str, Record]
_Texts = defaultdict[tuple[ShapeKey, int], dict[str, int]]
"""By shape and column: the texts of blocks so far, and their numbers."""


class BlockContent(NamedTuple):
    """The content of a block.

    :ivar records: of these keys; iterable once.
    :ivar gone: keys that were deleted.
    """

    keys: Sequence[str]
    records: Iterable[Record]
    gone: Sequence[str] = ()

    def put_in(self, records: dict[str, Record]) -> int:
        """Returns the number of its rows."""
        records.update(zip(self.keys, self.records, strict=True))
        for key in self.gone:
            records.pop(key, None)
        return len(self.keys) + len(self.gone)


def blocks(rows: Rows) -> Iterator[Block]:
    """Blocks of a whole content."""
    return _by_shape(rows.records.entries())


def blocks_of_changes(rows: Iterable[Row]) -> Iterator[Block]:
    """:param rows: may include deletions."""
    gone: list[str] = []
    entries: list[_Entry] = []
    for row in rows:
        if row.value is None:
            gone.append(row.key)
        else:
            entries.append((row.key, record_of(row)))
    yield from _by_shape(entries)
    for at in range(0, len(gone), BLOCK_ROWS):
        yield {"gone": gone[at : at + BLOCK_ROWS]}


class ColumnsReader:
    """Reads all blocks that one call has made, in their order."""

    def __init__(self) -> None:
        self._texts: dict[tuple[ShapeKey, int], list[str]] = {}

    def read(self, block: Block) -> BlockContent:
        if "keys" not in block:
            return BlockContent((), (), block.get("gone", ()))
        shape = shape_of(block["shape"])
        columns = [self._column(shape, number, column) for number, column in enumerate(block["columns"])]
        return BlockContent(block["keys"], zip(block["changed_us"], repeat(shape), *columns))

    def _column(self, shape: RowShape, number: int, column: Sequence[Any] | dict[str, Any]) -> Iterable[Any]:
        if not isinstance(column, dict):
            return [intern(text) if type(text) is str else text for text in column] if shape.outer[number] else column
        texts = self._texts.setdefault((shape.key, number), [])
        texts += map(intern, column["new"])
        at = column["at"]
        return repeat(texts[at]) if isinstance(at, int) else map(texts.__getitem__, at)


def _by_shape(entries: Iterable[_Entry]) -> Iterator[Block]:
    waiting: defaultdict[RowShape, list[_Entry]] = defaultdict(list)
    texts: _Texts = defaultdict(dict)
    for entry in entries:
        alike = waiting[entry[1][1]]
        alike.append(entry)
        if len(alike) == BLOCK_ROWS:
            yield _block(alike, texts)
            alike.clear()
    for alike in waiting.values():
        if alike:
            yield _block(alike, texts)


def _block(entries: Sequence[_Entry], texts: _Texts) -> Block:
    keys, records = zip(*entries, strict=True)
    times, (shape, *_), *columns = zip(*records, strict=True)
    encoded = (
        _encoded(column, texts[shape.key, number]) if shape.outer[number] else column
        for number, column in enumerate(columns)
    )
    return {"shape": shape.structure, "keys": keys, "changed_us": times, "columns": list(encoded)}


def _encoded(column: Sequence[Any], texts: dict[str, int]) -> Sequence[Any] | dict[str, Any]:
    """The column itself, or the texts that no earlier block had, and each row's index among all texts.

    Texts only, since 1 and true are equal.
    """
    if len(texts) > MAX_TEXTS or set(map(type, column)) != {str}:
        return column
    new = [text for text in dict.fromkeys(column) if text not in texts]
    texts.update(zip(new, range(len(texts), len(texts) + len(new)), strict=True))
    at = [texts[text] for text in column]
    return {"new": new, "at": at[0] if len(set(at)) == 1 else at}
