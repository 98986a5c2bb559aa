"""Plain consumers fail over at translated offsets, from RemoteClusterUtils and from synced groups: each group gets each
record from its own position on once."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ha_core.flows.translation import Translated
from ha_core.mirror_client import exact_maps
from stack.clients import java_mirror_client
from stack.harness import Stack
from tests.kit.flows import (
    FlowProcess,
    commit,
    committed,
    count,
    delete_topic,
    numbered,
    produce,
    records,
    until,
    write_flows,
)
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker", "ha_core/flows"), pytest.mark.timeout(600)]
MANY = 120_000
BACK = {"head": 0, "behind": 5_000, "far-behind": 100_000}
VERSIONS = ("3.9.2", "4.3.1")
FLOW = {
    "east->west.enabled": "true",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}

stack = own_stack(scope="module", gateways=0)


@pytest.fixture(scope="module")
def east(stack: Stack) -> str:
    return bootstrap(stack, "east")


@pytest.fixture(scope="module")
def west(stack: Stack) -> str:
    return bootstrap(stack, "west")


class Flow:
    """A worker that the test can replace by another one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.process = FlowProcess(file)

    def again(self) -> None:
        self.process.kill()
        self.process = FlowProcess(self._file)

    def text(self) -> str:
        return self.process.text()


