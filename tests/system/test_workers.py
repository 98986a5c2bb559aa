"""Gateways with several workers on a real stack: one dies, and one is stopped, while topics move under load."""

import itertools
import json
import os
import re
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gateway.process.peers import ranked
from ha_core.model import GatewayRecord, identify
from stack.harness import Stack
from stack.processes import command_line, descendants, identity
from tests.kit.own_gateway import OwnGateway
from tests.kit.progress import await_more
from tests.kit.running import Run, bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import MakeRun
from tests.system.watching import assert_no_client_has_failed

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/process/workers", "gateway/process")]
WORKERS = ("gw-1.0", "gw-1.1")
SLEEP_S = 15.0


stack = own_stack(gateways=1, workers=len(WORKERS))


def page(stack: Stack, path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(stack.gateways[0]["http"] + path, timeout=10) as answer:
        found: bytes = answer.read()
    return found.decode()


def metric(stack: Stack, pattern: str) -> float:
    """Sum of all samples with a matching name and labels."""
    found = re.findall(rf"^switchyard_gateway_{pattern} (\S+)$", page(stack, "/metrics"), re.MULTILINE)
    return sum(float(value) for value in found)


def pid_of(stack: Stack, worker: str) -> int:
    """Pid of its current process; 0: none."""
    ending = f"--worker {worker.rpartition('.')[2]} "
    return next((pid for pid in descendants(stack.gateways[0]["pid"]) if ending in command_line(pid)), 0)


def client_ids(user: str) -> dict[str, str]:
    """Worker → a client id of the user whose clients are sent to its ports."""
    peers = [GatewayRecord(id=name, node_id=0, host="", port=0) for name in WORKERS]
    found: dict[str, str] = {}
    for number in itertools.count():
        client_id = f"HA#{user}#{number}"
        found.setdefault(ranked(peers, identify(None, client_id), "127.0.0.1")[0].id, client_id)
        if len(found) == len(WORKERS):
            return found
    raise AssertionError


def ports_shown(stack: Stack, topic: str, client_id: str) -> set[int]:
    """Ports that a client gets for the leaders of a topic."""
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": stack.bootstrap, "client.id": client_id, "log_level": 3})
    found = client.list_topics(topic, timeout=20)
    return {found.brokers[partition.leader].port for partition in found.topics[topic].partitions.values()}


def problems(stack: Stack) -> set[str]:
    """Their subjects."""
    return {problem["about"] for problem in switchyard(stack, "status")["problems"]}


class Load:
    """Idempotent producers at each worker, and a group that reads their records."""

    def __init__(self, run: Run, topic: str) -> None:
        self.run, self.topic = run, topic
        create_topic(bootstrap(run.stack, "east"), topic)
        bind(run.stack, run.user, "east")
        ids = client_ids(run.user)
        self.producers = [
            run.start("confluent-producer", f"w{number}", topic, client_id=ids[worker], idempotence="on", rate=200)
            for number, worker in enumerate(WORKERS)
        ]
        self.readers = [
            run.start("confluent-consumer", f"r{number}", topic, client_id=ids[worker], group=topic)
            for number, worker in enumerate(WORKERS)
        ]
        self.goes_on()

    def goes_on(self) -> None:
        await_more(100, *self.producers)

    def assert_sound(self) -> None:
        self.run.finish(self.producers, self.readers)
        self.run.assert_sound(self.topic, complete=[self.topic])
        assert_no_client_has_failed(self.run.clients)


def test_each_worker_serves_clients_and_the_gateway_speaks_for_all(stack: Stack, make_run: MakeRun, name: str) -> None:
    # Given a producer and a reader at each worker
    load = Load(make_run(stack, user=name), name)
    # Then they are connected where all workers send them
    workers = {gateway["id"]: gateway for gateway in switchyard(stack, "status")["gateways"]}
    assert sorted(workers) == list(WORKERS)
    for worker, client_id in client_ids(name).items():
        ports = {workers[worker]["first_node_port"] + node for node in workers[worker]["nodes"]}
        assert ports_shown(stack, name, client_id) <= ports
    # And the gateway's pages cover both
    connected: list[dict[str, Any]] = json.loads(page(stack, "/connections"))["connections"]
    assert {row["client_id"] for row in connected} >= set(client_ids(name).values())
    assert metric(stack, "connections") > len(load.run.clients)
    assert metric(stack, r'requests_total\{api="produce",outcome="passed"\}') > 0
    assert metric(stack, "workers_answering") == len(WORKERS)
    load.assert_sound()


def test_a_worker_that_is_killed_while_a_topic_moves_loses_and_doubles_nothing_and_comes_back(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given
    run = make_run(stack, user=name)
    load = Load(run, name)
    killed = pid_of(stack, WORKERS[0])
    ended = metric(stack, "workers_ended_total")
    # When one dies, and the topic is moved at once: the move waits for the end of its session
    with run.fault("a worker is killed"):
        os.kill(killed, signal.SIGKILL)
        run.switch("east", "west")
    # Then its clients go on at the other worker
    load.goes_on()
    # And it comes back
    until(lambda: metric(stack, "workers_answering") == len(WORKERS), "it is back")
    until(lambda: pid_of(stack, WORKERS[0]) not in (0, killed), "another process has its number")
    assert metric(stack, "workers_ended_total") == ended + 1
    load.goes_on()
    load.assert_sound()


def test_a_worker_that_sleeps_while_a_topic_moves_wakes_to_nothing_lost_or_doubled(
    stack: Stack, make_run: MakeRun, name: str
) -> None:
    # Given
    run = make_run(stack, user=name)
    load = Load(run, name)
    asleep = pid_of(stack, WORKERS[1])
    # When one is stopped for longer than its session, and the topic is moved meanwhile
    with run.fault("a worker sleeps"):
        os.kill(asleep, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            run.switch("east", "west")
            time.sleep(max(0.0, SLEEP_S - (time.monotonic() - begun)))
        finally:
            os.kill(asleep, signal.SIGCONT)
    # Then all go on, and it is still that process
    load.goes_on()
    until(lambda: metric(stack, "ready") == 1, "it is ready again")
    assert pid_of(stack, WORKERS[1]) == asleep
    load.assert_sound()


def test_new_clients_are_served_while_a_worker_is_stopped(stack: Stack) -> None:
    from confluent_kafka.admin import AdminClient

    # Given
    asleep = pid_of(stack, WORKERS[1])
    os.kill(asleep, signal.SIGSTOP)
    try:
        # When clients connect that only know the bootstrap port
        clients = [AdminClient({"bootstrap.servers": stack.bootstrap, "log_level": 3}) for _ in range(20)]
        # Then none of them waits for it, and a balancer does not refuse the others
        assert all(client.list_topics(timeout=5).brokers for client in clients)
        assert json.loads(page(stack, "/readyz"))["ready"]
        assert metric(stack, "workers_answering") == len(WORKERS) - 1
        # And the status reports it
        until(lambda: "gateway gw-1" in problems(stack), "its session has ended, and it is missed")
    finally:
        os.kill(asleep, signal.SIGCONT)
    until(lambda: "gateway gw-1" not in problems(stack), "it is back")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_gateway_with_a_used_name_is_refused_with_and_without_workers(
    stack: Stack, tmp_path: Path, workers: int
) -> None:
    second = OwnGateway(stack, tmp_path, "gw-1", workers=workers)
    with pytest.raises(AssertionError, match="another process runs under this name"):
        second.start()
    assert metric(stack, "workers_answering") == len(WORKERS)


def test_ending_a_gateway_ends_all_its_workers_and_takes_them_out_of_the_state(stack: Stack, tmp_path: Path) -> None:
    # Given
    with OwnGateway(stack, tmp_path, "gw-2", workers=2) as gateway:
        workers = descendants(gateway.pid)
        assert {one["id"] for one in switchyard(stack, "status")["gateways"]} == {*WORKERS, "gw-2.0", "gw-2.1"}
        # When it is stopped
        gateway.stop()
    # Then
    assert not any(identity(pid) for pid in workers)
    assert {one["id"] for one in switchyard(stack, "status")["gateways"]} == set(WORKERS)


def test_a_gateway_whose_parent_was_killed_starts_anew_under_its_name(stack: Stack, tmp_path: Path) -> None:
    with OwnGateway(stack, tmp_path, "gw-3", workers=2) as gateway:
        workers = descendants(gateway.pid)
        gateway.kill()
        until(lambda: not any(identity(pid) for pid in workers), "its workers have died with it")
        gateway.start()
        assert len(gateway.document("/readyz")["reasons"]) == 0
