"""The planner of a crossing from every interrupted prefix, with gateways that lag and keep acknowledging."""

from collections.abc import Callable, Iterator

import pytest

from ha_core.plan.engine.revision import MoveDamagedError
from tests.plan.replay import broken_worlds
from tests.plan.replay_crossing import ORIGIN, PARTITIONS, TARGET, TOPIC, Shape, World

BEYOND = 3000
"""More effects than any run has."""


def nothing(_count: int) -> None:
    pass


def a_world(seed: int, *faults: str, shape: Shape = "whole") -> World:
    world = World(seed, frozenset(faults), shape)
    for _ in range(12):
        world.tick()
    return world


def advance(world: World, work: Iterator[str], effects: int | None, meanwhile: Callable[[int], None] = nothing) -> bool:
    """Runs `work` for at most `effects` yields, the world going on in between. Whether it came to its end."""
    for count, _ in enumerate(work):
        if count == effects:
            return False
        assert count < BEYOND, "the crossing never came to its end"
        meanwhile(count)
        world.tick()
        world.tick()
    return True


def bring_to_an_end(world: World) -> None:
    assert advance(world, world.run(), None)
    assert world.decide() == ("release",)
    for _ in range(10):
        world.tick()
    world.settle()
    world.require_sound_end()


@pytest.mark.parametrize("seed", range(3))
def test_a_crossing_killed_between_any_two_effects_is_continued_by_a_rerun(seed: int) -> None:
    for prefix in range(BEYOND):
        world = a_world(seed)
        finished = advance(world, world.run(), prefix)
        for _ in range(6):
            world.tick()
        bring_to_an_end(world)
        assert world.operation.state == "succeeded"
        if finished:
            break


@pytest.mark.parametrize("shape", ["single", "rest"])
@pytest.mark.parametrize("seed", range(2))
def test_a_single_partition_crosses_over_and_the_others_stay_where_they_are_killed_anywhere(
    seed: int, shape: Shape
) -> None:
    for prefix in range(BEYOND):
        world = a_world(seed, shape=shape)
        finished = advance(world, world.run(), prefix)
        for _ in range(6):
            world.tick()
        bring_to_an_end(world)
        topic = world.view.topics[TOPIC]
        assert world.operation.state == "succeeded"
        assert [extent.cluster for extent in topic.partitions[0]][-1] == TARGET
        assert [extent.cluster for extent in topic.partitions[1]] == [ORIGIN if shape == "single" else TARGET]
        assert topic.writer == (ORIGIN if shape == "single" else TARGET)
        if finished:
            break


@pytest.mark.parametrize("seed", range(3))
def test_an_idle_partition_is_cut_at_its_end_under_a_fence_after_a_kill_at_any_point(seed: int) -> None:
    for prefix in range(BEYOND):
        world = a_world(seed)
        world.idle = {PARTITIONS[1]} if seed % 2 else set(PARTITIONS)
        finished = advance(world, world.run(), prefix)
        bring_to_an_end(world)
        assert world.operation.state == "succeeded"
        if finished:
            break


@pytest.mark.parametrize(("seed", "shape"), [(0, "whole"), (1, "whole"), (2, "whole"), (1, "single"), (1, "rest")])
def test_an_operator_can_go_back_until_the_target_is_written_and_the_crossing_goes_on_otherwise(
    seed: int, shape: Shape
) -> None:
    ends = set()
    for prefix in range(BEYOND):
        world = a_world(seed, shape=shape)
        finished = advance(world, world.run(), prefix)
        try:
            world.begin_back()
        except MoveDamagedError:
            assert world.operation.state in {"cut", "succeeded"}
        bring_to_an_end(world)
        ends.add(world.operation.state)
        if finished:
            break
    assert ends == {"undone", "succeeded"}


@pytest.mark.parametrize("seed", range(2))
def test_a_way_back_that_is_killed_anywhere_is_gone_to_its_end_or_given_up(seed: int) -> None:
    for prefix in range(0, 60, 5):
        for second in range(BEYOND):
            world = a_world(seed)
            advance(world, world.run(), prefix)
            if world.operation.state in {"cut", "succeeded"}:
                break
            try:
                world.begin_back()
            except MoveDamagedError:
                break
            finished = advance(world, world.run(), second)
            world.tick()
            bring_to_an_end(world)
            if finished:
                break


@pytest.mark.parametrize("seed", range(2))
def test_a_gateway_that_dies_at_any_point_neither_blocks_the_crossing_nor_breaks_it(seed: int) -> None:
    for moment in range(BEYOND):
        world = a_world(seed)
        died: list[int] = []

        def kill(count: int, world: World = world, moment: int = moment, died: list[int] = died) -> None:
            if count == moment:
                world.kill_gateway()
                died.append(count)

        assert advance(world, world.run(), None, kill)
        bring_to_an_end(world)
        if not died:
            break


