"""The job on two real clusters, while it is killed, stalls, and another one leads."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ha_core.store.security import OPEN
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.harness import Stack
from stack.java import find_java
from stack.mirror_part import MirrorPart
from stack.parts import environment
from stack.processes import command_line, members
from stack.spark_java import spark_environment
from tests.kafka.mirroring import content, wait_until
from tests.kit.stacks import own_stack

from .live import Writer, assert_copied_once, client, goes_on, link, reports

pytestmark = [pytest.mark.stack, pytest.mark.long("spark_jobs/mirror", "ha_core/kafka/copying")]


stack = own_stack(gateways=0, mirror=True)


@pytest.fixture(scope="module")
def store(stack: Stack) -> Iterator[Store]:
    store = connect(stack.zookeeper)
    yield store
    store.close()


@contextmanager
def second_job(stack: Stack, folder: Path, metrics_port: int) -> Iterator[subprocess.Popen[bytes]]:
    part = MirrorPart(
        home=folder,
        zookeeper=stack.zookeeper,
        zookeeper_root="/switchyard",
        environment=spark_environment(find_java()),
        security={},
        zookeeper_security=OPEN,
        master=None,
        driver_port=0,
    )
    command = part.command()
    with open(folder / "second.log", "wb") as log:
        job = subprocess.Popen(
            (*command.argv, "--metrics-port", str(metrics_port)),
            env=environment(command.env),
            cwd=command.cwd,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield job
        finally:
            job.terminate()
            try:
                job.wait(30)
            finally:
                for pid in members(job.pid):
                    os.kill(pid, 9)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def metrics(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics").text


def shows_that_it_copies(port: int) -> bool:
    shown = metrics(port)
    pair = 'source="east",target="west"'
    copied = re.search(rf"switchyard_mirror_copied_records_total{{{pair}}} (.+)", shown)
    copying = re.search(r'switchyard_mirror_partitions{source="east",state="copying",target="west"} (.+)', shown)
    leads = "switchyard_mirror_leads 1.0" in shown
    return leads and all(found is not None and float(found[1]) > 0 for found in (copying, copied))


def test_every_record_is_copied_once_while_the_job_and_its_tasks_are_killed(stack: Stack, store: Store) -> None:
    link(stack, store, "orders")
    with Writer(stack, "orders") as writer:
        print(f"first: {goes_on(stack, store, 'orders'):.1f} s")
        # When the job is killed and started again
        stack.kill("mirror")
        stack.restart("mirror")
        print(f"after a kill: {goes_on(stack, store, 'orders'):.1f} s")
        # And the copying processes are killed, driver and JVM left alone
        stack.kill("mirror/executor")
        time.sleep(1)
        print(f"after a killed executor: {goes_on(stack, store, 'orders'):.1f} s")
        assert writer.written > 1_000
    # Then every record is in the copy once, at its offset
    goes_on(stack, store, "orders")
    assert_copied_once(stack, "orders", writer)


@pytest.mark.soak
def test_every_record_is_copied_once_by_jobs_that_stall_and_take_over(
    stack: Stack, store: Store, tmp_path: Path
) -> None:
    link(stack, store, "parcels")
    with Writer(stack, "parcels") as writer:
        goes_on(stack, store, "parcels")
        # When the job stands still for longer than its session, while another one takes over
        with second_job(stack, tmp_path, metrics_port := free_port()) as second:
            wait_until(
                lambda: b"waiting for the lead" in (tmp_path / "second.log").read_bytes(),
                (tmp_path / "second.log").read_text,
            )
            before = {report.job for report in store.mirror_reports().values()}
            stack.pause("mirror")
            print(f"after a pause: {goes_on(stack, store, 'parcels'):.1f} s")
            wait_until(lambda: shows_that_it_copies(metrics_port), lambda: metrics(metrics_port), 20)
            # And then continues
            stack.resume("mirror")
            time.sleep(5)
            print(f"after the pause: {goes_on(stack, store, 'parcels'):.1f} s")
            assert before.isdisjoint(report.job for report in store.mirror_reports().values())
            assert "another driver leads" in stack.logs("mirror")
            # And takes over when the other one is stopped
            second.terminate()
            assert second.wait(30) == 0
            print(f"after an orderly end: {goes_on(stack, store, 'parcels'):.1f} s")
        assert writer.written > 1_000
    # Then every record is in the copy once, at its offset
    goes_on(stack, store, "parcels")
    assert_copied_once(stack, "parcels", writer)


def workers(stack: Stack) -> list[int]:
    """The Python processes that copy, one per slot."""
    (pid,) = [one["pid"] for one in stack.status() if one["part"] == "mirror"]
    found = [member for member in members(pid) if "pyspark.daemon" in command_line(member)]
    return [one for one in found if len(os.listdir(f"/proc/{one}/task")) > 3]


@pytest.mark.parametrize("tasks", [1, pytest.param(2, marks=pytest.mark.soak)], ids=["one", "one after the other"])
def test_stalled_task_is_taken_over_and_copies_nothing_when_it_continues(
    stack: Stack, store: Store, tasks: int
) -> None:
    topic = f"bills-{tasks}"
    link(stack, store, topic)
    with Writer(stack, topic) as writer:
        goes_on(stack, store, topic)
        slots = store.mirror_reports().keys()
        assert len(slots) == len(workers(stack)) == 2
        for worker in workers(stack)[:tasks]:
            # When one of the tasks stalls for longer than its session
            os.kill(worker, signal.SIGSTOP)
            wait_until(lambda: len(store.mirror_reports()) == 1, store.mirror_reports)
            # Then the other one copies its partitions too
            print(f"after a stalled task: {goes_on(stack, store, topic):.1f} s")
            # And when it continues it gets partitions from the driver, and not by itself
            os.kill(worker, signal.SIGCONT)
            wait_until(lambda: store.mirror_reports().keys() == slots, store.mirror_reports)
            time.sleep(3)
            print(f"afterwards: {goes_on(stack, store, topic):.1f} s")
            assert {report.state for report in reports(store, topic).values()} == {"copying"}
    goes_on(stack, store, topic)
    assert_copied_once(stack, topic, writer)


def test_added_mirrors_and_partitions_are_copied_without_stopping_others(stack: Stack, store: Store) -> None:
    link(stack, store, "old", 2)
    with Writer(stack, "old", 2):
        goes_on(stack, store, "old", 2)
        before, said = store.mirror_reports(), len(stack.logs("mirror"))
        link(stack, store, "new", 2)
        with Writer(stack, "new", 2):
            goes_on(stack, store, "new", 2)
        # The standby grows with its source, and groups' offsets are copied
        admin = AdminClient(client(stack, "east"))
        admin.create_partitions([NewPartitions("new", 5)])["new"].result(30)
        east_group = Consumer({**client(stack, "east"), "group.id": "reads-new"})
        east_group.commit(offsets=[TopicPartition("new", 0, 7)], asynchronous=False)
        east_group.close()
        with Writer(stack, "new", 5):
            goes_on(stack, store, "new", 5)
        goes_on(stack, store, "new", 5)
        assert {slot: report.job for slot, report in store.mirror_reports().items()} == {
            slot: report.job for slot, report in before.items()
        }
        assert "its task has ended" not in stack.logs("mirror")[said:]
    copied = Consumer({**client(stack, "west"), "group.id": "reads-new"})
    wait_until(lambda: copied.committed([TopicPartition("new", 0)], 10)[0].offset == 7, store.mirror_syncs)
    copied.close()
    east, west = client(stack, "east"), client(stack, "west")
    for partition in range(5):
        assert content(west, "new", partition) == content(east, "new", partition) != []


def test_an_idle_mirror_costs_next_to_nothing(stack: Stack, store: Store) -> None:
    def cpu_s() -> float:
        (pid,) = [one["pid"] for one in stack.status() if one["part"] == "mirror"]
        ticks = 0
        for member in members(pid):
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    link(stack, store, "idle", 1)
    goes_on(stack, store, "idle", 1)
    time.sleep(2)
    before, began_s = cpu_s(), time.monotonic()
    time.sleep(5)
    used = (cpu_s() - before) / (time.monotonic() - began_s)
    print(f"{used:.3f} cores")
    assert used < 0.25
