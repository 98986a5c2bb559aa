"""Commits of gateway clients' groups and of direct groups, as a mirror's target should have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.plan.facts.clusters import Partition
from ha_core.plan.mirror.carried import WantedCommits, client_offsets, translated_offsets
from ha_core.plan.mirror.syncing import offsets_due, offsets_gone

P: Partition = ("orders", 0)
COUNTS = {"orders": 1}


def lower(_: Partition, offset: int) -> int | str:
    """A copy in which every second offset of the source was compacted away."""
    return offset // 2


def higher(_: Partition, offset: int) -> int | str:
    """A copy that was taken over three times before its first record."""
    return offset + 3


def due(wanted: WantedCommits, there: int | None) -> int | None:
    found = offsets_due(wanted.commits, {} if there is None else {P: (there, "")}, wanted.ours, COUNTS)
    assert not (found.copy and found.ahead)
    return found.copy[P][0] if P in found.copy else None


def test_client_offsets_are_carried_as_they_are_with_their_metadata() -> None:
    wanted = client_offsets({P: (40, "m")}, {}, {})
    assert (wanted.commits, wanted.untranslated) == ({P: (40, "m")}, {})


def test_a_direct_group_goes_on_at_the_copys_own_offset() -> None:
    assert translated_offsets({P: (40, "m")}, {}, {}, lower).commits == {P: (20, "m")}
    assert translated_offsets({P: (40, "m")}, {}, {}, higher).commits == {P: (43, "m")}


def test_an_offset_that_cannot_be_translated_is_left_out_with_its_reason() -> None:
    found = translated_offsets(
        {P: (40, ""), ("orders", 1): (4, "")}, {}, {}, lambda key, at: "no map" if key[1] else at
    )
    assert found.commits == {P: (40, "")}
    assert found.untranslated == {("orders", 1): "no map"}


@pytest.mark.parametrize(
    ("source", "seen", "there", "committed"),
    [
        (40, 40, 20, None),
        (42, 40, 20, 21),
        (10, 40, 20, 5),
        (40, 40, 21, None),
        (40, -1, 21, None),
        (40, 60, 25, 20),
    ],
    ids=["same", "forwards", "went back", "further there", "nobody knows", "went back twice"],
)
def test_a_direct_group_goes_back_in_the_target_only_with_the_source(
    source: int, seen: int, there: int, committed: int | None
) -> None:
    wanted = translated_offsets({P: (source, "")}, {P: seen}, {P: there}, lower)
    assert due(wanted, there) == committed


def test_a_number_that_was_carried_as_it_is_becomes_the_translated_one_even_if_that_is_lower() -> None:
    # Given a group that was no direct one: the target has the source's number, above its place in the copy
    wanted = translated_offsets({P: (40, "")}, {P: 40}, {}, lower)
    # Then that number is known to be the sync's own
    assert due(wanted, 40) == 20
    # And a higher one is another client's
    assert due(wanted, 41) is None


def test_a_translated_number_becomes_the_sources_even_if_that_is_lower() -> None:
    # Given a direct group that is one no more: the target has its place in the copy, above the source's number
    wanted = client_offsets({P: (40, "")}, {P: 40}, {P: 43})
    assert due(wanted, 43) == 40
    assert due(wanted, 44) is None


def test_a_translated_commit_that_the_source_deleted_goes_unless_a_client_there_has_read_on() -> None:
    ours = translated_offsets({}, {P: 40}, {P: 43}, higher).ours
    assert offsets_gone((), {P: (43, "")}, ours) == (P,)
    assert offsets_gone((), {P: (44, "")}, ours) == ()


@dataclass
class World:
    """A group in a source and in a copy of it that is `shift` offsets apart, and the kinds that it has had.

    :ivar theirs: the highest offset that a consumer has committed in the target, past the sync.
    """

    shift: int
    source: int = 0
    target: int | None = None
    seen: int = -1
    theirs: int = -1
    checkpoints: dict[Partition, int] = field(default_factory=dict)

    def translate(self, _: Partition, offset: int) -> int | str:
        return max(offset + self.shift, 0)

    def sync(self, direct: bool) -> None:
        source: Mapping[Partition, tuple[int, str]] = {P: (self.source, "")}
        seen = {P: self.seen}
        wanted = (
            translated_offsets(source, seen, self.checkpoints, self.translate)
            if direct
            else client_offsets(source, seen, self.checkpoints)
        )
        committed = due(wanted, self.target)
        self.target = self.target if committed is None else committed
        self.seen = max(self.seen, self.source)
        if self.target == wanted.commits[P][0]:
            if direct:
                self.checkpoints[P] = self.target
            else:
                self.checkpoints.pop(P, None)


STEPS = st.lists(
    st.tuples(st.sampled_from(["read", "back", "sync", "change", "there"]), st.integers(0, 9)), max_size=40
)


@given(st.integers(-5, 5), STEPS)
def test_a_direct_groups_consumer_in_the_target_is_never_set_back(shift: int, steps: list[tuple[str, int]]) -> None:
    world, highest = World(shift), 0
    for step, number in steps:
        if step == "read":
            world.source += number
        elif step == "back":
            world.source = max(0, world.source - number)
        elif step == "there" and world.target is not None:
            # A consumer of the standby reads on, beyond all that the group ever had in the source.
            world.target = max(world.target, int(world.translate(P, highest))) + 1 + number
            world.theirs = world.target
        else:
            world.sync(direct=True)
        highest = max(highest, world.source)
        if world.theirs > int(world.translate(P, highest)):
            assert world.target is not None
            assert world.target >= world.theirs


@given(st.integers(-5, 5), STEPS, st.booleans())
def test_after_two_syncs_the_target_has_the_groups_place_in_its_present_kind(
    shift: int, steps: list[tuple[str, int]], kind: bool
) -> None:
    world = World(shift)
    for step, number in steps:
        if step in {"read", "there"}:
            world.source += number
        elif step == "back":
            world.source = max(0, world.source - number)
        else:
            kind = kind != (step == "change")
            world.sync(kind)
    world.sync(kind)
    world.sync(kind)
    assert world.target == (world.translate(P, world.source) if kind else world.source)
