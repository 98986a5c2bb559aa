"""A transaction goes on by another connection behind a fence, and is aborted there when its client gives it up."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import google_crc32c
import pytest

from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.security import NO_SECURITY
from ha_core.mirror.split import Record, pack
from ha_core.store.store import Store
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.copies import TRANSACTIONAL, claim
from stack.harness import Stack
from tests.kit.consumed import value_of
from tests.kit.running import bind, bootstrap, create_topic, switchyard, switchyard_command
from tests.system.watching import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/session/transactions.py", "gateway/composed/transactions.py"),
]
RETRIES_S = 5.0
"""Far less than the move waits for transactions."""


class Transactional:
    """A transactional producer by hand. Each request goes by the connection that was opened last."""

    def __init__(self, stack: Stack, name: str, own: str = "") -> None:
        self._stack, self._name, self._id = stack, name, f"{name}{own}"
        self._client_id = f"HA#{name}#{name}"
        self._sequence = dict.fromkeys(range(2), 0)
        self._connection = self._at_coordinator()
        self._producer = {"producer_id": -1, "producer_epoch": -1}
        until(self._initialised, "its coordinator gives it an id")

    def _initialised(self) -> bool:
        given = self._call(ApiKey.INIT_PRODUCER_ID, transaction_timeout_ms=60_000, **self._producer)
        self._producer = {key: given[key] for key in self._producer}
        return not given["error_code"]

    def leave(self) -> None:
        """Its connection breaks, and it goes on by another one."""
        self._connection.close()
        self._connection = self._at_coordinator()

    def take_in(self, partition: int) -> int:
        topics = [{"name": self._name, "partitions": [partition]}]
        answer = self._call(ApiKey.ADD_PARTITIONS_TO_TXN, **self._producer, topics=topics)
        code: int = answer["results_by_topic"][0]["results_by_partition"][0]["partition_error_code"]
        return code

    def write(self, partition: int, value: str) -> int:
        made = pack([Record.of(0, int(time.time() * 1000), None, value.encode())], 0)
        sequence, self._sequence[partition] = self._sequence[partition], self._sequence[partition] + 1
        claim(made, 0, self._producer["producer_id"], self._producer["producer_epoch"], sequence)
        made[22] |= TRANSACTIONAL
        struct.pack_into(">I", made, 17, google_crc32c.value(bytes(made[21:])))
        data = [{"name": self._name, "partition_data": [{"index": partition, "records": bytes(made)}]}]
        answer = self._call(ApiKey.PRODUCE, acks=-1, timeout_ms=5000, topic_data=data)
        code: int = answer["responses"][0]["partition_responses"][0]["error_code"]
        return code

    def end(self, *, commits: bool) -> int:
        code: int = self._call(ApiKey.END_TXN, **self._producer, committed=commits)["error_code"]
        return code

    def close(self) -> None:
        self._connection.close()

    def _call(self, api: ApiKey, **fields: Any) -> dict[str, Any]:
        self._connection.until = Deadline.after(20.0)
        return self._connection.call(api, {"transactional_id": self._id, **fields}, 7)

    def _at_coordinator(self) -> BlockingConnection:
        """Of the only broker that the user's cluster has, so it leads the partitions as well."""
        host, port = self._stack.gateways[0]["bootstrap"].rsplit(":", 1)
        first = self._open(host, int(port))
        while (found := first.call(ApiKey.FIND_COORDINATOR, {"key": self._id, "key_type": 1}, 3))["error_code"]:
            time.sleep(0.1)
        first.close()
        return self._open(found["host"], found["port"])

    def _open(self, host: str, port: int) -> BlockingConnection:
        return BlockingConnection("gateways", host, port, NO_SECURITY, Deadline.after(20.0), client_id=self._client_id)


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


