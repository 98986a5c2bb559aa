"""A transaction continues on another connection under a fence, and is aborted there if its client gives it up."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ha_core.store.store import Store
from ha_core.wire.codes import ErrorCode
from stack.harness import Stack
from tests.kit.running import bind, bootstrap, create_topic, start_command, switchyard
from tests.kit.waiting import until
from tests.system.transactions_by_hand import Transactional, again, committed

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/session/transactions.py", "gateway/composed/transactions.py"),
]


@pytest.fixture
def producer(stack: Stack, name: str) -> Iterator[Transactional]:
    """Its transaction has a record in partition 0."""
    create_topic(bootstrap(stack, "east"), name, 2)
    bind(stack, name, "east")
    made = Transactional(stack, name)
    assert again(lambda: made.take_in(0)) == ErrorCode.NONE
    assert made.write(0, "first") == ErrorCode.NONE
    yield made
    made.close()


@contextmanager
def quiesced(stack: Stack, store: Store, name: str, wait_s: int = 30) -> Iterator[subprocess.Popen[str]]:
    """The user is being moved, and the move waits for its transactions."""
    route = ("--from", "east", "--to", "west", "--reason", "test", "--yes", "--drain-timeout", str(wait_s))
    move = start_command(stack, "switch", f"user:{name}", *route)
    try:
        until(lambda: _fenced(store, name), "the topic has a transaction fence")
        yield move
    finally:
        move.kill()
        move.communicate()


def _fenced(store: Store, name: str) -> bool:
    topic = store.load().topics.get(name)
    return topic is not None and topic.transaction_fence is not None


def succeeds(move: subprocess.Popen[str]) -> bool:
    out, said = move.communicate(timeout=60)
    assert move.returncode == 0, f"{out}\n{said}"
    return True


def test_a_transaction_whose_connection_broke_adds_one_more_partition_and_ends_while_the_move_waits_for_it(
    stack: Stack, store: Store, producer: Transactional, name: str
) -> None:
    # Given
    with quiesced(stack, store, name) as move:
        producer.leave()
        # When it continues on another connection
        assert again(lambda: producer.take_in(1)) == ErrorCode.NONE
        assert producer.write(1, "second") == ErrorCode.NONE
        assert again(lambda: producer.end(commits=True)) == ErrorCode.NONE
        # Then the move is not undone because of it, and it was committed as a whole
        assert succeeds(move)
    assert committed(stack, name) == ["first", "second"]


def test_a_transaction_given_up_because_of_a_fence_is_aborted(
    stack: Stack, store: Store, producer: Transactional, name: str
) -> None:
    # Given a transaction on a broken connection, which gets a retriable refusal
    with quiesced(stack, store, name) as move:
        producer.leave()
        producer.take_in(1)
        # When its client gives it up, and gets the abort's success
        assert again(lambda: producer.end(commits=False)) == ErrorCode.NONE
        # Then the move does not wait for it any more, and its records are not read
        assert succeeds(move)
    assert committed(stack, name) == []


def test_a_transaction_given_up_under_a_fence_is_not_committed_with_the_next_one(
    stack: Stack, store: Store, producer: Transactional, name: str
) -> None:
    # Given a transaction that was given up under a fence, on another connection than its first one
    other = Transactional(stack, name, "-other")
    assert again(lambda: other.take_in(0)) == ErrorCode.NONE
    with quiesced(stack, store, name, wait_s=5) as move:
        producer.leave()
        producer.take_in(1)
        assert again(lambda: producer.end(commits=False)) == ErrorCode.NONE
        # When the move is undone, because another one stays open
        move.communicate(timeout=60)
    assert again(lambda: other.end(commits=False)) == ErrorCode.NONE
    other.close()
    # And the producer commits its next one
    assert again(lambda: producer.take_in(1)) == ErrorCode.NONE
    assert producer.write(1, "next") == ErrorCode.NONE
    assert again(lambda: producer.end(commits=True)) == ErrorCode.NONE
    # Then only that one is committed
    assert committed(stack, name) == ["next"]


def test_a_transaction_given_up_while_its_cluster_was_masked_is_not_committed_with_the_next_one(
    stack: Stack, producer: Transactional, name: str
) -> None:
    # Given a transaction that is given up while its coordinator is masked
    switchyard(stack, "mask", "east", "--reason", "test", "--force")
    try:
        until(lambda: producer.end(commits=False) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "no abort is granted")
    finally:
        switchyard(stack, "unmask", "east")
    # When the cluster is back within the transaction's timeout, and the producer repeats the abort and commits another
    until(lambda: producer.end(commits=False) == ErrorCode.NONE, "it is aborted")
    assert again(lambda: producer.take_in(1)) == ErrorCode.NONE
    assert producer.write(1, "next") == ErrorCode.NONE
    assert again(lambda: producer.end(commits=True)) == ErrorCode.NONE
    # Then only that one is committed
    assert committed(stack, name) == ["next"]
