"""Produce and fetch through a session, played without I/O."""

import google_crc32c
import pytest

from gateway.session.commands import Cause
from gateway.session.fetch.fetch_session import SESSION_ENDS
from gateway.session.produce.duplicate_offsets import EarlierBatch
from gateway.session.refusal import MAX_HOLD_S
from gateway.session.snapshot import Port
from ha_core.model import Fence, LastSequences, Topic, View
from ha_core.model.producer import upstream_id
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import (
    CHUNKINGS,
    CLIENT_PID,
    FETCH,
    PRODUCE,
    entry,
    fetch,
    fetched,
    moved,
    produce,
    produced,
    state,
)
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot, topology


@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("version", range(3, 10))
def test_a_produce_of_an_unmapped_topic_reaches_the_broker_byte_for_byte(version: int, chunking: str) -> None:
    # Given a topic that was never moved
    talk = Talk(state(), chunks=CHUNKINGS[chunking])
    sent = produce(("orders", 0, batch(payload=b"y" * 300)))
    # When it is produced to
    talk.ask(PRODUCE, version, sent)
    # Then the broker sees the same records, and the client the broker's offset
    (request,) = talk.asked(EAST)
    assert request.body["topic_data"] == sent["topic_data"]
    talk.answer(EAST, request, produced(("orders", 0, 0, 41)))
    assert entry(talk.answers()[0])["base_offset"] == 41


@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("version", range(3, 10))
def test_a_produce_above_the_cut_has_the_writer_epochs_producer_id_and_is_answered_in_client_offsets(
    version: int, chunking: str
) -> None:
    # Given a topic that was cut at 100, and begins at 7 in the west
    talk = Talk(state(moved(100, 7)), Port("west", 1), chunks=CHUNKINGS[chunking])
    # When a producer sends a batch
    talk.ask(PRODUCE, version, produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=9))))
    # Then the broker sees the id of writer epoch 1 under a valid checksum
    (request,) = talk.asked(WEST)
    records = request.records
    (seen,) = batches(records, 0, len(records))
    assert (seen.producer_id, seen.base_sequence) == (upstream_id(CLIENT_PID, 1), 9)
    assert int.from_bytes(records[17:21], "big") == google_crc32c.value(records[21:])
    # And the client its own offset
    talk.answer(WEST, request, produced(("orders", 0, 0, 8)))
    assert entry(talk.answers()[0])["base_offset"] == 101


def test_an_id_that_is_not_the_gateways_is_left_unchanged() -> None:
    talk = Talk(state(moved()), Port("west", 1))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=12, epoch=0, sequence=0))))
    records = talk.asked(WEST)[0].records
    assert next(iter(batches(records, 0, len(records)))).producer_id == 12


def test_a_corrupt_batch_stays_corrupt_so_that_the_broker_sees_it() -> None:
    talk = Talk(state(moved()), Port("west", 1))
    broken = bytearray(batch(producer_id=CLIENT_PID, epoch=0, sequence=0))
    broken[-1] ^= 1
    talk.ask(PRODUCE, 9, produce(("orders", 0, bytes(broken))))
    records = talk.asked(WEST)[0].records
    assert google_crc32c.value(records[21:]) != int.from_bytes(records[17:21], "big")


def test_a_batch_that_an_earlier_writer_epoch_holds_is_not_forwarded() -> None:
    # Given the east had appended sequences up to 19 when its writer epoch ended
    held = LastSequences(name="orders", partitions={0: {CLIENT_PID: (0, 19)}})
    talk = Talk(state(moved(), sequences=held), Port("west", 1))
    # When the client retries 10 to 19, whose answer was lost
    retry = batch(count=10, producer_id=CLIENT_PID, epoch=0, sequence=10)
    talk.duplicate_offsets.learn(EarlierBatch(b"orders", 0, CLIENT_PID, 0, 10, 10, timestamp_ms=1), 90)
    talk.ask(PRODUCE, 9, produce(("orders", 0, retry)))
    # Then nothing is appended a second time
    assert entry(talk.answers()[0])["base_offset"] == 90
    assert not talk.asked(WEST)
    # And the next batch passes
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch(count=1, producer_id=CLIENT_PID, epoch=0, sequence=20))))
    assert len(talk.asked(WEST)) == 1


