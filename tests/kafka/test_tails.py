"""Counts of a lost tail: acknowledged records, and aborted ones separately."""

from collections.abc import Iterable

from ha_core.kafka.counting import Counted, count
from ha_core.mirror.partition_diff import Piece
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.copied_batch import CONTROL, TRANSACTIONAL
from ha_core.wire.records import Batch

KEY = ("orders", 0)
ABORTED = frozenset({10, 30})
"""Base offsets of batches in aborted transactions."""


class Log:
    """100 offsets: consecutive batches of ten records, and a marker at 50."""

    def __init__(self, last_stable: int = 100) -> None:
        self._stable = last_stable

    def log(self, key: Partition, start: int, end: int, committed: bool = False) -> Iterable[Piece]:
        assert not committed or end <= self._stable, "brokers tell nobody what is undecided"
        for at in range(start - start % 10, end, 10):
            attributes = CONTROL | TRANSACTIONAL if at == 50 else TRANSACTIONAL
            yield Piece(_batch(at, attributes), b"", not committed or at not in ABORTED)


def _batch(at: int, attributes: int) -> Batch:
    return Batch(0, at, 2, attributes, 9, 7, 0, 0, 10, 0)


def test_aborted_records_are_counted_separately_and_are_no_loss() -> None:
    counted = count(Log(), KEY, 0, 100, 100)
    assert (counted.records, counted.aborted) == (70, 20)


def test_records_of_a_transaction_that_has_not_ended_count_as_lost() -> None:
    counted = count(Log(last_stable=30), KEY, 0, 60, 30)
    assert (counted.records, counted.aborted) == (40, 10)


def test_a_tail_without_records_counts_nothing() -> None:
    assert count(Log(), KEY, 60, 60, 60) == Counted()
