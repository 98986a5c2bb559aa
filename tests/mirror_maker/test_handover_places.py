"""Finding where our copier continues MirrorMaker 2's copies, on real clusters. The test writes MirrorMaker 2's part."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.partitioner.default import murmur2

from ha_core.cli.exits import ATTENTION, BAD_INPUT
from ha_core.flows.records import SourceOffset
from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.errors import StandsInTheWayError
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror_maker.handover import (
    HandedCopy,
    HandoverError,
    begin_copies,
    ended_copies,
    ensure_offsets_topic,
    handed_copies,
    judged_copies,
    offsets_producer,
    read_source_offsets,
    write_source_offsets,
)
from ha_core.mirror_maker.handover.windows import ReadBounds
from stack.harness import Stack
from tests.cli.invoking import run
from tests.kit.flows import flows
from tests.kit.handing_over import LOG, LOG_PARTITIONS, TARGET, Handovers, clusters, partitions_of_keys, wait_until
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
Make = Callable[..., "Begun"]
numbers = itertools.count()

stack = own_stack(gateways=0)


class Begun(Handovers):
    """A flow whose remote topic the test's producer writes, as MirrorMaker 2 would."""

    def write(self, count: int, partition: int = 0) -> None:
        """Write records to the source."""
        producer = Producer({"bootstrap.servers": bootstrap(self.stack, "east")})
        for number in range(count):
            producer.produce(self.topic, b"%d" % number, b"k", partition, headers=[("h", b"%d" % number), ("n", None)])
        assert producer.flush(30) == 0

    def copy(self, origins: Iterable[int], partition: int = 0, transactional_id: str = "") -> Producer:
        """Copy the records at these offsets of the source, each as often as it is named."""
        here = [record for _, record in self.in_source(partition)]
        more = {"transactional.id": transactional_id} if transactional_id else {}
        producer = Producer({"bootstrap.servers": bootstrap(self.stack, TARGET), **more})
        if transactional_id:
            producer.init_transactions(30)
            producer.begin_transaction()
        for at in origins:
            key, value, headers, time_ms = here[at]
            producer.produce(self.remote, value, key, partition, timestamp=time_ms, headers=list(headers))
        assert producer.flush(30) == 0
        return producer

    def commit(self, offset: int, partition: int = 0) -> None:
        self.give_back({(self.topic, partition): offset + 1})

    def place(self, **more: object) -> HandedCopy:
        """The place of partition 0, which is compared alone."""
        (found,) = handed_copies(self.source, self.target, self.copies[:1], self.offsets(), **more)  # type: ignore[arg-type]
        return found


@pytest.fixture(scope="module")
def admins(stack: Stack) -> Iterator[tuple[Admin, Admin]]:
    known = clusters(stack)
    with Admin(known["east"], timeout_s=30) as source, Admin(known[TARGET], timeout_s=30) as target:
        ensure_copy_log(target, LOG, LOG_PARTITIONS)
        yield source, target


@pytest.fixture
def make(stack: Stack, admins: tuple[Admin, Admin], tmp_path: Path) -> Make:
    def begun(partitions: int = 1, **config: str) -> Begun:
        """:param config: settings of the remote topic."""
        flow = Begun(stack, *admins, f"a{next(numbers)}", "orders", partitions, tmp_path, "")
        flow.topic = f"orders-{flow.alias}"
        create_topic(bootstrap(stack, "east"), flow.topic, partitions)
        create_topic(bootstrap(stack, TARGET), flow.remote, partitions, **config)
        return flow

    return begun


def copied(flow: Begun) -> list[object]:
    """The remote topic's records, once our copier has reached the source's end."""
    with flow.copying():
        flow.await_last()
    return [record for _, record in flow.in_target(0)]


def source(flow: Begun) -> list[object]:
    return [record for _, record in flow.in_source(0)]


def test_a_copy_goes_on_above_the_commit_without_duplicates(make: Make) -> None:
    flow = make()
    flow.write(40)
    flow.copy(range(25))
    flow.commit(9)
    assert flow.take() == [HandedCopy(flow.copies[0], 25, 25, True)]
    assert copied(flow) == source(flow)


