"""Verdicts on closed extents."""

from __future__ import annotations

import pytest

from spark_jobs.aged import IDLE_GROUPS, LIVE_GROUPS, PRODUCERS, RECORDS, UNKNOWN, Held, verdict

NOW_MS = 10_000_000
GONE = Held(
    topic="orders",
    partition=0,
    cluster="east",
    start=0,
    end=100,
    base=0,
    ignored=False,
    writer_again=False,
    newest_end=100,
    exists=True,
    compacted=False,
    log_start=100,
    log_end=100,
    read_at_ms=NOW_MS,
    earlier_end=100,
    producers=0,
    newest_record_ms=None,
    live_groups=0,
    idle_groups=0,
    lowest_commit=None,
    groups=None,
    trouble=None,
)


def blocks(held: Held) -> list[str]:
    found = verdict(held, NOW_MS, quiet_s=60)
    assert found.aged == (not found.blocks)
    return found.blocks


def test_an_extent_that_nobody_can_read_or_will_ask_for_has_aged() -> None:
    assert blocks(GONE) == []


@pytest.mark.parametrize(
    "change",
    [
        {"log_start": 99},
        {"log_start": 0},
        {"log_start": 0, "log_end": 500, "earlier_end": 500},
        {"start": 1_000, "end": 1_100, "base": 50, "newest_end": 150, "log_end": 150, "earlier_end": 150},
    ],
)
def test_records_below_the_cut_stand_against_it(change: dict[str, int]) -> None:
    assert blocks(GONE._replace(**change)) == [RECORDS]


def test_readable_counts_offsets_of_this_extent_alone() -> None:
    # Given client offsets 1,000 to 1,100 at 50 to 150, in a log from 70 to 130
    held = GONE._replace(start=1_000, end=1_100, base=50, newest_end=150, log_start=70, log_end=130)

    assert verdict(held, NOW_MS, 60).readable == 60


def test_an_empty_origin_has_aged_whatever_its_offsets() -> None:
    assert blocks(GONE._replace(log_start=40, log_end=40)) == []


def test_surplus_behind_the_cut_is_told_and_does_not_stand_against_it() -> None:
    found = verdict(GONE._replace(log_start=100, log_end=130, earlier_end=130), NOW_MS, 60)

    assert (found.aged, found.surplus) == (True, 30)


def test_groups_below_the_cut_stand_against_it_live_or_not() -> None:
    held = GONE._replace(live_groups=1, idle_groups=2, lowest_commit=7, groups=["a", "b", "c"])

    assert blocks(held) == [LIVE_GROUPS, IDLE_GROUPS]
    assert "from 7 (a, b, c)" in verdict(held, NOW_MS, 60).why


def test_an_ignored_extent_needs_neither_its_records_nor_its_groups() -> None:
    assert blocks(GONE._replace(ignored=True, log_start=0, live_groups=1, idle_groups=1)) == []


def test_a_producer_that_sent_within_the_time_of_silence_stands_against_it() -> None:
    assert blocks(GONE._replace(producers=1, newest_record_ms=NOW_MS - 59_000)) == [PRODUCERS]
    assert blocks(GONE._replace(producers=1, newest_record_ms=NOW_MS - 61_000)) == []
    assert blocks(GONE._replace(producers=1, newest_record_ms=NOW_MS + 5_000)) == [PRODUCERS]


def test_an_end_that_has_moved_since_an_earlier_look_stands_against_it() -> None:
    assert blocks(GONE._replace(log_start=120, log_end=120, earlier_end=100)) == [PRODUCERS]


def test_the_writer_of_today_may_grow() -> None:
    again = GONE._replace(writer_again=True, log_start=120, log_end=400, earlier_end=100, newest_record_ms=NOW_MS)

    assert blocks(again) == []


def test_what_could_not_be_asked_is_a_reason_to_wait() -> None:
    assert blocks(GONE._replace(trouble="Cluster east: gone")) == [UNKNOWN]
    assert blocks(GONE._replace(log_start=None, log_end=None)) == [UNKNOWN]
    assert blocks(GONE._replace(producers=None, earlier_end=None)) == [UNKNOWN]


def test_a_topic_that_was_deleted_in_the_origin_has_aged() -> None:
    assert blocks(GONE._replace(exists=False, log_start=None, log_end=None, producers=None, earlier_end=None)) == []


def test_a_compacted_topic_is_said_to_need_more_than_time() -> None:
    assert "compacted" in verdict(GONE._replace(compacted=True, log_start=0), NOW_MS, 60).why
