"""Transactional producers whose user is moved: open transactions end where they began, new ones begin in the target."""

from typing import Any

import google_crc32c
import pytest

from ha_core.model import Fence, Group, Member, Topic
from ha_core.model.extent import identity
from ha_core.model.mirror import COPY_LOG
from ha_core.model.producer import issued_id
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    EAST_PORT,
    EASTS,
    END,
    INIT,
    LATER,
    NOTHING,
    ORDERS,
    PRODUCE,
    QUIET,
    TXN_COMMIT,
    WEST_PORT,
    WESTS,
    add,
    added,
    bound,
    end,
    errors,
    quiet,
)
from tests.gateway.session.crossings import topic as crossing_topic
from tests.gateway.session.messages import moved
from tests.gateway.session.talk import EAST, WEST, Talk, snapshot, topology
from tests.gateway.session.transactional import REQUESTS, commit, produce, written

VERSIONS = 18
BEGIN_ANEW, ILLEGAL_GENERATION = ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.ILLEGAL_GENERATION
ABORT_IT = ErrorCode.INVALID_TXN_STATE
"""Error for a batch on which libraries abort its transaction."""


def init(producer_id: int = -1, epoch: int = -1) -> dict[str, Any]:
    return {
        "transactional_id": "tx",
        "transaction_timeout_ms": 1,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }


def test_a_coordinators_producer_id_is_shown_with_its_issuing_node_and_sent_back_without() -> None:
    talk = Talk(bound("east"))
    # Given a producer that was initialised in the east
    request = talk.forwarded(INIT, 4, init(), to=EAST)
    talk.answer(EAST, request, {"error_code": 0, "producer_id": 7, "producer_epoch": 0})
    (answer,) = talk.answers()
    assert answer["producer_id"] == EASTS
    # When it begins a transaction there, writes, and ends it
    talk.ask(ADD_PARTITIONS, 3, add(EASTS))
    talk.ask(PRODUCE, 9, produce(written(EASTS)))
    talk.ask(END, 3, end(EASTS))
    # Then the east knows the producer by its own id, under a valid checksum
    adding, producing, ending = (body for _, _, _, body in talk.asked(EAST))
    assert (adding["producer_id"], ending["producer_id"]) == (7, 7)
    records = producing["topic_data"][0]["partition_data"][0]["records"]
    (seen,) = batches(records, 0, len(records))
    assert (seen.producer_id, seen.base_sequence) == (7, 3)
    assert int.from_bytes(records[17:21], "big") == google_crc32c.value(records[21:])


@pytest.mark.parametrize("error", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TRANSACTION_TIMEOUT])
def test_an_error_of_a_coordinator_that_issued_no_id_is_passed_on(error: ErrorCode) -> None:
    talk = Talk(bound("east"))
    request = talk.forwarded(INIT, 4, init(), to=EAST)
    talk.answer(EAST, request, {"error_code": int(error), "producer_id": -1, "producer_epoch": -1})
    (answer,) = talk.answers()
    assert (answer["error_code"], answer["producer_id"]) == (error, -1)


@pytest.mark.parametrize("api_key", [INIT, ADD_PARTITIONS, ADD_OFFSETS, END])
def test_an_empty_transactional_id_is_refused_as_by_brokers(api_key: int) -> None:
    talk = Talk(bound("east"), EAST_PORT)
    talk.ask(api_key, 3, {INIT: init(), **REQUESTS}[api_key] | {"transactional_id": ""})
    assert set(errors(talk.answers()[0])) == {ErrorCode.INVALID_REQUEST}
    assert not talk.asked(EAST)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (EASTS, -1)])
@pytest.mark.parametrize("name", ["tx", None])
def test_a_producer_that_sets_only_one_of_id_and_epoch_is_refused_as_by_brokers(
    producer_id: int, epoch: int, name: str | None
) -> None:
    talk = Talk(bound("east"), EAST_PORT)
    talk.ask(INIT, 4, init(producer_id, epoch) | {"transactional_id": name})
    assert errors(talk.answers()[0]) == [ErrorCode.INVALID_REQUEST]
    assert not talk.asked(EAST)


