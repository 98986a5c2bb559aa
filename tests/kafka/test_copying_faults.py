"""Brokers die, stall or lack replicas: their partitions wait, others continue, and every record is copied once."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Producer

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror.notes import CopyId
from ha_core.plan.facts.clusters import Partition
from stack.harness import Stack
from tests.kafka.clients import Settings, produce
from tests.kafka.mirroring import Linked, caught_up, content, copy_of, copying, states, wait_until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.usefixtures("copy_logs"),
    pytest.mark.long("ha_core/kafka/copying", "ha_core/mirror"),
]
Fresh = Callable[[str], str]


@contextmanager
def killed(running: Stack, part: str) -> Iterator[None]:
    running.kill(part)
    try:
        yield
    finally:
        running.restart(part)


@contextmanager
def paused(running: Stack, part: str) -> Iterator[None]:
    running.pause(part)
    try:
        yield
    finally:
        running.resume(part)


def leader(admin: Admin, topic: str, partition: int = 0) -> int:
    return admin.ends([(topic, partition)])[topic, partition].leader


def test_dead_source_leader_needs_no_takeover(
    east: Admin, west: Admin, running: Stack, fresh: Fresh, here: Settings, there: Settings
) -> None:
    # Given a copy of a topic with three replicas
    name = fresh("moved")
    west.create_topics([TopicSpec(name, 1, 3)])
    east.create_topics([TopicSpec(name, 1, 1)])
    produce(there, name, 100)
    with copying(west, east, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        # When its leader dies
        with killed(running, f"cluster/west/{leader(west, name)}"):
            produce(there, name, 100)
            wait_until(lambda: caught_up(job, {(name, 0): 200}), job.statuses)
        produce(there, name, 100)
        wait_until(lambda: caught_up(job, {(name, 0): 300}), job.statuses)
    # Then all is there, and one marker, of the first take-over
    assert content(here, name) == content(there, name)
    assert east.ends([(name, 0)])[name, 0].log_end == 301


@pytest.mark.parametrize("deaths", [1, pytest.param(2, marks=pytest.mark.soak)], ids=["once", "again"])
def test_copy_with_a_dead_leader_is_taken_over_and_continues(
    east: Admin, west: Admin, running: Stack, linked: Linked, here: Settings, there: Settings, deaths: int
) -> None:
    name = linked()
    produce(here, name, 100)
    producer = Producer(here | {"linger.ms": 5})
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        for turn in range(deaths):
            with killed(running, f"cluster/west/{leader(west, name)}"):
                for number in range(3000):
                    producer.produce(name, b"%d" % number * 50)
                    if number % 100 == 0:
                        producer.flush(10)
                end = east.ends([(name, 0)])[name, 0].log_end
                wait_until(partial(caught_up, job, {(name, 0): end}), job.statuses)
            assert end >= 3000 * (turn + 1)
    assert content(there, name) == content(here, name)


def reached(job: Copying, ends: Mapping[Partition, int]) -> bool:
    """True in any state of its partitions."""
    return all(status.has(ends[copy.topic, copy.partition]) for copy, status in job.statuses().items())


def test_stalled_source_broker_delays_its_own_partitions_only(
    east: Admin, west: Admin, running: Stack, fresh: Fresh, there: Settings
) -> None:
    # Given three partitions with a replica each, on three brokers
    name = fresh("still")
    west.create_topics([TopicSpec(name, 3, 1)])
    east.create_topics([TopicSpec(name, 3, 1)])
    leaders = {partition: leader(west, name, partition) for partition in range(3)}
    assert len(set(leaders.values())) == 3
    for partition in range(3):
        produce(there, name, 10, partition=partition)
    with copying(west, east, [copy_of(name, partition) for partition in range(3)]) as job:
        wait_until(lambda: caught_up(job, {(name, partition): 10 for partition in range(3)}), job.statuses)
        # When one of them is stopped for a while
        with paused(running, f"cluster/west/{leaders[1]}"):
            for _ in range(5):
                for partition in (0, 2):
                    produce(there, name, 10, partition=partition)
                begun = time.monotonic()
                end = ({copy.partition: status.source for copy, status in job.statuses().items()}[0] or 0) // 10 * 10
                ends = {(name, 0): end, (name, 1): 10, (name, 2): end}
                wait_until(partial(reached, job, ends), job.statuses)
                assert time.monotonic() - begun < 20  # of 30 s that a request may take
            others = [copy_of(name, 0).id, copy_of(name, 2).id]
            wait_until(lambda: all(job.statuses()[copy].has(60) for copy in others), job.statuses, 20)
        produce(there, name, 10, partition=1)
        wait_until(lambda: job.statuses()[copy_of(name, 1).id].has(20), job.statuses)


def test_stalled_target_broker_delays_its_own_partitions_only(
    east: Admin, west: Admin, running: Stack, fresh: Fresh, here: Settings, there: Settings
) -> None:
    # Given copies with a replica each, on three brokers
    name = fresh("still")
    east.create_topics([TopicSpec(name, 3, 1)])
    west.create_topics([TopicSpec(name, 3, 1)])
    leaders = {partition: leader(west, name, partition) for partition in range(3)}
    copies = [copy_of(name, partition) for partition in range(3)]
    others = [copies[0].id, copies[2].id]
    for partition in range(3):
        produce(here, name, 10, partition=partition)
    with copying(east, west, copies) as job:
        wait_until(lambda: caught_up(job, {(name, partition): 10 for partition in range(3)}), job.statuses)
        # When one of them is stopped, which may lead the copy log or coordinate take-overs
        with paused(running, f"cluster/west/{leaders[1]}"):
            for partition in range(3):
                produce(here, name, 10, partition=partition)
            # Then the others continue, once the cluster has other leaders
            wait_until(lambda: all(job.statuses()[copy].has(20) for copy in others), job.statuses)
            assert not job.statuses()[copies[1].id].has(20)
        wait_until(lambda: caught_up(job, {(name, partition): 20 for partition in range(3)}), job.statuses)
    for partition in range(3):
        assert content(there, name, partition) == content(here, name, partition)


def test_copy_waits_for_replicas_while_others_continue(
    east: Admin, west: Admin, running: Stack, fresh: Fresh, here: Settings, there: Settings
) -> None:
    # Given a copy that wants all three replicas, and one that does not
    strict, easy = fresh("strict"), fresh("easy")
    for name in (strict, easy):
        east.create_topics([TopicSpec(name, 1, 1)])
    west.create_topics([TopicSpec(strict, 1, 3, {"min.insync.replicas": "3"}), TopicSpec(easy, 1, 3)])
    for name in (strict, easy):
        produce(here, name, 10)
    copies = [copy_of(strict), copy_of(easy)]
    with copying(east, west, copies) as job:
        wait_until(lambda: caught_up(job, {(strict, 0): 10, (easy, 0): 10}), job.statuses)
        # When a broker is gone
        with killed(running, "cluster/west/3"):
            for name in (strict, easy):
                produce(here, name, 10)
            wait_until(lambda: job.statuses()[copies[1].id].has(20), job.statuses)
            wait_until(lambda: "replicas" in job.statuses()[copies[0].id].reason, job.statuses)
            assert job.statuses()[copies[0].id].state == "waiting"
        # Then the strict one follows when it is back
        wait_until(lambda: caught_up(job, {(strict, 0): 20, (easy, 0): 20}), job.statuses)
    for name in (strict, easy):
        assert content(there, name) == content(here, name)


def test_copier_checks_its_assignment_after_a_standstill_before_appending(
    east: Admin, west: Admin, fresh: Fresh, here: Settings, there: Settings
) -> None:
    # Given a copier that has copied ten records
    name, asked, stood_s = fresh("still"), list[str](), [0.0]
    for admin in (east, west):
        admin.create_topics([TopicSpec(name, 1, 1)])
    produce(here, name, 10)
    mine = [True]

    def still_ours(copies: Collection[CopyId]) -> Collection[CopyId]:
        asked.append(name)
        return copies if mine[0] else ()

    job = Copying(east, west, [copy_of(name)], None, still_ours, lambda: time.monotonic() + stood_s[0])
    try:
        while not caught_up(job, {(name, 0): 10}):
            job.step(0.05)
        before = len(asked)
        # When it stands still for an hour, in which the copy is given to another one
        mine[0] = False
        produce(here, name, 10)
        stood_s[0] = 3600.0
        while states(job) != {"stopped"}:
            job.step(0.05)
    finally:
        job.close()
    # Then it asks first, and appends nothing
    assert len(asked) > before
    assert content(there, name) == content(here, name)[:10]


def test_copier_with_long_busy_rounds_is_not_taken_for_stalled(
    east: Admin, west: Admin, fresh: Fresh, here: Settings, there: Settings
) -> None:
    # Given a copier
    name, asked, worked_s = fresh("works"), list[str](), [0.0]
    for admin in (east, west):
        admin.create_topics([TopicSpec(name, 1, 1)])

    def still_ours(copies: Collection[CopyId]) -> Collection[CopyId]:
        asked.append(name)
        return copies

    def now() -> float:
        return time.monotonic() + worked_s[0]

    def worked() -> float:
        return time.process_time() + worked_s[0]

    def copied() -> bool:
        job.step(0.05)
        return caught_up(job, {(name, 0): 10})

    job = Copying(east, west, [copy_of(name)], None, still_ours, now, worked=worked)
    try:
        while not caught_up(job, {(name, 0): 0}):
            job.step(0.05)
        entered = len(asked)
        # When there is something to copy, and it works for eleven seconds in each of some rounds, as with batches that
        # compaction has left gaps in
        produce(here, name, 10)
        for _ in range(3):
            job.step(0.05)
            worked_s[0] += 11.0
        wait_until(copied, job.statuses)
    finally:
        job.close()
    # Then it is copied, without a take-over
    assert len(asked) == entered
    assert content(there, name) == content(here, name)
