"""Minutes between the steps of an operation, and other users at work in them."""

import time

import pytest

from ha_core.operations.engine.environment import Environment
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.running import engine as moves
from ha_core.plan.move.planner import TASKS
from tests.kit.moving import a_move
from tests.kit.progress import await_more
from tests.kit.running import Run, bind
from tests.kit.stacks import operator
from tests.system.watching import assert_no_client_has_failed

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/operations/move", "ha_core/plan/move/planner.py")]
GAP_S = 3.0


environment = operator()


def begin(environment: Environment, topic: str) -> str:
    return moves.start(environment, plan(environment, a_move(topic))).id


def test_a_user_bound_to_the_target_writes_to_the_origin_until_the_cut(
    run: Run, name: str, environment: Environment
) -> None:
    # Given a topic of east with a producer and a reader, and a move that has made its copy in west
    reader = run.start("confluent-consumer", "r1", name, group=name)
    first = run.start("confluent-producer", "w1", name, rate=50, idempotence="on")
    first.wait_for(50, "acknowledged")
    operation = begin(environment, name)
    moves.run_task(environment, operation, "prepare")
    # When a user who is bound to west begins to write to it between this step and the next
    bind(run.stack, f"{name}.west", "west")
    second = run.start("confluent-producer", "w2", name, rate=50, idempotence="on", client_id=f"HA#{name}.west#{name}")
    second.wait_for(50, "acknowledged")
    time.sleep(GAP_S)
    for task in [*TASKS][1:]:
        moves.run_task(environment, operation, task)
    # Then all that was acknowledged is read, once and in order
    await_more(50, first, second)
    run.finish([first, second], [reader])
    run.assert_sound(name, complete=[name])
    assert environment.store.load().topics[name].writer == "west"


def test_no_client_is_routed_to_the_deleted_copy_after_an_undo(run: Run, name: str, environment: Environment) -> None:
    # Given a user bound to west who writes to a topic of east, of which a move has made a copy
    bind(run.stack, name, "west")
    reader = run.start("confluent-consumer", "r1", name, group=name)
    operation = begin(environment, name)
    moves.run_task(environment, operation, "prepare")
    producer = run.start("confluent-producer", "w1", name, rate=50, idempotence="on")
    producer.wait_for(50, "acknowledged")
    # When the move is undone, and another one after it
    assert moves.undo(environment, operation).result == "undone"
    again = begin(environment, name)
    moves.run_task(environment, again, "prepare")
    assert moves.undo(environment, again).result == "undone"
    # Then the topic is in east only, without a map, and no record was failed
    await_more(50, producer)
    assert name not in environment.store.load().topics
    west = environment.admin(environment.store.load().clusters["west"])
    assert west.topics([name], offsets=False) == {}
    run.finish([producer], [reader])
    run.assert_sound(name, complete=[name])
    assert_no_client_has_failed([producer])
