"""A template matches only requests that decode like the one that it was made from."""

from __future__ import annotations

import random
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import (
    RemoteProtocolError,
    decode,
    encode,
    encode_request,
    encode_response,
    read_request_header,
    response_body_at,
)
from ha_core.wire.fetch_request import scan_fetch_request
from ha_core.wire.produce import patch_produce_response, scan_produce
from ha_core.wire.templates.single_topic import OUTSIDE, STANDING, FetchTemplate, ProduceAnswerTemplate, ProduceTemplate
from tests.gateway.session.messages import FETCH, PRODUCE, fetch, produce
from tests.wire.samples import damaged, seeds

SIZE = Struct(">i")
TOO_LONG = b"\x80\x80\x80\x80\x80\x01"
"""An invalid number: it has more than five bytes."""


def written(version: int, *records: bytes, **more: Any) -> bytearray:
    body = {**produce(*(("orders", number, one) for number, one in enumerate(records))), **more}
    return bytearray(encode_request(PRODUCE, version, 7, "app", encode(PRODUCE, version, "request", body)))


def read(version: int, *partitions: int, epoch: tuple[int, int] = (0, -1), **more: Any) -> bytearray:
    body = fetch(*(("orders", number, 5) for number in partitions), session=epoch)
    asked = [one for topic in body["topics"] for one in topic["partitions"]]
    body["topics"] = [{"topic": "orders", "partitions": asked}] if asked else []
    return bytearray(encode_request(FETCH, version, 7, "app", encode(FETCH, version, "request", {**body, **more})))


def of_produce(frame: bytearray) -> ProduceTemplate | None:
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    version = header.api_version
    scan = scan_produce(frame, 0, len(frame), version, header.body_at, len(frame))
    assert scan is not None
    return ProduceTemplate.of(frame, 0, len(frame), len(frame), version, scan)


def of_fetch(frame: bytearray) -> FetchTemplate | None:
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    scan = scan_fetch_request(frame, header.body_at, len(frame), header.api_version)
    epochs = STANDING if scan.session_epoch > 0 else OUTSIDE
    return FetchTemplate.of(frame, 0, header.body_at, len(frame), header.api_version, len(scan.topics), epochs)


def sized(frame: bytes | bytearray) -> bytearray:
    """The frame with its true size in front."""
    return bytearray(SIZE.pack(len(frame) - 4)) + frame[4:]


def test_invalid_length_matches_no_template() -> None:
    # Given a template of a produce, and one of a fetch
    like, reader = of_produce(written(9, b"r" * 30)), of_fetch(read(12, 0))
    assert like is not None
    assert reader is not None
    # When a length of records, or a count of partitions, never ends
    begin = b"\0\0\0\0" + like.head + SIZE.pack(8) + like.begin
    torn = sized(begin + b"\2" + SIZE.pack(0) + TOO_LONG + bytes(30))
    endless = sized(begin + TOO_LONG + bytes(32))
    start = b"\0\0\0\0" + reader.head + SIZE.pack(8) + reader.begin
    countless = sized(start + SIZE.pack(-1) + reader.topic + TOO_LONG + bytes(32) + reader.tail)
    # Then the decoder refuses it
    assert not like.partitions(torn, 0, len(torn), len(torn))
    assert not like.partitions(endless, 0, len(endless), len(endless))
    assert reader.entries(countless, 0, len(countless)) is None


@pytest.mark.parametrize("version", [3, 7, 8, 9])
def test_produce_with_a_second_empty_topic_makes_no_template(version: int) -> None:
    # Given a produce with a second topic, without partitions
    more = [{"name": "orders", "partition_data": [{"index": 0, "records": b"r" * 30}]}]
    frame = written(version, topic_data=[*more, {"name": "other", "partition_data": []}])
    # Then it makes no template: that would match one that ends after the records, and name too few topics
    assert of_produce(frame) is None
    assert of_produce(written(version, b"r" * 30)) is not None


@pytest.mark.parametrize("version", [3, 7, 8, 9])
def test_request_followed_by_the_next_one_still_matches(version: int) -> None:
    # Given a template, and two requests that were sent at once
    frame = written(version, b"r" * 30)
    like, both = of_produce(frame), frame + frame
    assert like is not None
    # Then the first matches although bytes of the second follow, and so does the second
    (first,), (second,) = (like.partitions(both, at, len(both), at + len(frame)) for at in (0, len(frame)))
    assert second == tuple(len(frame) + at for at in first)