def growing_at(world: World, moment: int) -> Callable[[int], None]:
    def meanwhile(count: int) -> None:
        if count == moment:
            world.grow()

    return meanwhile


@pytest.mark.parametrize("shape", ["whole", "single", "rest"])
@pytest.mark.parametrize("seed", range(3))
def test_a_topic_that_gets_partitions_at_any_point_crosses_over_without_them_or_not_at_all(
    seed: int, shape: Shape
) -> None:
    ends = set()
    for moment in range(BEYOND):
        world = a_world(seed, shape=shape)
        world.idle = {PARTITIONS[0]} if moment % 3 == 0 else set()
        # Killed some effects after it has grown.
        advance(world, world.run(), moment + 1 + moment % 7, growing_at(world, moment))
        for _ in range(6):
            world.tick()
        if len(world.partitions) == len(PARTITIONS):
            break
        world.idle = set()
        bring_to_an_end(world)
        topic = world.view.topics.get(TOPIC)
        written_in = topic.extents(2)[-1].cluster if topic else ORIGIN
        ends.add((world.operation.state, written_in))
        if topic and world.operation.state == "succeeded":
            assert {topic.extents(p)[-1].cluster for p in world.moving} == {TARGET}
        # Refused batches are retried, in either cluster.
        world.idle = set(PARTITIONS)
        for _ in range(60):
            world.tick()
        world.settle()
        world.require_sound_end()
        assert any(p == 2 for p, _ in world.acknowledged)
    assert ("succeeded", ORIGIN) in ends


def end_without_origin(world: World, interrupted_after: int) -> None:
    """The origin is dead; its records come back at the end."""
    advance(world, world.run_without_origin(), interrupted_after)
    for _ in range(4):
        world.tick()
    assert advance(world, world.run_without_origin(), None)
    for _ in range(20):
        world.tick()
    world.settle()
    world.require_sound_end()
    world.bring_origin_back()
    world.require_sound_end()


@pytest.mark.parametrize(("seed", "shape"), [(0, "whole"), (1, "whole"), (2, "whole"), (1, "single"), (1, "rest")])
def test_a_crossing_whose_origin_dies_at_any_point_ends_without_it_and_loses_nothing_that_was_acknowledged(
    seed: int, shape: Shape
) -> None:
    ended = 0
    for prefix in range(BEYOND):
        world = a_world(seed, shape=shape)
        finished = advance(world, world.run(), prefix)
        for _ in range(6):
            world.tick()
        standing = world.view.topics.get(TOPIC)
        if standing is not None and standing.crossing is not None:
            world.kill_origin()
            end_without_origin(world, prefix % 12)
            assert world.operation.state == "succeeded"
            assert all(world.view.topics[TOPIC].extents(p)[-1].cluster == TARGET for p in world.moving)
            ended += 1
        if finished:
            break
    assert ended > 5


def test_an_origin_that_dies_on_the_way_back_of_a_crossing_is_done_without() -> None:
    for seed in range(20):
        world = a_world(seed)
        work = world.run()
        for _ in work:
            world.tick()
            topic = world.view.topics.get(TOPIC)
            if topic is not None and topic.crossing is not None and topic.crossing.state == "open":
                break
        for _ in range(30):
            world.tick()
        world.begin_back()
        for _ in range(3):
            world.tick()
        world.kill_origin()
        end_without_origin(world, seed % 9)


@pytest.mark.parametrize(
    "fault",
    [
        "serve",
        "drain",
        "end check",
        "look before",
        "surplus",
        "sequences",
        "whole",
        "drain on the way back",
        "drain under the fence",
        "withhold",
    ],
)
def test_the_checker_finds_every_omitted_condition_of_the_invariant(fault: str) -> None:
    faults = (fault, "serve") if fault == "end check" else (fault,)

    def attempt(seed: int) -> None:
        world = a_world(seed, *faults)
        if fault == "drain under the fence":
            world.idle = {PARTITIONS[1]}
        back = fault == "drain on the way back"
        for count, effect in enumerate(world.run()):
            assert count < BEYOND
            if fault == "withhold" and effect == "about to settle":
                world.grow()
            world.tick()
            if fault == "sequences" and count % 25 == seed % 25 and len(world.gateways) > 1:
                world.kill_gateway()
            if back and any(flight.cluster == TARGET for gateway in world.gateways for flight in gateway.flights):
                back = False
                world.begin_back()
            if count % 7 == 0 and fault == "drain under the fence":
                world.idle ^= {PARTITIONS[1]}
        for _ in range(30):
            world.tick()
        world.settle()
        world.require_sound_end()

    assert broken_worlds(attempt, 60) > 0
