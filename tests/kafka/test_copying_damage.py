"""A copy whose source or target has changed unexpectedly stops, and reports the way out, without guessing."""

import os
import time
from functools import partial

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.fencing import fence
from stack.harness import Stack
from tests.kafka.clients import Settings, produce
from tests.kafka.mirroring import Linked, caught_up, content, copy_of, copying, stopped, wait_until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.usefixtures("copy_logs"),
    pytest.mark.long("ha_core/kafka/copying", "ha_core/mirror"),
]


@pytest.fixture
def name(linked: Linked, here: Settings) -> str:
    """A topic with 100 records, and its empty copy."""
    topic = linked()
    produce(here, topic, 100, linger_ms="0")
    return topic


def delete(base: Settings, topic: str) -> None:
    admin = AdminClient(base)
    admin.delete_topics([topic])[topic].result(30)


def delete_records(base: Settings, topic: str, before: int) -> None:
    where = TopicPartition(topic, 0, before)
    admin = AdminClient(base)
    admin.delete_records([where])[where].result(30)


def test_recreated_source_stops_its_copy(east: Admin, west: Admin, name: str, here: Settings) -> None:
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        # When it is re-created, with more records than were copied
        delete(here, name)
        time.sleep(0.5)
        east.create_topics([TopicSpec(name, 1, 1)])
        produce(here, name, 150)
        # Then it stops
        stopped(job, "was deleted and re-created")
    # And a new copier finds the same
    with copying(east, west, [copy_of(name)]) as job:
        assert "unlink the mirror" in stopped(job, f"topic {name} of east was deleted and re-created").reason
    assert west.ends([(name, 0)])[name, 0].log_end < 110


def test_a_source_that_was_deleted_stops_its_copy(east: Admin, west: Admin, name: str, here: Settings) -> None:
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        delete(here, name)
        stopped(job, f"topic {name} of east has no partition 0, or does not exist: unlink the mirror")
    with copying(east, west, [copy_of(name)]) as job:
        stopped(job, "does not exist: unlink the mirror")


def test_recreated_copy_stops(east: Admin, west: Admin, name: str, here: Settings, there: Settings) -> None:
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        delete(there, name)
        time.sleep(0.5)
        west.create_topics([TopicSpec(name, 1, 3)])
        produce(here, name, 1)
        stopped(job, "re-created")
    with copying(east, west, [copy_of(name)]) as job:
        stopped(job, f"topic {name} of west was deleted and re-created")


def test_a_copy_that_was_deleted_stops(east: Admin, west: Admin, name: str, here: Settings, there: Settings) -> None:
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        delete(there, name)
        produce(here, name, 1)
        stopped(job, f"topic {name} has no partition 0, or does not exist", 60)


@pytest.mark.parametrize("all_noted", [True, False], ids=["noted", "not noted yet"])
def test_retention_of_the_copy_is_no_damage(
    east: Admin, west: Admin, name: str, here: Settings, there: Settings, all_noted: bool
) -> None:
    copy = copy_of(name)

    def noted() -> int:
        progress = west.read_notes(copy.log, {copy.id: 0})[copy.id].progress
        return 0 if progress is None else progress.source

    with copying(east, west, [copy]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        if all_noted:
            wait_until(lambda: noted() == 100, noted)
    reached = noted()
    # When neither copied records nor the markers of its copiers are left
    delete_records(there, name, -1)
    produce(here, name, 5)
    with copying(east, west, [copy]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 105}), job.statuses)
    # Then it continues above the last known offset
    assert content(there, name) == content(here, name)[reached:]


def test_foreign_records_in_a_copy_stop_it(
    east: Admin, west: Admin, name: str, here: Settings, there: Settings
) -> None:
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        produce(there, name, 1)
        produce(here, name, 1)
        stopped(job, "another producer writes to the copy")
    with copying(east, west, [copy_of(name)]) as job:
        stopped(job, "another producer writes to the copy")


def test_foreign_marker_in_a_copy_is_skipped(
    east: Admin, west: Admin, name: str, here: Settings, there: Settings
) -> None:
    # Given a copy in whose log transactions of another producer end repeatedly without records
    def transaction_ends() -> None:
        fence(west.asking(), f"somebody-{name}", ((name, 0),))

    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        for turn in range(1, 4):
            transaction_ends()
            produce(here, name, 10)
            transaction_ends()
            produce(here, name, 10)
            # Then copying continues
            wait_until(partial(caught_up, job, {(name, 0): 100 + 20 * turn}), job.statuses)
    # And a successor continues too, with each record once
    produce(here, name, 10)
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 170}), job.statuses)
        assert content(there, name) == content(here, name)
        # But not above a foreign record
        produce(there, name, 1)
        transaction_ends()
        produce(here, name, 1)
        stopped(job, "another producer writes to the copy")


@pytest.mark.parametrize("longer", [False, True], ids=["shorter than the copy", "longer than the copy again"])
def test_a_source_that_lost_its_end_stops_its_copy(
    east: Admin, west: Admin, running: Stack, name: str, here: Settings, longer: bool
) -> None:
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        # When the source's broker comes back without the last part of its log
        running.kill("cluster/east/1")
        segments = running.dir.rglob(f"{name}-0/00000000000000000000.log")
        (segment,) = [found for found in segments if "east" in str(found.relative_to(running.dir))]
        os.truncate(segment, segment.stat().st_size * 2 // 3)
        segment.with_suffix(".index").unlink(missing_ok=True)
        running.restart("cluster/east/1")
        wait_until(lambda: east.ends([(name, 0)])[name, 0].log_end < 100, lambda: east.ends([(name, 0)]))
        if longer:
            produce(here, name, 90)
        # Then it stops, and reports the end of the source's remaining records
        left = stopped(job, "the source was truncated", 60)
        assert "was copied up to 100" in left.reason
    with copying(east, west, [copy_of(name)]) as job:
        stopped(job, "the source was truncated")
