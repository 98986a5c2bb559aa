"""Live consumers that fetch less than a batch at a time, behind two cuts."""

from __future__ import annotations

import pytest

from stack.clients.kinds import CONSUMERS
from stack.harness import Stack
from tests.kit.running import Run, bind, bootstrap, create_topic
from tests.system.conftest import MakeRun

pytestmark = pytest.mark.stack
CLUSTERS = ("east", "west")
PER_STAY = 60


@pytest.fixture
def run(stack: Stack, make_run: MakeRun, name: str) -> Run:
    """A user bound to east, with a topic there; both have the test's name."""
    create_topic(bootstrap(stack, "east"), name, partitions=2)
    bind(stack, name, "east")
    return make_run(stack, user=name)


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_live_consumer_that_lags_crosses_two_cuts_in_order(run: Run, name: str, kind: str) -> None:
    slow = {
        "confluent-consumer": ("fetch.message.max.bytes=2000", "queued.min.messages=1", "queued.max.messages.kbytes=2"),
        "kafka-python-consumer": ("max_partition_fetch_bytes=2000", "max_poll_records=5"),
        "aiokafka-consumer": ("max_partition_fetch_bytes=2000",),
        "java-consumer": ("max.partition.fetch.bytes=2000", "max.poll.records=5"),
    }[kind]
    reader = run.start(kind, "reader", name, group=name, settings=slow)
    run.start("confluent-producer", "before", name, count=2000, rate=0, size_bytes=500, keys=16).wait()
    reader.wait_for(1, "delivered")
    for number, (origin, target) in enumerate((CLUSTERS, CLUSTERS[::-1])):
        run.switch(origin, target)
        run.start("confluent-producer", f"after{number}", name, count=PER_STAY, rate=0, keys=16).wait()

    reader.wait_for(2000 + 2 * PER_STAY, "delivered")
    reader.stop()

    result = run.verdict(name, complete=[name])
    assert result.sound, str(result)
