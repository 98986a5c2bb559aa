"""Declared flows between two real clusters: workers follow a declaration, and a group moves there and back."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from stack.harness import Stack
from tests.kit.flows import (
    PROGRAM,
    FlowProcess,
    commit,
    committed,
    copying,
    count,
    delete_topic,
    numbered,
    produce,
    records,
    until,
    write_flows,
)
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack
from tests.operations.dying import COMMIT, FINISH, Call, after, before, die

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
SET_OFFSETS = Call("ha_core.kafka.admin", "Admin.set_group_offsets")
DEATHS = (before(SET_OFFSETS), after(SET_OFFSETS), after(COMMIT), before(FINISH), after(FINISH))
TOPICS = {"east->west.enabled": "true", "east->west.topics": "orders"}

stack = own_stack(scope="module", gateways=0)


def switchyard(stack: Stack, *words: str) -> tuple[int, Any]:
    command = [PROGRAM, *words, "--json", "--zookeeper", stack.zookeeper]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def east(stack: Stack) -> str:
    return bootstrap(stack, "east")


@pytest.fixture(scope="module")
def west(stack: Stack) -> str:
    return bootstrap(stack, "west")


@pytest.fixture(scope="module")
def workers(stack: Stack, east: str, west: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowProcess]:
    """The first of two workers of a declaration, which copy four partitions of `orders`, and heartbeats."""
    folder = tmp_path_factory.mktemp("declared")
    create_topic(east, "orders", 4)
    for partition in range(4):
        produce(east, "orders", (b"%d" % at for at in range(100)), partition)
    file = write_flows(folder, {"east": east, "west": west}, TOPICS)
    code, done = switchyard(stack, "flows", "declare", "all", str(file), "--reason", "a test")
    assert code == 0, done
    words = ("mirror-maker", "--declared", "all", "--zookeeper", stack.zookeeper, "--clusters", "east", "west")
    running = [FlowProcess(folder / f"worker-{number}", (), words) for number in (1, 2)]
    try:
        until(lambda: copying(stack.zookeeper).total() > 4, 60, running[0].text)
        until(lambda: all(count(west, "east.orders", each) > 100 for each in range(4)), 60, running[0].text)
        yield running[0]
    finally:
        codes = [one.stop() for one in running]
    assert codes == [0, 0], running[0].text() + running[1].text()


def test_workers_follow_a_declaration_while_it_runs(
    stack: Stack, east: str, west: str, workers: FlowProcess, tmp_path: Path
) -> None:
    create_topic(east, "payments", 1)
    produce(east, "payments", [b"paid"])
    changed = TOPICS | {"east->west.topics": "orders, payments"}
    file = write_flows(tmp_path, {"east": east, "west": west}, changed)
    code, done = switchyard(stack, "flows", "declare", "all", str(file), "--reason", "payments, too")
    assert (code, done["declaration"]["revision"]) == (0, 2), done
    until(lambda: count(west, "east.payments") > 1, 60, workers.text)
    assert switchyard(stack, "flows", "declared")[1]["declarations"][0]["workers"] == 2
    for partition in range(4):
        assert records(west, "east.orders", partition) == records(east, "orders", partition)


@pytest.mark.usefixtures("workers")
def test_a_group_moves_to_the_target_and_back_without_losing_or_rereading_a_record(
    stack: Stack, east: str, west: str
) -> None:
    commit(east, "billing", {("orders", 0): 37, ("orders", 1): 100})
    move = ("flows", "move-group", "billing", "east->west", "--reason", "a test")
    assert switchyard(stack, *move, "--dry-run")[0] == 0
    assert committed(west, "billing", "east.orders") < 0
    code, done = switchyard(stack, *move)
    assert code == 0, done
    source, copy = dict(numbered(east, "orders")), dict(numbered(west, "east.orders"))
    assert copy[committed(west, "billing", "east.orders")] == source[37]
    assert records(west, "east.orders", 1, committed(west, "billing", "east.orders", 1)) == []

    later = next(offset for offset, record in copy.items() if record == source[58])
    commit(west, "billing", {("east.orders", 0): later})
    back = ("flows", "move-group", "billing", "west->east", "--reason", "the way back")
    code, done = switchyard(stack, *back)
    assert code == 0, done
    assert committed(east, "billing", "orders") == 58
    assert committed(east, "billing", "orders", 1) == 100
    kinds = [one["kind"] for one in switchyard(stack, "history")[1]["operations"]]
    assert kinds.count("move-group") == 2


@pytest.mark.usefixtures("workers")
def test_a_move_that_was_killed_anywhere_is_made_by_the_same_command(stack: Stack, east: str, west: str) -> None:
    """Without a gateway, no other process ends the operation and gives its lock back."""
    copy, source = dict(numbered(west, "east.orders", 2)), dict(numbered(east, "orders", 2))
    for at, death in enumerate(DEATHS):
        group = f"killed-{at}"
        commit(east, group, {("orders", 2): 20 + at})
        move = ("flows", "move-group", group, "east->west", "--reason", "a test")
        die(stack, death, "from ha_core.cli import main; main()", *move)
        until(lambda move=move: switchyard(stack, *move)[0] == 0, 60)  # type: ignore[misc]
        assert copy[committed(west, group, "east.orders", 2)] == source[20 + at]
        # A group that has read on in the target since is not set back
        later = committed(west, group, "east.orders", 2) + 5
        commit(west, group, {("east.orders", 2): later})
        code, refused = switchyard(stack, *move)
        assert code == 2, death
        assert f"the group has committed {later} in the target" in refused["error"]
        assert committed(west, group, "east.orders", 2) == later


@pytest.mark.usefixtures("workers")
def test_a_group_with_members_or_with_an_offset_that_is_not_copied_stays(stack: Stack, east: str, west: str) -> None:
    create_topic(east, "private", 1)
    produce(east, "private", [b"1"])
    commit(east, "mixed", {("orders", 0): 1, ("private", 0): 1})
    code, refused = switchyard(stack, "flows", "move-group", "mixed", "east->west", "--reason", "a test", "--repeat")
    assert code == 2
    assert "private-0 at 1" in refused["error"]
    assert committed(west, "mixed", "east.orders") < 0
    consumer = Consumer({"bootstrap.servers": east, "group.id": "live", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["orders"])
        until(lambda: consumer.poll(0.5) is not None and bool(consumer.assignment()))
        code, refused = switchyard(stack, "flows", "move-group", "live", "east->west", "--reason", "a test")
        assert code == 2
        assert "in east: stop its members" in refused["error"]
    finally:
        consumer.close()


def test_a_withdrawn_declaration_stops_its_flows_and_a_new_one_starts_them(
    stack: Stack, east: str, west: str, workers: FlowProcess, tmp_path: Path
) -> None:
    assert switchyard(stack, "flows", "withdraw", "all", "--reason", "a test")[0] == 0
    until(lambda: copying(stack.zookeeper).total() == 0, 60, workers.text)
    produce(east, "orders", [b"late"])
    file = write_flows(tmp_path, {"east": east, "west": west}, TOPICS)
    assert switchyard(stack, "flows", "declare", "all", str(file), "--reason", "again")[0] == 0
    until(lambda: len(records(west, "east.orders")) == len(records(east, "orders")), 60, workers.text)
    assert records(west, "east.orders") == records(east, "orders")


def test_a_group_does_not_move_by_the_map_of_a_topic_that_was_made_again(
    stack: Stack, east: str, west: str, workers: FlowProcess, tmp_path: Path
) -> None:
    """At an offset of the first topic it would pass over records of the second one."""
    file = str(write_flows(tmp_path, {"east": east, "west": west}, TOPICS))
    commit(west, "returning", {("east.orders", 3): 90})
    back = ("flows", "move-group", "returning", "west->east", "--file", file, "--reason", "a test")
    assert switchyard(stack, *back, "--dry-run")[0] == 0
    assert switchyard(stack, "flows", "withdraw", "all", "--reason", "so that nothing copies the new topic")[0] == 0
    until(lambda: copying(stack.zookeeper).total() == 0, 60, workers.text)
    delete_topic(east, "orders")
    create_topic(east, "orders", 4)
    produce(east, "orders", (b"second %d" % at for at in range(200)), 3)
    code, refused = switchyard(stack, *back)
    assert code == 2
    assert "the topic was made again in east" in refused["error"]
    assert committed(east, "returning", "orders", 3) < 0
    commit(east, "going", {("orders", 3): 20})
    there = ("flows", "move-group", "going", "east->west", "--file", file, "--reason", "a test")
    code, refused = switchyard(stack, *there)
    assert code == 2
    assert "the topic was made again in east" in refused["error"]
