"""A transaction that began on a broken connection, or through a gateway that has died, ends under a fence."""

from typing import Any

import pytest

from gateway.session.commands import CheckTransactionBegan
from gateway.session.open_transactions import LONG_S, MAX_REMEMBERED, Holders, learn_began
from ha_core.model import Topic
from ha_core.model.extent import identity
from ha_core.plan.routing.bounded_cache import MAX_NAME
from ha_core.wire.codes import ErrorCode
from tests.gateway.session.coordination import (
    ADD_PARTITIONS,
    EAST_PORT,
    EASTS,
    END,
    LATER,
    NOTHING,
    ORDERS,
    QUIET,
    WEST_PORT,
    WESTS,
    add,
    added,
    bound,
    end,
    errors,
    quiet,
)
from tests.gateway.session.talk import EAST, WEST, Talk


def described(state: str = "Ongoing", error: int = 0, topics: tuple[str, ...] = ("orders",)) -> dict[str, Any]:
    """A coordinator's state of the transaction."""
    listed = [{"topic": topic, "partitions": [0]} for topic in topics]
    one = {"error_code": error, "transactional_id": "tx", "transaction_state": state, "topics": listed}
    return {"transaction_states": [one]}


def refused(talk: Talk, *topics: str) -> list[CheckTransactionBegan]:
    """A producer begins to write to these topics and gets a retriable error; returns the questions."""
    talk.others.clear()
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, *topics))
    talk.wait(0.2)
    assert [set(errors(answer)) for answer in talk.answers()] == [{ErrorCode.CONCURRENT_TRANSACTIONS}]
    assert not talk.asked(EAST)
    return [one for one in talk.others if isinstance(one, CheckTransactionBegan)]


def taken_in(talk: Talk, *topics: str) -> bool:
    """True if it adds these topics, by its coordinator's answer."""
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, *topics))
    asked = talk.asked(EAST)
    for request in asked:
        talk.answer(EAST, request, added(0, *topics))
    return bool(asked) and [set(errors(answer)) for answer in talk.answers()] == [{0}]


def ended(talk: Talk, committed: bool, said: int = 0) -> int:
    """The end is requested, and the coordinator returns `said`; returns the client's error code."""
    talk.ask(END, 3, end(EASTS, committed))
    talk.answer(EAST, talk.asked(EAST)[0], {"error_code": said})
    (told,) = errors(talk.answers()[0])
    return told


def test_it_continues_under_a_transaction_fence_when_its_coordinator_reports_it_open() -> None:
    # Given two topics about to be moved, and a producer with a transaction in one of them, which this gateway never saw
    holders = Holders()
    talk = Talk(quiet("orders", "other"), EAST_PORT, holders=holders)
    # When it begins to write to the other one
    (question,) = refused(talk, "other")
    assert (question.cluster, question.transactional_id) == ("east", "tx")
    learn_began(holders, question, described(), talk.now)
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
def test_a_transaction_that_has_not_begun_there_waits(said: dict[str, Any]) -> None:
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    (question,) = refused(talk, "orders")
    learn_began(holders, question, said, talk.now)
    assert not taken_in(talk, "orders")


def test_an_answer_about_an_aborted_transaction_does_not_apply_to_the_next() -> None:
    # Given a transaction that was asked about, and is aborted before the answer comes
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    (question,) = refused(talk, "orders")
    assert ended(talk, committed=False) == 0
    # When the coordinator reports that it was open
    learn_began(holders, question, described(), talk.now)
    # Then no operation waits for it, and the next one waits for the fence
    assert not talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    assert refused(talk, "orders")


def test_the_next_one_waits_also_when_the_answer_about_the_last_one_comes_after_its_refusal() -> None:
    # Given a transaction that was asked about, is aborted, and is followed by the next one
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    (about_the_last,) = refused(talk, "orders")
    assert ended(talk, committed=False) == 0
    (about_the_next,) = refused(talk, "orders")
    # When the coordinator's answer from before the abort arrives: the operation may have gone on since
    learn_began(holders, about_the_last, described(), talk.now)
    # Then it is not taken for one about the next, for which there is another question
    assert refused(talk, "orders") == [about_the_next] != [about_the_last]


def test_a_transaction_that_was_refused_in_two_clusters_continues_in_the_one_where_it_has_begun() -> None:
    # Given producers without a login that have the same transactional id, each refused in a cluster of its own
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    (question,) = refused(talk, "orders")
    leaves_west = bound("west", Topic(name="orders", writer="west", transaction_fence=QUIET))
    other = Talk(leaves_west, WEST_PORT, holders=holders)
    for _ in range(2):
        other.ask(ADD_PARTITIONS, 3, add(WESTS, "orders"))
        other.wait(0.2)
        # When the east reports that its own one has begun
        learn_began(holders, question, described(), talk.now)
    # Then that one continues
    assert not other.asked(WEST)
    assert taken_in(talk, "orders")


