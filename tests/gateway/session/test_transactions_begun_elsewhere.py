"""A transaction that began on a connection that broke, or through a gateway that has died, ends behind a fence."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.session.commands import LookFor
from gateway.session.open_transactions import Holders, learn_begun
from gateway.session.snapshot import Snapshot
from ha_core.model import Fence, Topic
from ha_core.wire.codes import ErrorCode
from tests.gateway.session.coordination import (
    ADD_PARTITIONS,
    EAST_PORT,
    EASTS,
    END,
    add,
    added,
    bound,
    end,
    errors,
)
from tests.gateway.session.talk import EAST, Talk

QUIET = Fence(operation="op-1")
NOTHING: frozenset[bytes] = frozenset()
ORDERS = frozenset({b"orders"})
LATER = 9


def quiet(*names: str) -> Snapshot:
    """These topics are about to leave the east: no transaction begins in them."""
    return bound("east", *(Topic(name=name, transaction_fence=QUIET) for name in names))


def described(state: str = "Ongoing", error: int = 0, topics: tuple[str, ...] = ("orders",)) -> dict[str, Any]:
    """What a coordinator says of the transaction."""
    listed = [{"topic": topic, "partitions": [0]} for topic in topics]
    one = {"error_code": error, "transactional_id": "tx", "transaction_state": state, "topics": listed}
    return {"transaction_states": [one]}


def refused(talk: Talk, *topics: str) -> list[LookFor]:
    """A producer sets out to write to these topics and is told to try again; what is asked then."""
    talk.others.clear()
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, *topics))
    talk.wait(0.2)
    assert [set(errors(answer)) for answer in talk.answers()] == [{ErrorCode.CONCURRENT_TRANSACTIONS}]
    assert not talk.asked(EAST)
    return [one for one in talk.others if isinstance(one, LookFor)]


def taken_in(talk: Talk, *topics: str) -> bool:
    """Whether it takes these topics in, as its coordinator says."""
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, *topics))
    asked = talk.asked(EAST)
    for request in asked:
        talk.answer(EAST, request, added(0, *topics))
    return bool(asked) and [set(errors(answer)) for answer in talk.answers()] == [{0}]


def test_it_goes_on_behind_a_transaction_fence_when_its_coordinator_says_that_it_has_begun() -> None:
    # Given two topics about to be moved, and a producer with a transaction in one of them, which this gateway never saw
    holders = Holders()
    talk = Talk(quiet("orders", "other"), EAST_PORT, holders=holders)
    # When it sets out to write to the other one
    (asked,) = refused(talk, "other")
    assert (asked.cluster, asked.transactional_id) == ("east", "tx")
    learn_begun(holders, asked, described(), talk.now)
    # Then it does, and the operation waits for its end
    assert taken_in(talk, "other")
    assert talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    talk.ask(END, 3, end(EASTS))
    talk.answer(EAST, talk.asked(EAST)[0], {"error_code": 0})
    talk.answers()
    assert not talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    # And the next one waits
    assert refused(talk, "orders")


@pytest.mark.parametrize(
    "said",
    [
        described("Empty", topics=()),
        described("CompleteCommit", topics=()),
        described("PrepareCommit"),
        described("Ongoing", topics=("elsewhere",)),
        described("", error=105, topics=()),
        described("", error=15, topics=()),
    ],
)
def test_one_that_has_not_begun_there_waits(said: dict[str, Any]) -> None:
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    (asked,) = refused(talk, "orders")
    learn_begun(holders, asked, said, talk.now)
    assert not taken_in(talk, "orders")


def test_what_was_said_of_one_that_was_given_up_says_nothing_of_the_next() -> None:
    # Given a transaction that is asked about, and is aborted before the answer comes
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    (asked,) = refused(talk, "orders")
    talk.ask(END, 3, end(EASTS, committed=False))
    talk.answer(EAST, talk.asked(EAST)[0], {"error_code": 0})
    talk.answers()
    # When the coordinator says that it is open
    learn_begun(holders, asked, described(), talk.now)
    # Then no operation waits for it, and the next one waits for the fence
    assert not talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    assert refused(talk, "orders")


def test_one_that_is_known_on_another_connection_needs_no_question() -> None:
    # Given
    holders = Holders()
    first = Talk(bound("east"), EAST_PORT, holders=holders)
    assert taken_in(first, "orders")
    # When its client goes on by another connection, behind the fence
    second = Talk(quiet("orders", "other"), EAST_PORT, holders=holders)
    # Then
    assert taken_in(second, "other")
    assert not [one for one in second.others if isinstance(one, LookFor)]
