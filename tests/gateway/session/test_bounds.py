"""Bounds on memory and work that one client can cause by one piece of bytes."""

import tracemalloc
from collections.abc import Hashable

from gateway.session.commands import Cause, ToClient, Wake
from gateway.session.in_flight import MAX_QUESTIONS, MAX_READY_BYTES
from gateway.session.requests import MAX_GIVEN_BYTES, MAX_REQUESTS
from ha_core.model import Extent, Topic, View
from ha_core.wire import encode, encode_request
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import request
from tests.gateway.session.talk import CLUSTERS, EAST, Talk, snapshot, topology

PRODUCE, METADATA, VERSIONS, HEARTBEAT = 0, 3, 18, 12
NO_TOPICS = {"brokers": [], "controller_id": 1, "topics": []}


def questions(talk: Talk) -> list[Hashable]:
    tokens = [command.token for command in talk.questions]
    talk.others.clear()
    return tokens


def answered(talk: Talk, token: Hashable) -> None:
    talk.take(talk.session.answered(token, NO_TOPICS, talk.now))


def goes_on(talk: Talk) -> bool:
    """As the driver does when the session may go on."""
    if not talk.session.may_go_on:
        return False
    buf = bytearray(talk.session.intake.carry)
    talk.take(talk.session.receive(buf, len(buf), talk.now))
    return True


def test_many_composed_requests_in_one_piece_run_a_few_at_a_time_and_are_answered_in_order() -> None:
    # Given a client that asks for metadata a thousand times in one piece
    talk = Talk()
    talk.versions = [(n, METADATA, 8) for n in range(1000)]
    talk.send(b"".join(request(METADATA, 8, n, topics=[]) for n in range(1000)))
    waiting = questions(talk)
    assert len(waiting) == MAX_QUESTIONS
    assert talk.session.paused
    # When they are answered, one after the other
    most = 0
    while waiting:
        most = max(most, len(waiting))
        answered(talk, waiting.pop(0))
        while goes_on(talk):
            waiting += questions(talk)
    # Then only a few were ever in flight, and no answer is missing
    assert most == MAX_QUESTIONS
    assert len(talk.answers()) == 1000
    assert not talk.session.paused
    assert talk.session.intake.carry == b""


def test_no_more_requests_of_one_piece_go_to_a_broker_than_may_be_in_flight() -> None:
    talk = Talk(snapshot(found=topology(east={"__consumer_offsets": {0: 1}})))
    beat = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    talk.versions = [(n, HEARTBEAT, 3) for n in range(1000)]
    talk.send(b"".join(request(HEARTBEAT, 3, n, **beat) for n in range(1000)))
    given = 0
    while asked := talk.asked(EAST):
        assert len(talk.session.in_flight.queue) <= talk.session.context.shared.max_in_flight
        for one in asked:
            talk.answer(EAST, one, {"error_code": 0})
            given += 1
        while goes_on(talk):
            pass
    assert given == len(talk.answers()) == 1000


def test_answers_that_wait_for_a_slow_one_are_bounded_and_arrive_in_order() -> None:
    # Given a request that its broker has not answered yet, and many later ones with long answers
    talk = Talk(snapshot(found=topology(east={"__consumer_offsets": {0: 1}})))
    talk.send(request(HEARTBEAT, 3, 0, group_id="g", generation_id=1, member_id="m"))
    talk.send(b"".join(request(METADATA, 8, n, topics=[]) for n in range(1, 100)))
    long = encode(METADATA, 8, "response", NO_TOPICS | {"cluster_id": "x" * 30_000, "brokers": []}) + b"x" * 200_000
    waiting, made = questions(talk), 0
    # When each request that the session composes is answered
    while waiting:
        talk.take(talk.session.answered(waiting.pop(0), long, talk.now))
        made += 1
        while goes_on(talk):
            waiting += questions(talk)
    # Then it has composed few
    assert made * len(long) <= MAX_READY_BYTES + MAX_QUESTIONS * len(long)
    assert talk.session.paused
    # And after the broker answers the first, all others follow
    talk.versions = []
    talk.broker_answers(EAST, {"error_code": 0})
    while made < 99:
        while goes_on(talk):
            waiting += questions(talk)
        talk.take(talk.session.answered(waiting.pop(0), long, talk.now))
        made += 1
    assert talk.session.in_flight.ready_bytes == 0
    assert not talk.session.in_flight.queue


