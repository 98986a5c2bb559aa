"""The part that takes requests: held bytes, and the end of taking them."""

from __future__ import annotations

import pytest

from gateway.session.commands import Cause, ShutUpstream
from gateway.session.intake import Intake
from gateway.session.lifecycle import Leaving
from gateway.session.pending import Passed
from gateway.session.readiness import Beginning, HalfSent
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from ha_core.wire import ApiKey, WireLimits
from tests.gateway.session.messages import state
from tests.gateway.session.talk import EAST, Talk

PRODUCE = Request.own(ApiKey.PRODUCE, 9, WireLimits())


@pytest.fixture
def session() -> ConnectionState:
    return Talk(state(), max_held=1000).session


@pytest.fixture
def intake(session: ConnectionState) -> Intake:
    return session.intake


def half_sent(session: ConnectionState) -> HalfSent:
    """A produce of which 40 bytes are missing was written to the east."""
    pending = Passed(PRODUCE, topics=(b"orders",))
    session.in_flight.pass_on(pending, EAST, b"beginning")
    half = HalfSent(EAST, 40, 49, pending, (b"orders",), session.context.basis())
    session.upstreams[EAST].begin(half)
    session.intake.reading = half
    return half


def test_held_bytes_above_the_limit_of_all_clients_end_the_session(session: ConnectionState, intake: Intake) -> None:
    assert intake.hold(1000)
    assert not intake.hold(1)
    life = session.context.life
    assert isinstance(life, Leaving)
    assert life.cause is Cause.HELD_TOO_MUCH
    intake.let_go()
    assert session.context.shared.held.bytes == intake.held_bytes == 0


def test_leaving_releases_the_request_that_has_begun(session: ConnectionState, intake: Intake) -> None:
    intake.reading = Beginning(bytearray(b"abc"), 100)
    intake.hold(3)
    intake.leave(Cause.SHUTDOWN)
    assert intake.reading is None
    assert session.context.shared.held.bytes == 0


def test_the_rest_of_a_half_sent_request_goes_where_its_beginning_went(
    session: ConnectionState, intake: Intake
) -> None:
    half = half_sent(session)
    assert intake.go_on(half, memoryview(bytes(30))) == 30
    assert intake.reading is half
    assert intake.go_on(half, memoryview(bytes(30))) == 10
    assert intake.reading is None
    assert session.upstreams[EAST].unsure() is False


def test_a_half_sent_request_that_cannot_go_on_is_not_awaited(session: ConnectionState, intake: Intake) -> None:
    half_sent(session)
    intake.give_up_rest()
    assert intake.reading is None
    assert not session.in_flight.queue
    assert ShutUpstream(EAST) in session.context.out


def test_the_first_reason_to_leave_counts(session: ConnectionState, intake: Intake) -> None:
    intake.leave(Cause.IDLE, "first")
    intake.leave(Cause.SHUTDOWN, "second")
    life = session.context.life
    assert isinstance(life, Leaving)
    assert (life.cause, life.detail) == (Cause.IDLE, "first")