def test_long_requests_make_no_template() -> None:
    # Given names of maximum length, and a session that forgets many topics
    named = [{"name": "n" * 32_000, "partition_data": [{"index": 0, "records": b"r"}]}]
    forgets = [{"topic": f"topic-{number}", "partitions": [0]} for number in range(1000)]
    # Then nothing of them is kept with the connection
    assert of_produce(written(9, topic_data=named)) is None
    assert of_fetch(read(12, epoch=(5, 2), forgotten_topics_data=forgets)) is None
    assert of_fetch(read(12, 0, epoch=(5, 2), forgotten_topics_data=forgets)) is None
    assert of_fetch(read(12, *range(3), epoch=(5, 2), forgotten_topics_data=forgets[:3])) is not None


def test_matching_fetch_stays_within_the_bound_of_partitions() -> None:
    # Given a fetch with nearly as many elements as are read of one
    forgets = [{"topic": "t", "partitions": []} for _ in range(39_000)]
    frame = read(12, 0, epoch=(5, 2), forgotten_topics_data=forgets)
    like = of_fetch(frame)
    # When another one has more partitions
    more = read(12, *range(1_100), epoch=(5, 2), forgotten_topics_data=forgets)
    body = read_request_header(more, 4, len(more))
    assert body is not None
    with pytest.raises(RemoteProtocolError, match="elements"):
        scan_fetch_request(more, body.body_at, len(more), 12)
    # Then it does not match
    assert like is None or like.entries(more, 0, len(more)) is None


def damaged_frame(frame: bytearray, chance: random.Random) -> bytearray:
    """The request with some bytes changed after the correlation id, under its true size."""
    return sized(frame[:12] + damaged(bytes(frame[12:]), chance))


@pytest.mark.parametrize("version", [3, 8, 9])
@pytest.mark.parametrize("count", [1, 2, 126, 127, 300])
def test_template_matches_produces_to_any_partitions(version: int, count: int) -> None:
    # Given a produce to this number of partitions, followed by another request
    frame = written(version, *(b"r" * (number + 20) for number in range(count)))
    both = frame + written(version, b"r" * 30)
    # When it is compared with a template made from one partition, or from two
    for like in (of_produce(written(version, b"x" * 30)), of_produce(written(version, b"x" * 30, b"y" * 300))):
        assert like is not None
        places = like.partitions(both, 0, len(both), len(frame))
        # Then it matches, and each partition is at its position
        numbers = [int.from_bytes(frame[at : at + 4], "big") for at, _, _ in places]
        records = [bytes(frame[at:stop]) for _, at, stop in places]
        assert numbers == list(range(count))
        assert records == [b"r" * (number + 20) for number in range(count)]


@pytest.mark.parametrize("version", [3, 8, 9])
def test_produce_to_several_partitions_matches_only_when_complete(version: int) -> None:
    # Given all but the last byte of a produce to one partition, and of one to two
    one, two = written(version, b"r" * 30), written(version, b"r" * 30, b"r" * 30)
    like = of_produce(one)
    assert like is not None
    # Then the records of the first are recognised, and nothing of the second
    assert like.partitions(one, 0, len(one) - 1, len(one))
    assert not like.partitions(two, 0, len(two) - 1, len(two))


@given(seeds, st.sampled_from([3, 8, 9]), st.lists(st.integers(1, 40), min_size=1, max_size=4))
@settings(deadline=None, max_examples=400)
def test_damaged_produce_that_matches_a_template_decodes_alike(seed: int, version: int, sizes: list[int]) -> None:
    # Given a request that matches an earlier one except for damage
    chance = random.Random(seed)
    like = of_produce(written(version, b"r" * 30))
    assert like is not None
    frame = damaged_frame(written(version, *(b"x" * size for size in sizes)), chance)
    if len(frame) < 12:
        return
    places = like.partitions(frame, 0, len(frame), len(frame))
    if places:
        # When it matches, then decoding it gives the same result
        header = read_request_header(frame, 4, len(frame))
        assert header is not None
        scan = scan_produce(frame, 0, len(frame), version, header.body_at, len(frame))
        assert scan is not None
        assert (scan.complete, scan.acks, scan.transactional_id) == (True, -1, None)
        found = [(b"orders", SIZE.unpack_from(frame, at)[0], records, stop - records) for at, records, stop in places]
        assert scan.partitions == found
        assert all(length > 0 for _, _, _, length in scan.partitions)