def again(ask: Callable[[], int], timeout_s: float = RETRIES_S) -> int:
    """The answer, when it is no other than to ask again; CONCURRENT_TRANSACTIONS: it was that for so long."""
    deadline = time.monotonic() + timeout_s
    while (code := ask()) == ErrorCode.CONCURRENT_TRANSACTIONS and time.monotonic() < deadline:
        time.sleep(0.05)
    return code


@contextmanager
def quiesced(stack: Stack, store: Store, name: str, wait_s: int = 30) -> Iterator[subprocess.Popen[str]]:
    """The user is being moved, and the move waits for its transactions."""
    route = ("--from", "east", "--to", "west", "--reason", "test", "--yes", "--drain-timeout", str(wait_s))
    command = switchyard_command(stack, "switch", f"user:{name}", *route)
    pipe = subprocess.PIPE
    move = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
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


def committed(stack: Stack, name: str) -> list[str]:
    """What readers of committed records are given, through the gateways."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": stack.bootstrap, "client.id": f"HA#{name}#{name}", "group.id": name}
    settings |= {"isolation.level": "read_committed", "enable.auto.commit": "false", "log_level": "3"}
    reader = Consumer({**settings, "enable.partition.eof": True})
    reader.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in range(2)])
    found, ended = [], 0
    deadline = time.monotonic() + 60
    while ended < 2 and time.monotonic() < deadline:
        record = reader.poll(1.0)
        if record is None:
            continue
        if record.error():
            ended += 1
        else:
            found.append(value_of(record).decode())
    reader.close()
    assert ended == 2
    return sorted(found)


def test_a_transaction_whose_connection_broke_takes_one_more_partition_in_and_ends_while_it_is_waited_for(
    stack: Stack, store: Store, producer: Transactional, name: str
) -> None:
    # Given
    with quiesced(stack, store, name) as move:
        producer.leave()
        # When it goes on by another connection
        assert again(lambda: producer.take_in(1)) == ErrorCode.NONE
        assert producer.write(1, "second") == ErrorCode.NONE
        assert again(lambda: producer.end(commits=True)) == ErrorCode.NONE
        # Then the move is not undone for it, and it was committed as a whole
        assert succeeds(move)
    assert committed(stack, name) == ["first", "second"]


def test_a_transaction_that_is_given_up_when_a_fence_keeps_it_from_going_on_is_aborted(
    stack: Stack, store: Store, producer: Transactional, name: str
) -> None:
    # Given a transaction whose connection broke, which is told to wait
    with quiesced(stack, store, name) as move:
        producer.leave()
        producer.take_in(1)
        # When its client gives it up, and is told that it is aborted
        assert again(lambda: producer.end(commits=False)) == ErrorCode.NONE
        # Then the move waits for it no longer, and nobody reads what it wrote
        assert succeeds(move)
    assert committed(stack, name) == []


def test_what_was_given_up_behind_a_fence_is_not_committed_with_what_its_producer_writes_next(
    stack: Stack, store: Store, producer: Transactional, name: str
) -> None:
    # Given a transaction that was given up behind a fence, by another connection than the one on which it began
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
    # Then that alone is committed
    assert committed(stack, name) == ["next"]


def test_what_was_given_up_while_its_cluster_was_masked_is_not_committed_with_the_next_transaction(
    stack: Stack, producer: Transactional, name: str
) -> None:
    # Given a transaction that is given up while its coordinator may not be asked
    switchyard(stack, "mask", "east", "--reason", "test", "--force")
    try:
        until(lambda: producer.end(commits=False) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "no abort is granted")
    finally:
        switchyard(stack, "unmask", "east")
    # When the cluster is back within the transaction's time, and the producer asks again and commits the next one
    until(lambda: producer.end(commits=False) == ErrorCode.NONE, "it is aborted")
    assert again(lambda: producer.take_in(1)) == ErrorCode.NONE
    assert producer.write(1, "next") == ErrorCode.NONE
    assert again(lambda: producer.end(commits=True)) == ErrorCode.NONE
    # Then that alone is committed
    assert committed(stack, name) == ["next"]