@pytest.mark.parametrize(("mapped", "size"), [(False, 20), (True, 20), (True, 300_000)])
def test_another_clusters_producers_batch_is_refused_before_any_broker_sees_it(mapped: bool, size: int) -> None:
    # Given a user that was moved to the west, and a producer that the east has initialised, however long ago
    chunks = lambda data: [data[i : i + 60_000] for i in range(0, len(data), 60_000)]  # noqa: E731
    talk = Talk(bound("west", *([moved(100, 7)] if mapped else [])), WEST_PORT, chunks=chunks)
    # When its batch arrives in the west, where the same number may be another producer's
    talk.ask(PRODUCE, 9, produce(written(EASTS, size=size)))
    # Then its client has to abort the transaction
    assert errors(talk.answers()[0]) == [ABORT_IT]
    assert not talk.asked(WEST)


def test_an_id_that_no_gateway_has_issued_is_refused_as_well() -> None:
    talk = Talk(bound("west"), WEST_PORT)
    talk.ask(PRODUCE, 9, produce(written(7)))
    talk.ask(ADD_PARTITIONS, 3, add(issued_id(7, 99)))
    talk.wait(0.2)
    assert [errors(answer) for answer in talk.answers()] == [[ABORT_IT], [BEGIN_ANEW]]


def test_a_partition_that_is_elsewhere_is_looked_up_before_its_producer() -> None:
    talk = Talk(bound("west", moved(100, 7)), EAST_PORT)
    talk.ask(PRODUCE, 9, produce(written(WESTS)))
    assert errors(talk.answers()[0]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_batch_refused_for_its_producer_does_not_hold_up_the_new_producers_batches() -> None:
    talk = Talk(bound("west", moved(100, 7)), WEST_PORT)
    talk.ask(PRODUCE, 9, produce(written(EASTS)))
    talk.ask(PRODUCE, 9, produce(written(WESTS)))
    assert len(talk.asked(WEST)) == 1


@pytest.mark.parametrize(
    ("api_key", "expected"), [(ADD_PARTITIONS, BEGIN_ANEW), (ADD_OFFSETS, BEGIN_ANEW), (TXN_COMMIT, ILLEGAL_GENERATION)]
)
@pytest.mark.parametrize("version", [0, 3])
def test_another_clusters_transaction_is_not_forwarded(api_key: int, version: int, expected: ErrorCode) -> None:
    talk = Talk(bound("west"), WEST_PORT)
    talk.ask(api_key, version, REQUESTS[api_key])
    assert errors(talk.answers()[0])[-1] == expected
    assert not talk.asked(WEST)


@pytest.mark.parametrize(
    ("software", "expected"),
    [
        ("kafka-python", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("apache-kafka-java", BEGIN_ANEW),
        ("kafka-python-ng", BEGIN_ANEW),
    ],
)
def test_a_producer_that_would_keep_an_unknown_id_forever_gets_a_fatal_error(
    software: str, expected: ErrorCode
) -> None:
    # kafka-python 3.0.12 aborted 129 transactions of 129 after BEGIN_ANEW, and never asked for another id
    talk = Talk(bound("west"), WEST_PORT)
    talk.ask(VERSIONS, 3, {"client_software_name": software, "client_software_version": "3.0.12"})
    talk.answers()
    talk.ask(ADD_PARTITIONS, 3, REQUESTS[ADD_PARTITIONS])
    assert set(errors(talk.answers()[0])) == {expected}


@pytest.mark.parametrize(
    "orders",
    [
        pytest.param(Topic(name="orders", writer="west", partitions={0: identity("west")}), id="not-moved-yet"),
        pytest.param(moved(100, 7), id="moved-without-its-producer"),
    ],
)
def test_a_topic_written_in_another_cluster_gets_no_marker_where_the_transaction_ends(orders: Topic) -> None:
    # Given a producer that is bound to another cluster than the one in which the topic is written
    talk = Talk(bound("east", orders))
    # When it begins to write there
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, "other", "orders"))
    # Then its coordinator does not hear of it: an end marker would go to a log that must not be written
    assert set(errors(talk.answers()[0])) == {BEGIN_ANEW}
    assert not talk.asked(EAST)
    # And an abort of nothing is no error
    assert answer_to(talk, END, end(EASTS, committed=False), {"error_code": int(ErrorCode.INVALID_TXN_STATE)}) == 0


