"""Handovers from a real MirrorMaker 2 to our copier and back, while a producer writes: no record is skipped, and our
copier duplicates none."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ha_core.flows.records import OffsetSync
from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.copying import Copying
from ha_core.mirror_client import MirrorClient, MirrorClientError
from ha_core.mirror_maker.handover import HandedCopy, HandoverError, ended_copies, require_stopped
from stack.harness import Stack
from tests.kit.flows import flows
from tests.kit.handing_over import (
    LOG,
    LOG_PARTITIONS,
    TARGET,
    CopiedRecord,
    Handovers,
    Load,
    clusters,
    partitions_of_keys,
    wait_until,
)
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker/handover"), pytest.mark.timeout(500)]
PARTITIONS, PER_S = 3, 300.0
Flow = Callable[[str], Handovers]
numbers = itertools.count()

stack = own_stack(gateways=0)


@pytest.fixture(scope="module")
def admins(stack: Stack) -> Iterator[tuple[Admin, Admin]]:
    known = clusters(stack)
    with Admin(known["east"], timeout_s=30) as source, Admin(known[TARGET], timeout_s=30) as target:
        ensure_copy_log(target, LOG, LOG_PARTITIONS)
        yield source, target


@pytest.fixture
def flow(stack: Stack, admins: tuple[Admin, Admin], tmp_path: Path) -> Flow:
    """A flow with its own topic."""

    def make(version: str) -> Handovers:
        number = next(numbers)
        create_topic(bootstrap(stack, "east"), f"orders-{number}", PARTITIONS)
        return Handovers(stack, *admins, f"a{number}", f"orders-{number}", PARTITIONS, tmp_path, version)

    return make


@pytest.fixture
def load(stack: Stack) -> Iterator[Callable[[Handovers], Load]]:
    running: list[Load] = []

    def start(flow: Handovers) -> Load:
        running.append(Load(bootstrap(stack, "east"), flow.topic, flow.partitions, PER_S))
        return running[-1]

    yield start
    for one in running:
        one.stop()


def write_offset_syncs(flow: Handovers, job: Copying) -> dict[int, int]:
    """Write a sync for the last record of each partition, as our worker does; returns partition → remote offset."""
    producer = Producer({"bootstrap.servers": bootstrap(flow.stack, "east")})
    written: dict[int, int] = {}
    for copy in flow.copies:
        reached = job.reached(copy.id)
        assert reached is not None
        last = reached.progress.runs[-1]
        written[copy.id.partition] = last.target + last.records - 1
        sync = OffsetSync(flow.topic, copy.id.partition, last.after - 1, written[copy.id.partition])
        producer.produce(f"mm2-offset-syncs.{TARGET}.internal", sync.value, sync.key, 0)
    assert producer.flush(30) == 0
    return written


def translated_ends(flow: Handovers) -> dict[int, int]:
    """Partition → remote offset to which MirrorMaker 2 translates the offset of a group that has read everything."""
    group = f"billing-{flow.alias}"
    consumer = Consumer({"bootstrap.servers": bootstrap(flow.stack, "east"), "group.id": group})
    ends = {number: flow.in_source(number)[-1][0] + 1 for number in range(flow.partitions)}
    consumer.commit(offsets=[TopicPartition(flow.topic, *end) for end in ends.items()], asynchronous=False)
    consumer.close()
    with MirrorClient(flow.settings) as client:

        def told() -> bool:
            try:
                return len(client.translate_offsets(flow.alias, group)) == flow.partitions
            except MirrorClientError:
                return False

        wait_until(told, "no checkpoints")
        return {key[1]: position.offset for key, position in client.translate_offsets(flow.alias, group).items()}


def assert_ours_doubles_nothing(flow: Handovers) -> None:
    """Both logs have the same records in the same order, and each record that our copier has written is there once.

    MirrorMaker 2 doubles its own where it rebalances before it commits, as on a slow machine.
    """
    for number in range(flow.partitions):
        here, there = flow.in_source(number), flow.in_target(number)
        assert list(dict.fromkeys(record for _, record in there)) == [record for _, record in here]
        ours, places = flow.written_by_ours(number), dict[CopiedRecord, list[int]]()
        for at, record in there:
            places.setdefault(record, []).append(at)
        twice = [its for its in places.values() if len(its) > 1]
        assert [its for its in twice if any(at in ours for at in its)] == []
        if twice:
            print(f"MirrorMaker 2 has doubled {len(twice)} records of its own: {twice[0]} to {twice[-1]}")


def assert_nothing_skipped(flow: Handovers) -> None:
    for number in range(flow.partitions):
        there = {record for _, record in flow.in_target(number)}
        assert [at for at, record in flow.in_source(number) if record not in there] == []


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_a_stopped_mirror_maker_hands_over_and_takes_back_and_ours_doubles_nothing(
    version: str, flow: Flow, load: Callable[[Handovers], Load]
) -> None:
    handovers = flow(version)
    writing = load(handovers)
    with handovers.mirror_maker() as running:
        handovers.await_copied(500)
        running.check()
        with pytest.raises(HandoverError, match=r"its group a\d+-mm2 in west has members on 127.0.0.1"):
            require_stopped(handovers.target, handovers.state)
        with flows(handovers.flows_file()) as worker:
            worker.wait_for_text("does not start yet: MirrorMaker 2 is running")
    handovers.await_stopped()
    # When our copier goes on, and stops
    handed = handovers.take()
    assert [(one.exact, one.reason) for one in handed] == [(True, "")] * PARTITIONS
    with handovers.copying() as job:
        handovers.await_copied(500)
    handovers.give_back(handovers.reached(job))
    written = partitions_of_keys(handovers.settings, handovers.state.offsets_topic)
    assert {key: len(partitions) for key, partitions in written.items()} == dict.fromkeys(written, 1)
    synced = write_offset_syncs(handovers, job)
    # And MirrorMaker 2 starts again
    with handovers.mirror_maker() as running:
        handovers.await_copied(500)
        writing.stop()
        handovers.await_last()
        checkpoints = translated_ends(handovers)
        running.check()
    # Then the remote topic is the source, and groups are led above our last offset sync
    assert_ours_doubles_nothing(handovers)
    for number, offset in checkpoints.items():
        assert synced[number] < offset <= handovers.in_target(number)[-1][0] + 1


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_killed_copiers_of_both_kinds_skip_no_record_and_ours_duplicate_none(
    version: str, flow: Flow, load: Callable[[Handovers], Load]
) -> None:
    handovers = flow(version)
    writing = load(handovers)
    for _ in range(2):
        # Given a MirrorMaker 2 that is killed between two commits of its offsets
        with handovers.mirror_maker() as running:
            handovers.await_copied(700)
            wait_until(lambda: len(handovers.offsets()) == PARTITIONS, "no offsets")
            handovers.await_copied(50)
            handovers.kill(running)
        handovers.await_stopped()
        committed = handovers.offsets()
        # When our copier goes on, is restarted in the middle, and ends without writing offsets for MirrorMaker 2
        handed = handovers.take()
        assert handovers.take() == []
        assert [(one.exact, one.reason) for one in handed] == [(True, "")] * PARTITIONS
        with handovers.copying():
            handovers.await_copied(500)
        _assert_continued_exactly(handovers, handed)
        assert sum(one.source_start - 1 - committed[one.copy.source_key] for one in handed) > 0
        handovers.give_back(ended_copies(handovers.target, handovers.copies))
    with handovers.mirror_maker():
        handovers.await_copied(200)
        writing.stop()
        handovers.await_last()
    assert_nothing_skipped(handovers)


def _assert_continued_exactly(flow: Handovers, handed: list[HandedCopy]) -> None:
    """Assert that the remote topic has every source record below the place, and then each following record once."""
    for one in handed:
        number = one.copy.id.partition
        here, there = flow.in_source(number), flow.in_target(number)
        before = {record for at, record in there if at < one.target_end}
        assert [at for at, record in here if at < one.source_start and record not in before] == []
        assert [at for at, record in here if at >= one.source_start and record in before] == []
        after = [record for at, record in there if at >= one.target_end]
        following = [record for at, record in here if at >= one.source_start]
        assert after
        assert after == following[: len(after)]