@given(seeds, st.sampled_from([9, 11, 12]), st.sampled_from([(0, -1), (77, 3)]), st.integers(0, 3))
@settings(deadline=None, max_examples=400)
def test_damaged_fetch_that_matches_a_template_decodes_alike(
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
        # and finds the partitions where the template does
        assert scan.entries is not None
        assert scan.entries == [found] * min(partitions, 1)


def answered(version: int, chance: random.Random) -> bytearray:
    """A broker's answer to a produce, mostly for successful partitions."""
    entries: list[dict[str, Any]] = []
    for _ in range(chance.choice([1, 1, 2, 5, 200])):
        entry: dict[str, Any] = {"index": chance.randrange(3), "error_code": 0}
        entry["base_offset"] = chance.choice([7] * 97 + [0, 1 << 62, -1])
        entry |= {"log_append_time_ms": chance.choice([-1, 1_700_000_000_000])}
        entry |= {"log_start_offset": chance.choice([0, 5])}
        entries.append(entry)
    if chance.random() < 0.1:
        entries[-1] |= chance.choice([{"error_code": 6}, {"error_message": "why"}, {"base_offset": -1}])
    topics = [{"name": chance.choice(["orders"] * 9 + ["other"]), "partition_responses": entries}]
    body = {"responses": topics * chance.choice([1] * 9 + [2]), "throttle_time_ms": chance.choice([0, 50])}
    return bytearray(encode_response(PRODUCE, version, 7, encode(PRODUCE, version, "response", body)))


@given(seeds, st.integers(3, 9), st.sampled_from([0, 3, -7, 1 << 62]))
@settings(deadline=None, max_examples=400)
def test_usual_produce_answer_is_shifted_like_any_other(seed: int, version: int, delta: int) -> None:
    # Given a template of successful answers, and one that may be damaged
    chance = random.Random(seed)
    like = ProduceAnswerTemplate.of(b"orders", version)
    frame = answered(version, chance)
    if chance.random() < 0.3:
        frame = sized(frame[:8] + damaged(bytes(frame[8:]), chance))
    as_it_was, behind = bytearray(frame), answered(version, chance)
    frame += behind
    # When it is shifted by the template, with another one after it
    shifts = {(b"orders", 0): delta, (b"orders", 2): 11} if delta else {}
    shifted = like is not None and like.shift(frame, 0, len(as_it_was), shifts)
    # Then the result equals the full decoder's, or the answer is unchanged
    if shifted:
        patch_produce_response(as_it_was, version, shifts, 4)
    assert frame == as_it_was + behind


@pytest.mark.parametrize("version", range(5, 10))
@pytest.mark.parametrize("count", [1, 2, 126, 127, 300])
def test_answers_of_brokers_are_usual(version: int, count: int) -> None:
    # Given a broker's answer to a request of this number of partitions, in an order of its own
    entry = {"error_code": 0, "base_offset": 7, "log_append_time_ms": -1, "log_start_offset": 0}
    said = [{"index": number, **entry} for number in reversed(range(count))]
    body = {"responses": [{"name": "orders", "partition_responses": said}], "throttle_time_ms": 3}
    frame = bytearray(encode_response(PRODUCE, version, 7, encode(PRODUCE, version, "response", body)))
    like = ProduceAnswerTemplate.of(b"orders", version)
    assert like is not None
    # When the offsets of two are shifted
    assert like.shift(frame, 0, len(frame), {(b"orders", 0): 93, (b"orders", count - 1): 3})
    # Then those of the others are unchanged
    at = response_body_at(PRODUCE, version, frame, 4)
    (topic,) = decode(PRODUCE, version, "response", frame[at:])["responses"]
    offsets = {one["index"]: one["base_offset"] for one in topic["partition_responses"]}
    assert offsets == {**dict.fromkeys(range(count), 7), 0: 100, count - 1: 10}