@pytest.mark.parametrize(
    ("holders", "refused"),
    [({"east": {"left": {0: 1}}}, True), ({name: {"left": {0: 1}} for name in ("east", "west")}, False), ({}, False)],
    ids=["in the other cluster alone", "in both", "in none that is known"],
)
def test_a_transaction_can_abort_if_its_topic_stayed_in_another_cluster(
    holders: dict[str, dict[str, dict[int, int]]], refused: bool
) -> None:
    # Given a user who was moved to west without a topic
    talk = Talk(snapshot(bound("west").view, topology(**holders)), WEST_PORT)
    # When a transaction adds that topic
    talk.ask(ADD_PARTITIONS, 3, add(WESTS, "left"))
    # Then its client can abort; the coordinator's own answer would make it retry endlessly
    if refused:
        assert set(errors(talk.answers()[0])) == {BEGIN_ANEW}
        assert not talk.asked(WEST)
    else:
        assert talk.asked(WEST)


@pytest.mark.parametrize("api_key", [INIT, ADD_PARTITIONS, ADD_OFFSETS])
def test_through_the_old_clusters_port_the_client_first_looks_for_the_coordinator(api_key: int) -> None:
    talk = Talk(bound("west"), EAST_PORT)
    talk.ask(api_key, 3, {**REQUESTS, INIT: init()}[api_key])
    assert errors(talk.answers()[0]) == [ErrorCode.NOT_COORDINATOR]


def test_a_producer_that_raises_its_epoch_after_a_move_is_new_to_the_target() -> None:
    # Given a producer of the east in the west, which may know its transactional id from an earlier stay
    talk = Talk(bound("west"), WEST_PORT)
    # When it asks to have its epoch raised, as after an aborted transaction (KIP-360)
    talk.ask(INIT, 4, init(EASTS, 3))
    # Then the west is not asked about a producer that it never had, which it would answer PRODUCER_FENCED
    (request,) = talk.asked(WEST)
    assert (request.body["producer_id"], request.body["producer_epoch"]) == (-1, -1)
    talk.answer(WEST, request, {"error_code": 0, "producer_id": 7, "producer_epoch": 4})
    (answer,) = talk.answers()
    assert (answer["producer_id"], answer["producer_epoch"]) == (WESTS, 4)


def test_a_producer_that_was_not_moved_keeps_its_id_when_its_epoch_rises() -> None:
    talk = Talk(bound("west"), WEST_PORT)
    request = talk.forwarded(INIT, 4, init(WESTS, 3), to=WEST)
    assert (request.body["producer_id"], request.body["producer_epoch"]) == (7, 3)


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends_in_the_cluster_where_it_began(committed: bool) -> None:
    # Given a user that was moved to the west while the answer to its commit was lost
    talk = Talk(bound("west"), WEST_PORT)
    # When the client retries
    talk.ask(END, 3, end(EASTS, committed))
    # Then the west is not asked: the east knows whether the transaction is committed
    (question,) = talk.questions
    assert (question.api_key, question.request["producer_id"]) == (END, EASTS)
    talk.composed(question, {"error_code": 0})
    assert errors(talk.answers()[0]) == [0]
    assert not talk.asked(WEST)


def test_a_client_that_still_uses_the_old_coordinator_ends_its_transaction_there() -> None:
    talk = Talk(bound("west"), EAST_PORT)
    talk.ask(END, 3, end(EASTS))
    ((_, _, _, body),) = talk.asked(EAST)
    assert body["producer_id"] == 7


