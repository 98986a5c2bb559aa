"""The executor on real ZooKeeper and two Kafka clusters of different major versions, without gateways."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import BAD_INPUT
from ha_core.model import LastSequences, Member, MoveRequest, Topic, UserBindings, View
from ha_core.model.extent import append as extents_append
from ha_core.model.extent import identity, skipping
from ha_core.operations.clusters.registered import add_cluster, declare_usage, remove_cluster
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError
from ha_core.operations.engine.report import Report, report_of
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


environment = operator(session_timeout_s=4.0)


@dataclass(frozen=True)
class Workload:
    """A user, its topic with `RECORDS` records per partition in east, and a group that has read some of them."""

    stack: Stack
    environment: Environment
    user: str
    topic: str
    group: str

    @property
    def view(self) -> View:
        return self.environment.store.load()

    def request(self, origin: str = "east", target: str = "west", **more: Any) -> MoveRequest:
        return make_request([f"user:{self.user}"], origin, target, reason="test", **more)

    def begin(self, origin: str = "east", target: str = "west", **more: Any) -> str:
        return engine.start(self.environment, plan(self.environment, self.request(origin, target, **more))).id

    def switch(self, *options: str, target: str = "west") -> tuple[int, dict[str, Any], str]:
        """Exit code, document and output of the command."""
        words = ["switch", f"user:{self.user}", "--from", "east", "--to", target, "--reason", "test", *options]
        ended = CliRunner().invoke(build(), [*words, "--zookeeper", self.stack.zookeeper, "--json"])
        return ended.exit_code, json.loads(ended.stdout), ended.stderr

    def resume(self, operation_id: str) -> Report:
        return engine.resume(self.environment, operation_id)

    def undone(self, operation_id: str) -> Report:
        """Resume the operation: it is undone, with neither fence nor lock."""
        report = self.resume(operation_id)
        assert report.result == "undone"
        self.assert_nothing_left(operation_id)
        return report

    def produce(self, cluster: str, count: int) -> None:
        fill(self.stack, cluster, self.topic, count, partitions=PARTITIONS)

    def committed(self, cluster: str) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": bootstrap(self.stack, cluster), "group.id": self.group})
        try:
            found = consumer.committed([TopicPartition(self.topic, p) for p in range(PARTITIONS)], timeout=20)
            return {place.partition: place.offset for place in found if place.offset >= 0}
        finally:
            consumer.close()

    def assert_nothing_left(self, operation_id: str) -> None:
        """Neither fence nor lock."""
        view = self.view
        assert self.topic not in view.topics or view.topics[self.topic].fence is None
        assert self.group not in view.groups or view.groups[self.group].fence is None
        assert [lock for lock in self.environment.store.locks() if lock.operation == operation_id] == []

    def assert_moved(self) -> None:
        view = self.view
        topic = view.topics[self.topic]
        assert topic.writer == "west"
        assert {partition: rows(extents) for partition, extents in topic.partitions.items()} == {
            partition: [("east", 0, RECORDS, 0, 0), ("west", RECORDS, None, 0, 1)] for partition in range(PARTITIONS)
        }
        assert view.bindings[self.user].cluster == "west"
        assert view.groups[self.group].cluster == "west"
        assert self.committed("west") == {p: 10 + p for p in range(PARTITIONS)}

    def assert_not_moved(self) -> None:
        view = self.view
        assert self.topic not in view.topics
        assert self.group not in view.groups
        assert self.user not in view.bindings
        assert self.topic not in topics_of(self.stack, "west")


def work_load(stack: Stack, environment: Environment) -> Workload:
    mark = uuid.uuid4().hex[:8]
    work = Workload(stack, environment, f"user-{mark}", f"orders-{mark}", f"billing-{mark}")
    create_topic(bootstrap(stack, "east"), work.topic, PARTITIONS, **{"retention.ms": "3600000"})
    work.produce("east", RECORDS)
    # Not by a client: its first commit to a broker that has just started may find the coordinator still loading.
    east = environment.admin(work.view.clusters["east"])
    east.set_group_offsets(work.group, {(work.topic, p): (10 + p, "") for p in range(PARTITIONS)})
    declare_usage(environment, work.user, (work.topic,), (work.group,))
    return work


@pytest.fixture
def work(stack: Stack, environment: Environment) -> Workload:
    return work_load(stack, environment)


def test_a_planned_switch_moves_topics_groups_and_bindings_in_one_revision(work: Workload) -> None:
    # Given a planned switch
    operation_id = work.begin()
    # When it is run
    report = work.resume(operation_id)
    # Then everything has moved, and the report has cuts and steps
    assert report.result == "succeeded", report.error
    work.assert_moved()
    work.assert_nothing_left(operation_id)
    assert {(p.partition, p.cut) for p in report.partitions} == {(p, RECORDS) for p in range(PARTITIONS)}
    steps = ["fence", "drain", "ends", "offsets", "cut"]
    assert [step.name for step in report.steps if step.name in steps] == steps


def test_live_members_are_adopted_in_the_target_under_aliases(work: Workload) -> None:
    # Given a live member of the group
    with live_member(work.stack, "east", work.group, work.topic) as consumer:
        name = consumer.memberid()
        # When its user moves
        run_to_success(work.environment, work.begin())
        # Then it is a member in west under an alias, with the same offsets
        group = work.view.groups[work.group]
        (said,) = group.aliases
        assert said.endswith(f":{name}")
        member: Member = group.aliases[said]
        here, there = (
            work.environment.admin(work.view.clusters[cluster]).describe_groups([work.group])[work.group]
            for cluster in ("east", "west")
        )
        # The old coordinator does not wait for a member that is gone, and neither does a move back
        assert name not in [member.member_id for member in here.members]
        assert there.state == "Stable"
        assert [member.member_id for member in there.members] == [member.member_id]
        assert work.committed("west") == {p: 10 + p for p in range(PARTITIONS)}


def test_offsets_left_from_an_earlier_stay_in_the_target_do_not_return(work: Workload) -> None:
    # Given a group that was in west once, where it had read what it has no position for any more
    other = f"{work.topic}-other"
    for cluster in ("east", "west"):
        create_topic(bootstrap(work.stack, cluster), other, PARTITIONS)
    west = work.environment.admin(work.view.clusters["west"])
    west.set_group_offsets(work.group, {(other, 0): (3, "long ago")})
    # When it moves there again
    run_to_success(work.environment, work.begin())
    # Then it has committed there what it had in the origin, and nothing else
    assert west.group_offsets([work.group])[work.group] == {(work.topic, p): (10 + p, "") for p in range(PARTITIONS)}


FAULTS: dict[str, tuple[object, str]] = {
    "prepare": (common_steps, "specs"),
    "adopt": (adoption, "adopt"),
    "before the fence": (switch_steps, "fence_change"),
    "drain": (switch_steps, "require_drained"),
    "ends": (FencedReads, "read"),
    "offsets": (FencedReads, "copy_offsets"),
    "before the cut": (switch_steps, "cut_change"),
}


def run_every_step(environment: Environment, operation_id: str) -> None:
    for step in TASKS:
        engine.run_task(environment, operation_id, step)


@pytest.mark.parametrize("point", FAULTS)
def test_a_failure_before_the_cut_undoes_the_switch_at_once(
    point: str, work: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a step that fails
    operation_id = work.begin()
    monkeypatch.setattr(*FAULTS[point], Mock(side_effect=RuntimeError("planted")))
    # When the steps are run
    with pytest.raises(StepFailedError, match="undone"):
        run_every_step(work.environment, operation_id)
    # Then nothing has moved, and nothing is left
    work.assert_not_moved()
    work.assert_nothing_left(operation_id)
    assert stored_operation(work.environment, operation_id).state == "undone"


def test_a_switch_is_undone_when_its_user_began_to_use_a_group_after_the_plan(work: Workload) -> None:
    operation_id = work.begin()
    # When a new group of the user appears before the fence
    declare_usage(work.environment, work.user, (), (f"late-{work.group}",))
    # Then the move is undone: its coordinator would be in west, and what it committed in east
    error = work.undone(operation_id).error
    assert f"group:late-{work.group}" in error
    assert "Start the move again" in error
    # And the next one takes it along
    assert work.resume(work.begin()).result == "succeeded"
    assert work.view.groups[f"late-{work.group}"].cluster == "west"


def use_a_topic(work: Workload) -> str:
    declare_usage(work.environment, work.user, (f"late-{work.topic}",), ())
    return f"topic:late-{work.topic}"


def get_a_partition(work: Workload) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap(work.stack, "east")})
    admin.create_partitions([NewPartitions(work.topic, PARTITIONS + 1)])[work.topic].result(20)
    return f"{PARTITIONS + 1} partitions"


@pytest.mark.parametrize(("when", "change"), [("after", use_a_topic), ("before", get_a_partition)])
def test_a_switch_is_undone_when_topics_change_right_before_or_after_the_fence(
    work: Workload, monkeypatch: pytest.MonkeyPatch, when: str, change: Callable[[Workload], str]
) -> None:
    # Given a user that begins to use a topic after the fence, or a topic that gets a partition right before it
    fence, words = SwitchSteps.fence, list[str]()

    def fence_and_change(effects: SwitchSteps) -> None:
        if when == "before":
            words.append(change(work))
        fence(effects)
        if when == "after":
            words.append(change(work))

    monkeypatch.setattr(SwitchSteps, "fence", fence_and_change)
    # When the switch is run, then it is undone
    report = work.undone(work.begin())
    assert words[0] in report.error


def test_a_switch_is_undone_when_records_are_written_past_the_gateways_after_the_fence(
    work: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a producer that writes to the origin directly while the fence stands
    operation_id = work.begin()
    ask = FencedReads._producers

    def with_a_writer(reads: FencedReads) -> Any:
        operation = work.environment.operation(operation_id)
        if operation is not None and operation.state == "fenced":
            work.produce("east", 1)
        return ask(reads)

    monkeypatch.setattr(FencedReads, "_producers", with_a_writer)
    # When the switch is run, then it is undone, and the partition is named
    report = work.undone(operation_id)
    assert "without passing through the gateways" in report.error
    assert f"{work.topic}-0 went from {RECORDS} to {RECORDS + 1}" in report.error
    # And it is told by its code and how much that was, also to who asks later
    (verdict,) = report.verdicts
    assert (verdict.level, verdict.code, verdict.about) == ("error", "past-gateways", f"topic {work.topic}")
    assert (verdict.number, verdict.unit) == (PARTITIONS, "offsets")
    ended = stored_operation(work.environment, operation_id)
    assert report_of(work.environment, ended).to_json()["verdicts"][0]["code"] == "past-gateways"


def test_a_switch_is_undone_when_a_gateway_does_not_drain_and_the_gateway_is_named(work: Workload) -> None:
    # Given a switch that waits for gateways for a short time only
    operation_id = work.begin(drain_timeout_s=0.2)
    # When it is run while one of them does not drain
    with live_gateway(work.environment, "gw-stuck"):
        report = work.undone(operation_id)
    # Then it is undone without a trace
    assert "gw-stuck" in report.error
    work.assert_not_moved()


def test_a_switch_continues_once_the_gateway_reports_its_fence_drained(work: Workload) -> None:
    operation_id = work.begin()

    with live_gateway(work.environment, "gw-1", drained=(operation_id,)):
        run_to_success(work.environment, operation_id)


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


def test_a_switch_is_refused_while_another_operation_has_its_scope_and_names_owner_and_way_out(work: Workload) -> None:
    # Given an operation on the same user
    first = work.begin()
    request = work.request()
    # When another one is planned
    with pytest.raises(RefusedError) as caught:
        plan(work.environment, request).require_sound()
    # Then it is refused with the way out, which leads out
    assert first in str(caught.value)
    assert "test:operator" in str(caught.value)
    assert f"switchyard undo {first}" in str(caught.value)
    assert engine.undo(work.environment, first).result == "undone"
    plan(work.environment, request).require_sound()


def test_releasing_a_prepared_switch_undoes_it_without_a_trace_and_may_be_repeated(work: Workload) -> None:
    # Given a switch that has made its topics in west
    operation_id = work.begin()
    engine.run_task(work.environment, operation_id, "prepare")
    # When it is released twice
    first, second = engine.release(work.environment, operation_id), engine.release(work.environment, operation_id)
    # Then it is undone, and nothing is left; and releasing one that never began does nothing
    assert engine.release(work.environment, "never-created") is None
    assert first is not None
    assert second is not None
    assert (first.result, second.result) == ("undone", "undone")
    work.assert_not_moved()
    work.assert_nothing_left(operation_id)


def test_undoing_a_switch_after_its_cut_is_refused_and_the_move_back_is_named(work: Workload) -> None:
    operation_id = work.begin()
    work.resume(operation_id)

    with pytest.raises(RefusedError, match="--from west --to east"):
        engine.undo(work.environment, operation_id)


def test_every_step_of_a_switch_may_be_run_twice(work: Workload) -> None:
    operation_id = work.begin()

    for step in TASKS:
        engine.run_task(work.environment, operation_id, step)
        engine.run_task(work.environment, operation_id, step)

    work.assert_moved()
    work.assert_nothing_left(operation_id)


def retention(environment: Environment, cluster: str, topic: str) -> str | None:
    return admin_of(environment, cluster).settings([topic])[topic]["retention.ms"].value


@pytest.mark.parametrize("when", ["between tasks", "right before the fence"])
def test_a_setting_that_changed_after_the_target_topic_was_created_applies_after_the_cut(
    work: Workload, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    # Given a switch that has created its topic in the target
    operation_id = work.begin()
    engine.run_task(work.environment, operation_id, "prepare")
    engine.run_task(work.environment, operation_id, "adopt")
    assert retention(work.environment, "west", work.topic) == "3600000"
    # When a client sets unlimited retention, and gets an acknowledgement
    east, drained = admin_of(work.environment, "east"), SwitchSteps.drain

    def keep_for_ever() -> None:
        assert east.alter_settings({work.topic: {"retention.ms": "-1"}}, lambda: None) == {}

    def late(steps: SwitchSteps) -> None:
        keep_for_ever()
        drained(steps)

    if when == "between tasks":
        keep_for_ever()
    else:
        monkeypatch.setattr(SwitchSteps, "drain", late)
    assert work.resume(operation_id).result == "succeeded"
    # Then the target has that retention
    assert retention(work.environment, "west", work.topic) == "-1"


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
    topic = Topic(name=name, writer="east", partitions={0: extents})
    left = LastSequences(name=name, left_by_force={"west": {0: {}}})
    expected: dict[Any, None] = {(Topic, name): None, (LastSequences, name): None}
    environment.store.commit(StateChange(change_id=f"test:{name}", puts=(topic, left), expected=expected))
    # When a switch back is tried
    options = {"include_other_users": True, "drain_timeout_s": 1.0}
    request = make_request([f"topic:{name}"], "east", "west", reason="home", **options)
    report = engine.resume(environment, engine.start(environment, plan(environment, request)).id)
    # Then the switch is undone and names the way out; it succeeds after the transaction has ended
    assert report.result == "undone"
    assert f"a transaction is open in {name}-0 (producer" in report.error
    producer.abort_transaction(20)
    report = engine.resume(environment, engine.start(environment, plan(environment, request)).id)
    assert report.result == "succeeded"
    assert environment.store.load().sequences[name].left_by_force == {}


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


def test_a_switch_killed_at_any_point_is_finished_or_undone_by_resume(stack: Stack, environment: Environment) -> None:
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
        work.assert_nothing_left(operation.id)
        if report.result == "succeeded":
            work.assert_moved()
        else:
            work.assert_not_moved()
        assert work.resume(operation.id).result == report.result


def test_a_forced_switch_cuts_above_everything_the_dead_cluster_can_have_acknowledged(work: Workload) -> None:
    # Given a topic that moved to west and got records there, and west dead
    run_to_success(work.environment, work.begin())
    work.produce("west", 5)
    work.stack.kill("cluster/west")
    try:
        operation_id = work.begin("west", "east", mode="forced", unread="skip")
        # When it is forced back to east
        report = work.resume(operation_id)
        # Then its cut lies above all that west can have acknowledged
        assert report.result == "succeeded", report.error
        topic = work.view.topics[work.topic]
        assert topic.writer == "east"
        assert [e.cluster for e in topic.partitions[0]] == ["east", "west", "east"]
        assert topic.partitions[0][-1].start >= RECORDS + 5
        assert topic.partitions[0][-1].base == RECORDS
        work.assert_nothing_left(operation_id)
        evidence = stored_move(work.environment, operation_id).evidence
        assert evidence.unknown_ends == {work.topic: tuple(range(PARTITIONS))}
    finally:
        work.stack.restart("cluster/west")


def test_a_switch_command_that_is_terminated_lifts_its_fence_before_it_exits(work: Workload) -> None:
    words = ["switch", f"user:{work.user}", "--from", "east", "--to", "west", "--reason", work.user, "--yes"]
    running = subprocess.Popen(
        [sys.executable, "-c", "from ha_core.cli import main; main()", *words, "--drain-timeout", "60"],
        env={**os.environ, "SWITCHYARD_ZOOKEEPER": work.stack.zookeeper},
    )
    with live_gateway(work.environment, "gw-stuck"):
        try:
            # Given a command that waits for a gateway under its fence
            while (topic := work.view.topics.get(work.topic)) is None or topic.fence is None:
                assert running.poll() is None
            # When it is terminated
            running.terminate()
            code = running.wait(30)
        finally:
            running.kill()
            running.wait()
    # Then it has undone the move before it ended
    assert code == 143
    (operation,) = [o for o in work.environment.store.operations(1000) if o.reason == work.user]
    assert operation.state == "undone"
    work.assert_not_moved()
    work.assert_nothing_left(operation.id)


def test_a_new_switch_first_finishes_an_abandoned_one_of_the_same_scope(work: Workload) -> None:
    # Given an operation without an executor for twenty seconds, and which was not taken up before that
    operation_id = work.begin()
    request = work.request()
    young = engine.continue_twins(work.environment, request)
    later = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
    work.environment.now = lambda: later
    # When the same is asked for
    continued = engine.continue_twins(work.environment, request)
    # Then the first one is brought to its end
    assert young == engine.Continued(dict.fromkeys(request.scope.entries))
    assert not continued.left
    (report,) = continued.reports
    assert (report.operation, report.result) == (operation_id, "succeeded")
    work.assert_moved()


def test_a_switch_to_a_cluster_that_refuses_the_account_is_a_clear_error_before_anything_changes(
    work: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a cluster for which the profile has a wrong password
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text("sasl: {mechanism: PLAIN, username: nobody, password: wrong}")
    monkeypatch.setenv("SWITCHYARD_SECURITY_FILE", str(profiles))
    add_cluster(work.environment, "locked", bootstrap(work.stack, "west"), security="sasl")
    before, locks = work.view, work.environment.store.locks()
    try:
        # When a switch to it is asked for
        code, data, _ = work.switch("--yes", target="locked")
        # Then it is refused with the reason, and nothing has changed
        assert code == BAD_INPUT
        assert "service account" in data["error"]
        assert "Traceback" not in data["error"]
        assert work.view == before
        assert work.environment.store.locks() == locks
    finally:
        remove_cluster(work.environment, "locked", force=True)


def test_the_switch_command_writes_its_result_as_json_and_its_progress_to_stderr(work: Workload) -> None:
    # When a user is switched with --json
    code, report, progress = work.switch("--yes")
    # Then the document has operation, partitions and steps, and stderr the steps as they were taken
    assert code == 0
    assert report["result"] == "succeeded"
    assert report["revision"] == work.view.revision
    place = {"topic": work.topic, "partition": 0, "cut": RECORDS}
    assert report["partitions"][0] == {**place, "from": "east", "to": "west"}
    assert {"name", "ms"} == set(report["steps"][0])
    for sub_step in ("fence", "drain", "ends", "offsets", "cut"):
        assert f"\n{sub_step} " in progress


def test_a_dry_run_of_a_switch_lists_what_moves_with_reasons_and_changes_nothing(work: Workload) -> None:
    before = work.view

    code, proposal, _ = work.switch("--dry-run")

    assert code == 0
    assert set(proposal["moves"]["reasons"]) == {f"topic:{work.topic}", f"group:{work.group}"}
    assert work.view == before
    assert work.topic not in topics_of(work.stack, "west")


def test_a_switch_command_without_confirmation_changes_nothing(work: Workload) -> None:
    before = work.view

    code, _, _ = work.switch()

    assert code == 2
    assert work.view == before


def test_a_switch_proposal_is_read_back_from_its_json(work: Workload) -> None:
    proposal = plan(work.environment, work.request())

    read = type(proposal).model_validate(json.loads(json.dumps(proposal.to_json())))
    assert read == proposal.model_copy(update={"judged": None})  # the history keeps the judgement, not the task
