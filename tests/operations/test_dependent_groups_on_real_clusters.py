"""Groups that come along with topics that migrate, on real ZooKeeper and two Kafka clusters, without gateways."""

import shlex
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from ha_core.cli.exits import FAILURE
from ha_core.model import View
from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.engine.errors import NotServedError
from ha_core.operations.migration.aging import age
from ha_core.operations.migration.crossing import cuts
from ha_core.operations.migration.crossing.steps import CrossingSteps
from ha_core.operations.migration.listing import TopicMigration, migrations
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
    expire,
    fill,
    live_member,
    run_to_success,
    run_until_open,
    stored_operation,
)

pytestmark = pytest.mark.stack
PARTITIONS, RECORDS, AHEAD = 2, 30, 5
COMMITTED = 10
produce = partial(fill, partitions=PARTITIONS)


@pytest.fixture
def environment(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    monkeypatch.setattr(cuts, "LOOKS_APART_S", 0.0)
    with connect(EnvironmentSettings(stack.zookeeper, session_timeout_s=4.0), by="test:operator") as opened:
        yield opened


@dataclass(frozen=True)
class Work:
    """A topic with records in east, a user, and its group without members that has read some of them."""

    environment: Environment
    topic: str
    user: str
    group: str

    @property
    def view(self) -> View:
        return self.environment.store.load()

    @property
    def shown(self) -> TopicMigration:
        """The topic's migration in the list."""
        (migration,) = (
            topic_migration
            for topic_migration in migrations(self.environment)
            if topic_migration.status.topic == self.topic
        )
        return migration

    def commit(self, group: str = "", topic: str = "", offset: int = COMMITTED, cluster: str = "east") -> None:
        """By default of its group and its topic."""
        offsets = {(topic or self.topic, p): (offset + p, "") for p in range(PARTITIONS)}
        admin_of(self.environment, cluster).set_group_offsets(group or self.group, offsets)

    def committed(self, cluster: str, group: str = "") -> dict[tuple[str, int], int]:
        found = admin_of(self.environment, cluster).group_offsets([group or self.group])[group or self.group]
        return {key: offset for key, (offset, _) in found.items()}

    def propose(self, *topics: str, **more: Any) -> MigrationProposal:
        """By default of its topic."""
        moving = topics or (self.topic,)
        cut_at = {(topic, p): RECORDS + AHEAD for topic in moving for p in range(PARTITIONS)}
        given = {"cut": "predicted", "cut_at": cut_at, "groups": "move", **more}
        proposal = plan_migration(self.environment, moving, "east", "west", reason="a test", **given)
        proposal.require_sound()
        return proposal

    def at_its_cuts(self, **more: Any) -> str:
        """An open crossing of the topic, whose logs have run into its cuts."""
        (batch,) = self.propose(**more).batches
        operation = engine.start(self.environment, batch).id
        run_until_open(self.environment, operation)
        produce(self.environment, "east", self.topic, AHEAD)
        return operation

    def over(self) -> None:
        """The topic has crossed over."""
        run_to_success(self.environment, self.at_its_cuts())

    def assert_followed(self, offsets: int = COMMITTED) -> None:
        """Topic, group and binding are in west, with the offsets as they were; no lock is left."""
        view = self.view
        assert (view.topics[self.topic].writer, view.topics[self.topic].crossing) == ("west", None)
        group = view.groups[self.group]
        assert (group.cluster, group.fence) == ("west", None)
        assert view.bindings[self.user].groups == {self.group: "west"}
        assert view.bindings[self.user].cluster is None
        there = {key: offset for key, offset in self.committed("west").items() if key[0] == self.topic}
        assert there == {(self.topic, p): offsets + p for p in range(PARTITIONS)}
        assert self.environment.store.locks() == []


def topic_in_east(environment: Environment) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    create_topic(bootstrap(environment, "east"), name, PARTITIONS)
    produce(environment, "east", name, RECORDS)
    return name


@pytest.fixture
def work(environment: Environment) -> Work:
    name = topic_in_east(environment)
    found = Work(environment, name, f"user-{name}", f"billing-{name}")
    found.commit()
    declare_usage(environment, found.user, (name,), (found.group,))
    return found


def test_groups_stay_in_the_origin_unless_they_are_asked_to_move(work: Work) -> None:
    operation = work.at_its_cuts(groups="leave")

    assert engine.resume(work.environment, operation).result == "succeeded"

    assert work.group not in work.view.groups
    assert work.environment.operation(f"{operation}-groups") is None
    assert work.shown.groups == ""


def test_a_barrier_moves_a_group_without_members_in_the_revision_of_its_topic(work: Work) -> None:
    # When a migration by a barrier is planned
    proposal = work.propose(cut="barrier", cut_at=None)
    (dependent,) = proposal.dependents
    # Then the proposal names the group
    assert (dependent.group, dependent.users, dependent.members) == (work.group, (work.user,), 0)
    assert (dependent.reads, dependent.reads_too) == ((work.topic,), ())
    # When the topic migrates
    operation = engine.start(work.environment, proposal.batches[0]).id
    run_to_success(work.environment, operation)
    # Then both are over in one cut
    work.assert_followed()
    assert [entry.step for entry in work.environment.store.history(operation)].count("cut") == 1
    assert work.environment.operation(f"{operation}-groups") is None
    assert work.shown.groups == "1 group in the same revision"


def test_a_group_moves_in_an_operation_of_its_own_once_its_topic_has_crossed_over(work: Work) -> None:
    # Given a crossing
    operation = work.at_its_cuts()
    waiting = work.view.groups
    # When it is settled, the group having read on meanwhile
    work.commit(work.group, work.topic, RECORDS)
    run_to_success(work.environment, operation)
    # Then an operation of its own has moved the group, and the migration says so
    assert work.group not in waiting
    work.assert_followed(RECORDS)
    ended, followed = (stored_operation(work.environment, name) for name in (operation, f"{operation}-groups"))
    assert (followed.kind, followed.state) == ("switch", "succeeded")
    assert dependents_of(work.environment, operation).moved == 1
    assert ended.result == f"crossed over and verified; 1 group has followed in operation {followed.id}"
    history = work.environment.store.history(operation)
    (entry,) = [entry for entry in history if (entry.step, entry.outcome) == ("groups", "done")]
    assert entry.detail["operations"] == [followed.id]
    assert work.shown.groups == f"1 group has followed in operation {followed.id}"


def test_a_group_with_members_that_never_committed_depends_on_the_topics_they_are_assigned(work: Work) -> None:
    # Given a group that has never committed
    group = f"silent-{work.topic}"
    declare_usage(work.environment, work.user, (), (group,))
    # When it has a member, and the topic's migration is planned
    with live_member(work.environment, "east", group, work.topic):
        proposal = work.propose()
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
    point: str, stack: Stack, work: Work
) -> None:
    # Given a process that dies when the topics are over
    operation = work.at_its_cuts()
    death, operations = DEATHS[point]
    die_in_engine(stack, death, "resume", operation)
    died_at, writer = stored_operation(work.environment, operation).state, work.view.topics[work.topic].writer
    # When open crossings are settled
    assert operation in crossing_operations(work.environment)
    look = advance_once(work.environment, operation)
    # Then the group has followed, once
    assert (died_at, writer) == ("cut", "west")
    assert (look.ended, look.error) == (True, "")
    work.assert_followed()
    assert dependents_of(work.environment, operation).moved == 1
    begun = [move for move in work.environment.store.operations(50) if move.id.startswith(f"{operation}-groups")]
    assert [move.state for move in begun if move.state != "undone"] == ["succeeded"]
    assert len(begun) == operations


