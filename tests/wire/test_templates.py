"""A template matches requests that name topics that it knows, and only those that decode like its own."""

import random
from collections.abc import Collection, Sequence
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import decode, encode, encode_request, encode_response, read_request_header, response_body_at
from ha_core.wire.fetch_request import FetchScan, scan_fetch_request
from ha_core.wire.limits import PARTITIONS_AT_ONCE
from ha_core.wire.produce import ProduceScan, patch_produce_response, scan_produce
from ha_core.wire.templates import (
    BEGINNING,
    MAX_NAMES,
    OUTSIDE,
    STANDING,
    FetchTemplate,
    ProduceAnswerTemplate,
    ProduceMatch,
    ProduceTemplate,
    RequestTemplate,
)
from ha_core.wire.varint import write_uvarint
from tests.gateway.session.messages import FETCH, PRODUCE, fetch
from tests.wire.samples import damaged, seeds

SIZE = Struct(">i")
NAMES = ["a", "bb", "c" * 100, "d" * 249]
STRANGE = ["aa", "", "e" * 249, "f" * 250]
"""Topics that no template knows."""
TOO_LONG = b"\x80\x80\x80\x80\x80\x01"
"""An invalid number: it has more than five bytes."""

Records = Sequence[bytes | None]


def written(version: int, *topics: tuple[str, Records], **more: Any) -> bytearray:
    """A produce of these records to the partitions of these topics."""
    data = [
        {"name": name, "partition_data": [{"index": number, "records": one} for number, one in enumerate(records)]}
        for name, records in topics
    ]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": data, **more}
    return bytearray(encode_request(PRODUCE, version, 7, "app", encode(PRODUCE, version, "request", body)))


def read(version: int, *topics: tuple[str, int], epoch: tuple[int, int] = (0, -1), **more: Any) -> bytearray:
    """A fetch of this number of partitions of each of these topics."""
    body = fetch(session=epoch)
    one = fetch(("t", 0, 5))["topics"][0]["partitions"][0]
    body["topics"] = [
        {"topic": name, "partitions": [{**one, "partition": number} for number in range(count)]}
        for name, count in topics
    ]
    return bytearray(encode_request(FETCH, version, 7, "app", encode(FETCH, version, "request", {**body, **more})))


def scan_of_produce(frame: bytearray, end: int | None = None) -> tuple[int, int, ProduceScan]:
    """Position of its body, its version, and its contents as far as it has arrived."""
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    come = len(frame) if end is None else end
    scan = scan_produce(frame, 0, come, header.api_version, header.body_at, len(frame))
    assert scan is not None
    return header.body_at, header.api_version, scan


def scan_of_fetch(frame: bytearray) -> tuple[int, int, FetchScan]:
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    scan = scan_fetch_request(frame, header.body_at, len(frame), header.api_version)
    return header.body_at, header.api_version, scan


def of_produce(frame: bytearray, end: int | None = None) -> ProduceTemplate | None:
    body_at, version, scan = scan_of_produce(frame, end)
    return ProduceTemplate.of(frame, 0, body_at, end or len(frame), len(frame), version, scan)


def of_fetch(frame: bytearray) -> FetchTemplate | None:
    body_at, version, scan = scan_of_fetch(frame)
    epochs = STANDING if scan.session_epoch > 0 else BEGINNING if scan.session_epoch == 0 else OUTSIDE
    return FetchTemplate.of(frame, 0, body_at, len(frame), version, scan, epochs)


def sized(frame: bytes | bytearray) -> bytearray:
    """The frame with its true size in front."""
    return bytearray(SIZE.pack(len(frame) - 4)) + frame[4:]


def torn(frame: bytearray, chance: random.Random) -> bytearray:
    """The request with some bytes changed after the correlation id, under its true size."""
    return sized(frame[:12] + damaged(bytes(frame[12:]), chance))


