"""Copies of a source topic that was created again: they continue above the records of the earlier copier. And a target
that has lost all of its topics."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.flows.connect_state import ConnectState
from ha_core.flows.remote_plan import link_of
from ha_core.flows.translation import SyncStore, Translated
from ha_core.kafka.admin import Admin
from ha_core.kafka.brokers import topic_entries
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror.notes import CopyId
from ha_core.mirror.progress import Progress
from ha_core.mirror.split import Record, pack
from ha_core.mirror_client.copy_notes import COPIES_LOG, read_copy_notes
from ha_core.mirror_maker.continuing import EarlierGenerations, Handover
from ha_core.mirror_maker.copier import COPIES_LOG_PARTITIONS, noted_in_log
from ha_core.mirror_maker.handover import ensure_offsets_topic, offsets_producer, write_source_offsets
from ha_core.mirror_maker.translating import ExactMaps
from ha_core.model import Cluster
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.copied_batch import claim
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.kafka.mirroring import copying, wait_until
from tests.kit.flows import commit, committed, delete_topic, flows, numbered, produce, records, until, write_flows
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
FLOW = "east->west"

stack = own_stack(scope="module", gateways=0)


@pytest.fixture
def admins(stack: Stack) -> Iterator[tuple[Admin, Admin]]:
    with ExitStack() as opened:
        east, west = (
            opened.enter_context(Admin(Cluster(name=name, bootstrap=bootstrap(stack, name)), SecurityProfile()))
            for name in ("east", "west")
        )
        ensure_copy_log(west, COPIES_LOG, COPIES_LOG_PARTITIONS)
        yield east, west


def copy_id(east: Admin, west: Admin, topic: str) -> CopyId:
    remote = f"east.{topic}"
    link = link_of(FLOW, east.list_topics()[topic].topic_id, west.list_topics()[remote].topic_id)
    return CopyId(link, remote, 0)


def written(west: Admin, id_: CopyId, progress: Progress) -> int:
    """Append a record as the writer of this progress; returns the error code."""
    batch = pack([Record.of(0, int(time.time() * 1000), b"k", b"from a request that was held up")], 0)
    claim(batch, 0, *progress.writer, progress.sequence)
    entries = topic_entries([(id_.topic, {"index": 0, "records": bytes(batch)})], "partition_data")
    message = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": entries}
    node = west.leaderships([(id_.topic, 0)])[id_.topic, 0].node
    answer = west.asking().call(node, ApiKey.PRODUCE, message, 9)
    return int(answer["responses"][0]["partition_responses"][0]["error_code"])


def test_a_delayed_request_of_the_first_topics_copier_is_refused(stack: Stack, admins: tuple[Admin, Admin]) -> None:
    """The earlier copier has another transactional id than the new one, whose fence did not stop it: its record got
    into the copy, and the new copier stopped for good."""
    east, west = admins
    address = bootstrap(stack, "east")
    create_topic(address, "orders", 1)
    west.create_topics([TopicSpec("east.orders", 1, 1)])
    produce(address, "orders", (b"first %d" % number for number in range(20)))
    first = noted_in_log(copy_id(east, west, "orders"), "orders")
    with copying(east, west, [first], {}) as job:
        wait_until(lambda: west.ends([first.key])[first.key].log_end >= 21, job.statuses)
        wait_until(lambda: west.notes_of([first])[first.id].progress is not None, job.statuses)
    reached = job.reached(first.id)
    assert reached is not None
    delete_topic(address, "orders")
    create_topic(address, "orders", 1)
    produce(address, "orders", (b"second %d" % number for number in range(10)))
    second = noted_in_log(copy_id(east, west, "orders"), "orders")
    settings = {"bootstrap.servers": bootstrap(stack, "west")}
    earlier = EarlierGenerations(FLOW, west, partial(read_copy_notes, settings))
    assert earlier.begin([second]) == [second]
    assert written(west, second.id, reached.progress) == ErrorCode.INVALID_PRODUCER_EPOCH
    with copying(east, west, [second], {}) as job:
        wait_until(lambda: len(records(settings["bootstrap.servers"], "east.orders")) == 30, job.statuses)
    assert earlier.begin([second]) == [second]  # a repeated run changes nothing
    values = [record.value for record in records(settings["bootstrap.servers"], "east.orders")]
    assert values == [b"first %d" % number for number in range(20)] + [b"second %d" % number for number in range(10)]


def test_deleted_records_of_the_second_topic_are_counted_and_groups_below_go_on_above_them(
    stack: Stack, admins: tuple[Admin, Admin]
) -> None:
    """The copy of the second topic began at its log start. So the flow did not count the records that retention had
    deleted, and looked for groups below them in the offset syncs of the first topic: these groups got no checkpoint."""
    east, west = admins
    address = bootstrap(stack, "east")
    create_topic(address, "shortened", 1)
    west.create_topics([TopicSpec("east.shortened", 1, 1)])
    produce(address, "shortened", (b"first %d" % number for number in range(20)))
    first = noted_in_log(copy_id(east, west, "shortened"), "shortened")
    with copying(east, west, [first], {}) as job:
        wait_until(lambda: west.notes_of([first])[first.id].progress is not None, job.statuses)
        wait_until(lambda: west.ends([first.key])[first.key].log_end >= 21, job.statuses)
    delete_topic(address, "shortened")
    create_topic(address, "shortened", 1)
    produce(address, "shortened", (b"second %d" % number for number in range(10)))
    admin = AdminClient({"bootstrap.servers": address})
    spot = TopicPartition("shortened", 0, 5)
    admin.delete_records([spot])[spot].result(30)
    second = noted_in_log(copy_id(east, west, "shortened"), "shortened")
    settings = {"bootstrap.servers": bootstrap(stack, "west")}
    assert EarlierGenerations(FLOW, west, partial(read_copy_notes, settings)).begin([second]) == [second]

    def no_syncs() -> SyncStore:
        raise AssertionError("no offset sync of the first topic counts")

    with copying(east, west, [second], {}, passes_overtaken=True) as job:
        wait_until(lambda: len(records(bootstrap(stack, "west"), "east.shortened")) == 25, job.statuses)
        wait_until(lambda: second.id in job.known and bool(job.known[second.id].runs), job.statuses)
        wait_until(lambda: bool(west.notes_of([second])[second.id].runs), job.statuses)
        assert job.statuses()[second.id].overtaken == 5
        (run,) = job.known[second.id].runs
        assert (run.source, run.records) == (5, 5)
        found = ExactMaps(west, lambda: job.known, no_syncs).translate({second: [3, 7]})
    assert found[second.id, 3] == Translated(run.target, "first-copied")
    assert found[second.id, 7] == Translated(run.target + 2, "exact")


def test_a_copy_that_mirror_maker_went_on_with_is_handed_over_and_not_begun_below_its_records(
    stack: Stack, admins: tuple[Admin, Admin]
) -> None:
    """MirrorMaker 2 took its turn, and the topic was made again meanwhile: it had copied a part of the new one."""
    east, west = admins
    here, there = bootstrap(stack, "east"), bootstrap(stack, "west")
    create_topic(here, "turns", 1)
    west.create_topics([TopicSpec("east.turns", 1, 1)])
    produce(here, "turns", (b"first %d" % number for number in range(20)))
    first = noted_in_log(copy_id(east, west, "turns"), "turns")
    with copying(east, west, [first], {}) as job:
        wait_until(lambda: west.ends([first.key])[first.key].log_end >= 21, job.statuses)
        wait_until(
            lambda: (found := west.notes_of([first])[first.id].progress) is not None and bool(found.runs), job.statuses
        )
    delete_topic(here, "turns")
    create_topic(here, "turns", 1)
    produce(here, "turns", (b"second %d" % number for number in range(10)))
    producer = Producer({"bootstrap.servers": there, "enable.idempotence": False})
    for record in records(here, "turns")[:6]:
        producer.produce(
            "east.turns", record.value, record.key, 0, timestamp=record.timestamp_ms, headers=list(record.headers)
        )
    assert producer.flush(30) == 0
    second = noted_in_log(copy_id(east, west, "turns"), "turns")
    settings = {"bootstrap.servers": there}
    # Then the copy is none of an earlier generation, and what MirrorMaker 2 has told decides
    assert EarlierGenerations(FLOW, west, partial(read_copy_notes, settings)).begin([second]) == []
    state = ConnectState.dedicated("east")
    ensure_offsets_topic(west, state, replication=1)
    write_source_offsets(offsets_producer(settings), state, {second.source_key: 4})
    assert Handover(FLOW, "east", east, west, settings).begin([second]) == [second]
    with copying(east, west, [second], {}) as job:
        wait_until(lambda: len(records(there, "east.turns")) >= 30, job.statuses)
    values = [record.value for record in records(there, "east.turns")]
    assert values == [b"first %d" % number for number in range(20)] + [b"second %d" % number for number in range(10)]


def test_a_running_flow_makes_all_topics_of_its_target_anew_that_were_deleted(
    stack: Stack, admins: tuple[Admin, Admin], tmp_path: Path
) -> None:
    """The copies stood still until the worker was started again: there was no log for their notes. Then the worker
    refused to start: its producer had made brokers create `heartbeats`, which is not compacted then."""
    _, west = admins
    here, there = bootstrap(stack, "east"), bootstrap(stack, "west")
    create_topic(here, "kept", 2)
    for partition in range(2):
        produce(here, "kept", (b"%d" % number for number in range(100)), partition)
    commit(here, "readers", {("kept", 0): 70})
    properties = {
        "east->west.enabled": "true",
        "east->west.topics": "kept",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }

    def is_level() -> bool:
        return all(records(there, "east.kept", number) == records(here, "kept", number) for number in range(2))

    def resumes() -> bool:
        offset = committed(there, "readers", "east.kept")
        return bool(offset >= 0 and len([at for at, _ in numbered(there, "east.kept", 0, offset)]) == 30)

    with flows(write_flows(tmp_path, {"east": here, "west": there}, properties)) as worker:
        until(lambda: is_level() and resumes(), 60, worker.text)
        admin = AdminClient({"bootstrap.servers": there})
        names = [name for name in west.list_topics() if not name.startswith("__")]
        for deleted in admin.delete_topics(names).values():
            deleted.result(30)
        until(lambda: "starts again: " in worker.text(), 60, worker.text)
        until(is_level, 60, worker.text)
        until(resumes, 60, worker.text)
        until(lambda: "heartbeats" in west.list_topics(), 60, worker.text)
        its = west.topics([COPIES_LOG, "heartbeats", "east.checkpoints.internal"], offsets=False)
        assert {topic.config.get("cleanup.policy") for topic in its.values()} == {"compact"}
        assert len(its) == 3