def test_records_that_restarts_duplicated_are_not_copied_a_third_time(make: Make) -> None:
    flow = make()
    flow.write(40)
    flow.copy([*range(25), *range(10, 20)])
    flow.commit(9)
    assert flow.take() == [HandedCopy(flow.copies[0], 25, 35, True)]
    assert copied(flow) == source(flow)[:25] + source(flow)[10:20] + source(flow)[25:]


def test_a_handover_that_was_killed_can_be_repeated(make: Make) -> None:
    flow = make(3)
    for partition in range(3):
        flow.write(20, partition)
        flow.copy(range(10), partition)
    flow.give_back({(flow.topic, partition): 6 for partition in range(3)})
    handed = handed_copies(flow.source, flow.target, flow.copies, flow.offsets())
    # Given one copy that was begun, and one that was only fenced before the kill
    assert begin_copies(flow.source, flow.target, flow.state, handed[:1]) == [flow.copies[0].id]
    flow.target.fence(flow.copies[1])
    # When all is done again
    again = flow.take()
    # Then only the copies that were not begun are begun, at the same places
    assert [(one.copy, one.source_start) for one in again] == [(copy, 10) for copy in flow.copies[1:]]
    assert flow.take() == []
    assert begin_copies(flow.source, flow.target, flow.state, handed) == []


def test_records_without_a_committed_offset_are_refused_until_an_offset_is_given_by_hand(make: Make) -> None:
    flow = make()
    flow.write(20)
    flow.copy(range(10))
    with pytest.raises(HandoverError, match=rf"{flow.remote}-0: the remote topic holds records.* by hand"):
        flow.take()
    place = flow.place(by_hand={(flow.topic, 0): 10})
    assert (place.source_start, place.exact, place.reason) == (10, False, "the offset was given by hand")
    begin_copies(flow.source, flow.target, flow.state, [place])
    assert copied(flow) == source(flow)


def test_a_refused_copy_does_not_stop_other_copies(make: Make) -> None:
    flow = make(2)
    for partition in range(2):
        flow.write(20, partition)
        flow.copy(range(10), partition)
    flow.commit(5, 1)
    judged = judged_copies(flow.source, flow.target, flow.copies, flow.offsets())
    assert [(one.copy, one.source_start) for one in judged.handed] == [(flow.copies[1], 10)]
    assert list(judged.refused) == [flow.copies[0].key]


def test_a_copy_that_mirror_maker_never_began_is_left_out(make: Make) -> None:
    flow = make()
    flow.write(20)
    assert flow.take() == []


def test_an_offset_with_an_empty_remote_topic_is_refused(make: Make) -> None:
    flow = make()
    flow.write(20)
    flow.commit(9)
    with pytest.raises(HandoverError, match="the remote topic is empty: it was deleted and created again"):
        flow.take()


def test_an_offset_above_the_end_of_the_source_is_refused(make: Make) -> None:
    flow = make()
    flow.write(20)
    flow.copy(range(20))
    flow.commit(20)
    with pytest.raises(HandoverError, match="up to offset 20 of the source, but the source ends at 20"):
        flow.take()


def test_a_remote_topic_with_another_writer_is_refused(make: Make) -> None:
    flow = make()
    flow.write(20)
    other = flow.copy(range(15))
    other.produce(flow.remote, b"of another producer", partition=0)
    assert other.flush(30) == 0
    flow.commit(9)
    with pytest.raises(HandoverError, match="another producer writes to the remote topic"):
        flow.take()


def test_records_that_were_written_after_the_comparison_refuse_the_handover(make: Make) -> None:
    flow = make()
    flow.write(20)
    flow.copy(range(15))
    flow.commit(9)
    place = flow.place()
    flow.copy([15])
    with pytest.raises(HandoverError, match="has written to it since the comparison, from offset 15 on"):
        begin_copies(flow.source, flow.target, flow.state, [place])
    assert flow.take()[0].source_start == 16


