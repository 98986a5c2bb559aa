"""Copies with a name of their own, as flows make them."""

from functools import partial

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ha_core.flows.starts import SeenLog, start_offset
from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying, CopyStatus
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.takeover import CopyPartition
from ha_core.model.isolation import Isolation
from ha_core.plan.facts.clusters import Partition
from tests.kafka.clients import Settings, produce
from tests.kafka.mirroring import Linked, all_are, content, copy_of, copying, stopped, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("copy_logs")]


@pytest.fixture
def renamed(linked: Linked, west: Admin) -> list[CopyPartition]:
    """Partitions of `A.…` in west, copies of a topic in east; west has a topic of that name, too."""
    name = linked(2)
    west.create_topics([TopicSpec(f"A.{name}", 2, 3)])
    return [copy_of(f"A.{name}", partition)._replace(source_topic=name) for partition in range(2)]


def level(job: Copying, count: int) -> bool:
    statuses = job.statuses().values()
    return all(status.state == "copying" and status.has(count) for status in statuses)


def test_a_renamed_copy_has_its_sources_records_and_leaves_the_topic_of_that_name_alone(
    east: Admin, west: Admin, here: Settings, there: Settings, renamed: list[CopyPartition]
) -> None:
    name = renamed[0].source_topic
    produce(there, name, 5, partition=0)
    starts = {copy.source_key: 0 for copy in renamed}
    for partition in range(2):
        produce(here, name, 500, partition=partition)
    # When it is copied, and taken over by another copier in between
    with copying(east, west, renamed, starts) as job:
        wait_until(partial(level, job, 500), job.statuses)
        for partition in range(2):
            produce(here, name, 300, partition=partition)
        with copying(east, west, renamed, starts) as newer:
            wait_until(partial(level, newer, 800), newer.statuses)
            wait_until(partial(all_are, job, "stopped"), job.statuses)
    # Then every record is in the copy once
    for partition in range(2):
        assert content(there, f"A.{name}", partition) == content(here, name, partition)
    assert len(content(there, name)) == 5


def delete_records(base: Settings, topic: str, before: int, partition: int = 0) -> None:
    admin, where = AdminClient(base), TopicPartition(topic, partition, before)
    admin.delete_records([where])[where].result(30)


def only(job: Copying) -> CopyStatus:
    (status,) = job.statuses().values()
    return status


def test_a_renamed_copy_can_begin_where_its_source_ends(
    east: Admin, west: Admin, here: Settings, there: Settings, renamed: list[CopyPartition]
) -> None:
    name = renamed[0].source_topic
    produce(here, name, 40, partition=0)
    with copying(east, west, renamed[:1], {(name, 0): 40}) as job:
        wait_until(partial(level, job, 40), job.statuses)
        produce(here, name, 7, partition=0)
        wait_until(partial(level, job, 47), job.statuses)
    assert content(there, f"A.{name}") == content(here, name)[40:]


def first_look(east: Admin, topic: str, partitions: int) -> dict[Partition, SeenLog]:
    """The logs of a flow of committed records as it first sees them."""
    ends = east.ends([(topic, partition) for partition in range(partitions)])
    isolation = Isolation.COMMITTED
    return {key: SeenLog(end.start, isolation.end(end.last_stable, end.high_watermark)) for key, end in ends.items()}


def test_a_flow_with_latest_copies_later_partitions_from_their_start(
    east: Admin, west: Admin, here: Settings, there: Settings, renamed: list[CopyPartition]
) -> None:
    # Given a flow that begins at the ends, and a transaction that is open at its first look
    name = renamed[0].source_topic
    produce(here, name, 30, partition=0)
    transaction = Producer(here | {"transactional.id": name})
    transaction.init_transactions(30)
    transaction.begin_transaction()
    transaction.produce(name, b"before the look", partition=0)
    assert transaction.flush(30) == 0
    look = first_look(east, name, 2)
    copies = [*renamed, copy_of(f"A.{name}", 2)._replace(source_topic=name)]
    # When records are written before its copiers begin, and to a partition that comes later
    produce(here, name, 4, partition=0)
    produce(here, name, 3, partition=1)
    for base, topic in ((here, name), (there, f"A.{name}")):
        admin = AdminClient(base)
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    produce(here, name, 6, partition=2)
    transaction.commit_transaction(30)
    starts = {copy.source_key: start_offset("latest", look.get(copy.source_key)) for copy in copies}
    with copying(east, west, copies, starts) as job:
        ends = {copy.id: east.ends([copy.source_key])[copy.source_key].log_end for copy in copies}
        wait_until(lambda: all(status.has(ends[id_]) for id_, status in job.statuses().items()), job.statuses)
    # Then the copy has all that was committed since the look, and the whole of the later partition
    assert starts == {(name, 0): 30, (name, 1): 0, (name, 2): 0}
    assert [len(content(there, f"A.{name}", partition)) for partition in range(3)] == [5, 3, 6]
    assert content(there, f"A.{name}") == content(here, name)[30:]


