"""A pattern finds only requests of which reading them would say the same as of the one that it is made of."""

from __future__ import annotations

import random
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import RemoteProtocolError, encode, encode_request, encode_response, read_request_header
from ha_core.wire.fetch import scan_fetch_request
from ha_core.wire.likeness import OUTSIDE, STANDING, FetchLike, ProduceAnswerLike, ProduceLike
from ha_core.wire.produce import patch_produce_response, scan_produce
from tests.gateway.session.messages import FETCH, PRODUCE, fetch, produce
from tests.wire.samples import damaged, seeds

SIZE = Struct(">i")
TOO_LONG = b"\x80\x80\x80\x80\x80\x01"
"""No number: it has more than five bytes."""


def written(version: int, *records: bytes, **more: Any) -> bytearray:
    body = {**produce(*(("orders", 0, one) for one in records)), **more}
    return bytearray(encode_request(PRODUCE, version, 7, "app", encode(PRODUCE, version, "request", body)))


def read(version: int, *partitions: int, epoch: tuple[int, int] = (0, -1), **more: Any) -> bytearray:
    body = fetch(*(("orders", number, 5) for number in partitions), session=epoch)
    asked = [one for topic in body["topics"] for one in topic["partitions"]]
    body["topics"] = [{"topic": "orders", "partitions": asked}] if asked else []
    return bytearray(encode_request(FETCH, version, 7, "app", encode(FETCH, version, "request", {**body, **more})))


def of_produce(frame: bytearray) -> ProduceLike | None:
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    version = header.api_version
    scan = scan_produce(frame, 0, len(frame), version, header.body_at, len(frame))
    assert scan is not None
    return ProduceLike.of(frame, 0, len(frame), len(frame), version, scan)


def of_fetch(frame: bytearray) -> FetchLike | None:
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    scan = scan_fetch_request(frame, header.body_at, len(frame), header.api_version)
    epochs = STANDING if scan.session_epoch > 0 else OUTSIDE
    return FetchLike.of(frame, 0, header.body_at, len(frame), header.api_version, len(scan.topics), epochs)


def sized(frame: bytes | bytearray) -> bytearray:
    """The same with its true size in front."""
    return bytearray(SIZE.pack(len(frame) - 4)) + frame[4:]


def test_a_length_that_is_no_number_is_like_nothing() -> None:
    # Given a pattern of a produce, and one of a fetch
    like, reader = of_produce(written(9, b"r" * 30)), of_fetch(read(12, 0))
    assert like is not None
    assert reader is not None
    # When the length of the records, or the count of partitions, is one that never ends
    begin = b"\0\0\0\0" + like.head + SIZE.pack(8) + like.begin
    torn = sized(begin + SIZE.pack(0) + TOO_LONG + bytes(30))
    start = b"\0\0\0\0" + reader.head + SIZE.pack(8) + reader.begin
    countless = sized(start + SIZE.pack(-1) + reader.topic + TOO_LONG + bytes(32) + reader.tail)
    # Then whoever reads it refuses it
    assert not like.matches(torn, 0, len(torn), len(torn))
    assert reader.entries(countless, 0, len(countless)) is None


@pytest.mark.parametrize("version", [3, 7, 8, 9])
def test_a_produce_behind_whose_partition_more_has_to_come_makes_no_pattern(version: int) -> None:
    # Given one that names a second topic, without partitions
    more = [{"name": "orders", "partition_data": [{"index": 0, "records": b"r" * 30}]}]
    frame = written(version, topic_data=[*more, {"name": "other", "partition_data": []}])
    # Then there is no pattern of it: one that ends behind the records would be like it, and names too few topics
    assert of_produce(frame) is None
    assert of_produce(written(version, b"r" * 30)) is not None


@pytest.mark.parametrize("version", [3, 7, 8, 9])
def test_a_request_behind_which_the_next_one_has_come_is_like_one_that_came_alone(version: int) -> None:
    # Given a pattern, and two requests that were sent at once
    frame = written(version, b"r" * 30)
    like, both = of_produce(frame), frame + frame
    assert like is not None
    # Then the first is like it though bytes of the second follow, and so is the second
    first, second = (like.matches(both, at, len(both), at + len(frame)) for at in (0, len(frame)))
    assert 0 < first < len(frame)
    assert second == len(frame) + first


def test_of_what_is_long_no_pattern_is_kept() -> None:
    # Given names that are as long as the wire allows, and a session that forgets many topics
    named = [{"name": "n" * 32_000, "partition_data": [{"index": 0, "records": b"r"}]}]
    forgets = [{"topic": f"topic-{number}", "partitions": [0]} for number in range(1000)]
    # Then nothing of them is kept for the time of a connection
    assert of_produce(written(9, topic_data=named)) is None
    assert of_fetch(read(12, epoch=(5, 2), forgotten_topics_data=forgets)) is None
    assert of_fetch(read(12, 0, epoch=(5, 2), forgotten_topics_data=forgets)) is None
    assert of_fetch(read(12, *range(3), epoch=(5, 2), forgotten_topics_data=forgets[:3])) is not None


