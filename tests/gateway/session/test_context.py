"""The ground of a session's decisions: the lease guard, and the end of a session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.session.commands import AwaitLease, Cause, Close
from gateway.session.context import SessionContext
from gateway.session.pending import NO_LEASE
from gateway.session.snapshot import Port
from ha_core.model import View
from tests.gateway.session.talk import CLUSTERS, Talk, snapshot


@pytest.fixture
def context() -> SessionContext:
    context = SessionContext(Port("east", 1), Talk().session.context.shared, snapshot(View(1, CLUSTERS)), "10.0.0.1")
    context.now = 100.0
    context.shared.lease.generation = 1
    return context


def publish(context: SessionContext) -> None:
    context.snapshot = replace(context.snapshot, view=View(2, CLUSTERS))


def test_an_answer_goes_while_its_lease_holds_although_a_revision_was_published(context: SessionContext) -> None:
    basis = context.basis()
    publish(context)
    assert context.confirm_or_wait(basis)
    assert context.out == []


def test_an_answer_goes_under_a_new_lease_if_no_revision_was_published(context: SessionContext) -> None:
    basis = context.basis()
    context.shared.lease.generation += 1
    assert context.confirm_or_wait(basis)


def test_a_new_lease_and_a_new_revision_end_the_session_without_the_answer(context: SessionContext) -> None:
    basis = context.basis()
    context.shared.lease.generation += 1
    publish(context)
    assert not context.confirm_or_wait(basis)
    (close,) = context.out
    assert isinstance(close, Close)
    assert close.cause is Cause.LEASE_LOST


def test_without_the_lease_answers_wait_and_the_driver_is_asked_once_for_it(context: SessionContext) -> None:
    basis = context.basis()
    context.shared.lease.revoke()
    assert not context.leased()
    assert not context.confirm_or_wait(basis)
    assert not context.confirm_or_wait(basis)
    assert context.out == [AwaitLease()]
    assert context.basis() == (NO_LEASE, 1)


def test_an_answer_for_a_client_that_has_left_needs_no_lease(context: SessionContext) -> None:
    basis = context.basis()
    context.life = context.life.client_left()
    context.shared.lease.revoke()
    assert context.confirm_or_wait(basis)
    assert context.out == []


def test_a_session_ends_once_by_the_first_cause(context: SessionContext) -> None:
    context.close(Cause.IDLE, "first")
    context.close(Cause.SHUTDOWN, "second")
    assert context.out == [Close(Cause.IDLE, "first")]
