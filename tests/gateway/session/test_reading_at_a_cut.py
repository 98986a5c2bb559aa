"""A cut that the log ran into may fall into a batch: all of that is read above the cut, and nothing of it below."""

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from gateway.session.snapshot import Port
from ha_core.model import Crossing
from tests.gateway.session.messages import FETCH, entry, fetch, fetched, moved, state
from tests.gateway.session.talk import EAST, WEST, Talk


def straddling(first: int, count: int, codec: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for number in range(count):
        builder.append(number, 1_700_000_000_000, None, b"record %d" % (first + number), [])
    made = bytearray(builder.build())
    made[:8] = first.to_bytes(8, "big")
    return bytes(made)


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_straddles_the_cut_is_read_only_in_the_new_cluster(codec: int) -> None:
    # Given a cut at 100, and in the old log a batch of the records 97 to 104
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 95)), to=EAST)
    old = straddling(95, 2, codec) + straddling(97, 8, codec)
    talk.answer(EAST, request, fetched(("orders", 0, 105, old)))
    # Then the records before the batch are read, and none of the batch
    found = DefaultRecordBatch(entry(talk.answers()[0])["records"])
    assert [(r.offset, r.value) for r in found] == [(n, b"record %d" % n) for n in (95, 96)]
    # And a reader after that continues in the new cluster, where all of the batch is
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 97)), to=EAST)
    talk.answer(EAST, request, fetched(("orders", 0, 105, straddling(97, 8, codec))))
    talk.wait(0.5)
    assert not entry(talk.answers()[0])["records"]
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 97)), to=WEST)
    assert request.partition["fetch_offset"] == 7


def test_a_reader_waits_before_the_batch_while_the_cut_is_only_proposed_because_a_higher_one_may_come() -> None:
    # Given a cut that is proposed, and in the origin a batch that straddles it
    topic = moved(100, 7).model_copy(update={"writer": "east", "crossing": Crossing(operation="m", state="proposed")})
    talk = Talk(state(topic), Port("east", 1))
    for _ in range(2):
        talk.ask(FETCH, 12, fetch(("orders", 0, 97)))
        for request in talk.asked(EAST):
            talk.answer(EAST, request, fetched(("orders", 0, 105, straddling(97, 8, 0))))
        talk.wait(1.0)
        assert not entry(talk.answers()[0])["records"]
    assert not talk.asked(WEST)
    # When a higher cut takes its place, the batch is read like any other
    higher = moved(120, 7).model_copy(update={"writer": "east", "crossing": topic.crossing})
    talk.follow(state(higher, revision=2))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 97)), to=EAST)
    talk.answer(EAST, request, fetched(("orders", 0, 105, straddling(97, 8, 0))))
    assert [r.offset for r in DefaultRecordBatch(entry(talk.answers()[0])["records"])] == list(range(97, 105))


def test_nothing_is_read_above_a_cut_that_is_only_proposed_because_a_higher_one_may_come() -> None:
    # Given a reader at a cut that is proposed, which the log has reached
    topic = moved(100, 7).model_copy(update={"writer": "east", "crossing": Crossing(operation="m", state="proposed")})
    talk = Talk(state(topic), Port("east", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    # Then it waits here, and not in the target, whose first record may get an offset above another cut
    assert not talk.asked(WEST)
    assert not talk.answers()
    talk.wait(1.0)
    found = entry(talk.answers()[0])
    assert (found["error_code"], found["records"]) == (0, b"")
    # And once the cut is open it is read there
    opened = topic.model_copy(update={"crossing": Crossing(operation="m", state="open")})
    talk.follow(state(opened, revision=2))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST)
    assert request.partition["fetch_offset"] == 7