@pytest.fixture(scope="module")
def flow(east: str, west: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    file = write_flows(tmp_path_factory.mktemp("flows"), {"east": east, "west": west}, FLOW)
    running = Flow(file)
    try:
        yield running
    finally:
        running.process.stop()


def positions(bootstrap: str, version: str, group: str, folder: Path) -> dict[tuple[str, int], int]:
    """Java's answer: (topic, partition) → translated offset."""
    java = java_mirror_client.ask(version, {"bootstrap.servers": bootstrap}, "east", group, folder)
    assert java["offsets"] == java["translated"]
    found = re.findall(r"([\w.-]+)-(\d+)=(\d+)/", java["translated"])
    return {(topic, int(partition)): int(offset) for topic, partition, offset in found}


def until_copied(east: str, west: str, topic: str, flow: Flow, partition: int = 0) -> None:
    due = len(records(east, topic, partition))
    until(
        lambda: count(west, f"east.{topic}", partition) > due and len(records(west, f"east.{topic}", partition)) >= due,
        120,
        flow.text,
    )


def assert_goes_on(east: str, west: str, flow: Flow, group: str, topic: str, folder: Path, partition: int = 0) -> None:
    """Assert that the group gets the same records in the target as in the source, by each of the three translations."""
    remote = f"east.{topic}"
    expected = records(east, topic, partition, committed(east, group, topic, partition))

    def due(offset: int) -> int:
        return len(records(west, remote, partition, offset)) if offset >= 0 else -1

    until(
        lambda: due(committed(west, group, remote, partition)) == len(expected),
        30,
        lambda: (
            f"{group} has {committed(west, group, remote, partition)} of {remote}, from which on there are "
            f"{due(committed(west, group, remote, partition))} records of {len(expected)}\n{flow.text()}"
        ),
    )
    assert records(west, remote, partition, committed(west, group, remote, partition)) == expected
    for version in VERSIONS:
        offset = positions(west, version, group, folder)[remote, partition]
        assert records(west, remote, partition, offset) == expected, f"{version} leads {group} to {offset}"


def transactions(bootstrap: str, topic: str, number: int) -> None:
    """Write transactions, of which each third one is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for each in range(number):
        producer.begin_transaction()
        for at in range(10):
            producer.produce(topic, b"%d of transaction %d" % (at, each), partition=0)
        producer.flush(30)
        if each % 3 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def test_groups_near_and_far_from_the_end_resume_at_their_record(
    east: str, west: str, flow: Flow, tmp_path: Path
) -> None:
    create_topic(east, "many", 1)
    produce(east, "many", (b"%d" % number for number in range(MANY)))
    until_copied(east, west, "many", flow)
    for group, back in BACK.items():
        commit(east, group, {("many", 0): MANY - back})
    for group in BACK:
        assert_goes_on(east, west, flow, group, "many", tmp_path)


def test_groups_of_transactional_topics_resume_at_their_record(
    east: str, west: str, flow: Flow, tmp_path: Path
) -> None:
    create_topic(east, "paid", 1)
    transactions(east, "paid", 300)
    until_copied(east, west, "paid", flow)
    places = [offset for offset, _ in numbered(east, "paid")]
    wanted = {"paid-head": places[-1] + 2, "paid-middle": places[1000], "paid-marker": places[10] - 1, "paid-first": 0}
    for group, offset in wanted.items():
        commit(east, group, {("paid", 0): offset})
    for group in wanted:
        assert_goes_on(east, west, flow, group, "paid", tmp_path)


def test_groups_of_compacted_topics_resume_at_their_record(east: str, west: str, flow: Flow, tmp_path: Path) -> None:
    """The target compacts the copy on its own: a group gets the newest record of each key, and no record twice."""
    compacted = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    create_topic(east, "states", 1, **compacted)
    for turn in range(4):
        produce(east, "states", (b"%d of turn %d" % (number, turn) for number in range(1000)))
        time.sleep(1.2)  # each batch gets its own segment
    until(lambda: len(numbered(east, "states")) < 1100, 60, lambda: f"{len(numbered(east, 'states'))} are left")
    places = [offset for offset, _ in numbered(east, "states")]
    groups = {"states-first": places[1] - 1, "states-middle": places[len(places) // 2], "states-head": places[-1] + 1}
    for group, offset in groups.items():
        commit(east, group, {("states", 0): offset})
    until(lambda: records(west, "east.states")[-1:] == records(east, "states")[-1:], 60, flow.text)
    for group in groups:
        until(lambda group=group: committed(west, group, "east.states") >= 0, 60, flow.text)  # type: ignore[misc]
    time.sleep(3)
    for group, offset in groups.items():
        expected = records(east, "states", 0, offset)
        synced = committed(west, group, "east.states")
        for begin in (synced, *(positions(west, one, group, tmp_path)["east.states", 0] for one in VERSIONS)):
            found = records(west, "east.states", 0, begin)
            assert {one.key: one for one in found} == {one.key: one for one in expected}
            assert len(set(found)) == len(found)
            assert set(found) >= set(expected[-100:])


def test_groups_of_a_topic_that_is_copied_anew_resume_at_their_record(
    east: str, west: str, flow: Flow, tmp_path: Path
) -> None:
    """The first copy has a marker of each worker, the second one only of the last worker, so its offsets are lower."""
    create_topic(east, "redone", 1)
    for _ in range(4):
        produce(east, "redone", (b"%d" % number for number in range(500)))
        until_copied(east, west, "redone", flow)
        flow.again()
    commit(east, "redone-middle", {("redone", 0): 1700})
    commit(east, "redone-head", {("redone", 0): 2000})
    for group in ("redone-middle", "redone-head"):
        assert_goes_on(east, west, flow, group, "redone", tmp_path)
    first = committed(west, "redone-middle", "east.redone")
    delete_topic(west, "east.redone")
    until_copied(east, west, "redone", flow)
    for group in ("redone-middle", "redone-head"):
        assert_goes_on(east, west, flow, group, "redone", tmp_path)
    assert committed(west, "redone-middle", "east.redone") < first
    # The copy log has the notes of both copies
    key = "east.redone", 0
    until(lambda: exact_maps({"bootstrap.servers": west}, "east->west", [key])[key].runs[-1].after == 2000)
    found = exact_maps({"bootstrap.servers": west}, "east->west", [key])[key].translate(1700)
    assert isinstance(found, Translated)
    assert found.offset == committed(west, "redone-middle", "east.redone")


def test_a_group_of_a_topic_that_is_created_again_resumes_in_the_new_topic(
    east: str, west: str, flow: Flow, tmp_path: Path
) -> None:
    create_topic(east, "again", 1)
    produce(east, "again", (b"first %d" % number for number in range(50)))
    until_copied(east, west, "again", flow)
    commit(east, "again-readers", {("again", 0): 40})
    assert_goes_on(east, west, flow, "again-readers", "again", tmp_path)
    delete_topic(east, "again")
    create_topic(east, "again", 1)
    produce(east, "again", (b"second %d" % number for number in range(80)))
    until(lambda: len(records(west, "east.again")) == 130, 60, flow.text)
    commit(east, "again-readers", {("again", 0): 20})
    assert_goes_on(east, west, flow, "again-readers", "again", tmp_path)


def test_a_group_of_an_empty_partition_misses_no_later_record(east: str, west: str, flow: Flow, tmp_path: Path) -> None:
    """Java's consumers commit 0 for empty partitions. If that offset were not translated, `auto.offset.reset=latest`
    would skip the records that are copied before the group resumes."""
    create_topic(east, "quiet", 2)
    produce(east, "quiet", [b"of another partition"], 1)
    until_copied(east, west, "quiet", flow, 1)
    commit(east, "quiet-readers", {("quiet", 0): 0, ("quiet", 1): 1})
    until(lambda: committed(west, "quiet-readers", "east.quiet", 0) >= 0, 30, flow.text)
    offset = positions(west, "4.3.1", "quiet-readers", tmp_path)["east.quiet", 0]
    flow.process.kill()
    produce(east, "quiet", [b"late"])
    flow.again()
    until(lambda: len(records(west, "east.quiet")) > 0, 60, flow.text)
    assert [one.value for one in records(west, "east.quiet", 0, offset)] == [b"late"]
