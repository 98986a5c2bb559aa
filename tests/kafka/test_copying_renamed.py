"""Copies with a name of their own, as flows make them."""

from functools import partial

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.takeover import CopyPartition
from tests.kafka.clients import Settings, produce
from tests.kafka.mirroring import Linked, all_are, content, copy_of, copying, stopped, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("copy_logs")]


@pytest.fixture
def renamed(linked: Linked, west: Admin) -> list[CopyPartition]:
    """Partitions of `A.…` in west, copies of a topic in east; west has a topic of that name, too."""
    name = linked(2)
    west.create_topics([TopicSpec(f"A.{name}", 2, 3)])
    return [copy_of(f"A.{name}", partition)._replace(source_topic=name) for partition in range(2)]


def level(job: Copying, count: int) -> bool:
    statuses = job.statuses().values()
    return all(status.state == "copying" and status.has(count) for status in statuses)


def test_a_renamed_copy_has_its_sources_records_and_leaves_the_topic_of_that_name_alone(
    east: Admin, west: Admin, here: Settings, there: Settings, renamed: list[CopyPartition]
) -> None:
    name = renamed[0].source_topic
    produce(there, name, 5, partition=0)
    starts = {copy.source_key: 0 for copy in renamed}
    for partition in range(2):
        produce(here, name, 500, partition=partition)
    # When it is copied, and taken over by another copier in between
    with copying(east, west, renamed, starts) as job:
        wait_until(partial(level, job, 500), job.statuses)
        for partition in range(2):
            produce(here, name, 300, partition=partition)
        with copying(east, west, renamed, starts) as newer:
            wait_until(partial(level, newer, 800), newer.statuses)
            wait_until(partial(all_are, job, "stopped"), job.statuses)
    # Then every record is in the copy once
    for partition in range(2):
        assert content(there, f"A.{name}", partition) == content(here, name, partition)
    assert len(content(there, name)) == 5


def test_a_renamed_copy_can_begin_where_its_source_ends(
    east: Admin, west: Admin, here: Settings, there: Settings, renamed: list[CopyPartition]
) -> None:
    name = renamed[0].source_topic
    produce(here, name, 40, partition=0)
    with copying(east, west, renamed[:1], {(name, 0): 40}) as job:
        wait_until(partial(level, job, 40), job.statuses)
        produce(here, name, 7, partition=0)
        wait_until(partial(level, job, 47), job.statuses)
    assert content(there, f"A.{name}") == content(here, name)[40:]


def test_a_renamed_copy_whose_source_is_gone_stops_and_names_the_source(
    east: Admin, west: Admin, renamed: list[CopyPartition]
) -> None:
    missing = renamed[0]._replace(source_topic="never-made")
    with copying(east, west, [missing], {}) as job:
        assert "topic never-made has no partition 0" in stopped(job, "never-made").reason