@pytest.mark.parametrize("kept", [0, 7], ids=["nothing is left", "some are left"])
def test_retention_that_overtakes_a_renamed_copy_is_counted_and_the_copy_goes_on(
    east: Admin, west: Admin, here: Settings, there: Settings, renamed: list[CopyPartition], kept: int
) -> None:
    # Given a copy that a limit holds back
    copy, name = renamed[0], renamed[0].source_topic
    client = Producer({**here, "linger.ms": 0})
    for number in range(60):
        client.produce(name, bytes([number]) * 20_000, partition=0)
        assert client.flush(30) == 0
    source = content(here, name)
    with copying(east, west, [], passes_overtaken=True) as job:
        job.limit(None, {copy.id.mirror: 20_000})
        job.add([copy], {copy.source_key: 0})
        wait_until(lambda: any(one.has(2) and not one.has(50) for one in job.statuses().values()), job.statuses)
        # When retention takes records that it has not copied
        delete_records(here, name, 60 - kept)
        wait_until(lambda: bool(only(job).overtaken), job.statuses)
        overtaken = only(job).overtaken
        job.limit(None, {})
        produce(here, name, 3)
        wait_until(lambda: only(job).has(63), job.statuses)
        assert only(job).state == "copying"
        assert only(job).source_start == 60 - kept
    # Then the copy has each of the other records once, and the number of those that it lacks
    copied = content(there, f"A.{name}")
    before = len(copied) - kept - 3
    assert 2 <= before < 50
    assert overtaken == 60 - kept - before
    assert copied == source[:before] + content(here, name)
    # And a successor still knows it, and goes on
    with copying(east, west, [copy], {}, passes_overtaken=True) as job:
        produce(here, name, 1)
        wait_until(lambda: only(job).has(64), job.statuses)
        assert only(job).overtaken == overtaken
    assert len(content(there, f"A.{name}")) == len(copied) + 1


def test_records_that_retention_took_from_a_new_partition_before_it_was_found_are_counted(
    east: Admin, west: Admin, here: Settings, there: Settings, renamed: list[CopyPartition]
) -> None:
    # Given a partition that was created after the flow's first look, and has lost its first records
    copy, name = renamed[0], renamed[0].source_topic
    produce(here, name, 20, partition=0)
    delete_records(here, name, 12)
    # When it is copied from its beginning
    with copying(east, west, [copy], {copy.source_key: start_offset("latest", None)}, passes_overtaken=True) as job:
        wait_until(lambda: level(job, 20), job.statuses)
        # Then the copy has what is left
        assert only(job).overtaken == 12
    assert content(there, f"A.{name}") == content(here, name)


def test_a_renamed_mirror_stops_where_retention_has_overtaken_it(
    east: Admin, west: Admin, here: Settings, there: Settings, renamed: list[CopyPartition]
) -> None:
    copy, name = renamed[0], renamed[0].source_topic
    produce(here, name, 20, partition=0)
    delete_records(here, name, 12)
    with copying(east, west, [copy], {copy.source_key: 0}) as job:
        reason = stopped(job, "retention has overtaken the copy").reason
    assert f"{name}-0 of east begins at 12, and offset 0 would be copied next. 12 offsets are lost" in reason
    assert content(there, f"A.{name}") == []


def test_a_renamed_copy_whose_source_is_gone_stops_and_names_the_source(
    east: Admin, west: Admin, renamed: list[CopyPartition]
) -> None:
    missing = renamed[0]._replace(source_topic="never-made")
    with copying(east, west, [missing], {}) as job:
        assert "topic never-made has no partition 0" in stopped(job, "never-made").reason