def test_an_open_transaction_is_refused_and_an_aborted_one_counts_as_not_copied(make: Make) -> None:
    """A killed exactly-once MirrorMaker 2 leaves such transactions."""
    flow = make()
    flow.write(20)
    flow.copy(range(10), transactional_id=flow.alias).commit_transaction(30)
    flow.commit(9)
    producer = flow.copy(range(10, 15), transactional_id=flow.alias)
    with pytest.raises(HandoverError, match="a transaction is open in the remote topic"):
        flow.take()
    producer.abort_transaction(30)
    assert [(one.source_start, one.exact) for one in flow.take()] == [(10, True)]
    assert copied(flow) == source(flow)


@pytest.mark.parametrize("committed_only", [True, False])
def test_aborted_source_records_are_no_gap_whether_or_not_mirror_maker_copied_them(
    committed_only: bool, make: Make
) -> None:
    flow = make()
    flow.write(10)
    aborted = Producer({"bootstrap.servers": bootstrap(flow.stack, "east"), "transactional.id": flow.alias})
    aborted.init_transactions(30)
    aborted.begin_transaction()
    stamps = list[int]()
    for number in range(5):
        delivered = partial(lambda _, message: stamps.append(message.timestamp()[1]))
        aborted.produce(flow.topic, b"aborted %d" % number, partition=0, on_delivery=delivered)
    assert aborted.flush(30) == 0
    aborted.abort_transaction(30)
    flow.write(10)
    # Given a remote topic with five records above the aborted ones
    flow.copy(range(10))
    if not committed_only:
        remote = Producer({"bootstrap.servers": bootstrap(flow.stack, TARGET)})
        for number, stamp in enumerate(stamps):
            remote.produce(flow.remote, b"aborted %d" % number, partition=0, timestamp=stamp)
        assert remote.flush(30) == 0
    flow.copy(range(10, 15))
    flow.commit(7)
    # Then copying goes on above the last of these five, wherever the transaction's marker lies
    last, _ = flow.in_source(0)[14]
    assert [(one.source_start, one.exact) for one in flow.take()] == [(last + 1, True)]


def test_log_append_times_of_the_remote_topic_are_not_compared(make: Make) -> None:
    flow = make(**{"message.timestamp.type": "LogAppendTime"})
    flow.write(30)
    flow.copy(range(20))
    flow.commit(9)
    assert [(one.source_start, one.exact) for one in flow.take()] == [(20, True)]


def test_records_that_the_source_has_deleted_are_reported_and_passed(make: Make) -> None:
    flow = make()
    flow.write(30)
    flow.copy(range(10))
    flow.commit(9)
    admin = AdminClient({"bootstrap.servers": bootstrap(flow.stack, "east")})
    for done in admin.delete_records([TopicPartition(flow.topic, 0, 20)]).values():
        done.result(30)
    (place,) = flow.take()
    assert place.source_start == 10
    assert "the source has deleted offsets 10 to 19, which no copy has" in place.reason
    # Then a flow's copy loop passes and counts these offsets
    wanted = [record for _, record in flow.in_source(0)]
    with flow.copying(passes_overtaken=True) as job:
        flow.await_last()
        (status,) = job.statuses().values()
    assert status.overtaken == 10
    assert [record for _, record in flow.in_target(0)][10:] == wanted


def test_a_place_outside_the_bounds_is_not_guessed(make: Make) -> None:
    flow = make()
    flow.write(200)
    flow.copy(range(150))
    flow.commit(0)
    found = flow.place(bounds=ReadBounds(records=10))
    assert (found.source_start, found.exact) == (1, False)
    assert found.reason
    assert flow.place(bounds=ReadBounds(size=500)).source_start <= 150
    assert flow.place()[1:] == (150, 150, True, "")


