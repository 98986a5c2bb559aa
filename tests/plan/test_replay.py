"""The planner from every interrupted prefix: killed between any two effects, then resumed or undone."""

import pytest

from ha_core.model.extent import open_extent
from ha_core.plan.engine.revision import MoveDamagedError
from ha_core.plan.facts.clusters import PartitionEnds
from ha_core.plan.move.planner import UNDO
from tests.plan.replay import (
    BEYOND,
    PARTITIONS,
    TOPIC,
    BrokenError,
    World,
    advance,
    bring_to_an_end,
    broken_worlds,
    extents_now,
    killed_after_each_effect,
    nothing,
    start,
)


def a_world(seed: int, dead: bool) -> World:
    world = World(seed)
    for _ in range(6):
        world.tick()
    if dead:
        world.dead = "east"
        world.begin("east", "west")
    return world


@pytest.mark.parametrize("dead", [False, True], ids=["planned", "forced"])
@pytest.mark.parametrize("seed", range(8))
def test_a_move_killed_between_any_two_effects_is_continued_or_undone_by_a_rerun(seed: int, dead: bool) -> None:
    ends = set()
    for _, world in killed_after_each_effect(lambda: a_world(seed, dead)):
        for _ in range(4):
            world.tick()
        bring_to_an_end(world)
        ends.add(world.operation.state)

    assert ends == ({"succeeded"} if dead else {"succeeded", "undone"})


@pytest.mark.parametrize("dead", [False, True], ids=["planned", "forced"])
@pytest.mark.parametrize("seed", range(3))
def test_a_rerun_that_is_killed_as_well_is_continued_or_undone_by_the_next_one(seed: int, dead: bool) -> None:
    for prefix in range(seed, BEYOND, 3):  # all of them, seed by seed
        first_finished = False
        for second in range(BEYOND):
            world = a_world(seed, dead)
            first_finished = advance(world, world.run(start(world)), prefix, nothing)
            world.tick()
            second_finished = advance(world, world.run(world.decide()), second, nothing)
            world.tick()
            bring_to_an_end(world)
            if second_finished:
                break
        if first_finished:
            break
    else:
        pytest.fail("the move never came to its end")


def a_mirrored_world(seed: int) -> World:
    """The topic is copied, but for its last records; copiers stand still somewhere, and its cluster is dead."""
    world = World(seed)
    world.mirror()
    for _ in range(15):
        world.tick()
    world.copiers, standing = [], world.copiers
    for _ in range(10):
        world.tick()
    world.copiers = standing
    world.dead = "east"
    world.begin("east", "west")
    return world


@pytest.mark.parametrize("seed", range(5))
def test_a_switch_to_a_copy_killed_at_any_point_loses_only_uncopied_records_and_doubles_none(seed: int) -> None:
    lost = read = 0
    for effects, world in killed_after_each_effect(lambda: a_mirrored_world(seed), by=2):
        world.tick()
        # Its cluster may be back by then: its records are not copied any more
        world.dead = "east" if effects % 4 else None
        for _ in range(4):
            world.tick()
        world.dead = "east"
        bring_to_an_end(world)
        assert world.operation.state == "succeeded"
        assert {e.cluster for p in PARTITIONS for e in extents_now(world.view, p)} == {"west"}
        assert not world.view.mirrors
        for _ in range(30):
            world.tick()
        world.settle()
        world.require_sound_end()
        lost, read = lost + len(world.lost), read + sum(len(world.read(p)) for p in PARTITIONS)
    assert lost > 0
    assert read > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_forced_switch_that_is_undone_gives_its_copies_back(seed: int) -> None:
    for _, world in killed_after_each_effect(lambda: a_mirrored_world(seed)):
        if world.operation.state in {"cut", "succeeded"}:
            break
        assert advance(world, world.run(UNDO), None, nothing)
        before = sum(copy.source for copy in world.copies.values())
        world.dead = None
        for _ in range(60):
            world.tick()
        assert {key: mirror.held for key, mirror in world.view.mirrors.items()} == {
            "orders@west": None,
            "orders@north": None,
        }
        assert sum(copy.source for copy in world.copies.values()) > before


def test_the_checker_finds_a_copier_that_does_not_check_its_assignment_after_a_takeover() -> None:
    def attempt(seed: int) -> None:
        world = a_mirrored_world(seed)
        world.asks_twice = False
        advance(world, world.run(start(world)), None, nothing)
        world.dead = None
        for _ in range(30):
            world.tick()
        world.settle()
        world.require_sound_end()

    assert broken_worlds(attempt, 20) > 0


@pytest.mark.parametrize("seed", range(6))
def test_an_operator_can_undo_at_any_point_before_the_cut_and_at_none_after_it(seed: int) -> None:
    undone = refused = 0
    for _, world in killed_after_each_effect(lambda: a_world(seed, dead=False)):
        try:
            assert advance(world, world.run(UNDO), None, nothing)
            undone += 1
            assert all(open_extent(extents_now(world.view, p)).cluster == "east" for p in PARTITIONS)
        except MoveDamagedError:
            refused += 1
            assert all(open_extent(extents_now(world.view, p)).cluster == "west" for p in PARTITIONS)
        bring_to_an_end(world)

    assert undone > 5
    assert refused > 2


