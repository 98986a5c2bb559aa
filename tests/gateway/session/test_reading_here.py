"""A fetch of mapped topics that one broker answers is patched in place, as a plan would have written it."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.copies import Copies
from gateway.session.fast.fetch_patch import patch, patch_one
from gateway.session.fetch.fetch_session import FetchSession, Gap
from gateway.session.fetch.plan import FetchPlan
from gateway.session.snapshot import Port
from ha_core.model import Crossing, Extent, Fence, Topic, View
from ha_core.model.cluster import Mask
from ha_core.model.extent import MAX_OFFSET, append, identity
from ha_core.plan.facts.clusters import Partition
from ha_core.wire import decode, encode
from ha_core.wire.fetch_request import TopicEntries, scan_fetch_request
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, fetch, fetched, moved, state
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot


def mapped(name: str, chance: random.Random) -> Topic | None:
    """A topic of two partitions that has moved a few times, or none."""
    if chance.random() < 0.1:
        return None
    partitions: dict[int, tuple[Extent, ...]] = {}
    writer = "east"
    for number in range(2):
        extents, writer, cut = identity("west"), "west", 0
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            writer = "east" if writer == "west" else "west"
            cut += chance.randrange(30)
            extents = append(extents, writer, cut, chance.randrange(60))
        if len(extents) > 1 and chance.random() < 0.1:
            extents = (extents[0].changed(ignored=True), *extents[1:])
        partitions[number] = extents
    crossing = chance.choice([None] * 8 + [Crossing(operation="m", state="open")])
    fence = chance.choice([None] * 8 + [Fence(operation="op")])
    return Topic(name=name, writer=writer, partitions=partitions, crossing=crossing, fence=fence)


@given(st.integers(0, 1 << 32), st.integers(4, 12))
@settings(deadline=None, max_examples=500)
def test_a_fetch_patched_in_place_equals_its_plan(seed: int, version: int) -> None:
    # Given two topics that have moved to and fro, and a reader of both
    chance = random.Random(seed)
    topics = [topic for name in ("orders", "other") if (topic := mapped(name, chance)) is not None]
    talk = Talk(state(*topics), Port(chance.choice(["east", "west"]), 1))
    routes = talk.session.client.routes("app")
    named = [(name, number, chance.randrange(120)) for name in ("orders", "other") for number in range(2)]
    gaps = {("orders", 0): Gap(named[0][2], 90)} if chance.random() < 0.1 else dict[Partition, Gap]()
    body = bytearray(encode(FETCH, version, "request", fetch(*named, session=chance.choice([(0, 0), (0, -1)]))))
    message, scan = decode(FETCH, version, "request", body), scan_fetch_request(body, 0, len(body), version)
    plan = FetchPlan(message, routes, gaps, Copies(), talk.now)
    # When its fetch needs no plan
    assert scan.entries is not None
    patched = patch(body, 0, version, tuple(scan.topics), scan.entries, routes, gaps)
    if patched is None:
        return
    # Then a plan sends all of it to the port's broker, for open extents, and reads nothing else
    assert list(plan.parts) == [talk.session.context.here]
    assert not any((plan.local, plan.examined_lanes, plan.copies, plan.both))
    assert not any(read.opens or read.extent.end is not None for read in plan.reads.values())
    # and asks for the same offsets, and patches the answer alike
    patched.write(body)
    (parts,) = plan.parts.values()
    sent = decode(FETCH, version, "request", body)["topics"]
    asked = {(topic["topic"], partition["partition"]): partition for topic in sent for partition in topic["partitions"]}
    assert asked == {(name, p["partition"]): _spoken(p, version) for name, entries in parts.items() for p in entries}
    assert patched.shifts == plan.shifts()


@given(st.integers(0, 1 << 32), st.integers(4, 12), st.booleans())
@settings(deadline=None, max_examples=300)
def test_a_fetch_of_one_partition_is_patched_like_one_of_several(seed: int, version: int, in_session: bool) -> None:
    # Given a topic that has moved to and fro, of which a partition was read here before
    chance = random.Random(seed)
    topic = mapped("orders", chance)
    talk = Talk(state() if topic is None else state(topic), Port("east", 1))
    routes, session = talk.session.client.routes("app"), FetchSession() if in_session else None
    if session is not None:
        session.add([b"orders"], routes)
    gaps = {("orders", 0): Gap(50, 90)} if chance.random() < 0.1 else dict[Partition, Gap]()

    def read(offset: int) -> tuple[bytearray, TopicEntries]:
        body = bytearray(encode(FETCH, version, "request", fetch(("orders", 0, offset))))
        scan = scan_fetch_request(body, 0, len(body), version)
        assert scan.entries is not None
        return body, scan.entries[0]

    body, entries = read(MAX_OFFSET)
    if patch(body, 0, version, (b"orders",), [entries], routes, {}, session) is None:
        return
    # When it is read from any offset
    body, entries = read(chance.choice([0, chance.randrange(200), MAX_OFFSET]))
    patched_fetch = patch_one(body, 0, version, (b"orders",), entries.at, routes, gaps, session)
    # Then the short path equals the long one, if it gives a result
    several = patch(body, 0, version, (b"orders",), [entries], routes, gaps, session)
    if patched_fetch is None:
        assert several is None or topic is None
    else:
        assert several is not None
        assert (*patched_fetch.offsets,) == (*several.offsets,)
        assert patched_fetch._replace(offsets=()) == several._replace(offsets=())


def _spoken(entry: dict[str, Any], version: int) -> dict[str, Any]:
    """The fields that the version has."""
    spoken = encode(FETCH, version, "request", {"topics": [{"topic": "t", "partitions": [entry]}]})
    ((found,),) = [topic["partitions"] for topic in decode(FETCH, version, "request", spoken)["topics"]]
    return found  # type: ignore[no-any-return]


def test_many_fetches_need_no_plan() -> None:
    # Given as many as above
    found = 0
    for seed in range(300):
        chance = random.Random(seed)
        topics = [topic for name in ("orders", "other") if (topic := mapped(name, chance)) is not None]
        talk = Talk(state(*topics), Port("east", 1))
        named = [("orders", 0, chance.randrange(120))]
        body = bytearray(encode(FETCH, 12, "request", fetch(*named)))
        scan = scan_fetch_request(body, 0, len(body), 12)
        assert scan.entries is not None
        found += patch(body, 0, 12, (b"orders",), scan.entries, talk.session.client.routes("app"), {}) is not None
    # Then many of them need none
    assert found > 50


def test_an_answer_whose_topic_has_lost_its_map_meanwhile_and_is_fenced_again_ends_nothing() -> None:
    # Given a reader at a cut ahead, which asks both clusters
    crossing = moved().model_copy(update={"writer": "east", "crossing": Crossing(operation="m", state="open")})
    talk = Talk(state(crossing), Port("east", 1))
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 50)), to=EAST)
    # When its topic has a fence and no map by the time of the answer
    talk.follow(state(Topic(name="orders", fence=Fence(operation="op")), revision=2))
    talk.answer(EAST, request, fetched(("orders", 0, 60, batch(50))))
    # Then the reader gets none of the records, and continues
    (answer,) = talk.answers()
    assert not answer["responses"][0]["partitions"][0]["records"]
    assert talk.closed is None


def test_a_fetch_that_names_nothing_is_answered_here_while_nothing_may_be_forwarded() -> None:
    # Given a masked cluster, and a gateway that has not loaded the state yet
    mask = Mask(since="t", by="me", reason="x")
    masked = View(1, CLUSTERS | {"east": CLUSTERS["east"].model_copy(update={"masked": mask})})
    for found in (snapshot(masked), replace(snapshot(), fresh=False)):
        talk = Talk(found)
        # When a client fetches, and names no topic
        talk.ask(FETCH, 12, fetch())
        talk.wait(1.0)
        # Then the cluster is not asked, and the client is answered
        assert not talk.asked(EAST)
        assert len(talk.answers()) == 1


@pytest.mark.parametrize("crosses", [False, True])
def test_an_impossible_offset_is_left_to_the_cluster_to_refuse(crosses: bool) -> None:
    # Given a partition whose offsets are lower for clients than in its cluster
    crossing = Crossing(operation="m", state="open") if crosses else None
    talk = Talk(state(moved(cut=10, base=70, crossing=crossing)), Port("west", 1))
    # When a client asks for the highest possible offset
    talk.ask(FETCH, 12, fetch(("orders", 0, MAX_OFFSET)))
    # Then the cluster is asked for one as high
    (asked,) = talk.asked(WEST)
    assert asked.partition["fetch_offset"] == MAX_OFFSET