def test_a_fenced_topic_is_refused_when_the_fence_is_lifted_and_no_later_than_the_hold() -> None:
    # Given a fence
    fenced = Topic(name="orders", fence=Fence(operation="op-1"))
    talk = Talk(state(fenced))
    # When produce arrives, it waits
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    assert not talk.answers()
    # Then the cut, which lifts the fence, answers it
    talk.follow(state(moved(), revision=2))
    assert entry(talk.answers()[0])["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # And without a cut the hold ends by itself
    talk = Talk(state(fenced))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.wait(MAX_HOLD_S)
    assert entry(talk.answers()[0])["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not talk.asked(EAST)


def test_only_the_fenced_partition_of_a_request_is_refused_and_the_order_of_the_request_is_kept() -> None:
    fenced = Topic(name="orders", fence=Fence(operation="op-1"))
    talk = Talk(state(fenced))
    request = talk.forwarded(PRODUCE, 9, produce(("orders", 0, batch()), ("other", 0, batch())), to=EAST)
    assert request.topics == ["other"]
    talk.answer(EAST, request, produced(("other", 0, 0, 5)))
    (answer,) = talk.answers()
    assert [t["name"] for t in answer["responses"]] == ["orders", "other"]
    assert entry(answer)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer["responses"][1]["partition_responses"][0]["base_offset"] == 5


def test_a_request_in_flight_holds_the_fence_back_until_it_is_answered() -> None:
    # Given a produce in flight
    talk = Talk(state())
    request = talk.forwarded(PRODUCE, 9, produce(("orders", 0, batch())), to=EAST)
    # When the fence comes
    talk.follow(state(Topic(name="orders", fence=Fence(operation="op-1")), revision=2))
    # Then it is not drained before the answer, nor if the client leaves meanwhile
    scope = (frozenset({b"orders"}), frozenset[bytes]())
    assert talk.session.holds_back(*scope, 99)
    assert not talk.session.holds_back(frozenset({b"other"}), frozenset(), 99)
    talk.take(talk.session.client_left(talk.now))
    assert talk.closed is None
    assert talk.session.holds_back(*scope, 99)
    talk.answer(EAST, request, produced(("orders", 0, 0, 5)))
    assert not talk.session.holds_back(*scope, 99)
    assert talk.cause is Cause.CLIENT_LEFT


def test_acks_zero_leaves_no_pending_request() -> None:
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=0))
    talk.ask(FETCH, 12, fetch(("orders", 0, 0)))
    requests = talk.asked(EAST)
    assert [r[0] for r in requests] == [PRODUCE, FETCH]
    talk.answer(EAST, requests[1], fetched(("orders", 0, 9, b"")))
    assert len(talk.answers()) == 1


def test_a_fence_waits_for_records_that_were_sent_with_acks_0() -> None:
    # Given records in flight without an acknowledgement
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=0))
    talk.asked(EAST)
    # When their topic is fenced
    talk.follow(state(Topic(name="orders", fence=Fence(operation="op-1")), revision=2))
    # Then the broker gets a question after them, and its answer drains the fence
    (probe,) = talk.asked(EAST)
    scope = (frozenset({b"orders"}), frozenset[bytes]())
    assert talk.session.holds_back(*scope, 99)
    talk.answer(EAST, probe, {"error_code": 0, "api_keys": []})
    assert not talk.session.holds_back(*scope, 99)
    assert not talk.to_client


@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("version", range(4, 13))
def test_a_fetch_above_the_cut_is_translated_both_ways(version: int, chunking: str) -> None:
    # Given a topic that was cut at 100 and begins at 7 in the west
    talk = Talk(state(moved(100, 7)), Port("west", 1), chunks=CHUNKINGS[chunking])
    # When client offset 103 is fetched
    request = talk.forwarded(FETCH, version, fetch(("orders", 0, 103)), to=WEST)
    asked = request.partition
    assert (asked["fetch_offset"], asked["current_leader_epoch"]) == (10, -1)
    # Then the answer has client offsets
    talk.answer(WEST, request, fetched(("orders", 0, 12, batch(10, leader_epoch=4) + batch(11, leader_epoch=4))))
    found = entry(talk.answers()[0])
    assert (found["high_watermark"], found["last_stable_offset"]) == (105, 105)
    assert found["aborted_transactions"] == [{"producer_id": 7, "first_offset": 104}]
    assert found["records"] == batch(103, leader_epoch=-1) + batch(104, leader_epoch=-1)


def test_a_fetch_over_both_clusters_is_split_and_merged_in_the_order_of_the_request() -> None:
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    body = fetch(("orders", 0, 50))
    body["topics"].append({"topic": "other", "partitions": [{"partition": 0, "fetch_offset": 3}]})
    west = talk.forwarded(FETCH, 12, body, to=WEST)
    (east,) = talk.asked(EAST)
    assert west.body["max_wait_ms"] == 0, "old records are there: nothing waits for new ones"
    talk.answer(WEST, west, fetched(("other", 0, 9, batch(3))))
    assert not talk.answers()
    talk.answer(EAST, east, fetched(("orders", 0, 100, batch(50))))
    (answer,) = talk.answers()
    assert [t["topic"] for t in answer["responses"]] == ["orders", "other"]


def test_a_reader_at_the_hollow_end_of_an_old_log_continues_above_the_cut() -> None:
    # Given compaction has removed the last records below the cut
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 98)), to=EAST)
    talk.answer(EAST, request, fetched(("orders", 0, 100, b"")))
    assert not entry(talk.answers()[0])["records"]
    # When the reader asks for them again
    talk.ask(FETCH, 12, fetch(("orders", 0, 98)))
    # Then it is served from the next extent, as over a hole in a compacted log
    (request,) = talk.asked(WEST)
    assert request.partition["fetch_offset"] == 7