def taught(like: RequestTemplate, chance: random.Random) -> None:
    """It knows all the names, and any one is the last that it has seen."""
    like.learn({name.encode() for name in NAMES})
    like.learn([chance.choice(NAMES).encode()])


def found(like: ProduceTemplate, frame: bytearray) -> ProduceMatch | None:
    return like.match(frame, 0, len(frame), len(frame))


def any_topics(chance: random.Random, counts: Sequence[int]) -> tuple[list[tuple[str, int]], bool]:
    """Topics with these numbers of partitions, and True if a template knows them and each has one."""
    names = chance.sample(NAMES, len(counts)) if chance.random() < 0.9 else chance.choices([*NAMES, *STRANGE], k=4)
    topics = list(zip(names, counts, strict=False))
    distinct = {name for name, _ in topics}
    return topics, len(distinct) == len(topics) and distinct <= {*NAMES} and 0 not in counts


def either(chance: random.Random, usual: Any, *others: Any) -> Any:
    return usual if chance.random() < 0.9 else chance.choice(others)


PRODUCES, FETCHES = [3, 7, 8, 9], [9, 10, 11, 12]
COUNTS = st.lists(st.sampled_from([0, 1, 1, 1, 2, 3, 126, 127, 300]), max_size=4)


@given(seeds, st.sampled_from(PRODUCES), COUNTS, st.booleans(), st.booleans())
@settings(deadline=None, max_examples=800)
def test_produce_matches_a_template_if_it_names_known_topics_and_decodes_alike(
    seed: int, version: int, counts: list[int], damages: bool, comes_slowly: bool
) -> None:
    # Given a template, and a request that may name others, be damaged, or incomplete, or followed by the next one
    chance = random.Random(seed)
    like = of_produce(written(version, (chance.choice(NAMES), [b"r" * 30])))
    assert like is not None
    taught(like, chance)
    topics, known = any_topics(chance, counts)
    sent = [(name, [either(chance, b"x" * chance.choice([1, 40, 200]), b"") for _ in range(n)]) for name, n in topics]
    asked, acks, transaction = either(chance, version, *PRODUCES), either(chance, -1, 1), either(chance, None, "t")
    whole = written(asked, *sent, acks=acks, transactional_id=transaction)
    frame = torn(whole, chance) if damages else whole
    if len(frame) < 12:
        return
    end = chance.randrange(len(frame)) if comes_slowly else len(frame)
    buf = frame[:end] + written(version, ("a", [b"r" * 30]))
    match = like.match(buf, 0, len(buf) if end == len(frame) else end, len(frame))
    # When it matches, then decoding it gives the same result
    if match is not None:
        _, now, scan = scan_of_produce(frame)
        assert (now, scan.complete, scan.acks, scan.transactional_id) == (version, True, -1, None)
        assert sorted(match[0]) == sorted({name for name, _, _, _ in scan.partitions})
        assert like.names.issuperset(match[0])
        found = [(SIZE.unpack_from(frame, at)[0], begin, stop - begin) for at, begin, stop in match[1]]
        assert [each[1:] for each in scan.partitions] == found
        assert all(size > 0 for _, _, size in found)
        assert end == len(frame) or len(found) == 1
    # and each that is not damaged matches once enough of it is there
    elif not damages and topics and known and (asked, acks, transaction) == (version, -1, None):
        _, _, scan = scan_of_produce(frame)
        enough = end == len(frame) or (len(scan.partitions) == 1 and end > scan.partitions[0][2] + 5)
        few = len(scan.partitions) <= PARTITIONS_AT_ONCE
        assert not (enough and few and all(size > 0 for _, _, _, size in scan.partitions))