def test_without_a_lease_no_transaction_continues_or_ends() -> None:
    talk = Talk(bound("east"), EAST_PORT, lease=False)
    for api_key, body in {**REQUESTS, INIT: init()}.items():
        talk.ask(api_key, 3, body)
        talk.wait(0.2)
        assert errors(talk.answers()[0])[-1] == ErrorCode.NOT_COORDINATOR
    assert not talk.asked(EAST)
    assert not talk.others


def test_offsets_are_committed_in_a_transaction_under_the_members_names_in_the_target() -> None:
    # Given a group whose members were adopted in the west, and a new producer there
    carried = Group(name="billing", cluster="west", aliases={"4:m-1": Member(member_id="w-9", generation=1)})
    talk = Talk(bound("west", group=carried), WEST_PORT)
    talk.ask(TXN_COMMIT, 3, commit(WESTS))
    ((_, _, _, body),) = talk.asked(WEST)
    assert (body["producer_id"], body["member_id"], body["generation_id"]) == (7, "w-9", 1)


def test_the_offsets_of_a_fenced_group_wait_for_the_cut() -> None:
    fenced = Group(name="billing", fence=Fence(operation="op-1"))
    talk = Talk(bound("east", group=fenced), EAST_PORT)
    talk.ask(TXN_COMMIT, 3, commit(EASTS))
    assert not talk.answers()
    talk.wait(0.2)
    assert errors(talk.answers()[0]) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def answer_to(talk: Talk, api_key: int, body: dict[str, Any], answer: dict[str, Any]) -> int:
    """A request that reaches the east and is answered; returns the client's error."""
    request = talk.forwarded(api_key, 3, body, to=EAST)
    talk.answer(EAST, request, answer)
    (heard,) = talk.answers()
    return max(errors(heard), default=0)


def waits(talk: Talk, *topics: str) -> bool:
    """True if a producer that begins to write to these topics gets a retriable error."""
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, *topics))
    assert not talk.answers()
    talk.wait(0.2)
    found = [set(errors(answer)) for answer in talk.answers()]
    return found == [{ErrorCode.CONCURRENT_TRANSACTIONS}] and not talk.asked(EAST)


def test_a_transaction_that_would_begin_under_a_transaction_fence_is_held_until_the_cut() -> None:
    talk = Talk(quiet("orders"))
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, "other", "orders"))
    assert not talk.answers()
    talk.follow(bound("west", moved(100, 7)))
    assert set(errors(talk.answers()[0])) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert not talk.asked(EAST)


def test_other_requests_are_not_affected_by_a_transaction_fence() -> None:
    talk = Talk(quiet("orders"))
    assert answer_to(talk, ADD_PARTITIONS, add(EASTS, "other"), added(0, "other")) == 0
    talk.ask(PRODUCE, 9, {**produce(("orders", 0, batch())), "transactional_id": None})
    assert len(talk.asked(EAST)) == 1
    assert not talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)


def test_an_open_transaction_continues_under_a_transaction_fence_and_the_next_one_waits() -> None:
    # Given a transaction that writes to one of two topics
    talk = Talk(bound("east"))
    assert answer_to(talk, ADD_PARTITIONS, add(EASTS), added()) == 0
    # When both are about to be moved
    talk.follow(quiet("orders", "other"))
    # Then it adds the other one as well, writes, and ends
    assert answer_to(talk, ADD_PARTITIONS, add(EASTS, "other"), added(0, "other")) == 0
    assert answer_to(talk, PRODUCE, produce(written(EASTS)), {"responses": []}) == 0
    assert talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    assert answer_to(talk, END, end(EASTS), {"error_code": 0}) == 0
    # And after its end the fence waits for nothing, and the next transaction for the cut
    assert not talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    assert waits(talk, "orders")