def test_a_transaction_is_still_open_when_one_of_the_same_id_begins_and_ends_in_another_cluster() -> None:
    holders = Holders()
    talk, other = Talk(bound("east"), EAST_PORT, holders=holders), Talk(bound("west"), WEST_PORT, holders=holders)
    assert taken_in(talk, "orders")
    for api_key, body, answer in ((ADD_PARTITIONS, add(WESTS), added()), (END, end(WESTS), {"error_code": 0})):
        other.ask(api_key, 3, body)
        other.answer(WEST, other.asked(WEST)[0], answer)
    assert talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE])
def test_a_transaction_that_was_refused_on_one_connection_is_aborted_on_another_one(code: ErrorCode) -> None:
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    refused(talk, "orders")
    other = Talk(quiet("orders"), EAST_PORT, holders=holders)
    assert ended(other, committed=False, said=code) == 0
    # And from then on the coordinator's errors are passed on
    assert ended(talk, committed=False, said=48) == ErrorCode.INVALID_TXN_STATE


def test_a_transaction_that_was_refused_and_then_committed_on_another_connection_was_not_aborted() -> None:
    # Given a transaction that was refused on one connection, and begins and commits on another one
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    refused(talk, "orders")
    other = Talk(bound("east"), EAST_PORT, holders=holders)
    assert taken_in(other, "orders")
    assert ended(other, committed=True) == 0
    # When its client, which has not heard that, aborts it on the first one
    told = ended(talk, committed=False, said=48)
    # Then it does not hear that a committed transaction is aborted
    assert told == ErrorCode.INVALID_TXN_STATE


def test_ids_that_clients_make_up_are_remembered_up_to_a_length_and_a_number() -> None:
    talk = Talk(quiet("orders"), EAST_PORT)
    for number in range(MAX_REMEMBERED + 3):
        for name in (f"{number}", f"{number}".rjust(MAX_NAME + 1, "x")):
            talk.ask(ADD_PARTITIONS, 3, {**add(EASTS, "orders"), "transactional_id": name})
            talk.wait(0.2)
    asked = [one.transactional_id for one in talk.others if isinstance(one, CheckTransactionBegan)]
    assert asked == [f"{number}" for number in range(MAX_REMEMBERED)]


def test_it_continues_for_as_long_as_its_coordinator_reports_it_open_and_no_later_one_does() -> None:
    # Given one that this gateway has found under a fence
    holders = Holders()
    talk = Talk(quiet("orders", "other"), EAST_PORT, holders=holders)
    (question,) = refused(talk, "other")
    learn_began(holders, question, described(), talk.now)
    assert taken_in(talk, "other")
    # When it takes long, and adds the fenced topic once more
    talk.wait(LONG_S)
    (question,) = refused(talk, "orders")
    # Then its coordinator is asked again, and it continues
    learn_began(holders, question, described(topics=("orders", "other")), talk.now)
    assert taken_in(talk, "orders")
    # And when it has ended through another gateway, the next one waits
    talk.wait(LONG_S)
    (question,) = refused(talk, "orders")
    learn_began(holders, question, described("CompleteCommit", topics=()), talk.now)
    assert refused(talk, "orders")
    assert not talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    assert ended(talk, committed=False, said=48) == 0


def test_an_operation_still_waits_for_it_when_it_is_refused_for_another_reason() -> None:
    # Given one that was found, a while ago, on a connection that an operation waits for
    holders = Holders()
    talk = Talk(quiet("orders"), EAST_PORT, holders=holders)
    (question,) = refused(talk, "orders")
    learn_began(holders, question, described(), talk.now)
    talk.wait(LONG_S)
    elsewhere = Topic(name="other", writer="west", partitions={0: identity("west")})
    # When it begins to write to a topic in another cluster
    talk.follow(bound("east", Topic(name="orders", transaction_fence=QUIET), elsewhere))
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, "other"))
    assert set(errors(talk.answers()[0])) == {ErrorCode.UNKNOWN_PRODUCER_ID}
    # Then it is open as before
    assert talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)


def test_a_long_transaction_that_began_here_continues_without_a_question() -> None:
    # Brokers before 3.0 cannot answer it, and an operation waits for it
    talk = Talk(bound("east"), EAST_PORT)
    assert taken_in(talk, "orders")
    talk.follow(quiet("orders", "other"))
    talk.wait(2 * LONG_S)
    assert taken_in(talk, "other")
    assert not [one for one in talk.others if isinstance(one, CheckTransactionBegan)]


def test_a_transaction_that_is_known_on_another_connection_needs_no_question() -> None:
    # Given
    holders = Holders()
    first = Talk(bound("east"), EAST_PORT, holders=holders)
    assert taken_in(first, "orders")
    # When its client continues on another connection, under the fence
    second = Talk(quiet("orders", "other"), EAST_PORT, holders=holders)
    # Then
    assert taken_in(second, "other")
    assert not [one for one in second.others if isinstance(one, CheckTransactionBegan)]
