"""Brokers of a live cluster are lost: a partition has no leader, or one that lacks acknowledged records."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ha_core.cli.exits import ATTENTION
from stack.harness import Stack
from tests.kit.progress import acked, await_more, given, read_all
from tests.kit.running import CommandFailedError, bind, bootstrap, switchyard
from tests.kit.stacks import own_stack, revive
from tests.kit.waiting import until
from tests.system.conftest import MakeRun
from tests.system.watching import assert_ascending, assert_no_client_has_failed, leaders, led_from

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long(
        "ha_core/plan/preflight/partitions.py",
        "ha_core/operations/migration/crossing/fence.py",
        "ha_core/operations/move/fenced_reads.py",
    ),
]
LOST = 2
"""The partition whose only broker dies."""
ROUTE = ("--from", "east", "--to", "west", "--reason", "test")


stack = own_stack({"east": "3.9.2x3", "west": "4.3.1"})


@pytest.fixture
def east_is_whole_again(stack: Stack) -> Iterator[None]:
    yield
    revive(stack, "cluster/east")


def place(stack: Stack, topic: str, brokers: list[list[int]], **config: str) -> None:
    """Creates a topic in east with these replicas, the preferred leader first."""
    admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east"), "log_level": 3})
    admin.create_topics([NewTopic(topic, len(brokers), replica_assignment=brokers, config=config)])[topic].result(60)
    until(
        lambda: leaders(stack, "east", topic) == {p: some[0] for p, some in enumerate(brokers)},
        "all partitions have leaders",
    )
    bind(stack, topic, "east")


def refused(match: str, *command: str) -> Callable[[Stack], None]:
    def check(stack: Stack) -> None:
        with pytest.raises(CommandFailedError, match=match):
            switchyard(stack, *command)

    return check


def checked(stack: Stack, name: str) -> list[dict[str, Any]]:
    """Checks returned partitions, once a leader answers for them."""
    found: list[dict[str, Any]] = []

    def answered() -> bool:
        found[:] = switchyard(stack, "origins", "check", name)["returned"]
        return bool(found)

    until(answered, "east's broker answers again")
    return found


@pytest.mark.usefixtures("east_is_whole_again")
def test_a_partition_whose_only_broker_is_dead_moves_by_force_and_the_others_stay(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given clients at work on three partitions, each on a broker of its own
    place(stack, name, [[1], [2], [3]], **{"min.insync.replicas": "1"})
    run = make_run(stack, user=name)
    producer = run.start("confluent-producer", "w", name, rate=100, idempotence="on")
    member = run.start("confluent-consumer", "m", name, group=name, commit="batch")
    reader = run.start("confluent-consumer", "r", name, seek="beginning")
    producer.wait_for(100, "acknowledged")
    for _ in range(2):  # two records of facts give the growth rate
        switchyard(stack, "facts", "record")
        await_more(150, producer)
    # When one broker dies
    stack.kill("cluster/east/3")
    until(lambda: leaders(stack, "east", name)[LOST] == -1, "a partition has no leader")
    # Then only a forced move of that partition alone succeeds
    forced = ("migrate-from-fault", *ROUTE, "--unread", "wait", "--max-rate-records-s", "10000")
    refused(f"switchyard migrate-from-fault {name}:{LOST} --from east", "migrate", f"{name}:{LOST}", *ROUTE)(stack)
    refused(f"answers, and leads {name}-0", *forced, f"{name}:0,{LOST}", "--yes")(stack)
    refused("Origin east answers", *forced, name, "--yes")(stack)
    shown = switchyard(stack, *forced, f"{name}:{LOST}", "--dry-run")
    (said,) = (verdict for verdict in shown["verdicts"] if verdict["code"] == "moves-alone")
    assert f"{LOST} ended at " in said["text"]
    assert "Partitions 0, 1 stay in east" in said["text"]
    document = switchyard(stack, *forced, f"{name}:{LOST}", "--yes")
    assert document["result"] == "succeeded", document
    (cut,) = run.cuts([name])
    assert cut.partition == LOST

    # And producers go on in all three partitions, and readers in the readable ones
    def written(partition: int) -> int:
        return sum(
            ack.partition == partition and (partition != LOST or ack.offset >= cut.cut) for ack in acked(producer)
        )

    before = [written(partition) for partition in range(3)]
    until(lambda: all(written(p) > before[p] + 30 for p in range(3)), "all partitions are written")
    assert led_from(stack, name) == {"east", "west"}
    assert leaders(stack, "east", name)[LOST] == -1
    reachable = {ack.value for ack in acked(producer) if ack.partition != LOST}
    for consumer in (reader, member):
        until(lambda c=consumer: {record.value for record in given(c)} >= reachable, "all reachable records are read")  # type: ignore[misc]
        assert all(record.offset < cut.cut for record in given(consumer) if record.partition == LOST)
    # When the broker is back
    stack.restart("cluster/east/3")
    (returned,) = checked(stack, name)
    # Then its records are read below the cut, which stays, and the partition can move back
    assert (returned["partition"], returned["outcome"]) == (LOST, "whole")
    assert returned["beyond"] > 0
    assert [history_cut.cut for history_cut in run.cuts([name])] == [cut.cut]
    (batch,) = switchyard(
        stack, "migrate", f"{name}:{LOST}", "--from", "west", "--to", "east", "--reason", "t", "--yes"
    )["batches"]
    assert batch["result"] == "succeeded", batch
    await_more(100, producer)
    assert led_from(stack, name) == {"east"}
    producer.stop()
    held = {value for dump in run.dumps(name) for value in dump.records.values()}
    read_all(held, reader, member)
    assert held >= {ack.value for ack in acked(producer)}
    assert_ascending(reader)
    assert_no_client_has_failed([producer, reader, member])


class Writer:
    """Writes to one partition, and keeps the acknowledged offsets."""

    def __init__(self, stack: Stack, topic: str) -> None:
        self._topic = topic
        settings = {"bootstrap.servers": stack.bootstrap, "client.id": f"HA#{topic}#{topic}", "log_level": 3}
        # Each write is one batch.
        self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 300})
        self.offsets: list[int] = []

    def write(self, count: int, partition: int = 0) -> None:
        def told(error: Any, message: Any) -> None:
            assert error is None, error
            self.offsets.append(message.offset())

        for _ in range(count):
            self._producer.produce(self._topic, b"x", partition=partition, on_delivery=told)
        assert self._producer.flush(60) == 0


@pytest.mark.usefixtures("east_is_whole_again")
def test_a_log_that_loses_records_below_a_reached_cut_ends_the_crossing_at_the_cut(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given a topic that allows unclean elections, whose first partition has reached its cut
    place(stack, name, [[1, 2], [3, 2]], **{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    run, writer = make_run(stack, user=name), Writer(stack, name)
    writer.write(100)
    ahead = ("--cut", "predicted", "--cut-at", f"{name}:0=150", "--cut-at", f"{name}:1=10")
    (batch,) = switchyard(stack, "migrate", name, *ROUTE, *ahead, "--yes")["batches"]
    assert batch["result"] == "crossing", batch
    stack.kill("cluster/east/2")
    for count in (30, 100):  # the first waits until the dead replica has left the ISR
        writer.write(count)
    assert writer.offsets == [*range(130), *range(150, 250)]
    # When its leader dies, and an out-of-sync replica is elected
    stack.kill("cluster/east/1")
    stack.restart("cluster/east/2")
    until(lambda: leaders(stack, "east", name)[0] == 2, "an unclean leader is elected")
    # Then `settle` ends the crossing at its cut, and fails
    with pytest.raises(CommandFailedError, match="had reached its cut and ends below it now"):
        switchyard(stack, "settle", batch["operation"])
    writer.write(10)
    assert writer.offsets[-10:] == [*range(250, 260)]
    assert led_from(stack, name) == {"west"}
    # And `origins check` reports the missing records; readers wait until an operator accepts the loss
    found: dict[int, tuple[str, int]] = {}
    codes: list[int] = []

    def told() -> bool:
        try:
            document = switchyard(stack, "origins", "check", name)
        except CommandFailedError as failed:
            codes.append(failed.code)
            document = failed.document
        found.update({one["partition"]: (one["outcome"], one["missing"]) for one in document["returned"]})
        return len(found) == 2

    until(told, "leaders answer for both partitions")
    assert found == {0: ("less", 50), 1: ("whole", 0)}
    assert set(codes) == {ATTENTION}
    switchyard(stack, "origins", "check", name, "--accept-loss", "--reason", "an unclean election")
    reader = run.start("confluent-consumer", "r", name, seek="beginning")
    reader.wait_for(210, "delivered")
    reader.stop()
    read = [record.offset for record in given(reader) if record.partition == 0]
    assert read == [*range(100), *range(150, 260)]
