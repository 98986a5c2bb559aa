"""Records of a log are returned only under the lease.

A gateway paused past its session, and a move went on without it. When it resumed, the rest of an older request reached
the origin, above the cut; a reader got that record at an offset that another record had by then, and never saw that
one.
"""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.session.commands import AwaitLease, Cause, Refresh
from gateway.session.snapshot import Port
from ha_core.wire import encode, encode_response
from tests.gateway.session.batch import batch
from tests.gateway.session.leasing import at, lose, regain
from tests.gateway.session.messages import CHUNKINGS, FETCH, PRODUCE, entry, fetch, fetched, moved, produce, state
from tests.gateway.session.talk import EAST, WEST, Asked, Talk

LIST_OFFSETS, EPOCH_END = 2, 23
LATE = batch(payload=b"l" * 90)


@pytest.mark.parametrize("chunks", CHUNKINGS.values(), ids=CHUNKINGS)
def test_records_wait_for_the_lease(chunks: Callable[[bytes], list[bytes]]) -> None:
    # Given a reader whose answer comes while the lease is lost
    talk = Talk(state(), chunks=chunks)
    talk.ask(FETCH, 12, fetch(("orders", 0, 5)))
    lose(talk)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 6, LATE)))
    assert talk.to_client == b""
    assert AwaitLease() in talk.others
    # When it is regained, and no topic has left, whatever else was published
    talk.follow(at(2, state()))
    regain(talk)
    # Then the records are returned
    assert entry(talk.answers()[0])["records"] == LATE
    assert talk.closed is None


@pytest.mark.parametrize("first", ["asked under the lease", "asked without it"])
@pytest.mark.parametrize("chunks", CHUNKINGS.values(), ids=CHUNKINGS)
def test_records_of_a_topic_that_has_left_meanwhile_are_never_returned(
    chunks: Callable[[bytes], list[bytes]], first: str
) -> None:
    # Given a gateway that has paused, and a reader at the end of a log
    talk = Talk(state(), chunks=chunks)
    if first == "asked without it":
        lose(talk)
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    if first == "asked under the lease":
        lose(talk)
    # When the cluster returns records above the cut, before the gateway hears of the cut
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 101, LATE)))
    talk.follow(state(moved(cut=100), revision=2))
    # Then the reader is answered without records, retries, and gets the present ones
    (again,) = talk.answers()
    assert again["responses"] == []
    regain(talk)
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    talk.answer(WEST, talk.asked(WEST)[-1], fetched(("orders", 0, 1, batch(payload=b"right"))))
    assert entry(talk.answers()[0])["records"] != LATE
    # And the connection is usable as before
    talk.ask(FETCH, 12, fetch(("other", 0, 0)))
    talk.answer(EAST, talk.asked(EAST)[-1], fetched(("other", 0, 1, LATE)))
    assert entry(talk.answers()[0])["records"] == LATE


def test_records_below_a_cut_are_read_without_a_lease() -> None:
    # Given a reader of the origin's log, which no producer writes any more
    talk = Talk(state(moved(cut=100)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 5)))
    lose(talk)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, batch(5))))
    # Then it continues
    assert entry(talk.answers()[0])["records"]


def test_a_gathered_answer_stays_at_its_broker_while_the_lease_is_lost() -> None:
    # Given a reader that comes to the topic's new place after its move, when the lease is lost
    talk = Talk(state(moved(cut=100)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    lose(talk)
    records = batch(payload=b"y" * 1_000_000)
    data = _encoded(talk.asked(WEST)[0], fetched(("orders", 0, 1, records)))
    # When the broker begins to answer
    buf = bytearray(data[:4096])
    talk.take(talk.session.receive_upstream(WEST, buf, len(buf), talk.now))
    # Then no more of it is read
    upstream = talk.session.upstreams[WEST]
    assert (upstream.blocked, len(upstream.carry), upstream.answer) == (True, 4096, None)
    # And all of it is returned when the lease is regained, whatever else was published
    talk.follow(at(2, state(moved(cut=100))))
    regain(talk)
    buf = bytearray(data[4096:])
    talk.take(talk.session.receive_upstream(WEST, buf, len(buf), talk.now))
    assert len(entry(talk.answers()[0])["records"]) == len(records)
    assert talk.closed is None


def test_a_broker_whose_answer_waits_for_the_lease_is_not_taken_for_unresponsive() -> None:
    # Given a reader of a closed log and of one that is written, both of which have answered without the lease
    talk = Talk(state(moved(cut=100)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 5), ("other", 0, 7)))
    lose(talk)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, batch(5))))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("other", 0, 8, LATE)))
    # When it is lost for long
    talk.wait(10.0)
    # Then no topology is refreshed for it
    assert not any(isinstance(one, Refresh) for one in talk.others)


def test_a_client_that_leaves_while_its_gathered_answer_waits_is_released() -> None:
    talk = Talk(state(moved(cut=100)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    lose(talk)
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 1, LATE)))
    talk.take(talk.session.client_left(talk.now))
    assert talk.closed is not None


def _encoded(asked: Asked, body: dict[str, Any]) -> bytes:
    answer = encode(asked.api_key, asked.version, "response", body)
    return encode_response(asked.api_key, asked.version, asked.correlation_id, answer)


def test_reading_holds_up_no_operation_while_the_lease_is_lost() -> None:
    talk = Talk(state())
    talk.ask(LIST_OFFSETS, 6, {"replica_id": -1, "topics": []})
    compose = talk.questions[0]
    lose(talk)
    talk.composed(compose, {"topics": []})
    assert not talk.session.busy
    assert not talk.session.holds_back(frozenset({b"orders"}), frozenset(), 99)


@pytest.mark.parametrize(("api_key", "version"), [(LIST_OFFSETS, 6), (EPOCH_END, 4)])
@pytest.mark.parametrize("published", [True, False])
def test_the_end_of_a_log_is_returned_under_the_lease(api_key: int, version: int, published: bool) -> None:
    # Given a request for the end of a log
    talk = Talk(state())
    talk.ask(api_key, version, {"replica_id": -1, "topics": []})
    compose = talk.questions[0]
    # When the lease is lost before its answer has come
    lose(talk)
    talk.composed(compose, {"topics": []})
    assert not talk.answers()
    # Then it is returned if no topic can have moved meanwhile
    if published:
        talk.follow(at(2, state()))
    regain(talk)
    assert (len(talk.answers()), talk.cause) == ((0, Cause.LEASE_LOST) if published else (1, None))


def test_produce_is_refused_while_reads_wait() -> None:
    talk = Talk(state(), lease=False)
    talk.ask(FETCH, 12, fetch(("orders", 0, 0)))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    assert len(talk.asked(EAST)) == 1
    assert not talk.answers()
