"""Mirrored topics are switched to their copies and back, by operations that may die anywhere."""

import uuid
from collections.abc import Iterator
from itertools import takewhile

import pytest

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.split import fields
from ha_core.model import Mirror, Operation, Topic
from ha_core.operations.clusters.masking import mask_cluster, unmask_cluster
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.creating import create_operation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.journal import holding
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.running import engine
from ha_core.plan.move.planner import steps
from stack.harness import Stack
from tests.kafka.clients import produce
from tests.kafka.mirroring import caught_up, content, copying, wait_until
from tests.kit.mirroring import Copiers
from tests.kit.moving import a_move, copiers_of, linked, moved
from tests.kit.stacks import operator
from tests.kit.waiting import until
from tests.operations.flipping import flip
from tests.operations.real_clusters import at

pytestmark = pytest.mark.stack
PARTITIONS, RECORDS = 2, 200
ALL = steps(a_move("any"))


environment = operator()


@pytest.fixture
def topic(environment: Environment) -> str:
    """One of the east that is mirrored to the west, with records."""
    name = f"standby-{uuid.uuid4().hex[:8]}"
    admin_of(environment, "east").create_topics([TopicSpec(name, PARTITIONS, 1)])
    for partition in range(PARTITIONS):
        produce(at(environment, "east"), name, RECORDS, partition=partition, enable_idempotence=True)
    linked(environment, name)
    return name


@pytest.fixture
def copiers(environment: Environment, topic: str) -> Iterator[Copiers]:
    with copiers_of(environment, {topic: PARTITIONS}) as running:
        yield running


def begun(
    environment: Environment, topic: str, origin: str = "east", target: str = "west", verify: str = "sample"
) -> Operation:
    proposal = plan(environment, a_move(topic, origin=origin, target=target, verify=verify))
    assert not proposal.refused, proposal.verdicts
    assert {"goes-to-copy", "copy-unknown"} & {verdict.code for verdict in proposal.verdicts}
    return create_operation(environment, proposal)


def mirrors(environment: Environment, topic: str) -> dict[str, Mirror]:
    return {key: mirror for key, mirror in environment.store.load().mirrors.items() if mirror.topic == topic}


def stored(environment: Environment, topic: str) -> Topic:
    return environment.store.load().topics[topic]


def await_copies(copiers: Copiers, topic: str, target: str) -> None:
    until(lambda: copiers.caught_up(topic, target), lambda: f"{topic} in {target} does not catch up", timeout_s=60)


def assert_equal(environment: Environment, topic: str, target: str) -> None:
    comparison = compare_mirrors(environment, [topic], target, 1.0, 0)
    assert comparison.equal, [partition.to_json() for partition in comparison.partitions]


def test_a_mirrored_topic_goes_to_its_copy_and_back_and_the_other_cluster_is_the_copy(
    environment: Environment, topic: str, copiers: Copiers
) -> None:
    here, there, records = "east", "west", RECORDS
    for turn in range(4):
        # Given a mirror that is up to date
        await_copies(copiers, topic, there)
        # When the topic is switched to the copy
        operation = begun(environment, topic, here, there)
        report = engine.resume(environment, operation.id)
        assert (report.result, report.error) == ("succeeded", "")
        # Then all of it is read there, from the copy, and the mirror goes the other way
        after = stored(environment, topic)
        assert after.writers == after.clusters == {there}
        assert [mirror.source for mirror in mirrors(environment, topic).values()] == [there]
        assert {extents[-1].writer_epoch for extents in after.partitions.values()} == {turn + 1}
        produce(at(environment, there), topic, 5 + turn, partition=0, enable_idempotence=True)
        records += 5 + turn
        await_copies(copiers, topic, here)
        assert_equal(environment, topic, here)
        here, there = there, here
    assert len(content(at(environment, "east"), topic)) == len(content(at(environment, "west"), topic)) == records