@given(seeds, st.sampled_from(FETCHES), COUNTS, st.sampled_from([(0, -1), (0, 0), (77, 3)]), st.booleans())
@settings(deadline=None, max_examples=800)
def test_fetch_matches_a_template_if_it_names_known_topics_and_decodes_alike(
    seed: int, version: int, counts: list[int], epoch: tuple[int, int], damages: bool
) -> None:
    # Given a template, and a request that may name others, or be damaged, followed by the next one
    chance = random.Random(seed)
    like = of_fetch(read(version, *([("a", 1)] if chance.random() < 0.8 else []), epoch=epoch))
    assert like is not None
    taught(like, chance)
    topics, known = any_topics(chance, counts)
    asked, session = either(chance, version, *FETCHES), either(chance, epoch, (0, -1), (0, 0), (77, 4), (78, 3))
    more = either(chance, {}, {"min_bytes": 9}, {"forgotten_topics_data": [{"topic": "a", "partitions": [0]}]})
    whole = read(asked, *topics, epoch=session, **more)
    frame = torn(whole, chance) if damages else whole
    if len(frame) < 12:
        return
    match = like.match(frame + read(version, ("a", 1)), 0, len(frame))
    # When it matches, then decoding it gives the same result
    kind = version, epoch[0], min(epoch[1], 1)
    if match is not None:
        _, now, scan = scan_of_fetch(frame)
        assert ([*match[0]], [*match[1]]) == (scan.topics, scan.entries)
        assert like.names.issuperset(match[0])
        assert (now, scan.session_id, min(scan.session_epoch, 1)) == kind
        assert (scan.replica_id, scan.max_wait_ms, scan.forgets) == (-1, 500, False)
    # and each that is not damaged matches
    elif not damages and known and not more:
        assert (asked, session[0], min(session[1], 1)) != kind


def test_a_number_that_never_ends_matches_no_template() -> None:
    # Given a template of a produce, and one of a fetch
    like, reader = of_produce(written(9, ("orders", [b"r" * 30]))), of_fetch(read(12, ("orders", 1)))
    assert like is not None
    assert reader is not None
    # When a length of records, or a count of partitions or topics, never ends
    begin, name = b"\0\0\0\0" + like.head + SIZE.pack(8) + like.prefix, b"\2\7orders"
    start = b"\0\0\0\0" + reader.head + SIZE.pack(8) + reader.prefix + SIZE.pack(-1)
    # Then the decoder refuses it
    for torn in (name + b"\2" + SIZE.pack(0) + TOO_LONG, name + TOO_LONG, b"\2" + TOO_LONG, TOO_LONG):
        for size in (0, 1, 300):
            frame = sized(begin + torn + bytes(size))
            assert found(like, frame) is None
            frame = sized(start + torn + bytes(size) + reader.tail)
            assert reader.match(frame, 0, len(frame)) is None


@pytest.mark.parametrize("version", [3, 7, 8, 9])
def test_a_topic_without_partitions_or_with_empty_ones_makes_no_template(version: int) -> None:
    # A template of produce would match a request that ends after the records, and name too few topics
    assert of_produce(written(version, ("a", [b"r" * 30]), ("b", []))) is None
    assert of_produce(written(version, ("a", [b"r" * 30]), ("b", [None]))) is None
    assert of_produce(written(version, ("a", [b"r" * 30]), ("a", [b"r" * 30]))) is None
    assert of_produce(written(version, ("a", [b"r" * 30]), ("b", [b"r"]))) is not None