@pytest.mark.parametrize("seed", range(6))
def test_a_gateway_that_dies_at_any_point_neither_blocks_the_move_nor_breaks_it(seed: int) -> None:
    for moment in range(BEYOND):
        world = a_world(seed, dead=False)
        died: list[int] = []

        def kill(count: int, world: World = world, moment: int = moment, died: list[int] = died) -> None:
            if count == moment:
                world.kill_gateway()
                died.append(count)

        assert advance(world, world.run(start(world)), None, kill)
        bring_to_an_end(world)
        assert world.operation.state == "succeeded"
        if not died:
            break


@pytest.mark.parametrize("seed", range(4))
def test_moves_there_and_back_interrupted_anywhere_keep_every_record(seed: int) -> None:
    for prefix in range(0, 30, 3):
        world = a_world(seed, dead=False)
        place, other = "east", "west"
        for _ in range(4):
            world.begin(place, other)
            advance(world, world.run(start(world)), prefix, nothing)
            for _ in range(3):
                if world.decide() != ("release",):
                    assert advance(world, world.run(world.decide()), None, nothing)
            if world.operation.state == "succeeded":
                place, other = other, place
            for _ in range(4):
                world.tick()
            world.settle()
            for (partition, offset), record in world.acknowledged.items():
                extents = extents_now(world.view, partition)
                extent = next(e for e in extents if e.start <= offset and (e.end is None or offset < e.end))
                assert world.logs[extent.cluster, partition][extent.base + offset - extent.start] == record


@pytest.mark.parametrize("seed", range(4))
def test_an_undo_that_cannot_delete_the_copy_keeps_the_map_that_leads_everybody_away_from_it(seed: int) -> None:
    def stubborn() -> World:
        world = a_world(seed, dead=False)
        world.stubborn = True
        return world

    kept = 0
    for _, world in killed_after_each_effect(stubborn):
        bring_to_an_end(world)
        kept += world.operation.state == "undone" and bool(world.view.topics)
    assert kept > 5


@pytest.mark.parametrize(
    ("skipped", "seeds", "ticks", "at_least"), [({"pin"}, 10, 0, 6), ({"drain", "verify"}, 20, 30, 1)]
)
def test_the_checker_sees_a_skipped_pin_or_drain(skipped: set[str], seeds: int, ticks: int, at_least: int) -> None:
    """Without the pin a gateway may lead clients to the copy; without the drain there is a second writer."""

    def attempt(seed: int) -> None:
        world = a_world(seed, dead=False)
        advance(world, world.run(start(world), skip=frozenset(skipped)), None, nothing)
        for _ in range(ticks):
            world.tick()

    assert broken_worlds(attempt, seeds) >= at_least


def test_without_quiescing_a_transaction_that_is_open_at_the_fence_never_ends() -> None:
    def comes_to_its_end(seed: int, skip: frozenset[str]) -> bool:
        world = a_world(seed, dead=False)
        return advance(world, world.run(start(world), skip=skip), BEYOND, nothing)

    assert all(comes_to_its_end(seed, frozenset()) for seed in range(20))
    assert not all(comes_to_its_end(seed, frozenset({"quiesce"})) for seed in range(20))


def test_a_cut_below_the_log_end_is_seen_by_the_checker() -> None:
    world = a_world(3, dead=False)
    for _ in range(20):
        world.tick()

    def cut_too_low() -> None:
        for at in world.run(start(world)):
            world.tick()
            if at == "after ends":
                world.ends = {key: PartitionEnds(e.target, (e.origin or 1) - 1) for key, e in world.ends.items()}
        world.require_sound_end()

    with pytest.raises(BrokenError):
        cut_too_low()
    assert {topic for topic, _ in world.ends} == {TOPIC}


def test_offsets_that_were_not_copied_are_seen_by_the_checker() -> None:
    world = a_world(1, dead=False)
    while not world.last_commit:
        world.tick()
    for _ in world.run(start(world), skip=frozenset({"offsets"})):
        world.settle()

    with pytest.raises(BrokenError, match="last commit"):
        world.require_sound_end()


def test_a_fence_that_is_left_and_a_lock_that_is_left_are_seen_by_the_checker() -> None:
    world = a_world(1, dead=False)
    for at in world.run(start(world)):
        world.tick()
        if at == "after fence":
            break
    world.note(state="undone")
    with pytest.raises(BrokenError, match="a fence is left"):
        world.require_sound_end()

    world = a_world(1, dead=False)
    for at in world.run(start(world)):
        world.tick()
        if at == "about to release":
            break
    with pytest.raises(BrokenError, match="locks are left"):
        world.require_sound_end()
