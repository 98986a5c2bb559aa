"""Readers pass over offsets without records, below, at and above a cut, however little they ask for at a time."""

from typing import Any

import pytest

from gateway.session.snapshot import Port
from ha_core.model import Crossing, Extent, Topic
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, entry, fetch, fetched, moved, state
from tests.gateway.session.talk import EAST, WEST, Talk

LIST_OFFSETS = 2
OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)


def there_and_back() -> Topic:
    """`orders`: [0, 100) in the east, [100, 150) in the west, and from 150 on in the east again."""
    extents = (
        Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0),
        Extent(cluster="west", start=100, end=150, base=0, writer_epoch=1),
        Extent(cluster="east", start=150, base=100, writer_epoch=2),
    )
    return Topic(name="orders", writer="east", partitions={0: extents})


def starts_at(offset: int) -> dict[str, Any]:
    found = {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": offset}
    return {"topics": [{"name": "orders", "partitions": [found]}]}


def offsets(answer: dict[str, Any]) -> list[int]:
    records = entry(answer)["records"] or b""
    return [found.base_offset for found in batches(records, 0, len(records))]


def test_a_reader_passes_two_hollow_stays_in_a_row() -> None:
    # Given compaction has removed the last records of one stay, and all of the next one
    talk = Talk(state(there_and_back()), Port("east", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 98)))
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, b"")))
    talk.ask(FETCH, 12, fetch(("orders", 0, 98)))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 50, b"")))
    # When the reader asks a third time
    talk.ask(FETCH, 12, fetch(("orders", 0, 98)))
    # Then it is served from the last stay
    assert not talk.asked(WEST)
    (request,) = talk.asked(EAST)
    assert request.partition["fetch_offset"] == 100
    talk.answer(EAST, request, fetched(("orders", 0, 101, batch(100))))
    assert [offsets(answer) for answer in talk.answers()] == [[], [], [150]]


def test_a_reader_passes_a_hollow_end_while_another_partition_of_that_broker_is_never_empty() -> None:
    # Given a hollow end below a cut, and a busy topic that the same broker serves
    talk = Talk(state(moved(100, 7)), Port("east", 1))
    talk.ask(FETCH, 12, fetch(("other", 0, 1), ("orders", 0, 98)))
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("other", 0, 9, batch(1)), ("orders", 0, 100, b"")))
    # When the empty partition goes first, as clients arrange it
    talk.ask(FETCH, 12, fetch(("orders", 0, 98), ("other", 0, 2)))
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, b""), ("other", 0, 9, batch(2))))
    # Then it is read from above the cut
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 98)), to=WEST)
    assert request.partition["fetch_offset"] == 7


def test_a_cut_that_was_raised_while_a_reader_stood_below_it_hides_no_record() -> None:
    # Given a reader that found nothing up to a cut that is only proposed
    topic = moved(100, 7).model_copy(update={"writer": "east", "crossing": Crossing(operation="m", state="proposed")})
    talk = Talk(state(topic), Port("east", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 98)))
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, b"")))
    # When a higher cut takes its place
    raised = moved(200, 7).model_copy(update={"writer": "east", "crossing": topic.crossing})
    talk.follow(state(raised, revision=2))
    talk.ask(FETCH, 12, fetch(("orders", 0, 98)))
    # Then the records between the two are read
    (request,) = talk.asked(EAST)
    assert request.partition["fetch_offset"] == 98


@pytest.mark.parametrize("state_of_it", ["live", "closed"])
def test_a_reader_continues_at_the_first_record_that_retention_has_left_above_a_cut(
    state_of_it: str,
) -> None:
    # Given a reader that has read all of the old log, which retention by size never shortens, and a new one that starts
    # at 30 by now
    topic = moved(100, 0) if state_of_it == "live" else there_and_back()
    talk = Talk(state(topic), Port("west", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST)
    talk.answer(WEST, request, fetched(("orders", 0, -1, b""), error=OUT_OF_RANGE))
    # Then it is not sent back to the old log's start, from which it would come here again, endlessly
    (question,) = talk.asked(WEST)
    assert question[0] == LIST_OFFSETS
    assert question.partition["timestamp"] == -2
    talk.answer(WEST, question, starts_at(30))
    talk.wait(0.1)
    assert [(entry(answer)["error_code"], offsets(answer)) for answer in talk.answers()] == [(0, [])]
    # But continues at the first record that is left
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST)
    assert request.partition["fetch_offset"] == 30
    talk.answer(WEST, request, fetched(("orders", 0, 40, batch(30))))
    assert [offsets(answer) for answer in talk.answers()] == [[130]]