def test_a_copy_that_mirror_maker_continued_after_ours_is_handed_over_anew(make: Make) -> None:
    flow = make()
    flow.write(20)
    flow.copy(range(10))
    flow.commit(5)
    flow.take()
    copied(flow)
    flow.give_back(ended_copies(flow.target, flow.copies))
    # When MirrorMaker 2 goes on there, and is killed before it commits
    flow.write(20)
    flow.copy(range(20, 30))
    assert flow.offsets() == {(flow.topic, 0): 19}
    assert [(one.source_start, one.exact) for one in flow.take()] == [(30, True)]
    # Then our copier goes on, even if another one takes it over in between
    assert len(copied(flow)) == 40
    flow.write(5)
    assert copied(flow) == source(flow)


def test_offsets_are_written_to_the_partition_that_javas_producer_chooses(make: Make) -> None:
    flow = make()
    state = replace(flow.state, offsets_topic=f"offsets-{flow.alias}")
    ensure_offsets_topic(flow.target, state)
    ensure_offsets_topic(flow.target, state)
    wanted = {(f"t{number}", number): number + 1 for number in range(50)}
    written = write_source_offsets(offsets_producer(flow.settings), state, {**wanted, ("none", 0): 0})
    assert written == {key: next_offset - 1 for key, next_offset in wanted.items()}
    assert read_source_offsets(flow.settings, state) == written
    places = partitions_of_keys(flow.settings, state.offsets_topic)
    assert places == {key: {(murmur2(key) & 0x7FFF_FFFF) % 25} for key in places}
    assert len(places) == 50


def test_a_deleted_offset_is_unknown(make: Make) -> None:
    flow = make()
    flow.commit(9)
    producer = offsets_producer(flow.settings)
    producer.produce(flow.state.offsets_topic, None, SourceOffset(flow.alias, flow.topic, 0, 9).key)
    assert producer.flush(30) == 0
    assert flow.offsets() == {}


def test_a_missing_offsets_topic_has_no_offsets(make: Make) -> None:
    assert read_source_offsets(make().settings, make().state) == {}


def test_an_offsets_topic_with_which_connect_would_not_start_is_refused(make: Make) -> None:
    flow = make()
    flow.target.create_topics([TopicSpec(flow.state.offsets_topic, 5, 1, {"cleanup.policy": "delete"})])
    with pytest.raises(StandsInTheWayError, match=r"cleanup\.policy=delete"):
        ensure_offsets_topic(flow.target, flow.state)


def test_commands_hand_a_flow_over_to_a_worker_and_back(make: Make) -> None:
    flow = make(2)
    for partition in range(2):
        flow.write(40, partition)
        flow.copy(range(20), partition)
    flow.commit(9, 0)
    words = str(flow.flows_file()), f"{flow.alias}->{TARGET}"
    # Given one partition whose offset is unknown, and a place by hand for it
    code, shown = run("flows", "take", *words)
    assert (code, list(shown["refused"])) == (ATTENTION, [f"{flow.remote}-1"])
    assert [(row["topic"], row["goes on at"], row["doubles records"]) for row in shown["handed"]] == [
        (flow.topic, "20", "no")
    ]
    code, shown = run("flows", "take", *words, "--at", f"{flow.topic}-1=20", "--begin")
    assert (code, len(shown["handed"]), shown["begun"]) == (0, 2, True)
    # When a worker copies the rest, and is killed
    with flows(Path(words[0])) as worker:
        wait_until(lambda: all(len(flow.in_target(number)) == 40 for number in range(2)), worker.text())
        worker.kill()
    # Then each remote topic equals its source, and MirrorMaker 2 goes on above it
    for number in range(2):
        assert [record for _, record in flow.in_target(number)] == [record for _, record in flow.in_source(number)]
    assert run("flows", "give-back", *words) == (0, {f"{flow.topic}-{number}": 39 for number in range(2)})
    assert flow.offsets() == {(flow.topic, number): 39 for number in range(2)}


@pytest.mark.parametrize("place", ["orders=5", "orders-0", "orders-x=5", "-0=5", "orders-0=-5"])
def test_a_malformed_place_is_refused(place: str, make: Make) -> None:
    flow = make()
    code, shown = run("flows", "take", str(flow.flows_file()), f"{flow.alias}->{TARGET}", "--at", place)
    assert code == BAD_INPUT
    assert "TOPIC-PARTITION=OFFSET" in str(shown)
