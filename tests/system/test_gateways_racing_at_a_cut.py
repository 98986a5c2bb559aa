"""Many gateways whose producers write to few partitions at full speed while the logs pass their cuts.

Through any gateway, the origin's leader decides on which side of the cut each record of a batch is; and another
gateway completes the work of one that dies there.
"""

import itertools
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.process.peers import ranked
from ha_core.model import GatewayRecord, identify
from stack.harness import Stack
from tests.kit.progress import await_more
from tests.kit.running import Run, bootstrap, create_topic
from tests.kit.stacks import revive
from tests.kit.waiting import until
from tests.system.conftest import MakeRun, seeded
from tests.system.migrating import PARTITIONS, Migration
from tests.system.watching import assert_no_client_has_failed, metrics_of

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/session/produce", "gateway/runtime/time_sliced_sweep.py")]
GATEWAYS = 6
KILLED = 2
SOAK_ROUNDS = int(os.environ.get("RACING_ROUNDS", "6"))
PREPARATION_S = 2.0
READING_S = 400.0
"""Half a million records, which the reader records: minutes beside other load."""
AT_FULL_SPEED = {
    "idempotence": "on",
    "rate": 0,
    "linger_ms": 0,
    "settings": ("batch.num.messages=5", "queue.buffering.max.messages=200", "reconnect.backoff.max.ms=500"),
}
"""Small batches, five in flight all the time."""


@pytest.fixture(scope="module")
def many() -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=GATEWAYS) as stack:
        # A gateway that only knows some of the others would send clients elsewhere.
        until(
            lambda: all(gateways_known_to(gateway["bootstrap"]) == GATEWAYS for gateway in stack.gateways),
            "all are known",
        )
        yield stack


def gateways_known_to(gateway: str) -> int:
    """Number of gateways in a gateway's METADATA, besides the brokers of both clusters."""
    from confluent_kafka.admin import AdminClient

    return len(AdminClient({"bootstrap.servers": gateway, "log_level": 3}).list_topics(timeout=20).brokers) - 2


chance = seeded("RACING_SEED")


def client_ids() -> list[str]:
    """One for each gateway, whose clients are sent to its ports."""
    peers = [GatewayRecord(id=f"gw-{number}", node_id=0, host="", port=0) for number in range(1, GATEWAYS + 1)]
    found: dict[str, str] = {}
    for number in itertools.count():
        client_id = f"racer-{number}"
        found.setdefault(ranked(peers, identify(None, client_id), "127.0.0.1")[0].id, client_id)
        if len(found) == GATEWAYS:
            return [found[peer.id] for peer in peers]
    raise AssertionError


def produced_through(stack: Stack, gateway: int) -> float:
    """Number of PRODUCE requests that a gateway got."""
    counter = re.findall(r'requests_total{api="produce"[^}]*} (\S+)', metrics_of(stack, gateway))
    return sum(float(count) for count in counter)


class Race:
    """A producer on each gateway, and their topic."""

    def __init__(self, run: Run, topic: str) -> None:
        self.run, self.stack, self.topic, self.at = run, run.stack, topic, "east"
        create_topic(bootstrap(self.stack, "east"), topic, PARTITIONS)
        self.producers = [
            run.start("confluent-producer", f"w{number}", topic, client_id=client_id, **AT_FULL_SPEED)
            for number, client_id in enumerate(client_ids(), 1)
        ]
        self.goes_on()

    def acknowledged(self) -> int:
        return sum(producer.count("acknowledged") for producer in self.producers)

    def goes_on(self) -> None:
        """All clients are served."""
        await_more(100, *self.producers)

    def rate(self) -> float:
        """Current records per second of a partition."""
        begun, before = time.monotonic(), self.acknowledged()
        time.sleep(1.0)
        return (self.acknowledged() - before) / (time.monotonic() - begun) / PARTITIONS

    def cross(self, chance: random.Random, folder: Path) -> None:
        """Cross to the other cluster; some gateways are killed when the first log reaches its cut, or soon after."""
        route = (self.at, "west" if self.at == "east" else "east")
        migration = Migration(self.stack, self.topic, route, self.rate(), PREPARATION_S, folder)
        killed = chance.sample(range(1, GATEWAYS + 1), KILLED)
        try:
            ahead = self._wait_for_a_cut(migration)
            with self.run.fault(f"gateways {killed}"):
                time.sleep(chance.choice((0.0, chance.uniform(0, 0.5))))
                for number in killed:
                    self.stack.kill(f"gateway/{number}")
                migration.wait()
                state = migration.settle("resume")
                self.goes_on()
            print(f"{route[0]} to {route[1]}: gateways {killed} killed with {ahead} cuts ahead: {state}")
            assert state == "succeeded", migration.words
            self.at = route[1]
        finally:
            migration.end()

    def _wait_for_a_cut(self, migration: Migration) -> int:
        """Wait until a log has reached its open cut; returns how many others have not."""
        from confluent_kafka import Consumer, TopicPartition

        looking = Consumer({"bootstrap.servers": self.stack.bootstrap, "group.id": "looking", "log_level": 0})
        places = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        opened = False
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                stage, cuts = migration.stage, migration.cuts
                opened = opened or stage == "open"
                if opened:
                    ends = [looking.get_watermark_offsets(place, 10)[1] for place in places]
                    below = sum(end < cuts[partition] for partition, end in enumerate(ends))
                    if stage != "open" or below < PARTITIONS:
                        return below
                time.sleep(0.005)
            raise AssertionError(f"no log has reached its cut: {migration.words}")
        finally:
            looking.close()

    def assert_sound(self) -> None:
        """The end: no record lost, duplicated, reordered or renumbered, and no client got an error."""
        for producer in self.producers:
            producer.stop()
        self.run.start("confluent-consumer", "reader", self.topic, seek="beginning", to_end=True).wait(READING_S)
        self.run.assert_sound(self.topic, complete=["reader"], redelivery="never")
        assert_no_client_has_failed(self.run.clients)


@pytest.mark.timeout(900)
def test_a_crossing_loses_nothing_when_two_of_six_gateways_die_as_logs_reach_their_cuts(
    many: Stack, make_run: MakeRun, name: str, tmp_path: Path, chance: random.Random
) -> None:
    race = Race(make_run(many), name)
    assert all(produced_through(many, number) > 0 for number in range(1, GATEWAYS + 1))
    race.cross(chance, tmp_path)
    race.assert_sound()


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(SOAK_ROUNDS))
def test_a_crossing_there_and_back_survives_gateways_that_die(
    many: Stack, make_run: MakeRun, name: str, tmp_path: Path, chance: random.Random, number: int
) -> None:
    revive(many, "gateway/")
    race = Race(make_run(many), name)
    for _ in range(2):
        race.cross(chance, tmp_path)
        revive(many, "gateway/")
        race.goes_on()
    race.assert_sound()
