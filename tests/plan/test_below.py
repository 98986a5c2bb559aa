"""The last sequence of each producer below a cut that the log has run past."""

from __future__ import annotations

from ha_core.plan.below import below_cut
from ha_core.plan.facts import ProducerFacts, Surplus


def last(*known: tuple[int, int, int], **first: tuple[int, int]) -> dict[int, tuple[int, int]] | None:
    """producer → (epoch, last sequence), by what the leader says and by `p7=(epoch, first sequence above)`."""
    surplus = Surplus({int(name[1:]): seen for name, seen in first.items()})
    found = below_cut([ProducerFacts(*one, 0) for one in known], surplus)
    return None if found is None else {one.producer_id: (one.epoch, one.last_sequence) for one in found}


def test_a_producer_without_surplus_has_what_the_leader_says() -> None:
    assert last((7, 0, 41)) == {7: (0, 41)}


def test_a_producer_with_surplus_had_the_sequence_before_its_first() -> None:
    assert last((7, 0, 50), p7=(0, 42)) == {7: (0, 41)}


def test_one_that_began_above_the_cut_had_nothing_below() -> None:
    assert last((7, 0, 50), p7=(0, 0)) == {}
    assert last(p7=(0, 0)) == {}


def test_one_that_the_leader_had_not_seen_yet_goes_on_from_an_earlier_term() -> None:
    assert last(p7=(0, 10)) == {7: (0, 9)}


def test_one_that_raised_its_epoch_at_the_cut_had_what_the_leader_said_before() -> None:
    assert last((7, 3, 41), p7=(4, 0)) == {7: (3, 41)}


def test_one_that_raised_it_above_the_cut_had_the_sequence_before_its_first() -> None:
    assert last((7, 4, 5), p7=(3, 42)) == {7: (3, 41)}


def test_where_offsets_are_missing_nothing_is_said() -> None:
    assert below_cut([ProducerFacts(7, 0, 41, 0)], Surplus({}, whole=False)) is None
