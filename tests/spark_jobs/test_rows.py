"""Rows, their schema, and their conversion to Arrow and back."""

from typing import NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.rows import ROWS_PER_BATCH, arrow_schema, from_batches, over_rows, spark_schema, to_batches


class Mixed(NamedTuple):
    name: str
    size: int | None
    share: float
    done: bool
    some: list[int] | None


class Sum(NamedTuple):
    total: int


def test_a_row_type_has_a_schema_for_spark_and_one_for_arrow() -> None:
    wanted = "`name` string, `size` bigint, `share` double, `done` boolean, `some` array<bigint>"
    assert spark_schema(Mixed) == wanted
    assert arrow_schema(Mixed).field("some").type == pa.list_(pa.int64())


longs = st.integers(-(2**63), 2**63 - 1)
mixed = st.builds(
    Mixed, st.text(), st.none() | longs, st.floats(allow_nan=False), st.booleans(), st.none() | st.lists(longs)
)


@settings(deadline=None)
@given(st.lists(mixed, max_size=20))
def test_rows_survive_the_way_to_arrow_and_back(rows: list[Mixed]) -> None:
    assert list(from_batches(Mixed, to_batches(Mixed, rows))) == rows


def test_columns_are_found_by_name() -> None:
    batch = pa.RecordBatch.from_pydict({"more": [1], "total": [2]})

    assert list(from_batches(Sum, [batch])) == [Sum(2)]


def test_batches_are_bounded_and_nothing_gives_none() -> None:
    batches = list(to_batches(Sum, (Sum(n) for n in range(2 * ROWS_PER_BATCH + 1))))

    assert [len(batch) for batch in batches] == [ROWS_PER_BATCH, ROWS_PER_BATCH, 1]
    assert list(over_rows(lambda rows: rows, Sum, Sum)(iter(()))) == []
