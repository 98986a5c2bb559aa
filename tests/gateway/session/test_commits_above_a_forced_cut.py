"""Commits in a cluster that a topic has left by force are judged before they are forwarded, and before their
answers."""

from dataclasses import replace

import pytest

from gateway.session.snapshot import Snapshot, fences
from gateway.session.transaction_writes import MAX_PARTITIONS, MAX_PRODUCERS, TransactionEvidence, Writes, Written
from ha_core.model import Fence, LastSequences, Topic
from ha_core.model.extent import append, identity
from ha_core.plan.absence.given_up import without
from ha_core.wire.codes import ErrorCode
from ha_core.wire.records import Batch, batches
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    EAST_PORT,
    EASTS,
    END,
    PRODUCE,
    WEST_PORT,
    add,
    added,
    bound,
    end,
    errors,
)
from tests.gateway.session.messages import produced
from tests.gateway.session.talk import EAST, WEST, Talk
from tests.gateway.session.transactional import produce, written

LEFT = LastSequences(name="orders", left_by_force={"east": {0: {}}})
DIES = Topic(name="orders", writer="east", fence=Fence(operation="op", taken_for_dead="east"))
LEAVES = Topic(name="orders", writer="east", fence=Fence(operation="op"))
GIVEN_UP = without(Topic(name="orders", writer="west", partitions={0: append(identity("east"), "west", 9, 0)}), "east")
BACK = GIVEN_UP.changed(writer="east", partitions={0: append(GIVEN_UP.partitions[0], "east", 20, 9)})
KEY = (b"orders", 0)
OFFSETS = {"transactional_id": "tx", "producer_id": EASTS, "producer_epoch": 0, "group_id": "billing"}


def doubted(state: Snapshot, last_sequences: LastSequences | None = LEFT, *topics: Topic) -> Snapshot:
    sequences = {} if last_sequences is None else {last_sequences.name: last_sequences}
    view = replace(state.view, sequences=sequences, topics={**state.view.topics, **{t.name: t for t in topics}})
    return replace(state, view=view, fences=fences(view))


def evidence(talk: Talk) -> TransactionEvidence:
    (compose,) = talk.questions
    transaction_evidence: TransactionEvidence = compose.request["evidence"]
    return transaction_evidence


@pytest.mark.parametrize(
    ("sequences", "topic", "judged"),
    [
        (LEFT, (), True),
        (None, (DIES,), True),
        (None, (LEAVES,), False),
        (None, (), False),
        (None, (GIVEN_UP,), True),
        (None, (BACK,), False),
    ],
)
def test_a_commit_is_judged_in_a_cluster_left_by_force_or_given_up(
    sequences: LastSequences | None, topic: tuple[Topic, ...], judged: bool
) -> None:
    # Given a producer whose user is still bound to that cluster
    talk = Talk(doubted(bound("east"), sequences, *topic), EAST_PORT)
    # When it commits, then the commit is judged before its coordinator gets it
    talk.ask(END, 3, end(EASTS))
    assert (len(talk.questions), len(talk.asked(EAST))) == ((1, 0) if judged else (0, 1))


def test_an_abort_goes_to_the_coordinator_at_once() -> None:
    talk = Talk(doubted(bound("east")), EAST_PORT)
    talk.ask(END, 3, end(EASTS, committed=False))
    assert len(talk.asked(EAST)) == 1


@pytest.mark.parametrize("cut", [doubted(bound("west")), doubted(bound("east"), None, DIES)], ids=["cut", "fence"])
def test_a_commit_in_flight_during_the_cut_is_not_confirmed(cut: Snapshot) -> None:
    # Given a commit that was forwarded before the cut
    talk = Talk(bound("east"), EAST_PORT)
    ending = talk.forwarded(END, 3, end(EASTS), to=EAST)
    # When the old cluster executes it after the cut
    talk.follow(cut)
    talk.answer(EAST, ending, {"error_code": 0})
    # Then the client retries, and the commit is judged
    assert errors(talk.answers()[0]) == [ErrorCode.CONCURRENT_TRANSACTIONS]