def test_topics_stay_moved_when_a_dependent_group_fails_and_the_command_to_move_it_is_shown(
    stack: Stack, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a move of groups that fails
    operation = work.at_its_cuts()
    # When the topics are over
    with monkeypatch.context() as planted:
        planted.setattr(switch_steps, "cut_change", Mock(side_effect=RuntimeError("planted")))
        look = advance_once(work.environment, operation)
    # Then they stay, and each page names the next step
    assert (look.operation.state, work.view.topics[work.topic].writer) == ("succeeded", "west")
    assert stored_operation(work.environment, f"{operation}-groups").state == "undone"
    command = f"switchyard switch 'user:{work.user}##{work.group}' --from east --to west --reason 'a test'"
    assert "planted" in look.error
    assert command in look.error
    shown = work.shown
    assert command in shown.blocks[0]
    assert shown.groups == "did not follow"
    assert work.environment.store.locks() == []
    with pytest.raises(CommandFailedError, match="planted") as failed:
        switchyard(stack, "settle", operation)
    assert failed.value.code == FAILURE
    # And it does it
    switchyard(stack, *shlex.split(command)[1:], "--yes")
    work.assert_followed()
    shown = work.shown
    assert (shown.blocks, shown.groups) == ((), "the groups were moved afterwards")
    assert advance_once(work.environment, operation).error == ""


def test_dependent_groups_stay_when_gateways_do_not_serve_the_cut_of_their_topics(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a crossing whose logs have reached their cuts, and gateways that do not serve its end
    operation = work.at_its_cuts()
    monkeypatch.setattr(CrossingSteps, "_verify", Mock(side_effect=NotServedError("gw-1 does not serve it.")))
    # When it is settled
    look = advance_once(work.environment, operation)
    # Then the groups are where they were, and that is said
    assert look.operation.state == "failed"
    assert look.operation.result.startswith("gw-1 does not serve it. Groups have not followed its topics")
    assert work.group not in work.view.groups
    assert work.shown.groups == "did not follow"


def test_a_group_stays_while_the_target_lacks_another_topic_that_it_reads(work: Work) -> None:
    # Given a group that reads another topic, which west does not have
    other = topic_in_east(work.environment)
    work.commit(work.group, other)
    # When its topic's migration is planned
    proposal = work.propose()
    # Then it stays, and the verdict says why
    assert proposal.dependents == ()
    (verdict,) = [verdict for verdict in proposal.verdicts if verdict.about == f"group {work.group}"]
    assert verdict.level == "warning"
    assert f"offsets of {other}" in verdict.text
    assert "It stays in east" in verdict.text
    # And one whose other topic the target has goes, wherever that is written
    create_topic(bootstrap(work.environment, "west"), other, PARTITIONS)
    (dependent,) = work.propose().dependents
    assert dependent.reads_too == (other,)


def test_a_group_without_a_known_user_stays_and_the_verdict_says_how_to_declare_one(work: Work) -> None:
    other = f"other-{work.topic}"
    work.commit(other, work.topic)

    proposal = work.propose()

    assert [group.group for group in proposal.dependents] == [work.group]
    (verdict,) = [verdict for verdict in proposal.verdicts if verdict.about == f"group {other}"]
    assert "no user of it is known" in verdict.text
    assert f"usage declare USER --group {other}" in verdict.remedy


def test_each_batch_moves_the_groups_whose_topics_have_all_arrived(work: Work) -> None:
    # Given two topics in two batches, a group that reads the first, and one that reads both
    other, both = topic_in_east(work.environment), f"both-{work.topic}"
    for topic in (work.topic, other):
        work.commit(both, topic)
    declare_usage(work.environment, work.user, (), (both,))
    batches = work.propose(work.topic, other, cut="barrier", cut_at=None, topics_per_batch=1).batches
    # When they migrate, one after the other
    for batch, expected in zip(batches, ({work.group: "west"}, {work.group: "west", both: "west"}), strict=True):
        run_to_success(work.environment, engine.start(work.environment, batch).id)
        # Then a group goes when all that it reads is there
        assert work.view.bindings[work.user].groups == expected
    assert [batch.moves.groups for batch in batches] == [(), ()]
    assert len(work.committed("west", both)) == 2 * PARTITIONS


def test_more_groups_than_one_operation_takes_move_in_several(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given three groups, where an operation takes two
    monkeypatch.setattr(dependents, "MAX_GROUPS", 2)
    groups = (work.group, *(f"{mark}-{work.topic}" for mark in ("a", "b")))
    for group in groups[1:]:
        work.commit(group, work.topic)
    declare_usage(work.environment, work.user, (), groups)
    operation = work.at_its_cuts()
    # When the topic is over
    assert engine.resume(work.environment, operation).result == "succeeded"
    # Then all of them are, too
    assert work.view.bindings[work.user].groups == dict.fromkeys(groups, "west")
    ended = stored_operation(work.environment, operation)
    assert ended.result.endswith(f"3 groups have followed in operation {operation}-groups, {operation}-groups.2")


def test_a_group_that_reads_topics_of_two_crossings_moves_after_the_later_one(work: Work) -> None:
    # Given a group that reads two topics, each in an operation of its own
    other = topic_in_east(work.environment)
    work.commit(work.group, other)
    first, second = (
        engine.start(work.environment, batch) for batch in work.propose(work.topic, other, topics_per_batch=1).batches
    )
    for operation in (first, second):
        run_until_open(work.environment, operation.id)
    # When the first is over
    produce(work.environment, "east", work.topic, AHEAD)
    run_to_success(work.environment, first.id)
    # Then the group waits for the other, which may be taken back yet
    assert dependents_of(work.environment, first.id).moved == 0
    assert other in dependents_of(work.environment, first.id).left_out[work.group]
    # And comes with it
    produce(work.environment, "east", other, AHEAD)
    run_to_success(work.environment, second.id)
    assert dependents_of(work.environment, second.id).moved == 1
    work.assert_followed()
    assert len(work.committed("west")) == 2 * PARTITIONS


def test_the_lag_of_a_group_is_shown_in_client_offsets_over_both_clusters(stack: Stack, work: Work) -> None:
    # Given a group that is below the cut of a topic that has crossed over with it
    work.over()
    produce(work.environment, "west", work.topic, 4)
    work.commit(work.group, work.topic, RECORDS + AHEAD - 1, "west")
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


def test_offsets_a_moved_group_left_in_the_origin_keep_neither_extents_nor_topic(work: Work) -> None:
    # Given a group that moved with its topic, and what east still holds of it
    work.over()
    left = work.committed("east")
    # When it has read beyond the cut, and retention has taken what is below
    work.commit(work.group, work.topic, RECORDS + AHEAD, "west")
    expire(work.environment, "east", work.topic, RECORDS + AHEAD, partitions=PARTITIONS)
    result = age(work.environment, [work.topic], delete_origin=True)
    # Then the migration is aged, and the topic deleted, whatever east still had of the group
    assert left != {}
    assert [old.blocks for old in result.extents] == [()] * PARTITIONS
    assert result.left_over == (f"group {work.group} in east",)
    assert result.deleted == {"east": (work.topic,)}
