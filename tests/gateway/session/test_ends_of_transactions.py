"""A transaction that has ended holds up no transaction fence, wherever its end was requested."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.session.commands import CheckTransactionEnded
from gateway.session.open_transactions import LONG_S, Holders, learn_ended
from gateway.session.snapshot import fences
from ha_core.model import Fence, Topic
from tests.gateway.session.coordination import (
    ADD_PARTITIONS,
    EAST_PORT,
    EASTS,
    END,
    WEST_PORT,
    add,
    added,
    bound,
    end,
)
from tests.gateway.session.talk import EAST, WEST, Talk

NOT_FOUND = 105
QUIET = frozenset({b"orders"})
NOTHING = frozenset[bytes]()


def begun(holders: Holders) -> Talk:
    """A connection on which a transaction in `orders` is open."""
    talk = Talk(bound("east"), EAST_PORT, holders=holders)
    talk.ask(ADD_PARTITIONS, 3, add(EASTS))
    talk.answer(EAST, talk.asked(EAST)[0], added())
    assert talk.session.holds_back(NOTHING, NOTHING, 99, QUIET)
    return talk


def test_a_transaction_ends_on_another_connection_of_the_same_gateway() -> None:
    # Given an open transaction, whose client has looked for the coordinator again
    holders = Holders()
    first, second = begun(holders), Talk(bound("east"), EAST_PORT, holders=holders)
    # When it is ended over the other connection
    ending = second.forwarded(END, 3, end(EASTS), to=EAST)
    assert first.session.holds_back(NOTHING, NOTHING, 99, QUIET)
    second.answer(EAST, ending, {"error_code": 0})
    # Then it is open on neither
    assert not first.session.holds_back(NOTHING, NOTHING, 99, QUIET)
    assert not second.session.holds_back(NOTHING, NOTHING, 99, QUIET)


def test_a_transaction_is_open_on_the_connection_that_added_a_topic_last() -> None:
    # Given a transaction that continues on another connection
    holders = Holders()
    first, second = begun(holders), Talk(bound("east"), EAST_PORT, holders=holders)
    second.ask(ADD_PARTITIONS, 3, add(EASTS, "other"))
    second.answer(EAST, second.asked(EAST)[0], added(0, "other"))
    # Then that one holds all of it
    assert not first.session.holds_back(NOTHING, NOTHING, 99, QUIET)
    assert second.session.holds_back(NOTHING, NOTHING, 99, QUIET)
    assert second.session.holds_back(NOTHING, NOTHING, 99, frozenset({b"other"}))


@pytest.mark.parametrize(("error", "still_open"), [(0, False), (15, True)])
def test_a_transaction_ends_in_the_cluster_that_its_user_was_moved_out_of(error: int, still_open: bool) -> None:
    # Given an open transaction, whose user is bound elsewhere by now
    holders = Holders()
    first, second = begun(holders), Talk(bound("west"), WEST_PORT, holders=holders)
    # When the cluster that issued its producer's id is asked to end it
    second.ask(END, 3, end(EASTS))
    assert not second.asked(WEST)
    second.composed(second.questions[0], {"error_code": error})
    # Then the answer decides whether it is still open
    assert first.session.holds_back(NOTHING, NOTHING, 99, QUIET) is still_open


def state(error: int = 0, topics: tuple[str, ...] = ()) -> dict[str, Any]:
    """A coordinator's state of the transaction."""
    listed = [{"topic": topic, "partitions": [0]} for topic in topics]
    return {"transaction_states": [{"error_code": error, "transactional_id": "tx", "topics": listed}]}


def ended_checks(talk: Talk) -> list[CheckTransactionEnded]:
    """Checks when an operation waits for this connection."""
    talk.others.clear()
    talk.take(talk.session.hurry(talk.now))
    return [one for one in talk.others if isinstance(one, CheckTransactionEnded)]


@pytest.mark.parametrize(
    ("said", "still_open"),
    [
        (state(), False),
        (state(topics=("other",)), False),
        (state(error=NOT_FOUND), False),
        (state(topics=("other", "orders")), True),
        (state(error=15), True),
    ],
)
def test_a_transaction_that_seems_open_for_long_is_checked_at_its_coordinator(
    said: dict[str, Any], still_open: bool
) -> None:
    # Given an open transaction that an operation waits for
    holders = Holders()
    talk = begun(holders)
    fenced = Topic(name="orders", transaction_fence=Fence(operation="op"))
    view = replace(talk.session.context.snapshot.view, topics={"orders": fenced})
    talk.take(talk.session.follow(replace(talk.session.context.snapshot, view=view, fences=fences(view)), talk.now))
    assert not ended_checks(talk)
    # When its end does not come, through this gateway
    talk.now += LONG_S
    (question,) = ended_checks(talk)
    assert question[:3] == ("east", None, "tx")
    # Then its coordinator decides whether the wait is in vain
    learn_ended(holders, question, said)
    assert talk.session.holds_back(NOTHING, NOTHING, 99, QUIET) is still_open
    assert bool(ended_checks(talk)) is still_open


def test_an_answer_about_one_transaction_does_not_apply_to_the_next() -> None:
    # Given a transaction that was asked about, and another one that has begun when the answer comes
    holders = Holders()
    talk = begun(holders)
    (question,) = talk.session.client.transactions.checks_for_ended("east", QUIET, talk.now + LONG_S)
    talk.ask(END, 3, end(EASTS))
    talk.answer(EAST, talk.asked(EAST)[0], {"error_code": 0})
    talk.ask(ADD_PARTITIONS, 3, add(EASTS))
    talk.answer(EAST, talk.asked(EAST)[0], added())
    # When the answer reports the end of the first one
    learn_ended(holders, question, state())
    # Then the second is open
    assert talk.session.holds_back(NOTHING, NOTHING, 99, QUIET)
