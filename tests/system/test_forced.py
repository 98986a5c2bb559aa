"""A cluster dies under load, and its users are forced into the other one: they go on, and lost records are counted."""

import dataclasses
import json
from collections.abc import Iterator

import pytest

from ha_core.cli.exits import OUT_OF_REACH
from stack.clients.process import ClientProcess, history_of
from stack.clients.recorder import name_in
from stack.harness import Stack
from stack.history.checker import check
from stack.history.history import History, LogDump
from tests.kit.progress import acked, await_more, await_records, given, read_all
from tests.kit.running import CommandFailedError, Run, bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import own_stack, revive
from tests.kit.waiting import until
from tests.system.conftest import MakeRun
from tests.system.watching import assert_ascending, led_from

pytestmark = pytest.mark.stack
RATE = 100

stack = own_stack()


@pytest.fixture
def run(stack: Stack, make_run: MakeRun, name: str) -> Iterator[Run]:
    """A user bound to east, with a topic in both clusters; east is restarted afterwards in any case."""
    for cluster in ("east", "west"):
        create_topic(bootstrap(stack, cluster), name)
    bind(stack, name, "east")
    until(lambda: led_from(stack, name) == {"east"}, "clients are sent to east")
    yield make_run(stack, user=name)
    revive(stack, "cluster/east")
    switchyard(stack, "unmask", "east")


def at_work(run: Run, name: str) -> tuple[ClientProcess, ClientProcess]:
    """An idempotent producer and a group of one, past their first records."""
    producer = run.start("confluent-producer", "w", name, rate=RATE, idempotence="on")
    consumer = run.start("confluent-consumer", "r", name, group=name, commit="batch")
    await_records(200, producer, consumer)
    return producer, consumer


def kill_and_force(run: Run, name: str, mask: bool, unread: str) -> None:
    """SIGKILL for all brokers of east; a planned move is refused, a forced one done."""
    run.stack.kill("cluster/east")
    with pytest.raises(CommandFailedError) as refused:
        run.switch("east", "west")
    assert refused.value.code == OUT_OF_REACH
    assert "--mode forced" in json.dumps(refused.value.document)
    if mask:
        switchyard(run.stack, "mask", "east", "--reason", "died", "--force")
    document = run.switch("east", "west", mode="forced", unread=unread)
    assert document["result"] == "succeeded"


def test_after_a_forced_switch_only_unread_records_of_the_dead_cluster_are_missing(run: Run, name: str) -> None:
    # Given clients at work
    producer, consumer = at_work(run, name)
    # When their cluster dies, and they are moved by force
    kill_and_force(run, name, mask=True, unread="skip")
    await_more(200, producer, consumer)
    producer.stop()
    cut = {cut.partition: cut.cut for cut in run.cuts([name])}
    read_all({ack.value for ack in acked(producer) if ack.offset >= cut[ack.partition]}, consumer)
    run.stack.restart("cluster/east")
    # Then they lack the unread records of the dead cluster, and nothing else
    history, given_up = without_what_was_given_up(run, name, consumer)
    kept_by_east = {ack.value for ack in acked(producer) if 0 <= ack.offset < cut[ack.partition]}
    result = check(history, complete_readers=[name])
    violations = [
        violation
        for violation in result.violations
        if not (violation.kind == "lost" and violation.value in given_up)
        # Appended and read, but not acknowledged before the end: the producer sent it again, and west does not know it.
        and not (violation.kind == "doubled" and violation.about == "log" and violation.value not in kept_by_east)
    ]
    print(f"{len(given_up)} records of east were given up; {result}")
    assert violations == [], "\n".join(map(str, violations))
    assert_ascending(consumer)


def test_readers_that_wait_for_a_dead_cluster_skip_nothing_until_it_returns(run: Run, stack: Stack, name: str) -> None:
    # Given a group and a reader, at work
    producer, member = at_work(run, name)
    reader = run.start("confluent-consumer", "alone", name, seek="beginning")
    reader.wait_for(200, "delivered")
    # When their cluster dies, and they are moved by force, to wait for what is unread
    kill_and_force(run, name, mask=False, unread="wait")
    before = given(reader)
    await_more(300, producer)
    producer.stop()
    cut = {cut.partition: cut.cut for cut in run.cuts([name])}
    promised = {ack.value for ack in acked(producer) if ack.offset >= cut[ack.partition]}
    # Then west has the records since, and no reader has got any of them
    assert promised
    assert read_from(run, name, cut, len(promised)) == promised
    assert given(reader) == before
    assert all(record.offset < cut[record.partition] for record in given(member))
    assert_ascending(member)
    # When the dead cluster returns
    stack.restart("cluster/east")
    # Then the rest of it is read, in order
    held = {value for dump in run.dumps(name) if dump.cluster == "east" for value in dump.records.values()}
    read_all(held, reader)
    member.stop()
    assert {record.value for record in given(reader)} == held
    assert_ascending(reader)


def test_a_topic_that_never_moved_is_read_after_its_leader_has_changed(stack: Stack, run: Run, name: str) -> None:
    # Given records of a topic without a map
    producer = run.start("confluent-producer", "w", name, count=100, rate=0)
    producer.wait()
    # When its brokers restart, which raises its leader epoch above 0
    stack.kill("cluster/east")
    stack.restart("cluster/east")
    # Then new readers get these records
    beginning = dict.fromkeys(range(3), 0)
    assert len(read_from(run, name, beginning, 100)) == 100


def read_from(run: Run, name: str, offsets: dict[int, int], count: int) -> set[str]:
    """Values from these offsets on, through the gateways, until there are `count`."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": run.bootstrap, "client.id": f"HA#{name}#{name}", "group.id": f"{name}-beyond"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 3})
    values: set[str] = set()
    try:
        consumer.assign([TopicPartition(name, partition, offset) for partition, offset in offsets.items()])

        def all_read() -> bool:
            messages = consumer.consume(500, 0.2)
            values.update(name_in(message.value()) for message in messages if message.error() is None)
            return len(values) >= count

        until(all_read, f"{count} records from the cut on")
    finally:
        consumer.close()
    return values


def without_what_was_given_up(run: Run, name: str, consumer: ClientProcess) -> tuple[History, set[str]]:
    """The history as if east had ended at its last read offset, and its records above that."""
    logs, cuts = run.dumps(name), run.cuts([name])
    ends = dict.fromkeys((cut.partition for cut in cuts), 0)
    for record in given(consumer):
        if record.offset < next(cut.cut for cut in cuts if cut.partition == record.partition):
            ends[record.partition] = max(ends[record.partition], record.offset + 1)
    given_up: set[str] = set()
    kept: list[LogDump] = []
    for dump in logs:
        records = dict(dump.records)
        if dump.cluster == "east":
            given_up |= {value for offset, value in records.items() if offset >= ends[dump.partition]}
            records = {offset: value for offset, value in records.items() if offset < ends[dump.partition]}
        kept.append(dataclasses.replace(dump, records=records))
    shorter = [dataclasses.replace(cut, origin_end=ends[cut.partition]) for cut in cuts]
    return history_of(run.clients).with_evidence(shorter, run.faults, kept), given_up