def test_what_is_like_a_fetch_names_no_more_than_a_fetch_may() -> None:
    # Given one that was read, with nearly as many elements as are read of one
    forgets = [{"topic": "t", "partitions": []} for _ in range(39_000)]
    frame = read(12, 0, epoch=(5, 2), forgotten_topics_data=forgets)
    like = of_fetch(frame)
    # When another one has more partitions
    more = read(12, *range(1_100), epoch=(5, 2), forgotten_topics_data=forgets)
    body = read_request_header(more, 4, len(more))
    assert body is not None
    with pytest.raises(RemoteProtocolError, match="elements"):
        scan_fetch_request(more, body.body_at, len(more), 12)
    # Then it is not like that one
    assert like is None or like.entries(more, 0, len(more)) is None


def damaged_frame(frame: bytearray, chance: random.Random) -> bytearray:
    """The same request with some of its bytes changed behind the correlation id, under its true size."""
    return sized(frame[:12] + damaged(bytes(frame[12:]), chance))


@given(seeds, st.sampled_from([3, 8, 9]), st.integers(1, 40))
@settings(deadline=None, max_examples=400)
def test_a_damaged_produce_that_is_like_another_is_read_as_one_of_the_same_topic(
    seed: int, version: int, size: int
) -> None:
    # Given a request that is like one before, but for damage
    chance = random.Random(seed)
    like = of_produce(written(version, b"r" * 30))
    assert like is not None
    frame = damaged_frame(written(version, b"x" * size), chance)
    if len(frame) < 12:
        return
    records = like.matches(frame, 0, len(frame), len(frame))
    if records:
        # When it is taken for that, then reading it says the same
        header = read_request_header(frame, 4, len(frame))
        assert header is not None
        scan = scan_produce(frame, 0, len(frame), version, header.body_at, len(frame))
        assert scan is not None
        ((topic, _, at, length),) = scan.partitions
        assert (scan.complete, scan.acks, scan.transactional_id, topic, at) == (True, -1, None, b"orders", records)
        assert length > 0


@given(seeds, st.sampled_from([9, 11, 12]), st.sampled_from([(0, -1), (77, 3)]), st.integers(0, 3))
@settings(deadline=None, max_examples=400)
def test_a_damaged_fetch_that_is_like_another_is_read_as_one_of_the_same_topic(
    seed: int, version: int, epoch: tuple[int, int], partitions: int
) -> None:
    chance = random.Random(seed)
    like = of_fetch(read(version, *range(min(partitions, 1)), epoch=epoch))
    assert like is not None
    frame = damaged_frame(read(version, *range(partitions), epoch=epoch), chance)
    if len(frame) >= 12 and (found := like.entries(frame, 0, len(frame))) is not None:
        header = read_request_header(frame, 4, len(frame))
        assert header is not None
        scan = scan_fetch_request(frame, header.body_at, len(frame), version)
        assert scan.topics == [b"orders"] * min(partitions, 1)
        assert (scan.session_id, scan.session_epoch > 0) == (epoch[0], epoch[1] > 0)
        assert scan.replica_id == -1
        # and finds the partitions where the pattern does
        assert scan.entries is not None
        assert scan.entries == [found] * min(partitions, 1)


def answered(version: int, chance: random.Random) -> bytearray:
    """What a broker says to a produce, nearly always of one partition that was written."""
    entry: dict[str, Any] = {"index": chance.randrange(2)}
    entry |= {"error_code": 0, "base_offset": chance.choice([0, 7, 1 << 62, -1])}
    entry |= {"log_append_time_ms": -1, "log_start_offset": chance.choice([0, 5])}
    if chance.random() < 0.1:
        entry |= chance.choice([{"error_code": 6}, {"error_message": "why"}])
    topics = [{"name": chance.choice(["orders"] * 9 + ["other"]), "partition_responses": [entry]}]
    body = {"responses": topics * chance.choice([1] * 9 + [2]), "throttle_time_ms": chance.choice([0, 50])}
    return bytearray(encode_response(PRODUCE, version, 7, encode(PRODUCE, version, "response", body)))


@given(seeds, st.integers(3, 9), st.sampled_from([0, 3, -7, 1 << 62]))
@settings(deadline=None, max_examples=400)
def test_an_answer_of_the_usual_kind_is_shifted_as_any_other(seed: int, version: int, delta: int) -> None:
    # Given how answers look that say that a batch was written, and one that may be damaged
    chance = random.Random(seed)
    like = ProduceAnswerLike.of(b"orders", version)
    frame = answered(version, chance)
    if chance.random() < 0.3:
        frame = sized(frame[:8] + damaged(bytes(frame[8:]), chance))
    as_it_was, shifts = bytes(frame), {(b"orders", 0): delta} if delta else {}
    # When it is shifted as one of them
    shifted = like is not None and like.shift(frame, 0, len(frame), shifts)
    # Then either it is what reading it makes of it, or it stands as it did
    if not shifted:
        assert frame == as_it_was
        return
    expected = bytearray(as_it_was)
    patch_produce_response(expected, version, shifts, 4)
    assert frame == expected


@pytest.mark.parametrize("version", range(5, 10))
def test_the_usual_answer_is_of_the_usual_kind(version: int) -> None:
    entry = {"index": 0, "error_code": 0, "base_offset": 7, "log_append_time_ms": -1, "log_start_offset": 0}
    body = {"responses": [{"name": "orders", "partition_responses": [entry]}], "throttle_time_ms": 3}
    frame = bytearray(encode_response(PRODUCE, version, 7, encode(PRODUCE, version, "response", body)))
    like = ProduceAnswerLike.of(b"orders", version)
    assert like is not None
    assert like.shift(frame, 0, len(frame), {(b"orders", 0): 93})
