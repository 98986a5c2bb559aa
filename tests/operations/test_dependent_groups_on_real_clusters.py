"""Groups that come along with topics that migrate, on real ZooKeeper and two Kafka clusters, without gateways."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.cli.exits import FAILURE
from ha_core.model import Operation
from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.engine.errors import NotServedError
from ha_core.operations.migration.aging import age
from ha_core.operations.migration.crossing import cuts
from ha_core.operations.migration.crossing.steps import CrossingSteps
from ha_core.operations.migration.listing import migrations
from ha_core.operations.migration.planning import MigrationProposal, plan_migration
from ha_core.operations.move import dependents, switch_steps
from ha_core.operations.running import engine
from ha_core.operations.running.settling import advance_once, crossing_operations
from stack.harness import Stack
from tests.kit.running import CommandFailedError, bootstrap, create_topic, switchyard
from tests.operations.dying import (
    COMMIT,
    CUT_CHANGE,
    FIND_DEPENDENTS,
    FINISH,
    START,
    Death,
    after,
    before,
    die_in_engine,
)
from tests.operations.real_clusters import (
    dependents_of,
    fill,
    live_member,
    run_to_success,
    run_until_open,
    stored_operation,
    stored_topic,
)

pytestmark = pytest.mark.stack
PARTITIONS, RECORDS, AHEAD = 2, 30, 5
COMMITTED = 10
produce = partial(fill, partitions=PARTITIONS)


class PlantedError(Exception):
    """A fault of the test."""


@pytest.fixture
def environment(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    monkeypatch.setattr(cuts, "LOOKS_APART_S", 0.0)
    with connect(EnvironmentSettings(stack.zookeeper, session_timeout_s=4.0), by="test:operator") as opened:
        yield opened


@dataclass(frozen=True)
class Work:
    """A topic with records in east, a user, and its group without members that has read some of them."""

    topic: str
    user: str
    group: str


def commit(environment: Environment, group: str, topic: str, offset: int = COMMITTED, cluster: str = "east") -> None:
    admin = environment.admin(environment.store.load().clusters[cluster])
    admin.set_group_offsets(group, {(topic, p): (offset + p, "") for p in range(PARTITIONS)})


def committed(environment: Environment, cluster: str, group: str) -> dict[tuple[str, int], int]:
    admin = environment.admin(environment.store.load().clusters[cluster])
    return {key: offset for key, (offset, _) in admin.group_offsets([group])[group].items()}


def topic_in_east(stack: Stack) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    create_topic(bootstrap(stack, "east"), name, PARTITIONS)
    produce(stack, "east", name, RECORDS)
    return name


@pytest.fixture
def work(stack: Stack, environment: Environment) -> Work:
    name = topic_in_east(stack)
    found = Work(name, f"user-{name}", f"billing-{name}")
    commit(environment, found.group, name)
    declare_usage(environment, found.user, (name,), (found.group,))
    return found


def propose(environment: Environment, *topics: str, **more: Any) -> MigrationProposal:
    cut_at = {(topic, p): RECORDS + AHEAD for topic in topics for p in range(PARTITIONS)}
    given = {"cut": "predicted", "cut_at": cut_at, "groups": "move", **more}
    proposal = plan_migration(environment, topics, "east", "west", reason="a test", **given)
    proposal.require_sound()
    return proposal


def begin(environment: Environment, *topics: str, **more: Any) -> Operation:
    (batch,) = propose(environment, *topics, **more).batches
    return engine.start(environment, batch)


def cross(stack: Stack, environment: Environment, work: Work, operation: Operation) -> None:
    """Open the crossing, and let the logs run into their cuts."""
    run_until_open(environment, operation.id)
    produce(stack, "east", work.topic, AHEAD)


def assert_followed(environment: Environment, work: Work, offsets: int = COMMITTED) -> None:
    """Topic, group and binding are in west, with the offsets as they were; no lock is left."""
    view = environment.store.load()
    assert (view.topics[work.topic].writer, view.topics[work.topic].crossing) == ("west", None)
    group = view.groups[work.group]
    assert (group.cluster, group.fence) == ("west", None)
    assert view.bindings[work.user].groups == {work.group: "west"}
    assert view.bindings[work.user].cluster is None
    there = committed(environment, "west", work.group)
    assert {key: there.get(key) for key in there if key[0] == work.topic} == {
        (work.topic, p): offsets + p for p in range(PARTITIONS)
    }
    assert environment.store.locks() == []


def test_groups_stay_in_the_origin_unless_they_are_asked_to_move(
    stack: Stack, environment: Environment, work: Work
) -> None:
    operation = begin(environment, work.topic, groups="leave")
    cross(stack, environment, work, operation)

    assert engine.resume(environment, operation.id).result == "succeeded"

    assert work.group not in environment.store.load().groups
    assert environment.operation(f"{operation.id}-groups") is None
    (shown,) = (migration for migration in migrations(environment) if migration.status.topic == work.topic)
    assert shown.groups == ""


def test_a_barrier_moves_a_group_without_members_in_the_revision_of_its_topic(
    environment: Environment, work: Work
) -> None:
    # When a migration by a barrier is planned
    proposal = propose(environment, work.topic, cut="barrier", cut_at=None)
    (dependent,) = proposal.dependents
    # Then the proposal names the group
    assert (dependent.group, dependent.users, dependent.members) == (work.group, (work.user,), 0)
    assert (dependent.reads, dependent.reads_too) == ((work.topic,), ())
    # When the topic migrates
    operation = engine.start(environment, proposal.batches[0])
    report = engine.resume(environment, operation.id)
    # Then both are over in one cut
    assert report.result == "succeeded", report.error
    assert_followed(environment, work)
    assert [entry.step for entry in environment.store.history(operation.id)].count("cut") == 1
    assert environment.operation(f"{operation.id}-groups") is None
    (shown,) = (migration for migration in migrations(environment) if migration.status.topic == work.topic)
    assert shown.groups == "1 group in the same revision"


def test_a_group_moves_in_an_operation_of_its_own_once_its_topic_has_crossed_over(
    stack: Stack, environment: Environment, work: Work
) -> None:
    # Given a crossing
    operation = begin(environment, work.topic)
    cross(stack, environment, work, operation)
    waiting = environment.store.load().groups
    # When it is settled, the group having read on meanwhile
    commit(environment, work.group, work.topic, RECORDS)
    report = engine.resume(environment, operation.id)
    # Then an operation of its own has moved the group, and the migration says so
    assert work.group not in waiting
    assert report.result == "succeeded", report.error
    assert_followed(environment, work, RECORDS)
    ended, followed = (
        stored_operation(environment, operation.id),
        stored_operation(environment, f"{operation.id}-groups"),
    )
    assert (followed.kind, followed.state) == ("switch", "succeeded")
    assert dependents_of(environment, operation.id).moved == 1
    assert ended.result == f"crossed over and verified; 1 group has followed in operation {followed.id}"
    (entry,) = [
        entry for entry in environment.store.history(operation.id) if (entry.step, entry.outcome) == ("groups", "done")
    ]
    assert entry.detail["operations"] == [followed.id]
    (shown,) = (migration for migration in migrations(environment) if migration.status.topic == work.topic)
    assert shown.groups == f"1 group has followed in operation {followed.id}"


def test_a_group_with_members_that_never_committed_depends_on_the_topics_they_are_assigned(
    stack: Stack, environment: Environment, work: Work
) -> None:
    # Given a group that has never committed
    group = f"silent-{work.topic}"
    declare_usage(environment, work.user, (), (group,))
    # When it has a member, and the topic's migration is planned
    with live_member(stack, "east", group, work.topic):
        proposal = propose(environment, work.topic)
    # Then it comes along like the other one, whose commits say so
    assert {group.group: (group.members, group.reads) for group in proposal.dependents} == {
        group: (1, (work.topic,)),
        work.group: (0, (work.topic,)),
    }


DEATHS: dict[str, tuple[Death, int]] = {
    "before the groups are looked for": (before(FIND_DEPENDENTS), 1),
    "when their operation is created": (after(START), 1),
    "under their fence": (before(CUT_CHANGE), 2),
    "when they have moved": (after(COMMIT, "cut"), 1),
    "when their operation has ended": (after(FINISH, "succeeded"), 1),
}
"""Where a process dies, and how many operations it takes: one that stands under its fence is undone and begun again."""


@pytest.mark.parametrize("point", DEATHS)
def test_dependent_groups_move_once_when_the_executor_dies_after_the_topics_have_crossed_over(
    point: str, stack: Stack, environment: Environment, work: Work
) -> None:
    # Given a process that dies when the topics are over
    operation = begin(environment, work.topic)
    cross(stack, environment, work, operation)
    death, operations = DEATHS[point]
    die_in_engine(stack, death, "resume", operation.id)
    died_at, writer = stored_operation(environment, operation.id).state, stored_topic(environment, work.topic).writer
    # When open crossings are settled
    assert operation.id in crossing_operations(environment)
    look = advance_once(environment, operation.id)
    # Then the group has followed, once
    assert (died_at, writer) == ("cut", "west")
    assert (look.ended, look.error) == (True, "")
    assert_followed(environment, work)
    assert dependents_of(environment, operation.id).moved == 1
    begun = [move for move in environment.store.operations(50) if move.id.startswith(f"{operation.id}-groups")]
    assert [move.state for move in begun if move.state != "undone"] == ["succeeded"]
    assert len(begun) == operations


def test_topics_stay_moved_when_a_dependent_group_fails_and_the_command_to_move_it_is_shown(
    stack: Stack, environment: Environment, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a move of groups that fails
    operation = begin(environment, work.topic)
    cross(stack, environment, work, operation)

    def fails(*_: object, **__: object) -> None:
        raise PlantedError("planted")

    # When the topics are over
    with monkeypatch.context() as planted:
        planted.setattr(switch_steps, "cut_change", fails)
        look = advance_once(environment, operation.id)
    # Then they stay, and each page names the next step
    assert (look.operation.state, environment.store.load().topics[work.topic].writer) == ("succeeded", "west")
    assert stored_operation(environment, f"{operation.id}-groups").state == "undone"
    command = f"switchyard switch 'user:{work.user}##{work.group}' --from east --to west --reason 'a test'"
    assert "planted" in look.error
    assert command in look.error
    (shown,) = (migration for migration in migrations(environment) if migration.status.topic == work.topic)
    assert command in shown.blocks[0]
    assert shown.groups == "did not follow"
    assert environment.store.locks() == []
    with pytest.raises(CommandFailedError, match="planted") as failed:
        switchyard(stack, "settle", operation.id)
    assert failed.value.code == FAILURE
    # And it does it
    switchyard(stack, *shlex.split(command)[1:], "--yes")
    assert_followed(environment, work)
    (shown,) = (migration for migration in migrations(environment) if migration.status.topic == work.topic)
    assert (shown.blocks, shown.groups) == ((), "the groups were moved afterwards")
    assert advance_once(environment, operation.id).error == ""


def test_dependent_groups_stay_when_gateways_do_not_serve_the_cut_of_their_topics(
    stack: Stack, environment: Environment, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a crossing whose logs have reached their cuts, and gateways that do not serve its end
    operation = begin(environment, work.topic)
    cross(stack, environment, work, operation)

    def not_served(*_: object) -> None:
        raise NotServedError("gw-1 does not serve it.")

    monkeypatch.setattr(CrossingSteps, "_verify", not_served)
    # When it is settled
    look = advance_once(environment, operation.id)
    # Then the groups are where they were, and that is said
    assert look.operation.state == "failed"
    assert look.operation.result.startswith("gw-1 does not serve it. Groups have not followed its topics")
    assert work.group not in environment.store.load().groups
    (shown,) = (migration for migration in migrations(environment) if migration.status.topic == work.topic)
    assert shown.groups == "did not follow"


def test_a_group_stays_while_the_target_lacks_another_topic_that_it_reads(
    stack: Stack, environment: Environment, work: Work
) -> None:
    # Given a group that reads another topic, which west does not have
    other = topic_in_east(stack)
    commit(environment, work.group, other)
    # When its topic's migration is planned
    proposal = propose(environment, work.topic)
    # Then it stays, and the verdict says why
    assert proposal.dependents == ()
    (verdict,) = [verdict for verdict in proposal.verdicts if verdict.about == f"group {work.group}"]
    assert verdict.level == "warning"
    assert f"offsets of {other}" in verdict.text
    assert "It stays in east" in verdict.text
    # And one whose other topic the target has goes, wherever that is written
    create_topic(bootstrap(stack, "west"), other, PARTITIONS)
    (dependent,) = propose(environment, work.topic).dependents
    assert dependent.reads_too == (other,)


def test_a_group_without_a_known_user_stays_and_the_verdict_says_how_to_declare_one(
    environment: Environment, work: Work
) -> None:
    other = f"other-{work.topic}"
    commit(environment, other, work.topic)

    proposal = propose(environment, work.topic)

    assert [group.group for group in proposal.dependents] == [work.group]
    (verdict,) = [verdict for verdict in proposal.verdicts if verdict.about == f"group {other}"]
    assert "no user of it is known" in verdict.text
    assert f"usage declare USER --group {other}" in verdict.remedy


def test_each_batch_moves_the_groups_whose_topics_have_all_arrived(
    stack: Stack, environment: Environment, work: Work
) -> None:
    # Given two topics in two batches, a group that reads the first, and one that reads both
    other, both = topic_in_east(stack), f"both-{work.topic}"
    for topic in (work.topic, other):
        commit(environment, both, topic)
    declare_usage(environment, work.user, (), (both,))
    batches = propose(environment, work.topic, other, cut="barrier", cut_at=None, topics_per_batch=1).batches
    # When they migrate, one after the other
    for batch, expected in zip(batches, ({work.group: "west"}, {work.group: "west", both: "west"}), strict=True):
        operation = engine.start(environment, batch)
        assert engine.resume(environment, operation.id).result == "succeeded"
        # Then a group goes when all that it reads is there
        assert environment.store.load().bindings[work.user].groups == expected
    assert [batch.moves.groups for batch in batches] == [(), ()]
    assert len(committed(environment, "west", both)) == 2 * PARTITIONS


def test_more_groups_than_one_operation_takes_move_in_several(
    stack: Stack, environment: Environment, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given three groups, where an operation takes two
    monkeypatch.setattr(dependents, "MAX_GROUPS", 2)
    groups = (work.group, *(f"{mark}-{work.topic}" for mark in ("a", "b")))
    for group in groups[1:]:
        commit(environment, group, work.topic)
    declare_usage(environment, work.user, (), groups)
    operation = begin(environment, work.topic)
    cross(stack, environment, work, operation)
    # When the topic is over
    assert engine.resume(environment, operation.id).result == "succeeded"
    # Then all of them are, too
    assert environment.store.load().bindings[work.user].groups == dict.fromkeys(groups, "west")
    ended = stored_operation(environment, operation.id)
    assert ended.result.endswith(f"3 groups have followed in operation {operation.id}-groups, {operation.id}-groups.2")


def test_a_group_that_reads_topics_of_two_crossings_moves_after_the_later_one(
    stack: Stack, environment: Environment, work: Work
) -> None:
    # Given a group that reads two topics, each in an operation of its own
    other = topic_in_east(stack)
    commit(environment, work.group, other)
    first, second = (
        engine.start(environment, batch)
        for batch in propose(environment, work.topic, other, topics_per_batch=1).batches
    )
    for operation in (first, second):
        run_until_open(environment, operation.id)
    # When the first is over
    produce(stack, "east", work.topic, AHEAD)
    assert engine.resume(environment, first.id).result == "succeeded"
    # Then the group waits for the other, which may be taken back yet
    assert dependents_of(environment, first.id).moved == 0
    assert other in dependents_of(environment, first.id).left_out[work.group]
    # And comes with it
    produce(stack, "east", other, AHEAD)
    assert engine.resume(environment, second.id).result == "succeeded"
    assert dependents_of(environment, second.id).moved == 1
    assert_followed(environment, work)
    assert len(committed(environment, "west", work.group)) == 2 * PARTITIONS


def test_the_lag_of_a_group_is_shown_in_client_offsets_over_both_clusters(
    stack: Stack, environment: Environment, work: Work
) -> None:
    # Given a group that is below the cut of a topic that has crossed over with it
    operation = begin(environment, work.topic)
    cross(stack, environment, work, operation)
    run_to_success(environment, operation.id)
    produce(stack, "west", work.topic, 4)
    commit(environment, work.group, work.topic, RECORDS + AHEAD - 1, "west")
    # When an operator asks
    found = switchyard(stack, "group", work.group)
    # Then partition 0 has one record left in east, and partition 1 is at the cut
    cut, end = RECORDS + AHEAD, RECORDS + AHEAD + 4
    assert [
        (p["partition"], p["committed"], p["end"], p["lag_records"], p["next"], p["coordinator"])
        for p in found["partitions"]
    ] == [(0, cut - 1, end, 5, "east", "west"), (1, cut, end, 4, "west", "west")]
    assert found["lag_records"] == 9
    assert found["left_over"] == ["east"]
    with pytest.raises(CommandFailedError, match="No cluster knows group nobody"):
        switchyard(stack, "group", "nobody")


def test_offsets_a_moved_group_left_in_the_origin_keep_neither_extents_nor_topic(
    stack: Stack, environment: Environment, work: Work
) -> None:
    # Given a group that moved with its topic, and what east still holds of it
    operation = begin(environment, work.topic)
    cross(stack, environment, work, operation)
    run_to_success(environment, operation.id)
    left = committed(environment, "east", work.group)
    # When it has read beyond the cut, and retention has taken what is below
    commit(environment, work.group, work.topic, RECORDS + AHEAD, "west")
    admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east")})
    for future in admin.delete_records(
        [TopicPartition(work.topic, p, RECORDS + AHEAD) for p in range(PARTITIONS)]
    ).values():
        future.result(20)
    result = age(environment, [work.topic], delete_origin=True)
    # Then the migration is aged, and the topic deleted, whatever east still had of the group
    assert left != {}
    assert [old.blocks for old in result.extents] == [()] * PARTITIONS
    assert result.left_over == (f"group {work.group} in east",)
    assert result.deleted == {"east": (work.topic,)}
