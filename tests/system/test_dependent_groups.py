"""Live groups that move with their topics, while producers and consumers work through the gateways."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stack.clients.process import ClientProcess
from stack.harness import Stack
from stack.history.events import Assigned
from tests.kit.progress import await_more, await_records
from tests.kit.running import Run, switchyard
from tests.system.watching import assert_no_client_has_failed

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/operations/move/dependents.py", "ha_core/kafka/adoption.py")]
RATE = 40
MORE = 60
"""Records of each producer before and after the move."""
HEARTBEAT_S = 4.0
"""Longer than from one heartbeat of librdkafka to the next."""


def produce_more(producers: list[ClientProcess]) -> None:
    await_more(MORE, *producers)


def migrate(run: Run, topic: str, origin: str, target: str, *more: str) -> dict[str, Any]:
    route = ("--from", origin, "--to", target, "--reason", "test", "--yes", "--wait", "--groups", "move")
    # A busy machine may hold a gateway's answers up; nothing here is about time.
    return switchyard(run.stack, "migrate", topic, *route, "--drain-timeout", "60", *more)


def assignments(run: Run, name: str, client: str) -> int:
    return sum(isinstance(event, Assigned) for event in run.history(name).clients[client])


@pytest.mark.parametrize("cut", ["predicted", "barrier"])
def test_members_of_dependent_groups_read_each_record_once_without_a_rebalance(cut: str, run: Run, name: str) -> None:
    # Given two members of one group, and one of another, at work
    readers = [run.start("confluent-consumer", f"r-{number}", name, group=f"{name}-pair") for number in (1, 2)]
    readers.append(run.start("confluent-consumer", "r-batch", name, group=f"{name}-batch", commit="batch"))
    producers = [run.start("confluent-producer", f"w-{on}", name, rate=RATE, idempotence=on) for on in ("off", "on")]
    await_records(20, *readers)
    produce_more(producers)
    before = {reader.name: assignments(run, name, reader.name) for reader in readers}
    # When the topic migrates to west and back, and takes the groups along
    for origin, target in (("east", "west"), ("west", "east")):
        more = ("--preparation", "3", "--cut", cut) if cut == "predicted" else ("--cut", cut)
        document = migrate(run, name, origin, target, *more)
        assert document["result"] == "succeeded", document
        (bound,) = switchyard(run.stack, "bindings", "list", name)["bindings"].values()
        assert bound["groups"] == {f"{name}-pair": target, f"{name}-batch": target}
        produce_more(producers)
    # Then no member got a new assignment, and every record came once, in order
    time.sleep(HEARTBEAT_S)  # by then each member would know of a rebalance; the first to stop makes one
    assert {reader.name: assignments(run, name, reader.name) for reader in readers} == before
    run.finish(producers, readers)
    run.assert_sound(name, complete=[f"{name}-pair", f"{name}-batch"], redelivery="never")
    assert_no_client_has_failed(run.clients)


def test_a_dependent_group_that_rebalances_during_its_move_reads_everything(run: Run, stack: Stack, name: str) -> None:
    # Given a group of one member, at work
    group = f"{name}-readers"
    readers = [run.start("confluent-consumer", "r-1", name, group=group, commit="batch")]
    producer = run.start("confluent-producer", "w", name, rate=RATE)
    readers[0].wait_for(20, "delivered")
    # When others join and one leaves while the topic crosses over and the group follows
    with ThreadPoolExecutor(1) as pool:
        migrated = pool.submit(migrate, run, name, "east", "west", "--cut", "predicted", "--preparation", "2")
        for number in (2, 3, 4):
            readers.append(run.start("confluent-consumer", f"r-{number}", name, group=group, commit="batch"))
            time.sleep(2.5)
        readers.pop(1).stop()
        document = migrated.result()
    # Then the group is in west, and has read everything; again, at most, what it had not committed
    assert document["result"] == "succeeded", document
    assert switchyard(stack, "bindings", "list", name)["bindings"][name]["groups"] == {group: "west"}
    produce_more([producer])
    run.finish([producer], readers)
    run.assert_sound(name, complete=[group])