@pytest.mark.parametrize("error", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR])
def test_a_transaction_whose_end_has_to_be_retried_is_still_open(error: ErrorCode) -> None:
    talk = Talk(bound("east"))
    answer_to(talk, ADD_PARTITIONS, add(EASTS), added())
    assert answer_to(talk, END, end(EASTS), {"error_code": int(error)}) == error
    assert talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)


def test_a_transaction_that_was_not_begun_or_was_aborted_holds_up_no_fence() -> None:
    # Given one that was refused by the coordinator, which still writes the end of the last one
    talk = Talk(bound("east"))
    answer_to(talk, ADD_PARTITIONS, add(EASTS), added(ErrorCode.CONCURRENT_TRANSACTIONS))
    assert not talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    # And one that ends because its producer is initialised again
    answer_to(talk, ADD_PARTITIONS, add(EASTS), added())
    assert talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    answer_to(talk, INIT, init(EASTS, 0), {"error_code": 0, "producer_id": 7, "producer_epoch": 1})
    assert not talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)


def test_a_transaction_that_is_just_beginning_or_ending_holds_both_kinds_of_fences_back() -> None:
    talk = Talk(bound("east"))
    request = talk.forwarded(ADD_PARTITIONS, 3, add(EASTS), to=EAST)
    assert talk.session.holds_back(NOTHING, NOTHING, LATER, ORDERS)
    assert talk.session.holds_back(ORDERS, NOTHING, LATER)
    talk.answer(EAST, request, added())
    assert not talk.session.holds_back(ORDERS, NOTHING, LATER)
    talk.ask(END, 3, end(EASTS))
    assert talk.session.holds_back(ORDERS, NOTHING, LATER)


def test_under_a_fence_no_transaction_adds_a_topic() -> None:
    talk = Talk(bound("east"))
    answer_to(talk, ADD_PARTITIONS, add(EASTS, "other"), added(0, "other"))
    talk.follow(bound("east", Topic(name="orders", fence=QUIET), Topic(name="other", fence=QUIET)))
    assert waits(talk, "orders")
    # But its earlier writes come to an end
    assert answer_to(talk, END, end(EASTS), {"error_code": 0}) == 0


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE])
def test_a_refused_transaction_is_aborted_by_its_coordinator_which_may_not_know_it(code: ErrorCode) -> None:
    # Given a producer that a fence has kept from beginning, or from continuing a transaction of another gateway
    talk = Talk(quiet("orders"))
    assert waits(talk, "orders")
    # When it aborts its transaction
    told = answer_to(talk, END, end(EASTS, committed=False), {"error_code": int(code)})
    # Then the coordinator was asked, or it would continue in the aborted transaction; and the client gets no error
    assert told == 0
    # And from then on the coordinator's errors are passed on
    assert answer_to(talk, END, end(EASTS, committed=False), {"error_code": 48}) == ErrorCode.INVALID_TXN_STATE


def test_a_commit_of_a_refused_transaction_is_answered_as_by_the_coordinator() -> None:
    talk = Talk(quiet("orders"))
    assert waits(talk, "orders")
    assert answer_to(talk, END, end(EASTS), {"error_code": 48}) == ErrorCode.INVALID_TXN_STATE


def test_the_end_of_a_transaction_that_was_refused_and_has_begun_since_is_passed_on() -> None:
    talk = Talk(quiet("orders"))
    assert waits(talk, "orders")
    talk.follow(bound("east"))
    answer_to(talk, ADD_PARTITIONS, add(EASTS), added())
    assert answer_to(talk, END, end(EASTS, committed=False), {"error_code": 48}) == ErrorCode.INVALID_TXN_STATE


def test_no_transaction_adds_a_topic_with_a_cut_ahead() -> None:
    assert waits(Talk(bound("east", crossing_topic())), "orders")


def test_no_transaction_adds_a_copy_log_because_its_end_would_be_written_there() -> None:
    talk = Talk(bound("east"), EAST_PORT)

    talk.ask(ADD_PARTITIONS, 3, add(EASTS, COPY_LOG))

    assert not talk.asked(EAST)
    assert errors(talk.answers()[0]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
