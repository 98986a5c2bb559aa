"""The executor on real ZooKeeper and two Kafka clusters of different major versions, without gateways."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import BAD_INPUT, OUT_OF_REACH
from ha_core.model import Cluster, Document, LastSequences, Member, Topic, UserBindings
from ha_core.model.extent import append as extents_append
from ha_core.model.extent import identity, skipping
from ha_core.operations.clusters.masking import mask_cluster
from ha_core.operations.clusters.registered import add_cluster, declare_usage
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError
from ha_core.operations.engine.report import report_of
from ha_core.operations.move import adoption, common_steps, switch_steps
from ha_core.operations.move.fenced_reads import FencedReads
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.proposal.requests import make_request
from ha_core.operations.running import engine
from ha_core.plan.move.planner import TASKS
from ha_core.store.commits import StateChange
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import operator
from tests.operations.dying import (
    ADOPT,
    COMMIT,
    COPY_OFFSETS,
    CREATE_TOPICS,
    FINISH,
    READ_ENDS,
    after,
    before,
    die,
)
from tests.operations.real_clusters import (
    fill,
    live_gateway,
    live_member,
    run_to_success,
    stored_move,
    stored_operation,
    topics_of,
)
from tests.plan.maps import rows

pytestmark = pytest.mark.stack
PARTITIONS, RECORDS = 3, 60
produce = partial(fill, partitions=PARTITIONS)


environment = operator(session_timeout_s=4.0)


@dataclass(frozen=True)
class Workload:
    """A user, its topic with `RECORDS` records per partition in east, and a group that has read some of them."""

    user: str
    topic: str
    group: str


def committed(stack: Stack, cluster: str, work: Workload) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap(stack, cluster), "group.id": work.group})
    try:
        found = consumer.committed([TopicPartition(work.topic, p) for p in range(PARTITIONS)], timeout=20)
        return {place.partition: place.offset for place in found if place.offset >= 0}
    finally:
        consumer.close()


def work_load(stack: Stack, environment: Environment) -> Workload:
    mark = uuid.uuid4().hex[:8]
    work = Workload(f"user-{mark}", f"orders-{mark}", f"billing-{mark}")
    create_topic(bootstrap(stack, "east"), work.topic, PARTITIONS, **{"retention.ms": "3600000"})
    produce(stack, "east", work.topic, RECORDS)
    # Not by a client: its first commit to a broker that has just started may find the coordinator still loading.
    east = environment.admin(environment.store.load().clusters["east"])
    east.set_group_offsets(work.group, {(work.topic, p): (10 + p, "") for p in range(PARTITIONS)})
    declare_usage(environment, work.user, (work.topic,), (work.group,))
    return work


@pytest.fixture
def work(stack: Stack, environment: Environment) -> Workload:
    return work_load(stack, environment)


def begin(environment: Environment, work: Workload, origin: str = "east", target: str = "west", **more: Any) -> str:
    request = make_request([f"user:{work.user}"], origin, target, reason="test", **more)
    return engine.start(environment, plan(environment, request)).id


def assert_nothing_left(environment: Environment, operation_id: str, work: Workload) -> None:
    """Neither fence nor lock."""
    view = environment.store.load()
    assert work.topic not in view.topics or view.topics[work.topic].fence is None
    assert work.group not in view.groups or view.groups[work.group].fence is None
    assert [lock for lock in environment.store.locks() if lock.operation == operation_id] == []


def assert_moved(stack: Stack, environment: Environment, work: Workload) -> None:
    view = environment.store.load()
    topic = view.topics[work.topic]
    assert topic.writer == "west"
    assert {partition: rows(extents) for partition, extents in topic.partitions.items()} == {
        partition: [("east", 0, RECORDS, 0, 0), ("west", RECORDS, None, 0, 1)] for partition in range(PARTITIONS)
    }
    assert view.bindings[work.user].cluster == "west"
    assert view.groups[work.group].cluster == "west"
    assert committed(stack, "west", work) == {p: 10 + p for p in range(PARTITIONS)}


def assert_not_moved(stack: Stack, environment: Environment, work: Workload) -> None:
    view = environment.store.load()
    assert work.topic not in view.topics
    assert work.group not in view.groups
    assert work.user not in view.bindings
    assert work.topic not in topics_of(stack, "west")


def test_a_planned_switch_moves_topics_groups_and_bindings_in_one_revision(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # Given a planned switch
    operation_id = begin(environment, work)
    # When it is run
    report = engine.resume(environment, operation_id)
    # Then everything has moved, and the report has cuts and steps
    assert report.result == "succeeded", report.error
    assert_moved(stack, environment, work)
    assert_nothing_left(environment, operation_id, work)
    assert {(p.partition, p.cut) for p in report.partitions} == {(p, RECORDS) for p in range(PARTITIONS)}
    names = [step.name for step in report.steps]
    assert [n for n in names if n in {"fence", "drain", "ends", "offsets", "cut"}] == [
        "fence",
        "drain",
        "ends",
        "offsets",
        "cut",
    ]


def test_a_switch_back_appends_a_term_and_keeps_every_client_offset(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # Given a topic that has moved to west, and got records there
    run_to_success(environment, begin(environment, work))
    produce(stack, "west", work.topic, 7)
    # When it moves back
    report = engine.resume(environment, begin(environment, work, "west", "east"))
    # Then its map has each stay where clients have its offsets
    assert report.result == "succeeded", report.error
    topic = environment.store.load().topics[work.topic]
    assert topic.writer == "east"
    assert rows(topic.partitions[0]) == [
        ("east", 0, RECORDS, 0, 0),
        ("west", RECORDS, RECORDS + 7, 0, 1),
        ("east", RECORDS + 7, None, RECORDS, 2),
    ]


def test_live_members_are_adopted_in_the_target_under_aliases(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # Given a live member of the group
    with live_member(stack, "east", work.group, work.topic) as consumer:
        name = consumer.memberid()
        # When its user moves
        report = engine.resume(environment, begin(environment, work))
        # Then it is a member in west under an alias, with the same offsets
        assert report.result == "succeeded", report.error
        group = environment.store.load().groups[work.group]
        (said,) = group.aliases
        assert said.endswith(f":{name}")
        member: Member = group.aliases[said]
        here, there = (
            environment.admin(environment.store.load().clusters[cluster]).describe_groups([work.group])[work.group]
            for cluster in ("east", "west")
        )
        # The old coordinator does not wait for a member that is gone, and neither does a move back
        assert name not in [member.member_id for member in here.members]
        assert there.state == "Stable"
        assert [member.member_id for member in there.members] == [member.member_id]
        assert committed(stack, "west", work) == {p: 10 + p for p in range(PARTITIONS)}


def test_offsets_left_from_an_earlier_stay_in_the_target_do_not_return(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # Given a group that was in west once, where it had read what it has no position for any more
    other = f"{work.topic}-other"
    for cluster in ("east", "west"):
        create_topic(bootstrap(stack, cluster), other, PARTITIONS)
    west = environment.admin(environment.store.load().clusters["west"])
    west.set_group_offsets(work.group, {(other, 0): (3, "long ago")})
    # When it moves there again
    report = engine.resume(environment, begin(environment, work))
    # Then it has committed there what it had in the origin, and nothing else
    assert report.result == "succeeded", report.error
    assert west.group_offsets([work.group])[work.group] == {(work.topic, p): (10 + p, "") for p in range(PARTITIONS)}


class PlantedError(Exception):
    """A fault of the test."""


def fails(*_: object, **__: object) -> None:
    raise PlantedError("planted")


def run_every_step(environment: Environment, operation_id: str) -> None:
    for step in TASKS:
        engine.run_task(environment, operation_id, step)


FAULTS: dict[str, tuple[object, str]] = {
    "prepare": (common_steps, "specs"),
    "adopt": (adoption, "adopt"),
    "before the fence": (switch_steps, "fence_change"),
    "drain": (switch_steps, "require_drained"),
    "ends": (FencedReads, "read"),
    "offsets": (FencedReads, "copy_offsets"),
    "before the cut": (switch_steps, "cut_change"),
}


@pytest.mark.parametrize("point", FAULTS)
def test_a_failure_before_the_cut_undoes_the_switch_at_once(
    point: str, stack: Stack, environment: Environment, work: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a step that fails
    operation_id = begin(environment, work)
    monkeypatch.setattr(*FAULTS[point], fails)
    # When the steps are run
    with pytest.raises(StepFailedError, match="undone"):
        run_every_step(environment, operation_id)
    # Then nothing has moved, and nothing is left
    assert_not_moved(stack, environment, work)
    assert_nothing_left(environment, operation_id, work)
    assert stored_operation(environment, operation_id).state == "undone"


def test_a_switch_is_undone_when_its_user_began_to_use_a_group_after_the_plan(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    operation_id = begin(environment, work)
    # When a new group of the user appears before the fence
    declare_usage(environment, work.user, (), (f"late-{work.group}",))
    report = engine.resume(environment, operation_id)
    # Then the move is undone: its coordinator would be in west, and what it committed in east
    assert report.result == "undone"
    assert f"group:late-{work.group}" in report.error
    assert "Start the move again" in report.error
    assert_nothing_left(environment, operation_id, work)
    # And the next one takes it along
    assert engine.resume(environment, begin(environment, work)).result == "succeeded"
    assert environment.store.load().groups[f"late-{work.group}"].cluster == "west"


def test_a_switch_is_undone_when_its_user_begins_to_use_a_topic_after_the_fence(
    environment: Environment, work: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a user that begins to use a topic when the fence stands
    fence = SwitchSteps.fence

    def fence_and_appear(effects: SwitchSteps) -> None:
        fence(effects)
        declare_usage(environment, work.user, (f"late-{work.topic}",), ())

    monkeypatch.setattr(SwitchSteps, "fence", fence_and_appear)
    operation_id = begin(environment, work)
    # When the switch is run
    report = engine.resume(environment, operation_id)
    # Then it is undone
    assert report.result == "undone"
    assert f"topic:late-{work.topic}" in report.error
    assert_nothing_left(environment, operation_id, work)


def test_a_switch_is_undone_when_a_topic_gets_partitions_right_before_the_fence(
    stack: Stack, environment: Environment, work: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a topic that gets a partition right before its fence
    fence = SwitchSteps.fence

    def grow_and_fence(effects: SwitchSteps) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east")})
        admin.create_partitions([NewPartitions(work.topic, PARTITIONS + 1)])[work.topic].result(20)
        fence(effects)

    monkeypatch.setattr(SwitchSteps, "fence", grow_and_fence)
    operation_id = begin(environment, work)
    # When the switch is run
    report = engine.resume(environment, operation_id)
    # Then it is undone
    assert report.result == "undone"
    assert f"{PARTITIONS + 1} partitions" in report.error
    assert_nothing_left(environment, operation_id, work)


def test_a_switch_is_undone_when_records_are_written_past_the_gateways_after_the_fence(
    stack: Stack, environment: Environment, work: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a producer that writes to the origin directly while the fence stands
    operation_id = begin(environment, work)
    ask = FencedReads._producers

    def with_a_writer(window: FencedReads) -> Any:
        found = environment.operation(operation_id)
        if found is not None and found.state == "fenced":
            produce(stack, "east", work.topic, 1)
        return ask(window)

    monkeypatch.setattr(FencedReads, "_producers", with_a_writer)
    # When the switch is run
    report = engine.resume(environment, operation_id)
    # Then it is undone, and the partition is named
    assert report.result == "undone"
    assert "without passing through the gateways" in report.error
    assert f"{work.topic}-0 went from {RECORDS} to {RECORDS + 1}" in report.error
    # And it is told by its code and how much that was, also to who asks later
    (told,) = report.verdicts
    assert (told.level, told.code, told.about, told.number, told.unit) == (
        "error",
        "past-gateways",
        f"topic {work.topic}",
        PARTITIONS,
        "offsets",
    )
    ended = stored_operation(environment, operation_id)
    assert report_of(environment, ended).to_json()["verdicts"][0]["code"] == "past-gateways"
    assert_nothing_left(environment, operation_id, work)


def test_a_switch_is_undone_when_a_gateway_does_not_drain_and_the_gateway_is_named(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # Given a switch that waits for gateways for a short time only
    operation_id = begin(environment, work, drain_timeout_s=0.2)
    # When it is run while one of them does not drain
    with live_gateway(environment, "gw-stuck"):
        report = engine.resume(environment, operation_id)
    # Then it is undone without a trace
    assert report.result == "undone"
    assert "gw-stuck" in report.error
    assert_not_moved(stack, environment, work)
    assert_nothing_left(environment, operation_id, work)


def test_a_switch_continues_once_the_gateway_reports_its_fence_drained(
    environment: Environment, work: Workload
) -> None:
    operation_id = begin(environment, work)

    with live_gateway(environment, "gw-1", drained=(operation_id,)):
        report = engine.resume(environment, operation_id)

    assert report.result == "succeeded", report.error


def test_a_switch_of_a_user_without_topics_or_groups_waits_for_no_gateway(environment: Environment) -> None:
    # Given a user without topics or groups, and a live gateway
    idle = UserBindings(user="idle", cluster="east")
    change = StateChange(change_id="test:idle", puts=(idle,), expected={(UserBindings, "idle"): None})
    environment.store.commit(change)
    with live_gateway(environment, "gw-1"):
        # When it moves
        proposal = plan(environment, make_request(["user:idle"], "east", "west", reason="test"))
        report = engine.resume(environment, engine.start(environment, proposal).id)
    # Then its binding does, at once
    assert report.result == "succeeded", report.error
    assert environment.store.load().bindings["idle"].cluster == "west"


def test_a_switch_is_refused_while_another_operation_has_its_scope_and_names_owner_and_way_out(
    environment: Environment, work: Workload
) -> None:
    # Given an operation on the same user
    first = begin(environment, work)
    request = make_request([f"user:{work.user}"], "east", "west", reason="test")
    # When another one is planned
    with pytest.raises(RefusedError) as caught:
        plan(environment, request).require_sound()
    # Then it is refused with the way out, which leads out
    assert first in str(caught.value)
    assert "test:operator" in str(caught.value)
    assert f"switchyard undo {first}" in str(caught.value)
    assert engine.undo(environment, first).result == "undone"
    plan(environment, request).require_sound()


def test_releasing_a_prepared_switch_undoes_it_without_a_trace_and_may_be_repeated(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # Given a switch that has made its topics in west
    operation_id = begin(environment, work)
    engine.run_task(environment, operation_id, "prepare")
    # When it is released twice
    first, second = engine.release(environment, operation_id), engine.release(environment, operation_id)
    # Then it is undone, and nothing is left; and releasing one that never began does nothing
    assert engine.release(environment, "never-created") is None
    assert first is not None
    assert second is not None
    assert (first.result, second.result) == ("undone", "undone")
    assert_not_moved(stack, environment, work)
    assert_nothing_left(environment, operation_id, work)


def test_undoing_a_switch_after_its_cut_is_refused_and_the_move_back_is_named(
    environment: Environment, work: Workload
) -> None:
    operation_id = begin(environment, work)
    engine.resume(environment, operation_id)

    with pytest.raises(RefusedError, match="--from west --to east"):
        engine.undo(environment, operation_id)


def test_every_step_of_a_switch_may_be_run_twice(stack: Stack, environment: Environment, work: Workload) -> None:
    operation_id = begin(environment, work)

    for step in TASKS:
        engine.run_task(environment, operation_id, step)
        engine.run_task(environment, operation_id, step)

    assert_moved(stack, environment, work)
    assert_nothing_left(environment, operation_id, work)


def retention(environment: Environment, cluster: str, topic: str) -> str | None:
    return admin_of(environment, cluster).settings([topic])[topic]["retention.ms"].value


@pytest.mark.parametrize("when", ["between tasks", "right before the fence"])
def test_a_setting_that_changed_after_the_target_topic_was_created_applies_after_the_cut(
    environment: Environment, work: Workload, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    # Given a switch that has created its topic in the target
    operation_id = begin(environment, work)
    engine.run_task(environment, operation_id, "prepare")
    engine.run_task(environment, operation_id, "adopt")
    assert retention(environment, "west", work.topic) == "3600000"
    # When a client sets unlimited retention, and gets an acknowledgement
    east, drained = admin_of(environment, "east"), SwitchSteps.drain

    def keep_for_ever() -> None:
        assert east.alter_settings({work.topic: {"retention.ms": "-1"}}, lambda: None) == {}

    def late(steps: SwitchSteps) -> None:
        keep_for_ever()
        drained(steps)

    if when == "between tasks":
        keep_for_ever()
    else:
        monkeypatch.setattr(SwitchSteps, "drain", late)
    assert engine.resume(environment, operation_id).result == "succeeded"
    # Then the target has that retention
    assert retention(environment, "west", work.topic) == "-1"


def test_a_topic_does_not_go_back_while_an_old_transaction_there_could_commit_skipped_records(
    stack: Stack, environment: Environment
) -> None:
    # Given a topic that was forced out of west, whose readers skip its records there, and a transaction that is open
    name = f"left-{uuid.uuid4().hex[:8]}"
    for cluster in ("east", "west"):
        create_topic(bootstrap(stack, cluster), name, 1)
    producer = Producer({"bootstrap.servers": bootstrap(stack, "west"), "transactional.id": name, "log_level": 3})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(name, b"open")
    producer.flush(20)
    extents = skipping(extents_append(identity("west"), "east", 100, 0, known_end=1), "west")
    put_documents(
        environment,
        Topic(name=name, writer="east", partitions={0: extents}),
        LastSequences(name=name, left_by_force={"west": {0: {}}}),
    )
    # When a switch back is tried
    request = make_request(
        [f"topic:{name}"], "east", "west", reason="home", include_other_users=True, drain_timeout_s=1.0
    )
    report = engine.resume(environment, engine.start(environment, plan(environment, request)).id)
    # Then the switch is undone and names the way out; it succeeds after the transaction has ended
    assert report.result == "undone"
    assert f"a transaction is open in {name}-0 (producer" in report.error
    producer.abort_transaction(20)
    report = engine.resume(environment, engine.start(environment, plan(environment, request)).id)
    assert report.result == "succeeded"
    assert environment.store.load().sequences[name].left_by_force == {}


def put_documents(environment: Environment, *documents: Document) -> None:
    expected = {(type(one), one.name): None for one in documents}  # type: ignore[attr-defined]
    environment.store.commit(StateChange(change_id=f"test:{uuid.uuid4()}", puts=documents, expected=expected))


DEATHS = {
    "before topics are created": before(CREATE_TOPICS),
    "after topics are created": after(CREATE_TOPICS),
    "before adoption": before(ADOPT),
    "before the fence": before(COMMIT, "fence"),
    "after the fence": after(COMMIT, "fence"),
    "before ends are read": before(READ_ENDS),
    "after offsets are copied": after(COPY_OFFSETS),
    "before the cut": before(COMMIT, "cut"),
    "after the cut": after(COMMIT, "cut"),
    "before the result is written": before(FINISH),
    "after the result is written": after(FINISH),
}
DEATHS_UNDER_THE_FENCE = {"after the fence", "before ends are read", "after offsets are copied", "before the cut"}
COMMAND = """
from ha_core.cli import main
from ha_core.operations.running import engine
engine.recover_one = lambda *_: None  # the ones before are for the test to resume
sys.argv[0] = "switchyard"
main()
"""


def test_a_switch_killed_at_any_point_is_finished_or_undone_by_resume(
    stack: Stack, environment: Environment, tmp_path: Path
) -> None:
    # Given a switch for each point at which its command is killed
    works = {point: work_load(stack, environment) for point in DEATHS}
    for point, work in works.items():
        words = ["switch", f"user:{work.user}", "--from", "east", "--to", "west", "--reason", point, "--yes", "--json"]
        die(stack, DEATHS[point], COMMAND, *words)
    for point, work in works.items():
        (operation,) = [o for o in environment.store.operations(1000) if o.reason == point]
        # When it is resumed
        report = engine.resume(environment, operation.id)
        # Then it is undone where its fence stood, and finished everywhere else; and a second time changes nothing
        assert report.result == ("undone" if point in DEATHS_UNDER_THE_FENCE else "succeeded"), (point, report.error)
        assert_nothing_left(environment, operation.id, work)
        if report.result == "succeeded":
            assert_moved(stack, environment, work)
        else:
            assert_not_moved(stack, environment, work)
        again = engine.resume(environment, operation.id)
        assert again.result == report.result


def test_a_forced_switch_cuts_above_everything_the_dead_cluster_can_have_acknowledged(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # Given a topic that moved to west and got records there, and west dead
    run_to_success(environment, begin(environment, work))
    produce(stack, "west", work.topic, 5)
    stack.kill("cluster/west")
    try:
        operation_id = begin(environment, work, "west", "east", mode="forced", unread="skip")
        # When it is forced back to east
        report = engine.resume(environment, operation_id)
        # Then its cut lies above all that west can have acknowledged
        assert report.result == "succeeded", report.error
        topic = environment.store.load().topics[work.topic]
        assert topic.writer == "east"
        assert [e.cluster for e in topic.partitions[0]] == ["east", "west", "east"]
        assert topic.partitions[0][-1].start >= RECORDS + 5
        assert topic.partitions[0][-1].base == RECORDS
        assert_nothing_left(environment, operation_id, work)
        assert stored_move(environment, operation_id).evidence.unknown_ends == {work.topic: tuple(range(PARTITIONS))}
    finally:
        stack.restart("cluster/west")


def test_a_switch_command_that_is_terminated_lifts_its_fence_before_it_exits(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    words = ["switch", f"user:{work.user}", "--from", "east", "--to", "west", "--reason", work.user, "--yes"]
    running = subprocess.Popen(
        [sys.executable, "-c", "from ha_core.cli import main; main()", *words, "--drain-timeout", "60"],
        env={**os.environ, "SWITCHYARD_ZOOKEEPER": stack.zookeeper},
    )
    with live_gateway(environment, "gw-stuck"):
        try:
            wait_until_fenced(environment, work, running)
            # When it is terminated
            running.terminate()
            code = running.wait(30)
        finally:
            running.kill()
            running.wait()
    # Then it has undone the move before it ended
    assert code == 143
    (operation,) = [o for o in environment.store.operations(1000) if o.reason == work.user]
    assert operation.state == "undone"
    assert_not_moved(stack, environment, work)
    assert_nothing_left(environment, operation.id, work)


def wait_until_fenced(environment: Environment, work: Workload, running: subprocess.Popen[bytes]) -> None:
    """:raises AssertionError: the process has ended before."""
    while (topic := environment.store.load().topics.get(work.topic)) is None or topic.fence is None:
        assert running.poll() is None


def test_a_new_switch_first_finishes_an_abandoned_one_of_the_same_scope(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # Given an operation without an executor for twenty seconds, and which was not taken up before that
    operation_id = begin(environment, work)
    request = make_request([f"user:{work.user}"], "east", "west", reason="again")
    young = engine.continue_twins(environment, request)
    later = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
    environment.now = lambda: later
    # When the same is asked for
    continued = engine.continue_twins(environment, request)
    # Then the first one is brought to its end
    assert young == engine.Continued(dict.fromkeys(request.scope.entries))
    assert not continued.left
    (report,) = continued.reports
    assert (report.operation, report.result) == (operation_id, "succeeded")
    assert_moved(stack, environment, work)


def invoke(stack: Stack, *words: str) -> tuple[int, dict[str, Any], str]:
    ended = CliRunner().invoke(build(), [*words, "--zookeeper", stack.zookeeper, "--json"])
    return ended.exit_code, json.loads(ended.stdout), ended.stderr


def switch(stack: Stack, scope: str, origin: str = "east", target: str = "west") -> tuple[int, str]:
    code, data, _ = invoke(stack, "switch", scope, "--from", origin, "--to", target, "--reason", "test", "--yes")
    return code, str(data.get("error", data))


def occupy(stack: Stack, _: Environment, work: Workload) -> None:
    create_topic(bootstrap(stack, "west"), work.topic, PARTITIONS)
    produce(stack, "west", work.topic, 1)


def misshape(stack: Stack, _: Environment, work: Workload) -> None:
    create_topic(bootstrap(stack, "west"), work.topic, PARTITIONS + 1)


def share(_: Stack, environment: Environment, work: Workload) -> None:
    declare_usage(environment, "other", (work.topic,), ())


@pytest.mark.parametrize(
    ("prepare", "words"),
    [(occupy, "data of its own"), (misshape, "4 partitions in west"), (share, "also used by other")],
)
def test_a_switch_with_an_unsuitable_target_or_scope_is_refused_before_anything_changes(
    prepare: Callable[[Stack, Environment, Workload], None],
    words: str,
    stack: Stack,
    environment: Environment,
    work: Workload,
) -> None:
    prepare(stack, environment, work)
    before, locks = environment.store.load(), environment.store.locks()

    code, error = switch(stack, f"user:{work.user}")

    assert code == 2
    assert words in error
    assert environment.store.load() == before
    assert environment.store.locks() == locks


@pytest.mark.parametrize(
    ("scope", "origin", "target", "words"),
    [
        ("user:{user}", "east", "north", "'north' is not registered"),
        ("user:{user}", "north", "west", "'north' is not registered"),
        ("user:{user}", "east", "east", "same cluster"),
        ("user:nobody", "east", "west", "nobody"),
        ("topic:no-such-topic", "east", "west", "no-such-topic"),
        ("user:{user}", "east", "masked", "masked"),
        ("user:{user}", "east", "away", "cannot be reached"),
        ("user:{user}", "east", "locked", "service account"),
    ],
)
def test_bad_input_of_a_switch_is_a_clear_error_before_anything_changes(
    scope: str,
    origin: str,
    target: str,
    words: str,
    stack: Stack,
    environment: Environment,
    work: Workload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given clusters of which each is unusable in its own way
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text("sasl: {mechanism: PLAIN, username: nobody, password: wrong}")
    monkeypatch.setenv("SWITCHYARD_SECURITY_FILE", str(profiles))
    if target == "masked":
        add_cluster(environment, "masked", bootstrap(stack, "west"))
        # By force: under its second name the recorder may already have seen what other tests write in west.
        mask_cluster(environment, "masked", "maintenance", force=True)
    elif target == "away":
        add_cluster(environment, "away", "127.0.0.1:1")
    elif target == "locked":
        add_cluster(environment, "locked", bootstrap(stack, "west"), security="sasl")
    before, locks = environment.store.load(), environment.store.locks()
    try:
        # When a switch is asked for
        code, error = switch(stack, scope.format(user=work.user), origin, target)
        # Then it is refused with the reason, and nothing has changed
        assert code == (OUT_OF_REACH if target == "away" else BAD_INPUT)
        assert words in error
        assert "Traceback" not in error
        assert environment.store.load() == before
        assert environment.store.locks() == locks
    finally:
        forget(environment, {"masked", "away", "locked"})


def forget(environment: Environment, names: set[str]) -> None:
    for name in names:
        found = environment.store.read(Cluster, name)
        if found is not None:
            key = (Cluster, name)
            environment.store.commit(
                StateChange(change_id=f"forget:{uuid.uuid4()}", deletes=(key,), expected={key: found[1]})
            )


def test_the_switch_command_writes_its_result_as_json_and_its_progress_to_stderr(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    # When a user is switched with --json
    code, report, progress = invoke(
        stack, "switch", f"user:{work.user}", "--from", "east", "--to", "west", "--reason", "test", "--yes"
    )
    # Then the document has operation, partitions and steps, and stderr the steps as they were taken
    assert code == 0
    assert report["result"] == "succeeded"
    assert report["revision"] == environment.store.load().revision
    assert report["partitions"][0] == {
        "topic": work.topic,
        "partition": 0,
        "cut": RECORDS,
        "from": "east",
        "to": "west",
    }
    assert {"name", "ms"} == set(report["steps"][0])
    for sub_step in ("fence", "drain", "ends", "offsets", "cut"):
        assert f"\n{sub_step} " in progress


def test_a_dry_run_of_a_switch_lists_what_moves_with_reasons_and_changes_nothing(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    before = environment.store.load()

    code, proposal, _ = invoke(
        stack, "switch", f"user:{work.user}", "--from", "east", "--to", "west", "--reason", "test", "--dry-run"
    )

    assert code == 0
    assert set(proposal["moves"]["reasons"]) == {f"topic:{work.topic}", f"group:{work.group}"}
    assert environment.store.load() == before
    assert work.topic not in topics_of(stack, "west")


def test_a_switch_command_without_confirmation_changes_nothing(
    stack: Stack, environment: Environment, work: Workload
) -> None:
    before = environment.store.load()

    code, _, _ = invoke(stack, "switch", f"user:{work.user}", "--from", "east", "--to", "west", "--reason", "test")

    assert code == 2
    assert environment.store.load() == before


def test_a_switch_proposal_is_read_back_from_its_json(environment: Environment, work: Workload) -> None:
    proposal = plan(environment, make_request([f"user:{work.user}"], "east", "west", reason="test"))

    assert type(proposal).model_validate(json.loads(json.dumps(proposal.to_json()))) == proposal
