"""One topic with mirrors in two clusters: each reader is served from the copy in the zone of its gateway."""

import time
from collections.abc import Iterator

import pytest

from ha_core.operations.access import bindings
from ha_core.operations.clusters import registered
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.engine.environment import Environment
from ha_core.operations.proposal.proposal import plan
from stack.harness import Stack
from tests.kafka.mirroring import wait_until
from tests.kit.moving import a_move, linked, moved
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import operator, own_stack
from tests.spark_jobs.mirror.live import Writer
from tests.system.reading_near import Reader

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/follow/copies.py", "gateway/process/peers.py", "gateway/model/copies.py"),
    pytest.mark.timeout(900),
]
TOPIC, PARTITIONS = "orders", 2
NEAR = {"west": "zone-1", "north": "zone-2"}
"""Cluster with a copy → its zone. Gateways are in zones by their numbers, from 1."""


stack = own_stack(
    {"east": "3.9.2", "west": "4.3.1", "north": "3.9.2"}, gateways=len(NEAR), mirror=True, keep_in_zones=True
)
environment = operator()


@pytest.fixture
def readers(stack: Stack, environment: Environment) -> Iterator[dict[str, Reader]]:
    """Cluster → a reader in its zone, of a topic that is mirrored to all of them, bound to read from the nearest. The
    user is named like the topic."""
    create_topic(bootstrap(stack, "east"), TOPIC, PARTITIONS)
    for cluster, zone in NEAR.items():
        registered.add_cluster(environment, cluster, bootstrap(stack, cluster), zone=zone)
        linked(environment, TOPIC, target=cluster)
    declared = bindings.with_read(environment.store.load(), f"user:{TOPIC}", "nearest")
    assert bindings.apply_bindings(environment, bindings.plan_bindings(environment, declared)).result == "succeeded"
    # With any client id, clients stay in the zone of their bootstrap gateway.
    client_id = f"HA#{TOPIC}#{TOPIC}"
    gateways = zip(NEAR, stack.gateways, strict=True)
    made = {cluster: Reader(gateway, TOPIC, PARTITIONS, client_id) for cluster, gateway in gateways}
    yield made
    for reader in made.values():
        reader.close()


def await_all_copied(environment: Environment, written: int) -> None:
    """Wait until both copies have all written records."""
    ends = {n: len(range(n, written, PARTITIONS)) for n in range(PARTITIONS)}

    def copied() -> bool:
        reports = environment.store.mirror_reports().values()
        partition_reports = {
            (partition.mirror, partition.partition): partition for report in reports for partition in report.partitions
        }
        keys = [(f"{TOPIC}@{cluster}", n) for cluster in NEAR for n in ends]
        return all(key in partition_reports and partition_reports[key].has(ends[key[1]]) for key in keys)

    wait_until(copied, environment.store.mirror_reports)


def compared(environment: Environment) -> tuple[bool, int]:
    """Whether the copy in north equals its source, and the number of records that are equal."""
    comparison = compare_mirrors(environment, [TOPIC], "north", 1.0, 0)
    return comparison.equal, comparison.records


def test_each_reader_is_served_from_the_copy_in_its_zone_and_from_no_other(
    stack: Stack, environment: Environment, readers: dict[str, Reader]
) -> None:
    # When both read while the source is written
    with Writer(stack, TOPIC, PARTITIONS) as writer:
        for cluster, reader in readers.items():
            reader.goes_over_to_the_copy(environment.store, cluster)
            reader.read(reader.count + 300)
    # Then each gets every record once, at its offset in the source
    for reader in readers.values():
        reader.read(writer.written)
        reader.assert_all_once()
    # When the source is stopped, then each reads everything from the near copy, and nothing from the other
    await_all_copied(environment, writer.written)
    time.sleep(4)  # until the gateways know of it
    stack.pause("cluster/east/1")
    try:
        for cluster, reader in readers.items():
            before = reader.from_copy(cluster)
            reader.begin()
            reader.read(writer.written)
            reader.assert_all_once()
            assert reader.from_copy(cluster) > before
            assert [reader.from_copy(other) for other in NEAR if other != cluster] == [0.0]
            # And none of it has crossed a zone boundary
            assert reader.near_from_copy(cluster) == reader.from_copy(cluster)
    finally:
        stack.resume("cluster/east/1")
    # When the topic goes to one of them, and is written there
    wait_until(lambda: not plan(environment, a_move(TOPIC)).refused, lambda: plan(environment, a_move(TOPIC)).verdicts)
    report = moved(environment, a_move(TOPIC))
    assert (report.result, report.error) == ("succeeded", "")
    there = environment.store.load().mirrors
    assert {(mirror.source, mirror.target) for mirror in there.values()} == {("west", "east"), ("west", "north")}
    assert there[f"{TOPIC}@north"].link == report.operation
    with Writer(stack, TOPIC, PARTITIONS, cluster="west", first=writer.written) as later:
        # Then the reader near the other is served from the copy there, which the job goes on with
        readers["north"].goes_over_to_the_copy(environment.store, "north")
        readers["north"].read(writer.written + 300)
    # And each gets every record once, at its offset, also from the beginning
    for reader in readers.values():
        reader.read(later.written)
        reader.assert_all_once()
        reader.begin()
        reader.read(later.written)
        reader.assert_all_once()
    wait_until(lambda: compared(environment) == (True, later.written), lambda: compared(environment))
