"""A gateway, the command or a leading broker is killed at a random instant while a topic crosses over under load."""

import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stack.harness import Stack
from tests.kit.progress import await_more
from tests.kit.running import Run, bootstrap, create_topic
from tests.kit.stacks import own_stack
from tests.system.conftest import MakeRun, seeded
from tests.system.migrating import PARTITIONS, Migration
from tests.system.watching import assert_no_client_has_failed, leaders

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/operations/migration/crossing", "gateway/session")]
SOAK_ROUNDS = int(os.environ.get("CROSSING_ROUNDS", "6"))
"""Topics on each of the two kinds of stack; each crosses there and back, with a fault each way."""
FAULTS = ("gateway", "command", "origin", "target")
PRODUCERS = 2
RATE = 80
PREPARATION_S = 2.0
BACK_SOON = "reconnect.backoff.max.ms=500"
"""10 s by default, which would rarely hit a crossing."""
SMALL = ("batch.num.messages=8", BACK_SOON)
PIPELINED = {"idempotence": "on", "linger_ms": 1, "settings": SMALL}
"""Small batches: several are in flight at any time."""
ONE_AT_A_TIME = {**PIPELINED, "settings": (*SMALL, "max.in.flight.requests.per.connection=1")}
"""For a partition without replicas whose broker is killed. After its restart it knows the last batch of each
producer only (its recovery writes a snapshot, which holds no more, and loads that; seen with 3.9.2 and 4.3.1). Batches
pipelined before get OUT_OF_ORDER_SEQUENCE_NUMBER when they are sent again, and librdkafka ends, with a gateway
between or without.
"""

stack = own_stack()


chance = seeded("CROSSING_SEED")


class Load:
    """Producers and a group, at work on their own topic."""

    def __init__(self, run: Run, topic: str, sending: Mapping[str, Any]) -> None:
        self.run, self.topic = run, topic
        self.at = "east"
        """Where the topic is written."""
        create_topic(bootstrap(run.stack, self.at), topic, PARTITIONS)
        self.producers = [
            run.start("confluent-producer", f"{topic}-w{number}", topic, rate=RATE, **sending)
            for number in range(PRODUCERS)
        ]
        reading = {"group": topic, "commit": "batch", "settings": (BACK_SOON,)}
        self.consumer = run.start("confluent-consumer", f"{topic}-r", topic, **reading)
        self.goes_on()

    def goes_on(self) -> None:
        """All clients are served."""
        await_more(50, *self.producers, self.consumer)

    def assert_sound(self) -> None:
        """The end: no record lost, duplicated, reordered or renumbered, and no client got an error."""
        self.run.finish(self.producers, [self.consumer])
        self.run.assert_sound(self.topic, complete=[self.topic])
        assert_no_client_has_failed(self.run.clients)


def crosses_over(load: Load, fault: str, chance: random.Random, folder: Path) -> None:
    """One migration with one fault; after it all clients are served again, and the operation has ended."""
    route = (load.at, "west" if load.at == "east" else "east")
    migration = Migration(load.run.stack, load.topic, route, RATE * PRODUCERS / PARTITIONS, PREPARATION_S, folder)
    delay_s = chance.uniform(0, PREPARATION_S + 1.5)
    try:
        time.sleep(delay_s)
        stage = migration.stage
        with load.run.fault(fault):
            _strike(load, migration, fault, route, chance)
            migration.wait()
            state = migration.settle(*chance.choice((("settle", "--wait", "--timeout", "20"), ("resume",))))
        print(f"{route[0]} to {route[1]}: {fault} killed {delay_s:.3f} s after the beginning ({stage}): {state}")
        assert state in {"succeeded", "undone"}, migration.words
        load.at = route[state == "succeeded"]
        load.goes_on()
    finally:
        migration.end()


def _strike(load: Load, migration: Migration, fault: str, route: tuple[str, str], chance: random.Random) -> None:
    """Kill the part, and restart it after a while. A killed command is resumed by the caller that waits for its end."""
    if fault == "command":
        migration.process.kill()
        return
    part = f"gateway/{chance.choice((1, 2))}"
    if fault != "gateway":
        cluster = route[fault == "target"]
        leader = leaders(load.run.stack, cluster, load.topic).get(chance.randrange(PARTITIONS), -1)
        part = f"cluster/{cluster}/{max(1, leader)}"
    load.run.stack.kill(part)
    time.sleep(chance.uniform(0, 1.5))
    load.run.stack.restart(part)


@pytest.mark.parametrize(
    ("faults", "sending"),
    [(("gateway", "command"), PIPELINED), (("origin", "target"), ONE_AT_A_TIME)],
    ids=["between", "clusters"],
)
def test_a_crossing_there_and_back_loses_nothing_when_a_gateway_command_or_broker_is_killed(
    stack: Stack,
    make_run: MakeRun,
    name: str,
    tmp_path: Path,
    chance: random.Random,
    faults: tuple[str, ...],
    sending: Mapping[str, Any],
) -> None:
    load = Load(make_run(stack), name, sending)
    for fault in chance.sample(faults, 2):
        crosses_over(load, fault, chance, tmp_path)
    load.assert_sound()


@pytest.fixture(scope="module", params=["", "x3"], ids=["one-broker", "three-brokers"])
def soaked(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Clusters of one broker, whose death is the cluster's, and of three, one of which takes over."""
    with Stack.up({"east": f"3.9.2{request.param}", "west": f"4.3.1{request.param}"}, gateways=2) as stack:
        yield stack


@pytest.mark.soak
@pytest.mark.parametrize("number", range(SOAK_ROUNDS))
def test_a_crossing_there_and_back_survives_random_faults(
    soaked: Stack, make_run: MakeRun, name: str, tmp_path: Path, chance: random.Random, number: int
) -> None:
    faults = [chance.choice(FAULTS) for _ in range(2)]
    alone = len(soaked.clusters["east"]["bootstrap"].split(",")) == 1
    load = Load(make_run(soaked), name, ONE_AT_A_TIME if alone and {"origin", "target"} & {*faults} else PIPELINED)
    for fault in faults:
        crosses_over(load, fault, chance, tmp_path)
    load.assert_sound()
