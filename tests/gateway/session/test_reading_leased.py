"""What lies in a log is told under the lease only.

A gateway slept past its session, and a move went on without it. When it woke, the rest of an older request reached the
origin, behind the cut; a reader was given that record at an offset that was another one's by then, and never saw that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.session.commands import AwaitLease, Cause, Compose, Refresh
from gateway.session.snapshot import Port
from ha_core.model import Extent, Topic
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
    # When it is back, and nothing has left, whatever else was published
    talk.follow(at(2, state()))
    regain(talk)
    # Then they are given
    assert entry(talk.answers()[0])["records"] == LATE
    assert talk.closed is None


@pytest.mark.parametrize("first", ["asked under the lease", "asked without it"])
@pytest.mark.parametrize("chunks", CHUNKINGS.values(), ids=CHUNKINGS)
def test_records_of_a_topic_that_has_left_meanwhile_are_never_given(
    chunks: Callable[[bytes], list[bytes]], first: str
) -> None:
    # Given a gateway that has slept, and a reader at the end of a log
    talk = Talk(state(), chunks=chunks)
    if first == "asked without it":
        lose(talk)
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    if first == "asked under the lease":
        lose(talk)
    # When the cluster gives what it has got behind the cut, before the gateway hears of that
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 101, LATE)))
    talk.follow(state(moved(cut=100), revision=2))
    # Then the reader is told to ask again, and gets what lies there now
    (again,) = talk.answers()
    assert again["responses"] == []
    regain(talk)
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    talk.answer(WEST, talk.asked(WEST)[-1], fetched(("orders", 0, 1, batch(payload=b"right"))))
    assert entry(talk.answers()[0])["records"] != LATE
    # And the connection is as good as before
    talk.ask(FETCH, 12, fetch(("other", 0, 0)))
    talk.answer(EAST, talk.asked(EAST)[-1], fetched(("other", 0, 1, LATE)))
    assert entry(talk.answers()[0])["records"] == LATE


def test_what_a_reader_was_given_a_part_of_comes_whole() -> None:
    # Given half of an answer that came under the lease
    talk = Talk(state())
    talk.ask(FETCH, 12, fetch(("orders", 0, 5)))
    asked = talk.asked(EAST)[0]
    rest: list[bytes] = []
    talk.chunks = lambda data: [rest.append(data[60:]) or data[:60]]  # type: ignore[func-returns-value]
    talk.answer(EAST, asked, fetched(("orders", 0, 6, LATE)))
    # When it is lost
    lose(talk)
    buf = bytearray(rest[0])
    talk.take(talk.session.receive_upstream(EAST, buf, len(buf), talk.now))
    # Then the rest is as true as the beginning
    assert entry(talk.answers()[0])["records"] == LATE


def test_records_below_a_cut_are_read_without_a_lease() -> None:
    # Given a reader of the origin's log, which nobody writes any more
    talk = Talk(state(moved(cut=100)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 5)))
    lose(talk)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, batch(5))))
    # Then he goes on
    assert entry(talk.answers()[0])["records"]


def test_records_of_two_clusters_wait_for_the_lease() -> None:
    # Given a reader of a closed log and of one that is written
    talk = Talk(state(moved(cut=100)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 5), ("other", 0, 7)))
    lose(talk)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, batch(5))))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("other", 0, 8, LATE)))
    assert not talk.answers()
    # When it is back
    regain(talk)
    # Then he gets both
    assert len(talk.answers()[0]["responses"]) == 2


def test_a_gathered_answer_stays_at_its_broker_while_the_lease_is_lost() -> None:
    # Given a reader who comes to where the topic lies since its move, when the lease is lost
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
    # And all of it is given when the lease is back, whatever else was published
    talk.follow(at(2, state(moved(cut=100))))
    regain(talk)
    buf = bytearray(data[4096:])
    talk.take(talk.session.receive_upstream(WEST, buf, len(buf), talk.now))
    assert len(entry(talk.answers()[0])["records"]) == len(records)
    assert talk.closed is None


def test_a_broker_whose_answer_waits_for_the_lease_is_not_taken_for_silent() -> None:
    # Given a reader of a closed log and of one that is written, both of which have answered without the lease
    talk = Talk(state(moved(cut=100)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 5), ("other", 0, 7)))
    lose(talk)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, batch(5))))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("other", 0, 8, LATE)))
    # When it is lost for long
    talk.wait(10.0)
    # Then no cluster is looked at anew for it
    assert not any(isinstance(one, Refresh) for one in talk.others)


def test_a_client_that_leaves_while_his_gathered_answer_waits_is_let_go() -> None:
    talk = Talk(state(moved(cut=100)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    lose(talk)
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 1, LATE)))
    talk.take(talk.session.client_left(talk.now))
    assert talk.closed is not None


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("lost", [True, False])
def test_a_gathered_answer_has_nothing_of_what_has_left(mapped: bool, lost: bool) -> None:
    # Given a reader of a topic that has just come and of one that is at its end: both wait at one broker
    came = moved(cut=50).model_copy(update={"name": "other"})
    stays = Extent(cluster="west", start=0, base=0, term=0)
    gone = (stays.changed(end=100), Extent(cluster="east", start=100, base=0, term=1))
    here = Topic(name="orders", writer="west", partitions={0: (stays,)})
    left = Topic(name="orders", writer="east", partitions={0: gone})
    talk = Talk(state(came, *((here,) if mapped else ())), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("other", 0, 50), ("orders", 0, 100)))
    (asked,) = talk.asked(WEST)
    if lost:
        lose(talk)
    # When the second leaves, and its old log gets a record behind the cut
    answer = fetched(("other", 0, 1, b""), ("orders", 0, 101, LATE))
    if lost:
        talk.answer(WEST, asked, answer)
        talk.follow(state(came, left, revision=2))
        regain(talk)
    else:
        talk.follow(state(came, left, revision=2))
        talk.answer(WEST, asked, answer)
    # Then the reader is not given it, and asks again
    (given,) = talk.answers()
    assert [entry({"responses": [one]})["records"] for one in given["responses"]] == [b"", b""]
    assert talk.closed is None


def _encoded(asked: Asked, body: dict[str, Any]) -> bytes:
    answer = encode(asked.api_key, asked.version, "response", body)
    return encode_response(asked.api_key, asked.version, asked.correlation_id, answer)


def test_reading_holds_no_operation_up_while_the_lease_is_lost() -> None:
    talk = Talk(state())
    talk.ask(LIST_OFFSETS, 6, {"replica_id": -1, "topics": []})
    asked = next(one for one in talk.others if isinstance(one, Compose))
    lose(talk)
    talk.take(talk.session.answered(asked.token, {"topics": []}, talk.now))
    assert not talk.session.busy
    assert not talk.session.holds_back(frozenset({b"orders"}), frozenset(), 99)


@pytest.mark.parametrize(("api_key", "version"), [(LIST_OFFSETS, 6), (EPOCH_END, 4)])
@pytest.mark.parametrize("published", [True, False])
def test_where_a_log_ends_is_told_under_the_lease(api_key: int, version: int, published: bool) -> None:
    # Given a question for the end of a log
    talk = Talk(state())
    talk.ask(api_key, version, {"replica_id": -1, "topics": []})
    asked = next(one for one in talk.others if isinstance(one, Compose))
    # When the lease is lost before its answer is there
    lose(talk)
    talk.take(talk.session.answered(asked.token, {"topics": []}, talk.now))
    assert not talk.answers()
    # Then it is given if nothing can have moved meanwhile
    if published:
        talk.follow(at(2, state()))
    regain(talk)
    assert (len(talk.answers()), talk.closed and talk.closed.cause) == (
        (0, Cause.LEASE_LOST) if published else (1, None)
    )


def test_a_read_that_waits_for_its_turn_is_dropped_with_its_topic() -> None:
    # Given two reads of one client, of which the second is answered first by another broker
    talk = Talk(state(), Port("east", 1))
    talk.ask(FETCH, 12, fetch(("other", 0, 0)))
    talk.ask(FETCH, 12, fetch(("orders", 0, 100)))
    first, second = talk.asked(EAST)
    lose(talk)
    talk.answer(EAST, first, fetched(("other", 0, 1, LATE)))
    talk.answer(EAST, second, fetched(("orders", 0, 101, LATE)))
    # When its topic leaves
    talk.follow(state(moved(cut=100), revision=2))
    regain(talk)
    # Then the first is given, and of the second nothing
    given, again = talk.answers()
    assert entry(given)["records"] == LATE
    assert again["responses"] == []


def test_produce_is_refused_while_reads_wait() -> None:
    talk = Talk(state(), lease=False)
    talk.ask(FETCH, 12, fetch(("orders", 0, 0)))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    assert len(talk.asked(EAST)) == 1
    assert not talk.answers()
