"""The active cluster is killed, or hangs, under load, and its topic goes on at its copy: copied records are read, the
lost tail is counted when the cluster is back."""

import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ha_core.model import PartitionReport, Topic
from ha_core.store.store import Store
from ha_core.wire import ErrorCode
from stack.clients.process import ClientProcess
from stack.harness import Stack
from tests.kit import progress
from tests.kit.progress import given
from tests.kit.running import Run, switchyard
from tests.kit.stacks import own_stack, revive
from tests.kit.waiting import until
from tests.system.by_hand import ByHand
from tests.system.conftest import MIRRORED_PARTITIONS, MakeRun, mirrored_run
from tests.system.mirrored_rounds import Rounds
from tests.system.nemesis.schedule import Does
from tests.system.transactions_by_hand import Transactional, again, committed
from tests.system.watching import led_from

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(600),
    pytest.mark.long(
        "ha_core/plan/mirror/standby.py", "ha_core/operations/move", "ha_core/operations/absence/reconciling.py"
    ),
]
COMMAND_S = 25.0
"""Seconds; a hanging cluster takes some of them, since each check waits for its timeout."""


stack = own_stack(mirror=True, record_facts_s=1)


@pytest.fixture
def run(stack: Stack, make_run: MakeRun, name: str) -> Iterator[Run]:
    """A user bound to east, with a topic there, mirrored to west; east is restarted afterwards."""
    made = mirrored_run(stack, make_run, name)
    until(lambda: led_from(stack, name) == {"east"}, "clients are sent to east")
    yield made
    revive(stack, "mirror", "cluster/east")


def reports(store: Store, name: str) -> list[PartitionReport]:
    partition_reports = [partition for report in store.mirror_reports().values() for partition in report.partitions]
    return [report for report in partition_reports if report.topic == name]


def read_all(run: Run, stack: Stack, name: str, wanted: set[str]) -> ClientProcess:
    """A reader from the beginning that has got all of `wanted`."""
    reader = run.start("confluent-consumer", f"all-{time.time_ns()}", name, seek="beginning")
    progress.read_all(wanted, reader)
    return reader


@pytest.mark.parametrize("does", [Does.KILL, Does.PAUSE])
def test_clients_go_on_at_the_copy_within_seconds_and_missing_records_are_reported(
    run: Run, store: Store, name: str, does: Does
) -> None:
    # Given clients at work on a mirrored topic
    rounds = Rounds(run.stack, store, run, name)
    rounds.begin()
    # When its mirror stands still, its cluster is killed, or accepts requests without answering, and the topic is
    # forced to its copy: then clients go on there, the tail is reported, record by record, and east is the standby
    rounds.forced(does, lags=True)
    assert rounds.command_s[0] < COMMAND_S
    # And all other acknowledged records are read
    rounds.judged()


def stored(store: Store, name: str) -> Topic:
    found = store.read(Topic, name)
    assert found is not None
    return found[0]


def test_a_mirrored_batch_is_a_duplicate_and_one_not_mirrored_is_written(run: Run, store: Store, name: str) -> None:
    # Given a mirrored batch, and one that was not mirrored, both without an answer for their producer
    producer = ByHand(run.stack, name, name)
    mirrored, beyond = producer.batch(0, "w-mirrored"), producer.batch(1, "w-beyond")
    error, first = producer.send(mirrored)
    assert error == 0
    until(
        lambda: any(report.partition == 0 and report.has(first + 1) for report in reports(store, name)),
        "it is mirrored",
        120,
    )
    run.stack.pause("mirror")
    assert producer.send(beyond) == (0, first + 1)
    # When their cluster is killed, the topic goes on at its copy, and both are sent again
    run.stack.kill("cluster/east")
    assert run.switch("east", "west", mode="forced", unread="wait")["result"] == "succeeded"
    cut = stored(store, name).partitions[0][-1].start
    again = producer.send(mirrored)
    went_on = producer.send(beyond)
    producer.close()
    # Then the first is a duplicate, and the second is written at the copy
    assert again in {(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -(1 << 31)), (0, first)}
    assert went_on == (0, cut)
    reader = read_all(run, run.stack, name, {"w-mirrored", "w-beyond"})
    assert [record.value for record in given(reader)] == ["w-mirrored", "w-beyond"]
    assert [record.offset for record in given(reader)] == [first, cut]


def east_end(run: Run, name: str) -> int:
    """Log end of partition 0; -1 while a resumed broker has not regained its leadership."""
    try:
        (dump,) = [log_dump for log_dump in run.dumps(name) if log_dump.cluster == "east" and log_dump.partition == 0]
    except KafkaException:
        return -1
    return dump.end


