"""A producer's first batch in a new writer epoch is the one that follows its last in earlier writer epochs."""

import pytest

from gateway.session.commands import FindProducers
from gateway.session.produce.writer_epochs import WINDOW_S
from gateway.session.snapshot import Port
from ha_core.model import LastSequences
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import CLIENT_PID, PRODUCE, entry, moved, produce, produced, state
from tests.gateway.session.talk import WEST, Talk

HELD = LastSequences(name="orders", partitions={0: {CLIENT_PID: (0, 336)}}, terms={0: 1})
KEY = (b"orders", 0)


def after_the_cut() -> Talk:
    """A session through the new cluster's port of a gateway that saw the cut happen."""
    talk = Talk(state(), Port("west", 1))
    talk.follow(state(moved(100, 7), sequences=HELD, revision=2))
    return talk


def send(talk: Talk, sequence: int, *, epoch: int = 0, producer_id: int = CLIENT_PID) -> bool:
    """True if a batch of one record was forwarded and acknowledged; else it was refused."""
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=producer_id, epoch=epoch, sequence=sequence))))
    asked = talk.asked(WEST)
    if asked:
        talk.answer(WEST, asked[0], produced(("orders", 0, 0, 7)))
    talk.wait(0.2)
    code = entry(talk.answers()[0])["error_code"]
    assert code == (ErrorCode.NONE if asked else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return bool(asked)


def test_a_batch_that_overtakes_the_one_refused_at_the_fence_waits_for_it() -> None:
    # Given 337 was refused at the fence, and librdkafka sent 338 to the new leader before it knew
    talk = after_the_cut()
    # When 338 arrives first, it is refused: the broker, which does not know the producer, would append it, and
    # acknowledge 337 as a duplicate that is in no log
    assert not send(talk, 338)
    # Then 337 opens the writer epoch, and 338 follows
    assert send(talk, 337)
    assert send(talk, 338)


def test_batches_after_the_opener_wait_until_the_opener_is_acknowledged() -> None:
    talk = after_the_cut()
    opener = produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=337)))
    first = talk.forwarded(PRODUCE, 9, opener, to=WEST)
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=338))))
    assert not talk.asked(WEST)
    talk.answer(WEST, first, produced(("orders", 0, int(ErrorCode.NOT_ENOUGH_REPLICAS), -1)))
    assert not send_after(talk, 338)
    assert send(talk, 337)
    assert send(talk, 338)


def send_after(talk: Talk, sequence: int) -> bool:
    talk.wait(0.2)
    talk.answers()
    return send(talk, sequence)


def test_a_producer_that_had_written_nothing_there_begins_at_zero() -> None:
    talk = after_the_cut()
    assert not send(talk, 4, producer_id=CLIENT_PID + 1)
    assert send(talk, 0, producer_id=CLIENT_PID + 1)
    assert send(talk, 1, producer_id=CLIENT_PID + 1)


def test_a_producer_with_a_new_epoch_begins_at_zero() -> None:
    talk = after_the_cut()
    assert not send(talk, 337, epoch=1)
    assert send(talk, 0, epoch=1)


@pytest.mark.parametrize("sequence", [0, 336, 337, 9000])
def test_a_batch_of_an_epoch_that_was_left_in_an_earlier_writer_epoch_is_refused_as_by_its_broker(
    sequence: int,
) -> None:
    """It comes over a connection that its client has given up, through a gateway that paused. Its records were resent
    under the newer epoch, and the broker of the new writer epoch, which knows neither, would append them."""
    # Given a producer that was at epoch 1 when the earlier writer epoch ended
    newer = HELD.model_copy(update={"partitions": {0: {CLIENT_PID: (1, 336)}}})
    talk = Talk(state(), Port("west", 1))
    talk.follow(state(moved(100, 7), sequences=newer, revision=2))
    # When one of epoch 0 comes, with any sequence, then it is not forwarded
    assert send_old(talk, sequence) == ErrorCode.INVALID_PRODUCER_EPOCH
    # And its producer continues
    assert send(talk, 337, epoch=1)
    assert send_old(talk, sequence) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(talk, 338, epoch=1)
    # Nor is one on the fast path, once its producer's decision is settled
    assert send(talk, 339, epoch=1)
    assert send_old(talk, sequence) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not talk.session.client.producer_order.waited_for


def send_old(talk: Talk, sequence: int) -> int:
    """The error of a batch of epoch 0 that is answered here."""
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=sequence))))
    assert not talk.asked(WEST)
    talk.wait(0.2)
    code: int = entry(talk.answers()[0])["error_code"]
    return code


def test_a_writer_epoch_that_was_opened_through_another_gateway_is_found_by_asking_the_cluster() -> None:
    talk = after_the_cut()
    assert not send(talk, 350)
    assert FindProducers("west", "orders", 0) in talk.others
    talk.writer_epochs.opened(KEY, 1, CLIENT_PID)
    assert send(talk, 350)


def test_producers_of_one_writer_epoch_have_not_opened_the_next() -> None:
    talk = after_the_cut()
    talk.writer_epochs.opened(KEY, 0, CLIENT_PID)
    assert not send(talk, 338)


def test_a_producer_whose_state_expired_everywhere_is_not_shut_out_forever() -> None:
    talk = after_the_cut()
    talk.now += WINDOW_S + 1
    assert send(talk, 9000)


def test_after_a_forced_cut_the_order_is_unknown_and_no_producer_is_shut_out() -> None:
    # Given last sequences of an older writer epoch, because the origin was dead at the last cut
    old = HELD.model_copy(update={"terms": {0: 0}})
    talk = Talk(state(), Port("west", 1))
    talk.follow(state(moved(100, 7), sequences=old, revision=2))
    assert send(talk, 9000)


def test_writer_epochs_older_than_the_gateway_are_not_watched() -> None:
    talk = Talk(state(moved(100, 7), sequences=HELD), Port("west", 1))
    assert send(talk, 9000)
