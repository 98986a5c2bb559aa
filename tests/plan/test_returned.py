"""A cluster that was given up comes back: with all that was known of it, with more, and with less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Extent, Topic, View
from ha_core.model.extent import Location, append, check, identity, locate, open_extent
from ha_core.plan.absence.returned import confirmed, look_at, read_again, unconfirmed

CUT = 1_000_000
MOVED = append(identity("east"), "west", CUT, 0, known_end=100)
OLD = MOVED[0]


@pytest.mark.parametrize(
    ("log_end", "outcome", "beyond", "missing"),
    [(100, "whole", 0, 0), (140, "whole", 40, 0), (99, "less", 0, 1), (0, "less", 0, 100), (None, "less", 0, 100)],
)
def test_a_returned_log_is_compared_with_the_known_end(
    log_end: int | None, outcome: str, beyond: int, missing: int
) -> None:
    found = look_at("orders", 0, OLD, log_end)

    assert (found.outcome, found.beyond, found.missing) == (outcome, beyond, missing)


def test_a_returned_log_above_the_cut_is_marked_until_the_loss_is_accepted() -> None:
    """A record without a place in the topic, which may have been acknowledged."""
    # When a cluster returns with more than its cut
    found = look_at("orders", 0, OLD, CUT + 500)
    # Then the extent is marked with the found end, and closed at the cut once that is accepted
    assert (found.outcome, found.above, found.beyond, found.missing) == ("more", 500, CUT - 100, 0)
    after = confirmed(MOVED, found)
    assert after[0] == OLD.changed(found_end=CUT + 500)
    assert check(after) == []
    assert look_at("orders", 0, after[0], CUT + 500).outcome == "more"
    accepted = look_at("orders", 0, after[0], CUT + 500, accept_loss=True)
    assert confirmed(after, accepted) == (Extent(cluster="east", start=0, end=CUT, base=0, writer_epoch=0), MOVED[1])


def test_a_returned_log_with_surplus_of_a_crossing_above_the_cut_counts_as_whole() -> None:
    surplus = OLD.changed(surplus=True)

    found = look_at("orders", 0, surplus, CUT + 500)

    assert (found.outcome, found.found_end, found.above) == ("whole", CUT, 0)
    assert confirmed((surplus, MOVED[1]), found)[0] == Extent(cluster="east", start=0, end=CUT, base=0, writer_epoch=0)


def test_a_returned_log_with_less_is_marked_and_nothing_changes_for_readers() -> None:
    after = confirmed(MOVED, look_at("orders", 0, OLD, 60))

    assert after[0] == OLD.changed(found_end=60)
    assert check(after) == []
    assert [locate(after, o).extent.cluster for o in (59, 60, 100, CUT)] == ["east", "east", "east", "west"]


def test_an_accepted_loss_becomes_a_hole() -> None:
    after = confirmed(MOVED, look_at("orders", 0, OLD, 60, accept_loss=True))

    assert after[0].end == 60
    assert (after[0].known_end, after[0].found_end) == (None, None)
    assert confirmed(MOVED, look_at("orders", 0, OLD, None, accept_loss=True)) == (MOVED[1],)


def test_a_missing_topic_is_a_loss_even_when_its_known_end_is_zero() -> None:
    unknown = OLD.changed(known_end=0)

    assert look_at("orders", 0, unknown, None).outcome == "less"
    assert look_at("orders", 0, unknown, 0).outcome == "whole"


def test_a_returned_extent_stays_skipped_until_it_is_to_be_read_again() -> None:
    skipped = (OLD.changed(ignored=True), MOVED[1])

    after = confirmed(skipped, look_at("orders", 0, skipped[0], 140))
    assert after[0].ignored
    again = read_again(Topic(name="orders", writer="west", partitions={0: after}), "east")
    assert not again.partitions[0][0].ignored
    assert check(again.partitions[0]) == []


def test_only_extents_with_an_unconfirmed_end_are_checked() -> None:
    topic = Topic(name="orders", writer="west", partitions={0: MOVED, 1: identity("west")})

    assert list(unconfirmed(View(topics={"orders": topic}))) == [("orders", 0, OLD)]


@given(
    before=st.integers(0, 20),
    base=st.integers(0, 5),
    known=st.integers(0, 30),
    held=st.integers(0, 60),
    accept=st.booleans(),
)
def test_no_record_changes_its_offset_for_any_log_of_a_returned_cluster(
    before: int, base: int, known: int, held: int, accept: bool
) -> None:
    """For any log of the returned cluster, offsets below its end keep their records, and so do those of the target."""
    # Given a forced move after a planned one
    moved = append(
        append(identity("west"), "east", before, base), "west", before + 50, before + 7, before + min(known, 50)
    )
    extent = next(moved_extent for moved_extent in moved if moved_extent.cluster == "east")
    # When the cluster returns with whatever it holds
    after = confirmed(moved, look_at("orders", 0, extent, base + held, accept))
    # Then each offset that leads to a record leads to the one it led to before
    assert check(after) == []
    assert open_extent(after) == open_extent(moved)
    for offset in range(before + 60):
        place = locate(after, offset)
        if isinstance(place, Location):
            was = locate(moved, offset)
            assert isinstance(was, Location)
            assert (place.extent.cluster, place.physical) == (was.extent.cluster, was.physical)
    if held >= min(known, 50):
        assert all(isinstance(locate(after, before + o), Location) for o in range(min(held, 50)))
