"""The client's queue: order of answers, its limits, and refusals held by a fence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.session.commands import ToClient
from gateway.session.in_flight import MAX_READY_BYTES, RequestsInFlight
from gateway.session.pending import Passed, Ready
from gateway.session.readiness import Turn
from gateway.session.request import Request
from gateway.session.snapshot import Fences
from gateway.session.state import ConnectionState
from ha_core.wire import APIS, ApiKey, WireLimits
from tests.gateway.session.messages import state
from tests.gateway.session.talk import EAST, WEST, Talk

PRODUCE = Request.own(ApiKey.PRODUCE, 9, WireLimits())
FETCH = Request.own(ApiKey.FETCH, 11, WireLimits())


@pytest.fixture
def session() -> ConnectionState:
    session = Talk(state()).session
    session.context.now = 100.0
    return session


@pytest.fixture
def in_flight(session: ConnectionState) -> RequestsInFlight:
    return session.in_flight


def given(session: ConnectionState) -> list[bytes]:
    return [bytes(command.data) for command in session.context.out if isinstance(command, ToClient)]


def test_an_answer_waits_for_its_turn(session: ConnectionState, in_flight: RequestsInFlight) -> None:
    # Given a request at a broker, and a later one that is answered already
    first = Passed(FETCH)
    in_flight.pass_on(first, EAST, b"fetch")
    in_flight.line_up(Ready(FETCH, b"second"))
    in_flight.flush()
    assert given(session) == []
    assert in_flight.ready_bytes == len(b"second")
    # When the first one's answer is there
    in_flight.complete(first, Ready(FETCH, b"first"))
    # Then both go, in order
    assert given(session) == [b"first", b"second"]
    assert in_flight.ready_bytes == 0
    assert in_flight.given_bytes == len(b"firstsecond")


def test_an_answer_waits_for_its_time(session: ConnectionState, in_flight: RequestsInFlight) -> None:
    in_flight.answer_nothing(FETCH, 101.0)
    in_flight.line_up(Ready(FETCH, b"next"))
    assert in_flight.waking
    assert list(in_flight.due_at()) == [101.0]
    session.context.now = 101.0
    in_flight.flush()
    assert given(session) == [b"next"]


def test_answers_that_wait_for_an_earlier_one_fill_the_connection(in_flight: RequestsInFlight) -> None:
    in_flight.pass_on(Passed(FETCH), EAST, b"fetch")
    in_flight.line_up(Ready(FETCH, bytes(MAX_READY_BYTES)))
    assert not in_flight.full()
    assert in_flight.full(share=2)
    in_flight.line_up(Ready(FETCH, b"x"))
    assert in_flight.full()
    in_flight.drop_answers()
    assert not in_flight.full()


def test_a_refusal_goes_when_its_fence_is_lifted(session: ConnectionState, in_flight: RequestsInFlight) -> None:
    context = session.context
    context.snapshot = replace(context.snapshot, fences=Fences(operations=frozenset({"move-1"})))
    in_flight.line_up(Ready(FETCH, b"refused", due_at=200.0, lifts_with="move-1"))
    in_flight.lift()
    assert given(session) == []
    context.snapshot = replace(context.snapshot, fences=Fences())
    in_flight.lift()
    assert given(session) == [b"refused"]


def test_a_write_to_another_broker_waits_for_the_one_in_flight(in_flight: RequestsInFlight) -> None:
    writes = APIS[ApiKey.PRODUCE].effect
    in_flight.pass_on(Passed(PRODUCE, topics=(b"orders",)), EAST, b"produce")
    assert in_flight.has_come(Turn(writes, EAST))
    assert not in_flight.has_come(Turn(writes, WEST))
    assert not in_flight.has_come(Turn(writes, None))


def test_a_request_that_is_forgotten_gets_no_answer_and_holds_nothing_up(
    session: ConnectionState, in_flight: RequestsInFlight
) -> None:
    pending = Passed(PRODUCE, topics=(b"orders",))
    in_flight.pass_on(pending, EAST, b"produce")
    assert in_flight.busy()
    assert in_flight.holds_back(frozenset({b"orders"}), frozenset(), 1 << 30, frozenset(), None)
    assert not in_flight.holds_back(frozenset({b"other"}), frozenset(), 1 << 30, frozenset(), None)
    in_flight.forget(pending)
    assert not in_flight.queue
    assert not in_flight.busy()
    assert given(session) == []