def test_an_empty_partition_beside_a_full_one_is_not_taken_for_hollow() -> None:
    # Given two partitions with records below the cut, and byte limits that one of them uses up (KIP-74)
    topic = moved(100, 7)
    topic = topic.model_copy(update={"partitions": {0: topic.partitions[0], 1: topic.partitions[0]}})
    talk = Talk(state(topic), Port("west", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 50), ("orders", 1, 60)), to=EAST)
    talk.answer(EAST, request, fetched(("orders", 0, 100, batch(50)), ("orders", 1, 100, b"")))
    talk.answers()
    # When the reader asks again for the other one
    talk.ask(FETCH, 12, fetch(("orders", 1, 60)))
    # Then it is still read from the old cluster: no record was skipped
    (request,) = talk.asked(EAST)
    assert request.partition["fetch_offset"] == 60


def test_a_log_that_continues_only_above_the_cut_is_hollow_below_it() -> None:
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 98)), to=EAST)
    talk.answer(EAST, request, fetched(("orders", 0, 104, batch(103))))
    assert not entry(talk.answers()[0])["records"]
    talk.ask(FETCH, 12, fetch(("orders", 0, 98)))
    assert talk.asked(WEST)


def test_an_old_cluster_that_is_back_with_fewer_records_makes_no_reader_jump() -> None:
    topic = moved(100, 7)
    old, new = topic.partitions[0]
    unconfirmed = old.changed(known_end=60)
    for extent, error, records in ((unconfirmed, 0, b""), (old, 1, b"")):
        talk = Talk(state(topic.model_copy(update={"partitions": {0: (extent, new)}})), Port("west", 1))
        request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 50)), to=EAST)

        talk.answer(EAST, request, fetched(("orders", 0, -1, b""), error=1))
        talk.wait(0.5)

        found = entry(talk.answers()[0])
        assert (found["error_code"], found["records"]) == (error, records)


def test_losing_the_broker_of_a_forwarded_request_closes_the_connection_because_the_outcome_is_unknown() -> None:
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.lose(EAST)
    assert talk.cause is Cause.UPSTREAM_LOST


def test_a_fetch_session_that_holds_a_topic_is_renewed_when_the_topic_gets_a_map() -> None:
    # Given a fetch session with the broker
    talk = Talk(state())
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 5), session=(0, 0)), to=EAST)
    talk.answer(EAST, request, fetched(("orders", 0, 5, b""), session_id=77))
    talk.answers()
    # When the topic is cut
    talk.follow(state(moved(), revision=2))
    talk.ask(FETCH, 12, {**fetch(session=(77, 1)), "topics": []})
    # Then the client has to send all its partitions, and its session is off from then on
    assert talk.answers()[0]["error_code"] == SESSION_ENDS
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 5), session=(0, 0)), to=EAST)
    assert (request.body["session_id"], request.body["session_epoch"]) == (0, -1)


def test_a_reader_of_both_clusters_through_the_old_port_is_sent_to_the_new_leader() -> None:
    # Two long waits in one request would hold back each other's records
    talk = Talk(state(moved(100, 7)), Port("east", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 100), ("other", 0, 3)))
    assert not talk.asked(WEST)
    (request,) = talk.asked(EAST)
    assert request.body["max_wait_ms"] == 0
    talk.answer(EAST, request, fetched(("other", 0, 9, b"")))
    (answer,) = talk.answers()
    assert entry(answer)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("session", "said"), [((0, -1), 0), ((0, 0), SESSION_ENDS)])
def test_a_reader_that_waits_in_the_old_cluster_is_answered_at_the_cut(session: tuple[int, int], said: int) -> None:
    # Given a consumer at the end of the log, waiting for records
    talk = Talk(state())
    waiting = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100), session=session), to=EAST)
    # When the topic is cut
    talk.follow(state(moved(100, 7), revision=2))
    # Then it need not wait for a log to which nothing is appended any more
    (answer,) = talk.answers()
    assert (answer["error_code"], answer["responses"]) == (said, [])
    # And the old cluster's late answer is dropped, whatever follows it
    talk.ask(PRODUCE, 9, produce(("other", 0, batch())))
    talk.answer(EAST, waiting, fetched(("orders", 0, 100, b"")))
    talk.answer(EAST, talk.asked(EAST)[0], produced(("other", 0, 0, 5)))
    (answer,) = talk.answers()
    assert entry(answer)["base_offset"] == 5


def test_a_masked_clusters_port_refuses_reads_and_writes_at_once() -> None:
    from ha_core.model import Mask

    clusters = {**CLUSTERS, "east": CLUSTERS["east"].model_copy(update={"masked": Mask(since="", reason="", by="")})}
    talk = Talk(snapshot(View(1, clusters), topology(east={"orders": {0: 1}})))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.ask(FETCH, 12, fetch(("orders", 0, 0)))
    talk.wait(0.2)
    assert [entry(a)["error_code"] for a in talk.answers()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert not talk.upstream
