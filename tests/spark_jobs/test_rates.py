"""Windows between reads of log ends, on a real Spark session."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from spark_jobs.cuts import Windows
from spark_jobs.offsets import windows
from spark_jobs.rows import frame_of
from tests.spark_jobs import reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGS = 300
Reads = list[tuple[int | None, int | None]]


class Read(NamedTuple):
    cluster: str
    topic: str
    partition: int
    read_at_ms: int | None
    end: int | None


def found_of(spark: SparkSession, logs: list[Reads], chance: float = 0.01) -> list[Windows]:
    """Spark's windows of each log."""
    rows = [Read("east", "t", number, *read) for number, reads in enumerate(logs) for read in reads]
    found = {
        row["partition"]: Windows(*(row[name] for name in Windows._fields))
        for row in windows(frame_of(spark, Read, rows), chance).collect()
    }
    return [found.get(number, Windows()) for number in range(len(logs))]


def test_recreated_log_starts_a_new_history(spark: SparkSession) -> None:
    (found,) = found_of(spark, [[(0, 0), (10_000, 100_000), (20_000, 5), (30_000, 25)]])

    assert found == Windows(1, 2.0, 10.0, 30_000, 2.0, 2.0, 0.0, None)


def test_missing_duplicate_and_unordered_reads_are_handled(spark: SparkSession) -> None:
    reads: Reads = [(20_000, 40), (None, 3), (0, 0), (10_000, 40), (10_000, 40), (10_400, 40), (5, -7)]

    (found,) = found_of(spark, [reads])

    assert (found.windows, found.highest, found.average, found.moved_at_ms) == (2, 4.0, 2.0, 10_000)


@pytest.mark.parametrize("chance", [0.01, 0.2])
def test_windows_equal_the_reference(spark: SparkSession, chance: float) -> None:
    # Given logs that grow, stand still, are re-created and are read twice, with missing and unordered reads
    draw = random.Random(11)

    def log() -> Reads:
        at_ms = end = 0
        reads: Reads = []
        for _ in range(draw.randrange(150)):
            at_ms += draw.choice((0, 1_000, 60_000, 900_000))
            end = draw.randrange(end + 1) if draw.random() < 0.02 else end + draw.choice((0, 7, 40_000))
            reads += [(at_ms, end)] if at_ms not in {read[0] for read in reads} else []
        holes: Reads = [(None, 5), (at_ms, None), (at_ms, -1)]
        reads += [*reads[:3], *(hole for hole in holes if draw.random() < 0.5)]
        draw.shuffle(reads)
        return reads

    logs = [log() for _ in range(LOGS)]
    # When
    found = found_of(spark, logs, chance)
    # Then
    for reads, one in zip(logs, found, strict=True):
        expected = reference.windows([at for at, _ in reads], [end for _, end in reads], chance)
        assert one == pytest.approx(expected), reads
    assert {one.ranked is None for one in found} == {True, False}
