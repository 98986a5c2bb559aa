"""Incomplete requests: bytes held for all clients, and the request that is awaited."""

from gateway.session.commands import Cause
from gateway.session.snapshot import Port
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import request
from tests.gateway.session.talk import Talk, snapshot, topology

PRODUCE, METADATA = 0, 3
LONG = request(METADATA, 8, 1, topics=[{"name": f"topic-{n}"} for n in range(1000)])
STATE = snapshot(found=topology(east={"orders": {0: 1}}))


def test_held_bytes_of_a_request_are_released_when_it_is_complete() -> None:
    talk = Talk()
    talk.send(LONG[:5000])
    assert talk.session.context.shared.held.bytes == 5000
    talk.send(LONG[5000:])
    assert talk.session.context.shared.held.bytes == 0
    assert talk.closed is None


def test_a_request_without_room_ends_its_connection_and_no_other() -> None:
    # Given two clients, one of which has sent most of the allowed bytes
    first = Talk(max_held=8000)
    first.send(LONG[:6000])
    second = Talk()
    second.session.context.shared = first.session.context.shared
    # When the other sends as much
    second.send(LONG[:6000])
    # Then it is closed with the reason, and the first one continues
    assert second.cause is Cause.HELD_TOO_MUCH
    assert "limits.max_held_bytes" in second.why
    second.session.intake.let_go()
    first.send(LONG[6000:7000])
    assert first.closed is None
    assert first.session.context.shared.held.bytes == 7000


def test_a_request_that_grows_beyond_the_limit_of_held_bytes_ends_too() -> None:
    talk = Talk(max_held=8000)
    talk.send(LONG[:7000])
    assert talk.closed is None
    talk.send(LONG[7000:9000])
    assert talk.cause is Cause.HELD_TOO_MUCH


def test_a_produce_that_streams_is_not_held() -> None:
    talk = Talk(STATE, Port("east", 1))
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch() * 100}]}]
    frame = request(PRODUCE, 7, 1, acks=1, timeout_ms=1000, transactional_id=None, topic_data=data)
    talk.send(frame[:2000])
    assert talk.session.context.shared.held.bytes == 0
    # And its time depends on its size, however its bytes come
    assert talk.session.partial == (1, len(frame))
    talk.send(frame[2000:3000])
    assert talk.session.partial == (1, len(frame))
    talk.send(frame[3000:])
    assert talk.session.partial is None


def test_a_request_that_comes_byte_by_byte_keeps_its_number() -> None:
    talk = Talk()
    marks = set()
    for at in range(len(LONG) // 50):
        talk.send(LONG[at : at + 1])
        marks.add(talk.session.partial)
    # Its header, and then its body
    assert len(marks) == 2
    assert None not in marks


def test_a_complete_request_is_not_awaited() -> None:
    talk = Talk()
    assert talk.session.partial is None
    talk.ask(METADATA, 8, {"topics": []})
    assert talk.session.partial is None
