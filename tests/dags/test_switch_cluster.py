"""A whole cluster as the scope: by a run of the DAG, by the command, and again after a stop in the middle."""

import uuid
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import BAD_INPUT
from ha_core.operations.access.bindings import apply_bindings, plan_bindings, with_level
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.engine.environment import Environment
from ha_core.operations.running import engine
from ha_core.operations.running.whole_cluster import plan_cluster
from stack.harness import Stack
from tests.dags.conftest import Run
from tests.kit.running import create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.airflow]


stack = own_stack(gateways=1)
"""A stack of its own: everything in it moves."""


def users_with_topics(stack: Stack, environment: Environment, cluster: str) -> list[tuple[str, str]]:
    """Two users with a topic and a group each, and a topic without a known user."""
    mark = uuid.uuid4().hex[:6]
    made = [(f"user-{mark}-{n}", f"topic-{mark}-{n}") for n in range(2)]
    bootstrap = stack.clusters[cluster]["bootstrap"]
    for user, topic in made:
        create_topic(bootstrap, topic, 1)
        declare_usage(environment, user, (topic,), (f"group-{topic}",))
    create_topic(bootstrap, f"alone-{mark}", 1)
    return [*made, ("", f"alone-{mark}")]


def writers(environment: Environment, things: list[tuple[str, str]]) -> set[str | None]:
    view = environment.store.load()
    found = {view.topics[topic].writer for _, topic in things}
    return found | {view.bindings[user].cluster for user, _ in things if user}


def switch(stack: Stack, *arguments: str) -> tuple[int, str]:
    options = ["--zookeeper", stack.zookeeper, "--reason", "maintenance", "--yes"]
    result = CliRunner().invoke(build(), ["switch", *arguments, *options])
    return result.exit_code, result.output


def test_a_cluster_is_left_part_by_part_and_a_repetition_moves_the_rest(
    run_dag: Run, stack: Stack, environment: Environment
) -> None:
    # Given a cluster that serves users who share nothing
    things = users_with_topics(stack, environment, "east")
    form: dict[str, Any] = {"from": "east", "to": "west", "reason": "a test", "topics_per_batch": 2}
    # When a run shows what it would do
    dry = run_dag("switch_cluster", {**form, "dry_run": True})
    # Then nothing has changed, and each user is a part
    assert dry.state == "success", dry.tasks
    assert dry.results["report"]["outcome"].startswith("DRY RUN: would move 3 topics and 2 groups")
    assert environment.store.load().topics == {}
    # When the first part was moved, and the run was stopped there
    first = plan_cluster(environment, "east", "west", reason="a test", topics_per_batch=2).batches[0]
    assert engine.resume(environment, engine.start(environment, first).id).result == "succeeded"
    # When it is asked for again
    outcome = run_dag("switch_cluster", {**form, "dry_run": False})
    # Then what was left has moved, and the run says what all of its parts have come to
    assert outcome.state == "success", (outcome.tasks, outcome.results)
    line = outcome.results["report"]["outcome"]
    assert line.startswith("DONE: moved 2 topics and 2 groups from east to west in 2 operations; clients waited "), line
    assert writers(environment, things) == {"west"}
    assert environment.store.locks() == []
    # When there is nothing left
    code, said = switch(stack, "cluster:east", "--from", "east", "--to", "west")
    # Then that is said
    assert code == BAD_INPUT
    assert "serves no user" in said
    # When the command moves all of it back
    code, said = switch(stack, "cluster:west", "--from", "west", "--to", "east", "--batch-topics", "2")
    # Then it is where it was
    assert code == 0, said
    assert writers(environment, things) == {"east"}


def test_a_part_that_is_a_user_alone_is_moved_as_any_other(
    run_dag: Run, stack: Stack, environment: Environment
) -> None:
    # Given a user who is bound to a cluster, and has used nothing there yet
    user = f"idle-{uuid.uuid4().hex[:6]}"
    declared = with_level(environment.store.load(), f"user:{user}", "east")
    apply_bindings(environment, plan_bindings(environment, declared), "a test")
    # When all of the cluster is to move, in parts as small as can be
    form = {"from": "east", "to": "west", "reason": "a test", "topics_per_batch": 1, "dry_run": False}
    outcome = run_dag("switch_cluster", form)
    # Then it is bound to the other one
    assert outcome.state == "success", (outcome.tasks, outcome.results)
    assert environment.store.load().bindings[user].cluster == "west"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cluster:east", "user:u", "--from", "east", "--to", "west"), "stands alone"),
        (("cluster:west", "--from", "east", "--to", "west"), "names the cluster of --from"),
        (("cluster:north", "--from", "north", "--to", "west"), "'north' is not registered"),
        (("cluster:east", "--from", "east", "--to", "west", "--mode", "forced"), "--unread"),
    ],
)
def test_a_scope_that_is_no_whole_cluster_is_refused_with_its_way_out(
    stack: Stack, arguments: tuple[str, ...], words: str
) -> None:
    code, said = switch(stack, *arguments)

    assert code == BAD_INPUT
    assert words in " ".join(said.split())


def test_a_failed_part_is_undone_and_no_other_is_started(
    run_dag: Run, stack: Stack, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a first part whose cut fails
    things = users_with_topics(stack, environment, "east")
    before = {operation.id for operation in environment.store.operations(50)}
    monkeypatch.setattr("ha_core.operations.move.switch_steps.cut_change", Mock(side_effect=RuntimeError("planted")))
    # When all of the cluster is to move
    form = {"from": "east", "to": "west", "reason": "a test", "topics_per_batch": 2, "dry_run": False}
    outcome = run_dag("switch_cluster", form)
    # Then the run has failed, only that part was begun, as often as tasks are tried, and each time undone
    assert outcome.state == "failed"
    begun = [operation for operation in environment.store.operations(50) if operation.id not in before]
    assert {operation.state for operation in begun} == {"undone"}
    assert len({operation.about for operation in begun}) == 1
    view = environment.store.load()
    assert not any(user in view.bindings for user, _ in things)
    assert environment.store.locks() == []


def test_a_dead_cluster_is_left_by_a_form_of_two_fields(run_dag: Run, stack: Stack, environment: Environment) -> None:
    """Last in this file: it kills east."""
    things = users_with_topics(stack, environment, "east")
    form = {"cluster": "east", "reason": "it died"}
    # While it answers, nothing is moved
    alive = run_dag("fail_over_cluster", form)
    assert alive.state == "failed"
    assert "Origin east answers" in str(alive.results)
    record(environment)
    stack.kill("cluster/east")
    outcome = run_dag("fail_over_cluster", form)
    assert outcome.state == "success", outcome.results
    assert outcome.tasks == {"fail_over": "success", "report": "success", "release": "success"}
    assert outcome.results["report"]["outcome"].startswith("DONE: moved")
    assert writers(environment, things) == {"west"}
    # A repetition finds nothing to do
    again = run_dag("fail_over_cluster", form)
    assert again.tasks["fail_over"] == "skipped", again.results