def test_an_empty_stay_is_passed_over() -> None:
    talk = Talk(state(there_and_back()), Port("east", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST)
    talk.answer(WEST, request, fetched(("orders", 0, -1, b""), error=OUT_OF_RANGE))
    talk.answer(WEST, talk.asked(WEST)[0], starts_at(80))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=EAST)
    assert request.partition["fetch_offset"] == 100


def test_a_log_that_ends_below_its_former_end_is_out_of_range_like_any_other() -> None:
    # Given a new log that has lost its records: its start is unchanged, and its end is lower
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST)
    talk.answer(WEST, request, fetched(("orders", 0, -1, b""), error=OUT_OF_RANGE))
    talk.answer(WEST, talk.asked(WEST)[0], starts_at(0))
    talk.wait(0.1)
    talk.answers()
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST)
    talk.answer(WEST, request, fetched(("orders", 0, -1, b""), error=OUT_OF_RANGE))
    assert entry(talk.answers()[0])["error_code"] == OUT_OF_RANGE


def test_offsets_in_a_partitions_first_extent_are_out_of_range_as_in_any_log() -> None:
    topic = Topic(
        name="orders", writer="west", partitions={0: (Extent(cluster="west", start=100, base=7, writer_epoch=1),)}
    )
    talk = Talk(state(topic), Port("west", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 98)), to=WEST)
    talk.answer(WEST, request, fetched(("orders", 0, -1, b""), error=OUT_OF_RANGE))
    assert entry(talk.answers()[0])["error_code"] == OUT_OF_RANGE


def test_only_the_first_answer_above_a_cut_is_examined_whole() -> None:
    # Given a reader that waits at a cut, and got an answer without records
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 7, b"")))
    talk.answers()
    # When it asks again
    talk.ask(FETCH, 12, {**fetch(("orders", 0, 100)), "max_wait_ms": 30_000})
    # Then it waits as long as it wants to, and its answer streams
    (request,) = talk.asked(WEST)
    assert request.body["max_wait_ms"] == 30_000
    talk.chunks = lambda data: [data[:-1], data[-1:]]
    data = fetched(("orders", 0, 8, batch(7)))
    talk.answer(WEST, request, data)
    assert offsets(talk.answers()[0]) == [100]


def test_records_above_a_cut_that_was_moved_meanwhile_are_not_returned() -> None:
    # Given a reader that waits at a cut in the new cluster
    crossing = Crossing(operation="m", state="open")
    topic = moved(100, 7).model_copy(update={"writer": "east", "crossing": crossing})
    talk = Talk(state(topic), Port("east", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST)
    # When that cut was taken back, and another one is reached before it is answered
    again = moved(200, 7).model_copy(update={"writer": "east", "crossing": crossing})
    talk.follow(state(again, revision=2))
    talk.answer(WEST, request, fetched(("orders", 0, 8, batch(7))))
    # Then it does not get the record of 200 as that of 100
    assert offsets(talk.answers()[0]) == []


def test_parts_of_one_answer_share_the_clients_byte_limit() -> None:
    # Given a reader of two clusters. librdkafka drops a connection with an answer above its limit, and asks again
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    talk.ask(FETCH, 12, {**fetch(("orders", 0, 50), ("other", 0, 3)), "max_bytes": 1000})
    assert [talk.asked(node)[0].body["max_bytes"] for node in (EAST, WEST)] == [500, 500]


def test_an_answer_that_waits_after_one_that_a_cut_ends_is_not_forgotten() -> None:
    # Given a read that waits in the east, and after it an answer of the west that has come already
    other = Topic(
        name="other",
        writer="west",
        partitions={0: (Extent(cluster="west", start=5, base=0, writer_epoch=1),)},
    )
    talk = Talk(state(other), Port("east", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    request = talk.forwarded(FETCH, 12, fetch(("other", 0, 7)), to=WEST)
    talk.answer(WEST, request, fetched(("other", 0, 3, batch(2))))
    assert not talk.answers()
    # When the first topic is cut
    talk.follow(state(other, moved(100, 7), revision=2))
    # Then both are answered at once
    first, second = talk.answers()
    assert first["responses"] == []
    assert offsets(second) == [7]
