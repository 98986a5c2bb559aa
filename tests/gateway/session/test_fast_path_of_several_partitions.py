"""Produce requests of several partitions take the fast path as a whole, or not at all."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.session.fast import fast_path
from gateway.session.snapshot import Snapshot
from ha_core.model import Extent, LastSequences, Topic
from ha_core.model.producer import upstream_id
from ha_core.wire import decode, encode, encode_request, encode_response
from ha_core.wire.records import batches
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import CLIENT_PID, PRODUCE, produce, produced, state
from tests.gateway.session.talk import EAST, Asked, Talk

HELD = 4
"""The client's last sequence in earlier writer epochs."""


def came(partitions: int = 3) -> Snapshot:
    """`orders`, which came from the west, each partition at another offset; the last of them is known to have more."""
    extents: dict[int, Any] = {
        number: (
            Extent(cluster="west", start=0, end=100, base=0, writer_epoch=0),
            Extent(cluster="east", start=100, base=10 * number, writer_epoch=number + 1),
        )
        for number in range(partitions)
    }
    last = partitions - 1
    held = LastSequences(name="orders", partitions={last: {CLIENT_PID: (0, HELD)}}, terms={last: last + 1})
    snapshot: Snapshot = state(Topic(name="orders", writer="east", partitions=extents), sequences=held)
    return snapshot


def written(*partitions: int, sequence: int = HELD + 1, number: int = 0) -> bytes:
    sent = batch(producer_id=CLIENT_PID, epoch=0, sequence=sequence)
    body = encode(PRODUCE, 9, "request", produce(*(("orders", partition, sent) for partition in partitions)))
    return encode_request(PRODUCE, 9, number, "app", body)


def requests_of(data: bytearray) -> list[Asked]:
    """Requests as a broker reads them."""
    broker = Talk()
    broker.upstream[EAST] = data
    return broker.asked(EAST)


def at_once(talk: Talk, data: bytes) -> tuple[int, bytearray]:
    """Bytes that take the fast path, and their patched content."""
    buf = bytearray(data)
    return fast_path.requests(talk.session, buf, len(buf), talk.now), buf


@pytest.mark.parametrize("beginning", [came, state])
def test_requests_that_come_together_are_forwarded_together_whatever_partitions_they_name(
    beginning: Callable[[], Snapshot],
) -> None:
    # Given a client that has written
    talk = Talk(beginning())
    talk.send(written(0))
    # When three requests come at once
    data = b"".join(written(*range(number), number=number) for number in (1, 2, 3))
    # Then none of them is decoded
    assert at_once(talk, data)[0] == len(data)


def test_each_batch_gets_the_id_of_its_writer_epoch_and_each_answered_offset_is_the_clients() -> None:
    talk = Talk(came())
    talk.send(written(0))
    talk.asked(EAST)
    # When a batch of one producer comes for each partition
    data = written(2, 0, 1, number=7)
    passed, sent = at_once(talk, data)
    assert passed == len(data)
    # Then each has the id of its own writer epoch
    (asked,) = requests_of(sent)
    entries = asked.body["topic_data"][0]["partition_data"]
    ids = {entry["index"]: next(batches(entry["records"], 0, len(entry["records"]))).producer_id for entry in entries}
    assert ids == {number: upstream_id(CLIENT_PID, number + 1) for number in range(3)}
    # When the broker has written them
    first = encode(PRODUCE, 9, "response", produced(("orders", 0, 0, 49)))
    said = encode(PRODUCE, 9, "response", produced(*(("orders", number, 0, 50) for number in (2, 0, 1))))
    answers = bytearray(encode_response(PRODUCE, 9, 0, first) + encode_response(PRODUCE, 9, 7, said))
    assert fast_path.answers(talk.session, talk.session.upstreams[EAST], answers, len(answers), talk.now) == len(
        answers
    )
    # Then the client gets client offsets
    answer = decode(PRODUCE, 9, "response", answers[-len(said) :])
    offsets = {one["index"]: one["base_offset"] for one in answer["responses"][0]["partition_responses"]}
    assert offsets == {0: 150, 1: 140, 2: 130}


def test_if_one_partition_has_to_be_judged_nothing_is_written_before_all_are() -> None:
    # Given a client that has written
    talk = Talk(came())
    talk.send(written(0))
    # When it repeats a batch that earlier writer epochs hold for the last partition, and for no other
    data = written(0, 1, 2, sequence=HELD)
    passed, sent = at_once(talk, data)
    # Then all of them are judged, unchanged
    assert passed == 0
    assert sent == data
    assert at_once(talk, written(0, 1, sequence=HELD))[0] > 0


def test_a_repeated_partition_is_left_for_the_slow_path_to_refuse() -> None:
    talk = Talk(came())
    talk.send(written(0))
    assert at_once(talk, written(1, 0, 1))[0] == 0