@pytest.fixture
def damaged(stack: Stack, environment: Environment) -> tuple[str, list[str]]:
    """As `topic`, with copies that are whole, but for one record of each; and where these are, in words."""
    name = f"standby-{uuid.uuid4().hex[:8]}"
    east, west = (admin_of(environment, cluster) for cluster in ("east", "west"))
    east.create_topics([TopicSpec(name, PARTITIONS, 1)])
    for partition in range(PARTITIONS):
        produce(at(environment, "east"), name, 100, partition=partition, batch_num_messages="10")
    linked(environment, name)
    (mirror,) = mirrors(environment, name).values()
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    copies = copies_of(mirror, PARTITIONS)
    with copying(east, west, copies) as job:
        wait_until(lambda: caught_up(job, {copy.key: 100 for copy in copies}), job.statuses)
    numbers = [fields(flip(stack, "west", name, partition).rest).value for partition in range(PARTITIONS)]
    return name, [f"partition {p} at offset {int(number or 0)} (another value)" for p, number in enumerate(numbers)]


@pytest.mark.parametrize("verify", ["sample", "full"])
def test_a_planned_switch_to_a_copy_that_differs_is_undone_and_names_the_first_offset(
    environment: Environment, damaged: tuple[str, list[str]], verify: str
) -> None:
    # Given copies with a record each that is another one
    topic, places = damaged
    before = stored(environment, topic)
    # When the topic is to go to its copy, which is compared: a sample of it, or all
    operation = begun(environment, topic, verify=verify)
    report = engine.resume(environment, operation.id)
    # Then it stays where it is, and the first offset that differs is named with the way out
    assert report.result == "undone"
    ((code, about, number),) = [(verdict.code, verdict.about, verdict.number) for verdict in report.verdicts]
    assert (code, about, number) == ("copy-differs", f"topic {topic}", PARTITIONS)
    assert all(place in report.error for place in places)
    assert "--verify none" in report.error
    assert stored(environment, topic) == before
    assert [mirror.held for mirror in mirrors(environment, topic).values()] == [None]
    assert not [lock for lock in environment.store.locks() if lock.operation == operation.id]
    failed = next(entry for entry in environment.store.history(operation.id) if entry.outcome == "failed")
    assert (failed.step, failed.detail["verdicts"][0]["code"]) == ("compare", "copy-differs")
    # When the operator leaves the comparison out, it goes all the same
    assert engine.resume(environment, begun(environment, topic, verify="none").id).result == "succeeded"


def test_a_copy_whose_last_record_differs_is_given_clients_by_a_forced_switch_only(
    stack: Stack, environment: Environment, damaged: tuple[str, list[str]]
) -> None:
    # Given copies that differ from their sources in the last record
    topic, _ = damaged
    for partition in range(PARTITIONS):
        flip(stack, "west", topic, partition, last=True)
    # When the topic is to go there without a comparison
    report = engine.resume(environment, begun(environment, topic, verify="none").id)
    # Then its copiers find the difference, and it stays: no one can tell which of both logs is right
    assert report.result == "undone"
    assert stored(environment, topic).clusters == {"east"}
    assert "source and copy differ" in report.error
    assert "another record at offset 99 than the copy" in report.error
    # When east is masked, and the operator takes the copy for right
    mask_cluster(environment, "east", "its disk was restored", force=True)
    try:
        forced = moved(environment, a_move(topic, mode="forced", unread="skip"))
    finally:
        unmask_cluster(environment, "east", "the test has ended")
    # Then it goes
    assert (forced.result, forced.error) == ("succeeded", "")
    assert stored(environment, topic).writers == {"west"}


def test_the_comparison_before_a_switch_is_reported_and_not_repeated_by_the_next_executor(
    environment: Environment, topic: str, copiers: Copiers
) -> None:
    # Given a mirror that is up to date
    await_copies(copiers, topic, "west")
    # When it is switched, by a process that dies when all of it has been compared, and by another one
    operation = begun(environment, topic, verify="full")
    with holding(environment, operation.id, engine.resume) as journal:
        SwitchSteps(journal).perform("compare")  # type: ignore[arg-type]
    report = engine.resume(environment, operation.id)
    # Then it succeeds, with what was equal in its report, its history and its result
    assert (report.result, report.error) == ("succeeded", "")
    told = report.to_json()["compared"]
    assert (told["verify"], told["records"], told["partitions"]) == ("full", RECORDS * PARTITIONS, PARTITIONS)
    assert told["ranges"] == told["of_ranges"] == PARTITIONS
    done = [
        entry for entry in environment.store.history(operation.id) if (entry.step, entry.outcome) == ("compare", "done")
    ]
    assert [entry.detail["records"] for entry in done] == [RECORDS * PARTITIONS]
    ended = environment.operation(operation.id)
    assert ended is not None
    assert f"compared with their sources before: {RECORDS * PARTITIONS} records, all equal" in ended.result


