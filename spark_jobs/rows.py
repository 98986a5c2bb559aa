"""Rows as named tuples, and their conversion: one definition gives Spark's schema and Arrow's.

A job's functions take and give iterators of such rows and do not depend on Spark. `over_rows` makes one of them a
function for `DataFrame.mapInArrow`, which works alike in local mode, on a cluster and over Spark Connect.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

A = TypeVar("A", bound=NamedTuple)
B = TypeVar("B", bound=NamedTuple)
ROWS_PER_BATCH = 5_000
"""Rows per batch of results: bounds the memory of a Python worker."""
_TYPES: dict[Any, tuple[str, pa.DataType]] = {
    int: ("bigint", pa.int64()),
    float: ("double", pa.float64()),
    str: ("string", pa.string()),
    bool: ("boolean", pa.bool_()),
}


@cache
def _columns(kind: Any) -> tuple[tuple[str, str, pa.DataType], ...]:
    return tuple((name, *_type(hint)) for name, hint in get_type_hints(kind).items())


def _type(hint: Any) -> tuple[str, pa.DataType]:
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) in (list, Sequence):
        spark, arrow = _type(get_args(hint)[0])
        return f"array<{spark}>", pa.list_(arrow)
    return _TYPES[str if get_origin(hint) is Literal else hint]


def spark_schema(kind: Any) -> str:
    """The row type as Spark's DDL; every column may be null."""
    return ", ".join(f"`{name}` {spark}" for name, spark, _ in _columns(kind))


def arrow_schema(kind: Any) -> pa.Schema:
    return pa.schema([(name, arrow) for name, _, arrow in _columns(kind)])


def from_batches(kind: type[A], batches: Iterable[pa.RecordBatch]) -> Iterator[A]:
    """Rows of `kind` from batches with its columns, in any order."""
    names = [name for name, _, _ in _columns(kind)]
    make: Callable[[Iterable[Any]], A] = kind._make
    for batch in batches:
        yield from map(make, zip(*(batch.column(name).to_pylist() for name in names), strict=True))


def to_batches(kind: type[B], rows: Iterable[B]) -> Iterator[pa.RecordBatch]:
    """Batches of at most `ROWS_PER_BATCH` rows."""
    schema = arrow_schema(kind)
    left = iter(rows)
    while some := list(islice(left, ROWS_PER_BATCH)):
        columns = zip(*some, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def over_rows(
    function: Callable[[Iterator[A]], Iterable[B]], takes: type[A], gives: type[B]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`function` over Arrow batches. It runs on executors: everything that it refers to must be importable or
    picklable."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(gives, function(from_batches(takes, batches)))

    return run


def map_rows(
    frame: DataFrame, function: Callable[[Iterator[A]], Iterable[B]], takes: type[A], gives: type[B]
) -> DataFrame:
    names = [name for name, _, _ in _columns(takes)]
    return frame.select(*names).mapInArrow(over_rows(function, takes, gives), spark_schema(gives))


def with_columns(frame: DataFrame, function: Callable[[A], B], takes: type[A], adds: type[B]) -> DataFrame:
    """`frame` with the fields that `function` returns for each row, from the columns of `takes`."""
    schema = arrow_schema(adds)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            added = to_batches(adds, map(function, from_batches(takes, [batch])))
            table = pa.Table.from_batches([batch])
            for name, column in zip(schema.names, pa.Table.from_batches(added, schema).columns, strict=True):
                table = table.append_column(name, column)
            yield from table.to_batches()

    columns = (f"`{name}` {kind}" for name, kind in frame.dtypes)
    return frame.mapInArrow(run, ", ".join([*columns, spark_schema(adds)]))


def frame_of(spark: SparkSession, kind: type[B], rows: Iterable[B]) -> DataFrame:
    found = pa.Table.from_batches(to_batches(kind, rows), arrow_schema(kind))
    # Spark Connect rejects empty Arrow tables.
    return spark.createDataFrame(found) if len(found) else spark.createDataFrame([], spark_schema(kind))