@pytest.mark.parametrize(("before", "told"), [(bound("west"), 51), (doubted(bound("west")), 0)])
def test_a_composed_commit_is_confirmed_unless_a_forced_cut_came_between(before: Snapshot, told: int) -> None:
    talk = Talk(before, WEST_PORT)
    talk.ask(END, 3, end(EASTS))
    (compose,) = talk.questions
    talk.follow(doubted(bound("west")))
    talk.composed(compose, {"error_code": 0})
    assert errors(talk.answers()[0]) == [told]


def writes_orders(talk: Talk) -> None:
    """A transaction with one batch, sequence 3, that goes to the east."""
    talk.ask(ADD_PARTITIONS, 3, add(EASTS))
    talk.answer(EAST, talk.asked(EAST)[-1], added())
    talk.ask(PRODUCE, 9, produce(written(EASTS)))
    talk.answer(EAST, talk.asked(EAST)[-1], produced(("orders", 0, 0, 41)))
    talk.answers()


def test_writes_are_evidence_for_the_end() -> None:
    talk = Talk(doubted(bound("east")), EAST_PORT)
    writes_orders(talk)
    talk.ask(END, 3, end(EASTS))
    assert evidence(talk) == TransactionEvidence(True, Writes(0, {KEY: 3}))


def ends(talk: Talk, committed: bool = True) -> None:
    talk.ask(END, 3, end(EASTS, committed))
    talk.answer(EAST, talk.asked(EAST)[-1], {"error_code": 0})
    talk.answers()


def test_a_commit_whose_answer_was_lost_is_known_to_have_succeeded() -> None:
    # Given a commit that was confirmed
    talk = Talk(bound("east"), EAST_PORT)
    writes_orders(talk)
    ends(talk)
    # When the client retries it after a forced cut
    talk.follow(doubted(bound("east")))
    talk.ask(END, 3, end(EASTS))
    # Then
    assert evidence(talk).writes == Writes(0, {KEY: 3}, commit_asked=True, ended=True, committed=True)


@pytest.mark.parametrize("api_key", [ADD_PARTITIONS, ADD_OFFSETS])
def test_writes_of_the_last_transaction_are_no_evidence_for_the_next_one(api_key: int) -> None:
    talk = Talk(bound("east"), EAST_PORT)
    writes_orders(talk)
    ends(talk)
    talk.ask(api_key, 3, add(EASTS) if api_key == ADD_PARTITIONS else OFFSETS)
    talk.answer(EAST, talk.asked(EAST)[-1], added() if api_key == ADD_PARTITIONS else {"error_code": 0})
    talk.follow(doubted(bound("east")))
    talk.ask(END, 3, end(EASTS))
    assert evidence(talk).writes is None


def test_a_refused_batch_is_no_evidence() -> None:
    talk = Talk(doubted(bound("west")), WEST_PORT)
    talk.ask(PRODUCE, 9, produce(written(EASTS)))
    talk.ask(END, 3, end(EASTS))
    assert not talk.asked(WEST)
    assert evidence(talk).writes is None


def one_batch(producer_id: int, sequence: int, epoch: int = 0) -> Batch:
    made = batch(producer_id=producer_id, epoch=epoch, sequence=sequence)
    (found,) = batches(made, 0, len(made))
    return found


def test_a_new_epoch_has_written_nothing() -> None:
    known = Written()
    known.wrote(1, KEY, one_batch(1, 3))
    assert known.of(1, 0) == Writes(0, {KEY: 3})
    assert known.of(1, 1) is None
    known.wrote(1, (b"other", 0), one_batch(1, 0, epoch=1))
    assert known.of(1, 1) == Writes(1, {(b"other", 0): 0})


def test_evidence_from_made_up_ids_is_bounded() -> None:
    known = Written()
    for producer in range(MAX_PRODUCERS + 2):
        known.wrote(producer, KEY, one_batch(producer, 0))
    assert [known.of(one, 0) is None for one in (0, 1, 2)] == [True, True, False]
    for partition in range(MAX_PARTITIONS + 1):
        known.wrote(2, (b"orders", partition), one_batch(2, 0))
    # A producer that writes to too many partitions has no evidence
    assert known.of(2, 0) is None
