"""The origin's partitions change their leaders while a topic is crossing: its cuts stay, and nothing is undone."""

import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from stack.harness import Stack
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, bootstrap
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import bound_run
from tests.system.migrating import PARTITIONS, Migration
from tests.system.watching import assert_no_client_has_failed, leaders

pytestmark = [pytest.mark.stack, pytest.mark.soak]
BROKERS = (1, 2, 3)
RATE = 100
PREPARATION_S = 10.0
PRODUCERS: dict[str, dict[str, Any]] = {
    "w0": {"idempotence": "on", "linger_ms": 1, "settings": ("batch.num.messages=4",)},
    "w1": {"idempotence": "on"},
    "hasty": {"idempotence": "off", "acks": "1"},
}
"""`hasty` would lose records that a new leader lacks; while a cut is ahead gateways require all replicas."""


stack = own_stack({"east": "3.9.2x3", "west": "4.3.1x3"})
"""Clusters of three brokers: three replicas, two of which must be in sync."""


run = bound_run(PARTITIONS, {"min.insync.replicas": "2"})


class Elections:
    """Makes one broker after the other the leader of all partitions of a topic."""

    def __init__(self, stack: Stack, cluster: str, topic: str) -> None:
        self._stack, self._cluster, self._topic = stack, cluster, topic
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap(stack, cluster))
        self._next = itertools.cycle(BROKERS)
        self._known = leaders(stack, cluster, topic)
        self.changes = 0
        """Partitions seen with a new leader."""

    def hold(self) -> None:
        """A preferred election in every partition, for another broker than the last one."""
        first = next(self._next)
        order = [first, *(broker for broker in BROKERS if broker != first)]
        spots = [TopicPartition(self._topic, partition) for partition in range(PARTITIONS)]
        refused = self._admin.alter_partition_reassignments(dict.fromkeys(spots, order))
        assert {error for error in refused.values() if error} == set()
        self._admin.elect_leaders(0, {self._topic: list(range(PARTITIONS))}, raise_errors=False)
        before, self._known = self._known, leaders(self._stack, self._cluster, self._topic)
        self.changes += len(before.items() - self._known.items())

    def hold_until_changed(self) -> None:
        """Repeat until every partition has had another leader."""
        wanted = self.changes + PARTITIONS
        while self.changes < wanted:
            self.hold()

    def close(self) -> None:
        self._admin.close()


def test_repeated_leader_changes_during_a_crossing_move_no_cut_and_lose_nothing(
    run: Run, stack: Stack, name: str, tmp_path: Path
) -> None:
    # Given producers at work, one of which uses acks=1, and an open crossing
    consumer = run.start("confluent-consumer", "r", name, group=name)
    producers = [run.start("confluent-producer", client, name, rate=RATE, **how) for client, how in PRODUCERS.items()]
    await_records(100, *producers)
    elections = Elections(stack, "east", name)
    rate = RATE * len(PRODUCERS) / PARTITIONS
    migration = Migration(stack, name, ("east", "west"), rate, PREPARATION_S, tmp_path)
    try:
        until(lambda: migration.stage == "open", "the crossing is open")
        cuts = migration.cuts
        with run.fault("leaders change"):
            # When leaders are elected, one is killed and restarted, and elections go on until the topic has crossed
            for _ in range(3):
                elections.hold_until_changed()
                time.sleep(0.3)
            dead = f"cluster/east/{leaders(stack, 'east', name)[0]}"
            assert migration.stage == "open"
            stack.kill(dead)
            time.sleep(1.0)
            stack.restart(dead)
            while migration.process.poll() is None:
                elections.hold()
                time.sleep(0.3)
            migration.wait()
        assert migration.state == "succeeded", migration.words
        assert migration.cuts == cuts
        print(f"{elections.changes} changes of leaders")
    finally:
        elections.close()
        migration.end()
    await_more(50, *producers)
    run.finish(producers, [consumer])
    # Then the cuts are at their proposed offsets, and every record is there once
    assert {cut.partition: cut.cut for cut in run.cuts([name])} == cuts
    run.assert_sound(name, complete=[name])
    assert_no_client_has_failed(run.clients)
