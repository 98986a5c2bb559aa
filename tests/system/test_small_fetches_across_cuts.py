"""Consumers with small fetches at a cut: less than a batch at a time, or below records deleted above the cut."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from stack.clients.kinds import CONSUMERS
from stack.harness import Stack
from stack.history.events import Delivered
from tests.kit.progress import await_records
from tests.kit.running import Run, bind, bootstrap, create_topic
from tests.system.conftest import MakeRun, bound_run

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/session/fetch")]
CLUSTERS = ("east", "west")
PER_STAY = 60


run = bound_run(partitions=2)


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_live_consumer_that_lags_crosses_two_cuts_in_order(run: Run, name: str, kind: str) -> None:
    # Given a consumer with small fetches, below two cuts
    slow = {
        "confluent-consumer": (
            "fetch.message.max.bytes=2000",
            "queued.min.messages=1",
            "queued.max.messages.kbytes=2",
            # By default it fetches one batch per second and partition from any broker: 40 small batches take 40 s.
            "fetch.queue.backoff.ms=10",
        ),
        "kafka-python-consumer": ("max_partition_fetch_bytes=2000", "max_poll_records=5"),
        "aiokafka-consumer": ("max_partition_fetch_bytes=2000",),
        "kafkajs-consumer": ("maxBytesPerPartition=2000",),
        "java-consumer": ("max.partition.fetch.bytes=2000", "max.poll.records=5"),
    }[kind]
    reader = run.start(kind, "reader", name, group=name, settings=slow)
    run.start("confluent-producer", "before", name, count=2000, rate=0, size_bytes=500, keys=16).wait()
    reader.wait_for(1, "delivered")
    for number, (origin, target) in enumerate((CLUSTERS, CLUSTERS[::-1])):
        run.switch(origin, target)
        run.start("confluent-producer", f"after{number}", name, count=PER_STAY, rate=0, keys=16).wait()
    # When it has read everything
    reader.wait_for(2000 + 2 * PER_STAY, "delivered")
    reader.stop()
    # Then it got all in order
    run.assert_sound(name, complete=[name])


def test_a_reader_continues_past_records_that_retention_deleted_after_a_cut(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given a topic whose first records above its cut are deleted, while the old log has all of its own, like after
    # retention by size
    create_topic(bootstrap(stack, "east"), name, partitions=1)
    bind(stack, name, "east")
    run = make_run(stack, user=name)
    for writer, count in (("before", 50), ("gone", 30), ("kept", 20)):
        if writer == "gone":
            run.switch(*CLUSTERS)
        run.start("confluent-producer", writer, name, count=count, rate=0).wait()
    forget(bootstrap(stack, "west"), TopicPartition(name, 0, 30))
    # When readers of every kind begin at the beginning
    readers = [run.start(kind, kind, name, group=kind) for kind in CONSUMERS]
    await_records(70, *readers)
    run.start("confluent-producer", "last", name, count=1).wait()
    for reader in readers:
        reader.wait_for(71, "delivered")
        reader.stop()

    for reader in readers:
        # Then each gets the remaining records, at their offsets
        found = [event for event in reader.history().clients[reader.name] if isinstance(event, Delivered)]
        assert [event.offset for event in found] == [*range(50), *range(80, 101)], str(reader)


def forget(address: str, until: TopicPartition) -> None:
    """Delete records in a cluster, without gateways."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
    for done in admin.delete_records([until]).values():
        done.result(30)
