"""An old extent is dropped and its topic deleted under load: clients notice nothing, and offsets stay."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from stack.harness import Stack
from tests.kit.consumed import place_of
from tests.kit.progress import acked, await_more, given, read_all
from tests.kit.running import Run, bootstrap, switchyard
from tests.kit.waiting import until
from tests.system.conftest import bound_run
from tests.system.watching import assert_ascending

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/operations/absence", "ha_core/plan/migration/aging.py")]
PARTITIONS = 3


run = bound_run(PARTITIONS, {"retention.ms": "86400000"}, led=True)


def expire(stack: Stack, name: str, ends: dict[int, int]) -> None:
    """Delete the records at once, as retention would later."""
    admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east"), "log_level": 3})
    wanted = [TopicPartition(name, partition, end) for partition, end in ends.items()]
    for future in admin.delete_records(wanted).values():
        future.result(30)


def clusters_with(stack: Stack, name: str) -> set[str]:
    return {
        cluster
        for cluster in ("east", "west")
        if name in AdminClient({"bootstrap.servers": bootstrap(stack, cluster)}).list_topics(timeout=10).topics
    }


def test_the_origin_topic_is_deleted_under_load_once_its_readers_are_past_the_cut(run: Run, name: str) -> None:
    # Given a topic that has moved under load, and a group that is past its cuts
    producer = run.start("confluent-producer", "w", name, rate=100, idempotence="on")
    member = run.start("confluent-consumer", "r", name, group=name, commit="batch")
    producer.wait_for(150, "acknowledged")
    member.wait_for(100, "delivered")
    run.switch("east", "west")
    cut = {cut.partition: cut.cut for cut in run.cuts([name])}
    until(
        lambda: (
            {p for record in given(member) for p in cut if record.partition == p and record.offset > cut[p]} == set(cut)
        ),
        "the member is past the cut in every partition",
    )
    # When it is aged while its old log still holds records
    held = switchyard(run.stack, "age", name, "--delete-origin")
    # Then it is kept
    assert {block["reason"] for extent in held["extents"] for block in extent["blocks"]} >= {"held"}
    assert clusters_with(run.stack, name) == {"east", "west"}
    # When retention has deleted them, and it is aged
    expire(run.stack, name, cut)
    until(
        lambda: all(extent["aged"] for extent in switchyard(run.stack, "age", name, "--dry-run")["extents"]),
        "all is aged",
    )
    aged = switchyard(run.stack, "age", name, "--delete-origin")
    await_more(100, producer, member)
    # Then its old topic is deleted, and clients have noticed nothing
    assert aged["deleted"] == {"east": [name]}
    assert clusters_with(run.stack, name) == {"west"}
    producer.stop()
    promised = {ack.value for ack in acked(producer)}
    read_all(promised, member)
    assert_ascending(member)
    assert len({record.value for record in given(member)}) == len(given(member))
    assert_readers_below_the_cut_resume_at_it(run, name, cut)


def assert_readers_below_the_cut_resume_at_it(run: Run, name: str, cut: dict[int, int]) -> None:
    """For clients the log begins at the cut: `earliest` is there, and a reader from below resumes there."""
    settings = {
        "bootstrap.servers": run.bootstrap,
        "client.id": f"HA#{name}#{name}",
        "group.id": f"{name}-late",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "log_level": 3,
    }
    consumer = Consumer(settings)
    try:
        for partition, start in cut.items():
            low, _ = consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=20)
            assert low == start
        consumer.assign([TopicPartition(name, partition, 1) for partition in cut])
        first: dict[int, int] = {}

        def all_read() -> bool:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None, message.error()
                _, partition, offset = place_of(message)
                first.setdefault(partition, offset)
            return len(first) == len(cut)

        until(all_read, "a record of every partition")
        assert first == cut
    finally:
        consumer.close()