def test_a_switch_needs_no_other_copier_and_finds_no_difference_in_a_copy_that_was_not_begun(
    environment: Environment, topic: str
) -> None:
    # Given a mirror that no job copies
    operation = begun(environment, topic, verify="full")
    # When the topic is switched
    report = engine.resume(environment, operation.id)
    # Then nothing was there to be compared, and the copy has all of it
    assert (report.result, report.to_json()["compared"]["records"]) == ("succeeded", 0)
    assert stored(environment, topic).clusters == {"west"}
    for partition in range(PARTITIONS):
        assert content(at(environment, "west"), topic, partition) == content(at(environment, "east"), topic, partition)


def died(environment: Environment, topic: str, killed_before: str) -> Operation:
    """A switch whose process died before this step."""
    operation = begun(environment, topic)
    with holding(environment, operation.id, engine.resume) as journal:
        effects = SwitchSteps(journal)  # type: ignore[arg-type]
        for step in takewhile(lambda step: step != killed_before, ALL):
            effects.perform(step)
        effects.close()
    return operation


@pytest.mark.parametrize("killed_before", ALL[ALL.index("hold") + 1 : ALL.index("cut") + 1])
def test_a_switch_that_died_before_its_cut_is_undone_and_the_job_copies_on(
    environment: Environment, topic: str, copiers: Copiers, killed_before: str
) -> None:
    # Given a switch whose process died before a step, with its copies
    before = stored(environment, topic)
    operation = died(environment, topic, killed_before)
    # When another process continues it
    assert engine.resume(environment, operation.id).result == "undone"
    # Then nothing of it is left, and the job has the copies again
    (mirror,) = mirrors(environment, topic).values()
    assert (mirror.source, mirror.held) == ("east", None)
    assert stored(environment, topic) == before
    produce(at(environment, "east"), topic, 10)
    await_copies(copiers, topic, "west")
    assert_equal(environment, topic, "west")


@pytest.mark.parametrize("killed_before", ["verify", "repoint", "reverse", "groups", "record", "release"])
def test_a_switch_that_died_after_its_cut_is_ended(
    environment: Environment, topic: str, copiers: Copiers, killed_before: str
) -> None:
    # Given a switch whose process died after the cut
    operation = died(environment, topic, killed_before)
    # When another process continues it
    assert engine.resume(environment, operation.id).result == "succeeded"
    # Then the mirror goes the other way, once
    (mirror,) = mirrors(environment, topic).values()
    assert (mirror.source, mirror.target, mirror.link) == ("west", "east", operation.id)
    produce(at(environment, "west"), topic, 10)
    await_copies(copiers, topic, "east")
    assert_equal(environment, topic, "east")


def test_a_copy_takes_its_sources_settings_at_the_cut_and_keeps_later_changes(
    environment: Environment, topic: str, copiers: Copiers
) -> None:
    # Given a mirrored topic whose source uses LogAppendTime, and the task that cuts
    east, west = (admin_of(environment, name) for name in ("east", "west"))
    assert east.alter_settings({topic: {"message.timestamp.type": "LogAppendTime"}}, lambda: None) == {}
    await_copies(copiers, topic, "west")
    operation = begun(environment, topic)
    for task in ("compare", "prepare", "adopt", "cut_over"):
        engine.run_task(environment, operation.id, task)
    # Then the target uses LogAppendTime, although the next task has not begun
    assert west.settings([topic])[topic]["message.timestamp.type"].value == "LogAppendTime"
    # And that task does not undo a client's later setting
    assert west.alter_settings({topic: {"retention.ms": "7200000"}}, lambda: None) == {}
    for task in ("verify", "record"):
        engine.run_task(environment, operation.id, task)
    assert west.settings([topic])[topic]["retention.ms"].value == "7200000"
