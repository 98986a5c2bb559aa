"""A template of fetches of several topics matches only requests that decode alike."""

from __future__ import annotations

import random
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import encode, encode_request, read_request_header
from ha_core.wire.fetch_request import FetchScan, scan_fetch_request
from ha_core.wire.templates.several_topics_fetch import SeveralTopicsFetchTemplate
from ha_core.wire.templates.single_topic import OUTSIDE, STANDING, FetchTemplate
from tests.gateway.session.messages import FETCH, fetch
from tests.wire.samples import damaged, seeds

SIZE = Struct(">i")
VERSIONS = [9, 11, 12]


def frame_of(version: int, *topics: tuple[str, int], epoch: tuple[int, int] = (0, -1), **more: Any) -> bytearray:
    """A fetch of this number of partitions of each of these topics."""
    body = fetch(session=epoch)
    one = fetch(("t", 0, 5))["topics"][0]["partitions"][0]
    body["topics"] = [
        {"topic": name, "partitions": [{**one, "partition": number} for number in range(count)]}
        for name, count in topics
    ]
    return bytearray(encode_request(FETCH, version, 7, "app", encode(FETCH, version, "request", {**body, **more})))


def scanned(frame: bytearray) -> tuple[int, int, FetchScan]:
    """Position of its body, its version, and its contents."""
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    scan = scan_fetch_request(frame, header.body_at, len(frame), header.api_version)
    return header.body_at, header.api_version, scan


def pattern(frame: bytearray) -> SeveralTopicsFetchTemplate | None:
    body_at, version, scan = scanned(frame)
    epochs = STANDING if scan.session_epoch > 0 else OUTSIDE
    return SeveralTopicsFetchTemplate.of(frame, 0, body_at, len(frame), version, scan, epochs)


def single(frame: bytearray) -> FetchTemplate | None:
    body_at, version, scan = scanned(frame)
    return FetchTemplate.of(frame, 0, body_at, len(frame), version, len(scan.topics), OUTSIDE)


@pytest.mark.parametrize("version", VERSIONS)
def test_template_matches_any_subset_of_its_topics(version: int) -> None:
    # Given a template of three topics
    like = pattern(frame_of(version, ("a", 1), ("b", 2), ("cc", 1)))
    assert like is not None
    # Then it matches fetches of any of them, in any order, of any partitions
    for topics in ([("a", 1)], [("cc", 3), ("a", 126)], [("b", 1), ("a", 1), ("cc", 1)]):
        frame = frame_of(version, *topics)
        found = like.entries(frame, 0, len(frame))
        assert found is not None
        _, _, scan = scanned(frame)
        assert [name for name, _ in found] == scan.topics
        assert [each for _, each in found] == scan.entries
    # But none of another topic, or of no topic
    for topics in ([("a", 1), ("d", 1)], [("aa", 1)], []):
        frame = frame_of(version, *topics)
        assert like.entries(frame, 0, len(frame)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_template_matches_no_other_session_or_settings(version: int) -> None:
    like = pattern(frame_of(version, ("a", 1), ("b", 1), epoch=(5, 2)))
    assert like is not None
    same = frame_of(version, ("b", 1), epoch=(5, 9))
    assert like.entries(same, 0, len(same)) is not None
    for other in (
        frame_of(version, ("a", 1), epoch=(6, 2)),
        frame_of(version, ("a", 1), epoch=(5, 0)),
        frame_of(version, ("a", 1)),
        frame_of(version, ("a", 1), epoch=(5, 2), min_bytes=9),
        frame_of(version, ("a", 1), epoch=(5, 2), forgotten_topics_data=[{"topic": "b", "partitions": [0]}]),
    ):
        assert like.entries(other, 0, len(other)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_many_or_long_names_make_no_template(version: int) -> None:
    assert pattern(frame_of(version, *((f"t{number}", 1) for number in range(126)))) is not None
    assert pattern(frame_of(version, *((f"t{number}", 1) for number in range(127)))) is None
    assert pattern(frame_of(version, *((f"{number:03}" * 40, 1) for number in range(100)))) is None
    forgets = [{"topic": "b", "partitions": [0]}]
    assert pattern(frame_of(version, ("a", 1), epoch=(5, 2), forgotten_topics_data=forgets)) is None
    # Nor do later names make it longer than that
    like = pattern(frame_of(version, ("a", 1), ("b", 1)))
    assert like is not None
    assert like.joined([b"c"]).names == {b"a", b"b", b"c"}
    assert like.joined([b"c" * 20_000]).names == {b"a", b"b"}


def test_template_does_not_grow_by_many_short_names() -> None:
    # Given a template of as many topics as one request may name
    like = pattern(frame_of(12, *((f"{number}", 1) for number in range(126))))
    assert like is not None
    # When others are named again and again
    for number in range(126, 600):
        like = like.joined([b"%d" % number])
    # Then it stays small, though all the names have few bytes
    assert 200 < len(like.names) < 250
    # and requests that would match if there were room are recognised
    frame, other = frame_of(12, ("a", 1)), frame_of(12, ("a", 1), min_bytes=9)
    assert like.would_match_if_larger(frame, 0, {b"a" * 3000})
    assert not like.would_match_if_larger(frame, 0, {b"1"})
    assert not like.would_match_if_larger(other, 0, {b"a" * 3000})


@pytest.mark.parametrize("version", VERSIONS)
def test_template_of_several_topics_replaces_one_of_a_single_topic(version: int) -> None:
    one, two = single(frame_of(version, ("a", 1))), pattern(frame_of(version, ("a", 1), ("b", 1)))
    none, other = single(frame_of(version)), single(frame_of(version, ("a", 1), min_bytes=9))
    stranger = single(frame_of(version, ("c", 1)))
    assert two is not None
    assert two.same(one)
    assert two.same(pattern(frame_of(version, ("b", 1), ("a", 1))))
    assert not two.same(two.joined([b"c"]))
    assert two.joined([b"c"]).same(two)
    assert not any(two.same(each) for each in (none, other, stranger))
    assert two.differs_only_in_topics(stranger)
    assert not two.differs_only_in_topics(other)


@given(seeds, st.sampled_from(VERSIONS), st.sampled_from([(0, -1), (77, 3)]), st.lists(st.integers(0, 3), max_size=4))
@settings(deadline=None, max_examples=600)
def test_damaged_fetch_that_matches_a_template_decodes_alike(
    seed: int, version: int, epoch: tuple[int, int], counts: list[int]
) -> None:
    # Given a template, and a request that matches it except for damage
    chance = random.Random(seed)
    like = pattern(frame_of(version, ("a", 1), ("bb", 2), ("c" * 100, 1), epoch=epoch))
    assert like is not None
    topics = [(chance.choice(["a", "bb", "c" * 100]), count) for count in counts]
    whole = frame_of(version, *topics, epoch=epoch)
    torn = whole[:12] + (damaged(bytes(whole[12:]), chance) if chance.random() < 0.9 else whole[12:])
    frame = bytearray(SIZE.pack(len(torn) - 4)) + torn[4:]
    if len(frame) >= 12 and (found := like.entries(frame, 0, len(frame))) is not None:
        # When it matches, then decoding it gives the same result
        _, _, scan = scanned(frame)
        assert [name for name, _ in found] == scan.topics
        assert [each for _, each in found] == scan.entries
        assert (scan.session_id, scan.session_epoch > 0, scan.forgets) == (epoch[0], epoch[1] > 0, False)
        assert scan.replica_id == -1
