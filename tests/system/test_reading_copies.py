"""A reader in the zone of the standby reads there, even if the copy's job or the source fails."""

import time

import pytest

from ha_core.model import UserBindings
from ha_core.operations.access import bindings
from ha_core.operations.clusters import registered
from ha_core.operations.engine.environment import Environment
from stack.harness import Stack
from tests.kafka.mirroring import wait_until
from tests.kit.moving import linked
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import operator, own_stack
from tests.spark_jobs.mirror.live import Writer, goes_on
from tests.system.reading_near import Reader

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/session/fetch", "gateway/follow/copies.py")]
TOPIC, PARTITIONS = "orders", 2


stack = own_stack(gateways=1, mirror=True)
environment = operator()


@pytest.mark.timeout(600)
def test_a_reader_near_the_standby_reads_there_and_from_the_source_while_no_job_copies(
    stack: Stack, environment: Environment
) -> None:
    # Given a mirrored topic, and a reader behind a gateway in the zone of its copy
    create_topic(bootstrap(stack, "east"), TOPIC, PARTITIONS)
    registered.add_cluster(environment, "west", bootstrap(stack, "west"), zone="zone-1")
    linked(environment, TOPIC)
    declared = bindings.with_read(environment.store.load(), "user:anonymous", "nearest")
    assert bindings.apply_bindings(environment, bindings.plan_bindings(environment, declared)).result == "succeeded"
    assert environment.store.load().bindings["anonymous"] == UserBindings(user="anonymous", read="nearest")
    reader = Reader(stack.gateways[0], TOPIC, PARTITIONS)
    try:
        with Writer(stack, TOPIC, PARTITIONS) as writer:
            goes_on(stack, environment.store, TOPIC, PARTITIONS)
            # When it reads while the source is written
            reader.goes_over_to_the_copy(environment.store, "west")
            reader.read(reader.count + 500)
            # And the copying job is killed
            stack.kill("mirror")
            wait_until(lambda: not environment.store.mirror_reports(), environment.store.mirror_reports)
            time.sleep(2)
            before = reader.from_copy("west")
            # Then it goes on at the source
            reader.read(writer.written + 200)
            assert reader.from_copy("west") == before
            # And at the copy when it is copied again
            stack.restart("mirror")
            reader.goes_over_to_the_copy(environment.store, "west")
        reader.read(writer.written)
        reader.assert_all_once()
        # When the source is stopped
        goes_on(stack, environment.store, TOPIC, PARTITIONS)
        time.sleep(2)
        stack.pause("cluster/east/1")
        # Then all copied records are read once more, none of them from the source
        try:
            before, begun = reader.from_copy("west"), time.monotonic()
            reader.begin()
            reader.read(writer.written)
            print(f"{writer.written} records from the copy alone in {time.monotonic() - begun:.1f} s")
            reader.assert_all_once()
            assert reader.from_copy("west") > before
        finally:
            stack.resume("cluster/east/1")
    finally:
        reader.close()
