"""A template of produces to several topics matches only requests that decode alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import encode, encode_request, read_request_header
from ha_core.wire.produce import ProduceScan, scan_produce
from ha_core.wire.templates.several_topics_produce import SeveralTopicsProduceTemplate
from ha_core.wire.templates.single_topic import ProduceTemplate
from ha_core.wire.varint import write_uvarint
from tests.gateway.session.messages import PRODUCE
from tests.wire.samples import damaged, seeds

SIZE = Struct(">i")
VERSIONS = [3, 8, 9]


def frame_of(version: int, *topics: tuple[str, Sequence[bytes | None]], **more: Any) -> bytearray:
    """A produce of these records to the partitions of these topics."""
    data = [
        {"name": name, "partition_data": [{"index": number, "records": one} for number, one in enumerate(records)]}
        for name, records in topics
    ]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 1000, "topic_data": data, **more}
    return bytearray(encode_request(PRODUCE, version, 7, "app", encode(PRODUCE, version, "request", body)))


def scanned(frame: bytearray, end: int | None = None) -> tuple[int, int, ProduceScan]:
    """Position of its body, its version, and its contents as far as it has arrived."""
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    come = len(frame) if end is None else end
    scan = scan_produce(frame, 0, come, header.api_version, header.body_at, len(frame))
    assert scan is not None
    return header.body_at, header.api_version, scan


def pattern(frame: bytearray, end: int | None = None) -> SeveralTopicsProduceTemplate | None:
    body_at, version, scan = scanned(frame, end)
    return SeveralTopicsProduceTemplate.of(frame, 0, body_at, end or len(frame), len(frame), version, scan)


def single(frame: bytearray) -> ProduceTemplate | None:
    _, version, scan = scanned(frame)
    return ProduceTemplate.of(frame, 0, len(frame), len(frame), version, scan)


def found(like: SeveralTopicsProduceTemplate, frame: bytearray) -> set[bytes] | None:
    return like.topics(frame, 0, len(frame), len(frame))


@pytest.mark.parametrize("version", VERSIONS)
def test_template_matches_any_subset_of_its_topics(version: int) -> None:
    # Given a template of three topics
    like = pattern(frame_of(version, ("a", [b"r" * 30]), ("b", [b"r" * 30, b"r" * 300]), ("cc", [b"r"])))
    assert like is not None
    # Then it matches produces to any of them, in any order, to any partitions
    for topics in ([("a", [b"x"])], [("cc", [b"x"] * 126), ("a", [b"x" * 70_000])]):
        frame = frame_of(version, *topics)
        assert found(like, frame) == {name.encode() for name, _ in topics}
    # But none to another topic, without records, or with other settings
    for other in (
        frame_of(version, ("a", [b"x"]), ("d", [b"x"])),
        frame_of(version, ("aa", [b"x"])),
        frame_of(version),
        frame_of(version, ("a", [])),
        frame_of(version, ("a", [b"x", None])),
        frame_of(version, ("a", [b"x", b""]), ("b", [b"x"])),
        frame_of(version, ("a", [b"x"]), acks=1),
        frame_of(version, ("a", [b"x"]), transactional_id="t"),
    ):
        assert found(like, other) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_produce_to_several_topics_matches_only_when_complete(version: int) -> None:
    frame = frame_of(version, ("a", [b"r" * 30]), ("b", [b"r" * 30]))
    like = pattern(frame)
    assert like is not None
    assert like.topics(frame, 0, len(frame) - 1, len(frame)) is None
    assert pattern(frame, len(frame) - 1) is None
    # and the next one may follow it
    both = frame + frame
    assert [like.topics(both, at, len(both), at + len(frame)) for at in (0, len(frame))] == [{b"a", b"b"}] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_many_long_or_unusual_requests_make_no_template(version: int) -> None:
    assert pattern(frame_of(version, *((f"t{number}", [b"r"]) for number in range(126)))) is not None
    for unusual in (
        frame_of(version, *((f"t{number}", [b"r"]) for number in range(127))),
        frame_of(version, *((f"t{number}", [b"r"] * 101) for number in range(10))),
        frame_of(version, *((f"{number:03}" * 40, [b"r"]) for number in range(100))),
        frame_of(version, ("a", [b"r"]), ("b", [None])),
        frame_of(version, ("a", [b"r"]), ("b", [b"r"]), transactional_id="t"),
    ):
        assert pattern(unusual) is None
    like = pattern(frame_of(version, ("a", [b"r"]), ("b", [b"r"])))
    assert like is not None
    assert like.joined([b"c"]).names == {b"a", b"b", b"c"}
    assert like.joined([b"c" * 20_000]).names == {b"a", b"b"}
    many = [b"%d" % number for number in range(500)]
    assert like.joined(many).names == {b"a", b"b"}, "short names take memory as well"


@pytest.mark.parametrize("version", VERSIONS)
def test_larger_template_replaces_smaller_ones_but_not_single_topic_ones(version: int) -> None:
    two, one = pattern(frame_of(version, ("a", [b"r"]), ("b", [b"r"]))), single(frame_of(version, ("a", [b"r" * 9])))
    assert two is not None
    assert two.same(pattern(frame_of(version, ("b", [b"r"]), ("a", [b"r"]))))
    assert two.joined([b"c"]).same(two)
    assert not two.same(two.joined([b"c"]))
    assert not two.same(one)
    assert two.differs_only_in_topics(one)
    assert not two.differs_only_in_topics(single(frame_of(version, ("a", [b"r" * 9]), acks=1)))


@given(seeds, st.sampled_from(VERSIONS), st.lists(st.lists(st.integers(1, 40), max_size=3), max_size=4))
@settings(deadline=None, max_examples=600)
def test_damaged_produce_that_matches_a_template_decodes_alike(seed: int, version: int, sizes: list[list[int]]) -> None:
    # Given a template, and a request that matches it except for damage
    chance = random.Random(seed)
    like = pattern(frame_of(version, ("a", [b"r"]), ("bb", [b"r"]), ("c" * 100, [b"r"])))
    assert like is not None
    topics = [(chance.choice(["a", "bb", "c" * 100]), [b"x" * size for size in each]) for each in sizes]
    whole = frame_of(version, *topics)
    torn = whole[:12] + (damaged(bytes(whole[12:]), chance) if chance.random() < 0.9 else whole[12:])
    frame = bytearray(SIZE.pack(len(torn) - 4)) + torn[4:]
    if len(frame) >= 12 and (names := found(like, frame)) is not None:
        # When it matches, then decoding it gives the same result
        _, _, scan = scanned(frame)
        assert (scan.complete, scan.acks, scan.transactional_id) == (True, -1, None)
        assert names == {name for name, _, _, _ in scan.partitions}
        assert all(length > 0 for _, _, _, length in scan.partitions)


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
        assert [name for name, _, _, _ in scanned(frame)[2].partitions] == [LONG, other]
    # Then the first one's template does not match the second
    like = pattern(first)
    assert like is None or found(like, second) in (None, {LONG, b"secret"})
