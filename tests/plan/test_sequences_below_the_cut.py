"""The last sequence of each producer below a cut that the log has run past."""

from ha_core.plan.facts.clusters import ProducerFacts, Surplus
from ha_core.plan.move.carry_over import below_cut


def last(*known: tuple[int, int, int], **first: tuple[int, int]) -> dict[int, tuple[int, int]] | None:
    """producer → (epoch, last sequence), from the leader and from `p7=(epoch, first sequence above)`."""
    surplus = Surplus({int(name[1:]): seen for name, seen in first.items()})
    producer_facts = below_cut([ProducerFacts(*facts, 0) for facts in known], surplus)
    return (
        None
        if producer_facts is None
        else {producer.producer_id: (producer.epoch, producer.last_sequence) for producer in producer_facts}
    )


def test_a_producer_without_surplus_has_the_last_sequence_that_the_leader_reports() -> None:
    assert last((7, 0, 41)) == {7: (0, 41)}


def test_a_producer_with_surplus_has_the_sequence_before_the_first_one_above_the_cut() -> None:
    assert last((7, 0, 50), p7=(0, 42)) == {7: (0, 41)}


def test_a_producer_that_began_above_the_cut_has_no_sequence_below_it() -> None:
    assert last((7, 0, 50), p7=(0, 0)) == {}
    assert last(p7=(0, 0)) == {}


def test_a_producer_unknown_to_the_leader_continues_from_an_earlier_writer_epoch() -> None:
    assert last(p7=(0, 10)) == {7: (0, 9)}


def test_a_producer_that_raised_its_epoch_at_the_cut_has_its_last_sequence_of_the_old_epoch() -> None:
    assert last((7, 3, 41), p7=(4, 0)) == {7: (3, 41)}


def test_a_producer_that_raised_its_epoch_above_the_cut_has_the_sequence_before_its_first() -> None:
    assert last((7, 4, 5), p7=(3, 42)) == {7: (3, 41)}


def test_last_sequences_are_unknown_when_part_of_the_surplus_is_missing() -> None:
    assert below_cut([ProducerFacts(7, 0, 41, 0)], Surplus({}, whole=False)) is None
