"""One request cannot block other connections, and its names are not kept without bound."""

import struct

import pytest

from gateway.session.commands import Cause
from ha_core.wire import encode_request, encode_response
from tests.gateway.session.coordination import request
from tests.gateway.session.talk import EAST, Talk, snapshot, topology

PRODUCE, FETCH, OFFSET_FETCH = 0, 1, 9


def produce_of_many(partitions: int) -> bytes:
    body = struct.pack(">hhii", -1, 1, 1000, 1) + struct.pack(">h", 1) + b"a" + struct.pack(">i", partitions)
    return encode_request(PRODUCE, 3, 1, "app", body + struct.pack(">ii", 0, -1) * partitions)


def fetch_of(names: list[bytes], partitions: int, epoch: int = -1) -> bytes:
    entry = struct.pack(">iiqqi", 0, -1, 0, -1, 100)
    body = struct.pack(">iiiibiii", -1, 100, 1, 1 << 20, 0, 1, epoch, len(names))
    for name in names:
        body += struct.pack(">h", len(name)) + name + struct.pack(">i", partitions) + entry * partitions
    return encode_request(FETCH, 11, 1, "app", body + struct.pack(">ih", 0, 0))


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(produce_of_many(100_000), id="produce, partitions"),
        pytest.param(fetch_of([b"a"], 100_000), id="fetch, partitions"),
        pytest.param(
            encode_request(
                *(FETCH, 12, 1, "app"),
                struct.pack(">iiiibii", -1, 100, 1, 1, 0, 0, -1) + b"\1\1\1\x80\x80\x01" + bytes(2 * 16_384),
            ),
            id="tags",
        ),
        pytest.param(
            request(
                OFFSET_FETCH, 5, 1, group_id="g", topics=[{"name": "t", "partition_indexes": list(range(200_000))}]
            ),
            id="offsets that are refused",
        ),
    ],
)
def test_a_request_that_would_block_others_ends_its_connection(request_: bytes) -> None:
    # Given a gateway that has to examine requests, because it may forward none
    talk = Talk(snapshot(found=topology(east={"__consumer_offsets": {0: 1}})), lease=False)
    # When a client names more in one request than the event loop may examine
    talk.send(request_)
    # Then the request is not examined
    assert talk.cause is Cause.MALFORMED


def test_as_many_names_as_clients_send_in_one_request_pass() -> None:
    talk = Talk()
    talk.send(fetch_of([b"%d" % n for n in range(5_000)], 4))
    assert talk.closed is None
    assert len(talk.session.in_flight.queue) == 1


def test_a_fetch_session_with_an_unbounded_number_of_names_has_to_begin_again() -> None:
    # Given a client that adds other topics to its fetch session with every request
    talk = Talk()
    session = talk.session
    for n in range(5):
        names = [b"%d-%d" % (n, m) for m in range(10_000)]
        talk.send(fetch_of(names, 1, epoch=n))
        assert session.fetching.fetch_session is not None
        talk.broker_sends(EAST, encode_response(FETCH, 11, 1, struct.pack(">ihii", 0, 0, 1, 0)))
    # When the session has more of them than one request can name
    talk.send(fetch_of([b"one-more"], 1, epoch=5))
    # Then it has to begin a new one, and none of the names is kept
    assert session.fetching.fetch_session is None
    talk.send(fetch_of([b"a"], 1, epoch=0))
    assert session.fetching.fetch_session is not None
    assert list(session.fetching.fetch_session.topics) == [b"a"]


def test_impossible_topic_names_are_not_kept() -> None:
    talk = Talk()
    talk.send(fetch_of([b"x" * 32_000], 1, epoch=0))
    assert talk.session.fetching.fetch_session is not None
    assert not talk.session.fetching.fetch_session.topics
