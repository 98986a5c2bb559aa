"""Kinds of pending requests: each has its legal next states, and no others."""

from typing import Any

import pytest

from gateway.session.pending import (
    Composed,
    Discarded,
    Exchange,
    ExchangeAnswer,
    Gathered,
    Passed,
    Patched,
    Pending,
    Ready,
)
from gateway.session.request import Request
from ha_core.wire import ApiKey, WireLimits

REQUEST = Request.own(ApiKey.FETCH, 12, WireLimits())
BASIS = (3, 7)
NEXT = ("abandoned", "ready", "without")


def nothing() -> Exchange:
    return None
    yield


@pytest.mark.parametrize(
    ("kind", "legal"),
    [
        (Passed, {"abandoned"}),
        (Patched, {"abandoned"}),
        (Gathered, {"ready", "without"}),
        (Composed, {"ready"}),
        (Ready, set()),
        (Discarded, set()),
    ],
)
def test_a_kind_offers_its_legal_next_states_only(kind: type[Any], legal: set[str]) -> None:
    assert {name for name in NEXT if hasattr(kind, name)} == legal


def test_a_forwarded_request_is_answered_at_once_and_its_brokers_late_answer_is_dropped() -> None:
    passed = Passed(REQUEST, group=b"billing")
    passed.basis = BASIS
    ready, discarded = passed.abandoned(b"again")
    assert (ready.frame, ready.due_at, ready.basis) == (b"again", 0.0, None)
    assert (discarded.request, discarded.topics) == (REQUEST, ())


@pytest.mark.parametrize(("promises", "basis"), [(True, BASIS), (False, None)])
def test_only_an_answer_with_a_promise_depends_on_the_lease(promises: bool, basis: Any) -> None:
    gathered = Gathered(REQUEST, exchange=nothing())
    gathered.basis = BASIS
    ready = gathered.ready(ExchangeAnswer(b"answer", 0.5, promises), now=10.0)
    assert (ready.frame, ready.due_at, ready.basis) == (b"answer", 10.5, basis)


def test_a_ready_answer_changes_something_if_it_promises_a_write_to_a_log_or_a_group() -> None:
    committing = Request.own(ApiKey.OFFSET_COMMIT, 8, WireLimits())
    assert Ready(committing, b"", basis=BASIS).changes()
    assert not Ready(committing, b"").changes()
    assert not Ready(REQUEST, b"", basis=BASIS).changes()


def test_a_kind_has_only_the_fields_that_it_needs() -> None:
    for pending in (
        Passed(REQUEST),
        Gathered(REQUEST, exchange=nothing()),
        Composed(REQUEST, None),
        Ready(REQUEST, b""),
    ):
        assert isinstance(pending, Pending)
        assert not hasattr(pending, "__dict__")
    assert not hasattr(Ready(REQUEST, b""), "lane")
    assert not hasattr(Composed(REQUEST, None), "revision")
    assert not hasattr(Passed(REQUEST), "frames")
