"""A batch that is retried after a cut, and is in the log of an earlier writer epoch, gets its offset there."""

import pytest

from gateway.session.commands import FindDuplicateOffset
from gateway.session.produce.duplicate_offsets import MAX_WAIT_S, DuplicateOffsets, EarlierBatch
from gateway.session.snapshot import Port
from ha_core.model import LastSequences
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import CLIENT_PID, PRODUCE, entry, frame, moved, produce, produced, state
from tests.gateway.session.talk import WEST, Talk

HELD = LastSequences(name="orders", partitions={0: {CLIENT_PID: (0, 19)}}, terms={0: 1})


def after_the_cut() -> Talk:
    """The east had appended sequences up to 19 when its writer epoch ended at 100."""
    talk = Talk(state(), Port("west", 1))
    talk.follow(state(moved(100, 7), sequences=HELD, revision=2))
    return talk


def send(talk: Talk, sequence: int, count: int = 10) -> tuple[int, int]:
    """(error, base offset) of the client's answer."""
    records = batch(count=count, producer_id=CLIENT_PID, epoch=0, sequence=sequence)
    talk.ask(PRODUCE, 9, produce(("orders", 0, records)))
    for asked in talk.asked(WEST):
        talk.answer(WEST, asked, produced(("orders", 0, 0, 7)))
    talk.wait(0.2)
    (answer,) = talk.answers()
    return entry(answer)["error_code"], entry(answer)["base_offset"]


def looked_up(talk: Talk) -> list[EarlierBatch]:
    batches = [command.wanted for command in talk.others if isinstance(command, FindDuplicateOffset)]
    talk.others.clear()
    return batches


def test_a_batch_that_an_earlier_writer_epoch_holds_gets_its_offset_there() -> None:
    # Given a producer whose answer to 10 to 19 was lost
    talk = after_the_cut()
    # When it retries them, they are looked up, it retries once more, and later batches wait for them
    assert send(talk, 10) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    (wanted,) = looked_up(talk)
    assert wanted == EarlierBatch(b"orders", 0, CLIENT_PID, 0, 10, 10, 1)
    assert send(talk, 20) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    talk.duplicate_offsets.learn(wanted, 90)
    # Then they have the offset that they have always had
    assert send(talk, 10) == (ErrorCode.NONE, 90)
    assert send(talk, 20) == (ErrorCode.NONE, 100)
    assert not looked_up(talk)


def test_a_batch_that_arrives_slowly_is_looked_up_for_as_long_as_any_other() -> None:
    # Given one that an earlier writer epoch holds, whose last bytes are late
    talk = after_the_cut()
    data = frame(produce(("orders", 0, batch(count=10, producer_id=CLIENT_PID, epoch=0, sequence=10))))
    talk.versions.append((1, PRODUCE, 9))
    talk.send(data[:-1])
    talk.wait(MAX_WAIT_S + 1)
    # When they are there
    talk.send(data[-1:])
    talk.wait(0.2)
    # Then it is looked up, and not given up before the question
    (answer,) = talk.answers()
    assert entry(answer)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(looked_up(talk)) == 1


def test_batches_that_wait_for_one_another_are_looked_up_together() -> None:
    talk = after_the_cut()
    for sequence in (0, 10):
        assert send(talk, sequence) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    for number, wanted in enumerate(looked_up(talk)):
        talk.duplicate_offsets.learn(wanted, 80 + 10 * number)
    assert [send(talk, sequence) for sequence in (0, 10)] == [(ErrorCode.NONE, 80), (ErrorCode.NONE, 90)]


@pytest.mark.parametrize("how", ["not there", "not in time"])
def test_a_producer_never_gets_another_records_offset(how: str) -> None:
    # Given a batch that cannot be found
    talk = after_the_cut()
    send(talk, 10)
    if how == "not there":
        talk.duplicate_offsets.learn(looked_up(talk)[0], None)
    else:
        talk.wait(MAX_WAIT_S)
    # When it comes again
    error, base_offset = send(talk, 10)
    # Then it is a duplicate, and a client that counts on from the answer reaches no possible offset of a record
    assert error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert all(base_offset + number < 0 for number in range(10))


def test_the_memory_of_duplicate_lookups_is_bounded() -> None:
    duplicate_offsets = DuplicateOffsets()
    for number in range(25_000):
        wanted = EarlierBatch(b"orders", 0, CLIENT_PID, 0, number, 1, 1)
        duplicate_offsets.offset(wanted, 0.0)
        duplicate_offsets.learn(wanted._replace(partition=1), number)
    assert len(duplicate_offsets._since) <= 10_000
    assert len(duplicate_offsets._found) <= 10_000
