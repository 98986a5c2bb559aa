"""Switches to copies from every interrupted prefix: killed between any two effects, then resumed or undone."""

import pytest

from ha_core.model.extent import open_extent
from ha_core.plan.engine.revision import MoveDamagedError
from ha_core.plan.facts.clusters import CopyFacts
from ha_core.plan.move.planner import UNDO
from tests.plan.replay import (
    MARKER,
    PARTITIONS,
    TOPIC,
    advance,
    bring_to_an_end,
    broken_worlds,
    extents_now,
    killed_after_each_effect,
    nothing,
    start,
)
from tests.plan.replay_copies import MirroredWorld


def a_mirrored_world(seed: int) -> MirroredWorld:
    world = MirroredWorld(seed)
    for _ in range(8):
        world.tick()
    return world


def require_a_whole_mirror(world: MirroredWorld) -> None:
    """It goes from where the topic is written to the other cluster, and in peace its copies get all of it, once."""
    (mirror,) = world.view.mirrors.values()
    for _ in range(20):
        world.tick()
    world.settle()
    for partition in PARTITIONS:
        writer = open_extent(extents_now(world.view, partition)).cluster
        assert (mirror.source, mirror.target == writer) == (writer, False)
        copy = world.copied[mirror.link, partition]
        while not (copy.copier == "job" and not world.copy_one(copy, partition)):
            world.copy_as_the_job(mirror.link, partition)
        logs = [[one for one in world.logs[name, partition] if one != MARKER] for name in ("east", "west")]
        assert sorted(logs[0]) == sorted(logs[1])
        assert len(set(logs[0])) == len(logs[0]), "a record came twice"


@pytest.mark.parametrize("seed", range(3))
def test_a_switch_to_a_copy_killed_between_any_two_effects_leaves_a_mirror_that_goes_on(seed: int) -> None:
    ends = set()
    for _, world in killed_after_each_effect(lambda: a_mirrored_world(seed)):
        for _ in range(4):
            world.tick()
        bring_to_an_end(world)
        require_a_whole_mirror(world)
        ends.add(world.operation.state)

    assert ends == {"succeeded", "undone"}


@pytest.mark.parametrize("seed", range(2))
def test_switches_to_copies_there_and_back_interrupted_anywhere_keep_every_record(seed: int) -> None:
    switched = 0
    for prefix in range(0, 60, 4):
        world = a_mirrored_world(seed)
        place, other = "east", "west"
        for turn in range(4):
            world.begin(place, other)
            advance(world, world.run(start(world)), prefix + turn, nothing)
            for _ in range(3):
                if world.decide() != ("release",):
                    assert advance(world, world.run(world.decide()), None, nothing)
            if world.operation.state == "succeeded":
                place, other = other, place
                switched += 1
            for _ in range(10):
                world.tick()
            world.settle()
            assert [mirror.held for mirror in world.view.mirrors.values()] == [None]
            world.require_readable()
        require_a_whole_mirror(world)
        assert {extent.cluster for p in PARTITIONS for extent in extents_now(world.view, p)} == {place}
    assert switched > 4


@pytest.mark.parametrize("seed", range(2))
def test_an_operator_can_undo_a_switch_to_a_copy_at_any_point_before_the_cut(seed: int) -> None:
    undone = 0
    for _, world in killed_after_each_effect(lambda: a_mirrored_world(seed)):
        if world.operation.state not in {"cut", "succeeded"}:
            try:
                assert advance(world, world.run(UNDO), None, nothing)
            except MoveDamagedError:
                assert open_extent(extents_now(world.view, 0)).cluster == "west"
            else:
                undone += 1
                assert [mirror.held for mirror in world.view.mirrors.values()] == [None]
        bring_to_an_end(world)
        require_a_whole_mirror(world)
    assert undone > 10


def test_a_cut_before_the_copies_have_everything_is_seen_by_the_checker() -> None:
    def attempt(seed: int) -> None:
        world = a_mirrored_world(seed)
        for at in world.run(start(world), skip=frozenset({"mirrored"})):
            world.tick()
            if at == "before cut":
                world.taken = {(TOPIC, p): CopyFacts(log.next, tuple(log.runs), whole=True) for p, log in world._own()}
                world._read_copies()
        world.settle()
        world.require_sound_end()

    assert broken_worlds(attempt, 10) > 0


def test_the_checker_finds_copiers_that_do_not_check_their_assignment_after_their_marker() -> None:
    class Careless(MirroredWorld):
        def ours(self, link: str) -> bool:
            return True

    def attempt(seed: int) -> None:
        world = Careless(seed)
        assert advance(world, world.run(start(world)), None, nothing)
        for _ in range(100):
            world.tick()
        for partition in PARTITIONS:
            log = [one for one in world.logs["west", partition] if one != MARKER]
            assert len(set(log)) == len(log)

    assert broken_worlds(attempt, 6) > 0
