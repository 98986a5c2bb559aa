"""Each produce and fetch is timed as its client sees it, and as the brokers behind the gateway answer."""

from typing import Any

import pytest

from gateway.model.latencies import Latencies
from gateway.session.snapshot import Port
from ha_core.model import Fence, Topic
from ha_core.wire import encode, encode_request, encode_response
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import (
    FETCH,
    PRODUCE,
    fetch,
    fetched,
    moved,
    produce,
    produced,
    state,
)
from tests.gateway.session.talk import EAST, WEST, Talk


def seconds(latencies: Latencies, family: str, api: str) -> tuple[int, float]:
    """How many were timed, and their time in all."""
    (metric,) = (one for one in latencies.collect("") if one.name == family)
    values = {one.name: one.value for one in metric.samples if one.labels["api"] == api and "le" not in one.labels}
    return int(values[f"{family}_count"]), round(values[f"{family}_sum"], 6)


def times(talk: Talk, api: str = "produce") -> dict[str, tuple[int, float]]:
    latencies = talk.session.context.shared.counts.latencies
    return {family: seconds(latencies, family, api) for family in ("request_seconds", "broker_seconds")}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("map_", [(), (moved(cut=0),)], ids=["never moved", "moved"])
def test_both_paths_time_a_request_and_its_broker_alike(fast: bool, map_: Any) -> None:
    lane = WEST if map_ else EAST
    talk = Talk(state(*map_), Port(lane.cluster, lane.broker), fast=fast)

    for _ in range(3):
        talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
        talk.now += 0.2
        talk.broker_answers(lane, produced(("orders", 0, 0, 5)))

    assert times(talk) == {"request_seconds": (3, 0.6), "broker_seconds": (3, 0.6)}


@pytest.mark.parametrize("fast", [True, False])
def test_a_fetch_is_timed_until_its_answer_begins(fast: bool) -> None:
    talk = Talk(state(), fast=fast)
    for _ in range(2):
        talk.ask(FETCH, 12, fetch(("orders", 0, 5)))
        (asked,) = talk.asked(EAST)
        body = encode(FETCH, 12, "response", fetched(("orders", 0, 9, b"v" * 900)))
        frame = encode_response(FETCH, 12, asked.correlation_id, body)
        talk.now += 0.3
        talk.broker_sends(EAST, frame[:400])
        talk.now += 5.0
        talk.broker_sends(EAST, frame[400:])

    assert times(talk, "fetch") == {"request_seconds": (2, 0.6), "broker_seconds": (2, 0.6)}


@pytest.mark.parametrize("fast", [True, False])
def test_a_produce_is_timed_from_its_last_byte(fast: bool) -> None:
    talk = Talk(state(), fast=fast)
    body = encode(PRODUCE, 9, "request", produce(("orders", 0, batch(payload=b"v" * 4000))))
    for _ in range(2):
        talk.correlation += 1
        talk.versions.append((talk.correlation, PRODUCE, 9))
        frame = encode_request(PRODUCE, 9, talk.correlation, "app", body)
        talk.send(frame[:2000])
        talk.now += 7.0
        talk.send(frame[2000:])
        talk.now += 0.1
        talk.broker_answers(EAST, produced(("orders", 0, 0, 5)))

    assert times(talk) == {"request_seconds": (2, 0.2), "broker_seconds": (2, 0.2)}


def test_time_that_a_fence_takes_is_the_gateways_and_not_a_brokers() -> None:
    talk = Talk(state(Topic(name="orders", fence=Fence(operation="op-1"))))

    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.wait(60.0)

    count, took_s = times(talk)["request_seconds"]
    assert (count, took_s) == (1, 60.0)
    assert times(talk)["broker_seconds"] == (0, 0.0)


def test_a_request_to_two_clusters_is_one_request_and_two_answers_of_brokers() -> None:
    talk = Talk(state(moved(cut=100)))

    talk.ask(FETCH, 12, fetch(("orders", 0, 5), ("other", 0, 0)))
    asked = {lane: talk.asked(lane) for lane in (EAST, WEST)}
    answered = 0
    for lane, requests in asked.items():
        for request in requests:
            talk.now += 0.1
            answered += 1
            topic = request.body["topics"][0]["topic"]
            talk.answer(lane, request, fetched((topic, 0, 9, b"")))

    assert times(talk, "fetch")["request_seconds"][0] == 1
    assert times(talk, "fetch")["broker_seconds"][0] == answered >= 1