def test_answers_made_here_stop_at_a_bound_until_the_driver_continues() -> None:
    # Given one read's worth of the smallest request
    talk = Talk()
    piece = b"".join(encode_request(VERSIONS, 0, n, None, b"") for n in range(15_000))
    # When it is handled
    buf = bytearray(piece)
    told = sum(len(c.data) for c in talk.session.receive(buf, len(buf), talk.now) if isinstance(c, ToClient))
    # Then the immediate answers fit a socket's buffers, and the rest is not lost
    assert told < MAX_GIVEN_BYTES + 2_000
    assert talk.session.intake.waits_for
    assert talk.session.may_go_on


def test_many_refusals_in_one_piece_request_one_wake_up() -> None:
    talk = Talk(lease=False)
    beat = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    buf = bytearray(b"".join(request(HEARTBEAT, 3, n, **beat) for n in range(90)))
    commands = talk.session.receive(buf, len(buf), talk.now)
    assert sum(isinstance(command, Wake) for command in commands) == 1


def test_an_unauthenticated_client_cannot_announce_more_than_a_login_needs() -> None:
    talk = Talk(users={"app": "secret"})
    talk.send((50 << 20).to_bytes(4, "big") + request(METADATA, 8, 1, topics=[])[4:])
    assert talk.cause is Cause.MALFORMED


def test_a_long_composed_request_is_not_decoded_by_the_session() -> None:
    talk = Talk()
    talk.ask(METADATA, 8, {"topics": [{"name": f"topic-{n}"} for n in range(5_000)]})
    (command,) = talk.questions
    assert isinstance(command.request, bytes)
    talk.composed(command, encode(METADATA, 8, "response", NO_TOPICS))
    assert talk.answers()[0]["controller_id"] == 1


def test_each_judged_partition_of_a_produce_holds_one_batch() -> None:
    # Given a topic with a map, and a client that sends a hundred batches instead of one
    extents = (Extent(cluster="east", start=0, base=0, writer_epoch=0),)
    view = View(1, CLUSTERS, topics={"orders": Topic(name="orders", writer="east", partitions={0: extents})})
    talk = Talk(snapshot(view))
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch() * 100}]}]
    talk.ask(PRODUCE, 7, {"acks": 1, "timeout_ms": 1000, "topic_data": data})
    # Then none of it is forwarded
    assert talk.cause is Cause.MALFORMED
    assert talk.asked(EAST) == []


def test_many_requests_without_an_answer_in_one_piece_leave_others_their_turn() -> None:
    # Given a read that holds ten thousand of them, with no answers to await
    talk = Talk()
    one = request(PRODUCE, 3, 1, acks=0, timeout_ms=1000, transactional_id=None, topic_data=[])
    talk.send(one * 1000)
    # Then a part of them is sent within one event, and the rest bit by bit, with other events in between
    assert talk.session.paused
    assert bytes(talk.upstream[EAST]) == one * MAX_REQUESTS
    while goes_on(talk):
        pass
    assert bytes(talk.upstream[EAST]) == one * 1000
    assert not talk.session.paused


def test_long_group_names_that_a_client_makes_up_are_not_kept() -> None:
    # Given a client that names another group with each request, as long as names can be
    talk = Talk(snapshot(found=topology(east={"__consumer_offsets": dict.fromkeys(range(50), 1)})))

    def names(first: int, count: int) -> None:
        for number in range(first, first + count):
            beat = {"group_id": f"{number:08d}" + "x" * 30_000, "generation_id": 1, "member_id": "m"}
            talk.ask(HEARTBEAT, 3, beat, client_id=f"app-{number % 10}")
            for one in talk.asked(EAST):
                talk.answer(EAST, one, {"error_code": 0})
            assert talk.answers()
            talk.others.clear()

    names(0, 50)
    tracemalloc.start()
    # When it continues
    try:
        names(1000, 500)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Then none of 15 MB of names is kept
    assert grown < 2 << 20


def test_long_client_ids_are_kept_one_at_a_time() -> None:
    talk = Talk()
    for number in range(40):
        talk.ask(VERSIONS, 0, {}, client_id=f"{number}" + "x" * 30_000)
        talk.session.client.routes(f"{number}" + "x" * 30_000)
    assert len(talk.session.client._routes) == 1