def test_long_requests_make_no_template() -> None:
    # Given names longer than a topic's, a long client id, and very many topics
    few, many = ([f"t{number}" for number in range(count)] for count in (MAX_NAMES, MAX_NAMES + 1))
    forgets = [{"topic": "a", "partitions": [0]}]
    # Then nothing of them is kept with the connection
    for version in (3, 8, 9):
        assert of_produce(written(version, ("n" * 250, [b"r"]))) is None
        assert of_produce(written(version, ("", [b"r"]))) is None
        assert of_produce(written(version, *((name, [b"r"]) for name in few[: PARTITIONS_AT_ONCE + 1]))) is None
        assert of_produce(written(version, *((name, [b"r"]) for name in few[:PARTITIONS_AT_ONCE]))) is not None
        assert of_produce(written(version, ("a", [b"r"]), transactional_id="t")) is None
        two = written(version, ("a", [b"r" * 30]), ("b", [b"r" * 30]))
        assert of_produce(two, len(two) - 1) is None, "it is not complete"
    for version in (9, 11, 12):
        assert of_fetch(read(version, ("n" * 250, 1))) is None
        assert of_fetch(read(version, ("", 1))) is None
        assert of_fetch(read(version, *((name, 1) for name in many))) is None
        assert of_fetch(read(version, *((name, 1) for name in few))) is not None
        assert of_fetch(read(version, ("a", 1), epoch=(5, 2), forgotten_topics_data=forgets)) is None
    assert of_fetch(read(12, ("a", 1), rack_id="r" * 3000)) is None


def test_a_template_knows_as_many_topics_as_it_may_and_the_newest_of_them() -> None:
    for like in (of_produce(written(9, ("a", [b"r"]))), of_fetch(read(12, ("a", 1)))):
        assert like is not None
        for number in range(0, 3 * MAX_NAMES, 3):
            # When it learns others again and again
            names: Collection[bytes] = [b"%d" % one for one in range(number, number + 3)]
            like.learn(names)
            # Then it knows those, and never more than it may
            assert like.names.issuperset(names)
            assert len(like.names) == min(MAX_NAMES, number + 4)


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
    as_it_was, after_it = bytearray(frame), answered(version, chance)
    frame += after_it
    # When it is shifted by the template, with another one after it
    shifts = {(b"orders", 0): delta, (b"orders", 2): 11} if delta else {}
    shifted = like is not None and like.shift(frame, 0, len(as_it_was), shifts)
    # Then the result equals the full decoder's, or the answer is unchanged
    if shifted:
        patch_produce_response(as_it_was, version, shifts, 4)
    assert frame == as_it_was + after_it


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


LONG, SHORT = b"a-aaaaz" + b"a" * 40, b"0a"
"""Read one byte too early, the first one's length (48, a "0") and its first letter are the second one, and the rest of
it means 44 partitions, the first with 121 bytes."""


def partition(records: bytes) -> bytes:
    return bytes(4) + write_uvarint(len(records) + 1) + records + b"\0"


def named(name: bytes, records: bytes) -> bytes:
    """A topic of one partition."""
    return write_uvarint(len(name) + 1) + name + write_uvarint(2) + partition(records) + b"\0"


def ambiguous(second: bytes) -> bytearray:
    """It names the long topic and this one. Read one byte too early, it names the short one and the long one."""
    rest = named(second, b"r" * 30)
    hidden = b"\0\0" + rest[:-2]
    begins = LONG.join((write_uvarint(len(LONG) + 1), write_uvarint(2) + bytes(4) + write_uvarint(len(hidden) + 1)))
    first = named(LONG, b"r" * 74 + b"\0" + partition(b"r") * 43 + b"\0" + begins)
    # No transactional id, in two bytes; acks, a timeout whose last byte counts two topics, and the same count again.
    body = b"\x80\0" + b"\xff\xff" + b"\0\0\x75\3" + b"\3" + first + rest + b"\0"
    return bytearray(encode_request(PRODUCE, 9, 7, "app", body))


def test_overlong_null_transactional_id_hides_no_topic() -> None:
    # Given two requests that name a topic which both readings find, and one which they do not
    first, second = ambiguous(SHORT), ambiguous(b"secret")
    for frame, other in ((first, SHORT), (second, b"secret")):
        assert [name for name, _, _, _ in scan_of_produce(frame)[2].partitions] == [LONG, other]
    # Then the first one's template does not match the second
    like = of_produce(first)
    match = None if like is None else found(like, second)
    assert match is None or {*match[0]} == {LONG, b"secret"}