def test_a_commit_after_a_forced_cut_is_answered_by_the_records_that_readers_get(
    run: Run, stack: Stack, store: Store, name: str
) -> None:
    # Given a committed and mirrored transaction without an answer for its client, and an open one
    done, open_one = Transactional(stack, name, "-done"), Transactional(stack, name, "-open")
    for producer, value in ((done, "done"), (open_one, "open")):
        assert again(lambda producer=producer: producer.take_in(0)) == ErrorCode.NONE  # type: ignore[misc]
        assert producer.write(0, value) == ErrorCode.NONE
        if producer is done:
            assert again(lambda: done.end(commits=True)) == ErrorCode.NONE
            until(
                lambda: any(report.partition == 0 and (report.source or 0) > 0 for report in reports(store, name)),
                "mirrored",
                120,
            )
    before = east_end(run, name)
    # When their cluster hangs, and the topic goes on at its copy
    stack.pause("cluster/east")
    assert run.switch("east", "west", mode="forced", unread="wait")["result"] == "succeeded"
    # Then while it is away both clients get their outcomes
    assert done.ends_anew(commits=True) == ErrorCode.NONE
    assert open_one.ends_anew(commits=True) == ErrorCode.UNKNOWN_PRODUCER_ID
    # And when it is back, records that would not be read are not committed there
    stack.resume("cluster/east")
    assert open_one.ends_anew(commits=True) == ErrorCode.UNKNOWN_PRODUCER_ID
    until(
        lambda: open_one.ends_anew(commits=True) == ErrorCode.UNKNOWN_PRODUCER_ID and east_end(run, name) > before,
        "it is aborted there",
    )
    for producer in (done, open_one):
        producer.leave()
        producer.begin_anew()
        assert again(lambda producer=producer: producer.take_in(0)) == ErrorCode.NONE  # type: ignore[misc]
        assert producer.write(0, "next") == ErrorCode.NONE
        assert again(lambda producer=producer: producer.end(commits=True)) == ErrorCode.NONE  # type: ignore[misc]
        producer.close()
    # And readers are given each record once
    assert committed(stack, name, MIRRORED_PARTITIONS) == ["done", "next", "next"]


@pytest.fixture
def both_live_afterwards(stack: Stack) -> Iterator[None]:
    yield
    revive(stack, "cluster/west")


class Administrator:
    """Deletes records of partition 0 through the gateways."""

    def __init__(self, stack: Stack, user: str, topic: str) -> None:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": stack.bootstrap,
            "client.id": f"HA#{user}#{topic}",
        }
        self._admin, self._where = AdminClient(settings), TopicPartition(topic, 0)
        self._producer = Producer({**settings, "enable.idempotence": True})

    def write(self, values: Iterable[str]) -> None:
        failed = list[object]()
        for value in values:
            self._producer.produce(
                self._where.topic, value.encode(), partition=0, on_delivery=lambda error, _: failed.append(error)
            )
        assert self._producer.flush(60) == 0
        assert not any(failed)

    def delete_below(self, offset: int) -> int:
        """Returns the low watermark of the answer."""
        where = TopicPartition(self._where.topic, 0, offset)
        return _patiently(lambda: int(self._admin.delete_records([where])[where].result(30).low_watermark))

    def earliest(self) -> int:
        asked = {self._where: OffsetSpec.earliest()}
        return _patiently(lambda: int(self._admin.list_offsets(asked)[self._where].result(30).offset))


def _patiently(ask: Callable[[], int]) -> int:
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_records_deleted_right_before_the_cluster_died_do_not_come_back(
    run: Run, stack: Stack, store: Store, name: str, both_live_afterwards: None
) -> None:
    # Given a mirrored topic, and an administrator who deletes some of its records
    by_hand = Administrator(stack, name, name)
    first = [f"w-{number}" for number in range(100)]
    by_hand.write(first)
    until(
        lambda: any(report.partition == 0 and report.has(100) for report in reports(store, name)), "it is mirrored", 120
    )
    assert by_hand.delete_below(40) == 40
    # When its cluster is killed before its log start was recorded, and the topic is switched to its complete copy
    stack.kill("cluster/east")
    assert run.switch("east", "west", mode="forced", unread="wait")["result"] == "succeeded"
    # Then readers do not get the deleted records
    assert by_hand.earliest() == 40
    assert values_of(run, stack, name, first[40:]) == first[40:]
    # When the first cluster is back without its log start, and more is deleted in the copy, whose cluster dies too
    stack.restart("cluster/east")
    by_hand.write(["there"])
    assert by_hand.delete_below(70) == 70
    stack.kill("cluster/west")
    assert run.switch("west", "east", mode="forced", unread="wait")["result"] == "succeeded"
    # Then the topic goes on in the first cluster without any deleted record
    assert by_hand.earliest() == 70
    by_hand.write(["back"])
    stack.restart("cluster/west")
    assert {one["outcome"] for one in switchyard(stack, "origins", "check", name)["returned"]} == {"whole"}
    assert values_of(run, stack, name, [*first[70:], "there", "back"]) == [*first[70:], "there", "back"]


def values_of(run: Run, stack: Stack, name: str, wanted: list[str]) -> list[str]:
    return [record.value for record in given(read_all(run, stack, name, set(wanted)))]
