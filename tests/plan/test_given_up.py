"""A cluster never comes back: lost records are counted, its extents are removed, and nothing else changes."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Extent, Topic
from ha_core.model.extent import Location, append, check, identity, locate, open_extent
from ha_core.plan.absence.given_up import losses, unread, without
from ha_core.plan.migration.aging import CommittedOffset

CUT = 1_000_000
MOVED = append(identity("east"), "west", CUT, 0, known_end=40)
ORDERS = Topic(name="orders", writer="west", partitions={0: MOVED, 1: append(identity("east"), "west", 9, 0)})
CLUSTERS = ("east", "west", "north")


def test_the_loss_distinguishes_known_offsets_from_possible_ones() -> None:
    forced, planned = losses(ORDERS, "east")

    assert (forced.known, forced.most_lost, forced.known_end, forced.next) == (40, CUT, 40, CUT)
    assert (planned.known, planned.most_lost, planned.known_end, planned.next) == (9, 9, None, 9)


def test_the_loss_names_the_writer_epoch_as_an_extent_does() -> None:
    loss, _ = losses(ORDERS, "east")

    document = loss.to_json()

    assert document.keys() == {"topic", "partition", "cluster", "term", "start", "end", "known_end", "skipped", "next"}
    assert document["term"] == 0


def test_giving_up_a_cluster_removes_only_its_extents() -> None:
    after = without(ORDERS, "east")

    assert after.partitions == {0: MOVED[1:], 1: ORDERS.partitions[1][1:]}
    assert after.writer == "west"
    assert after.given_up == ("east",)
    assert without(ORDERS, "north") == ORDERS
    assert list(losses(after, "east")) == []


@pytest.mark.parametrize(
    "topic",
    [
        ORDERS.model_copy(update={"partitions": {0: MOVED, 1: identity("east")}}),
        ORDERS.model_copy(update={"writer": "east"}),
    ],
    ids=["one partition", "partitions that are added later"],
)
def test_a_cluster_with_an_open_extent_is_not_given_up(topic: Topic) -> None:
    with pytest.raises(ValueError, match="writer"):
        without(topic, "east")
    with pytest.raises(ValueError, match="writer"):
        list(losses(topic, "east"))


def test_the_loss_of_a_group_has_its_missing_offsets_and_where_it_continues() -> None:
    commits = [
        CommittedOffset("slow", "west", 7, True),
        CommittedOffset("past", "east", 50, False),
        CommittedOffset("done", "west", CUT, True),
    ]

    past, slow = unread(ORDERS, "east", {0: commits})

    assert (slow.group, slow.next, slow.known, slow.most_lost, slow.live) == ("slow", CUT, 33, CUT - 7, True)
    assert (past.group, past.next, past.known, past.most_lost, past.live) == ("past", CUT, 0, CUT - 50, False)


def test_no_group_misses_records_that_readers_skip_already() -> None:
    skipped = (MOVED[0].changed(ignored=True), MOVED[1])
    topic = Topic(name="orders", writer="west", partitions={0: skipped})

    assert list(unread(topic, "east", {0: [CommittedOffset("slow", "west", 7, True)]})) == []
    assert [(loss.skipped, loss.known) for loss in losses(topic, "east")] == [(True, 40)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Extent, ...]:
    """Moves among three clusters, planned and forced, some of whose old extents are skipped."""
    extents = identity(draw(st.sampled_from(CLUSTERS)))
    skips = draw(st.booleans())
    logs = dict.fromkeys(CLUSTERS, 0)
    for _ in range(draw(st.integers(1, 5))):
        here = open_extent(extents)
        held = draw(st.integers(0, 6))
        logs[here.cluster] = max(logs[here.cluster], here.base + held)
        target = draw(st.sampled_from([name for name in CLUSTERS if name != here.cluster]))
        known_end = here.start + held if draw(st.booleans()) else None
        at = here.start + held + (draw(st.integers(0, 5)) if known_end is not None else 0)
        extents = append(extents, target, at, logs[target], known_end)
    return tuple(
        extent.changed(ignored=skips and extent.end is not None and extent.writer_epoch == 0) for extent in extents
    )


def read(extents: tuple[Extent, ...], offset: int, to: int) -> Iterator[tuple[int, str, int]]:
    """Records for a reader from `offset` on: (client offset, cluster, offset there)."""
    while offset < to:
        found = locate(extents, offset)
        if isinstance(found, Location):
            yield offset, found.extent.cluster, found.physical
            offset += 1
        else:
            offset = found.extent.start


@given(extents=histories(), gone=st.sampled_from(CLUSTERS), offset=st.integers(0, 40))
def test_after_giving_up_readers_get_all_records_of_other_clusters_at_their_offsets(
    extents: tuple[Extent, ...], gone: str, offset: int
) -> None:
    # Given any history of moves, and a cluster that is not the writer
    if open_extent(extents).cluster == gone:
        return
    topic = Topic(name="t", writer=open_extent(extents).cluster, partitions={0: extents})
    to = open_extent(extents).start + 5
    # When the cluster is given up
    after = without(topic, gone)
    lost = list(losses(topic, gone))
    # Then a reader gets the records of other clusters at their offsets, and each lost offset is counted once
    left = after.partitions[0]
    assert check(left) == []
    assert open_extent(left) == open_extent(extents)
    assert list(read(left, offset, to)) == [
        (at, cluster, there) for at, cluster, there in read(extents, offset, to) if cluster != gone
    ]
    # Exact: each offset that the cluster may hold by the map is counted once, and known ones are a part of them
    within = [o for e in extents if e.cluster == gone and e.end is not None for o in range(e.start, e.end)]
    assert [o for loss in lost for o in range(loss.start, loss.end)] == within
    assert sum(loss.most_lost for loss in lost) == len(within)
    assert all(0 <= loss.known <= loss.most_lost for loss in lost)
    assert all(next(iter(read(left, loss.start, to)))[0] == loss.next for loss in lost)


@given(extents=histories(), gone=st.sampled_from(CLUSTERS), offset=st.integers(0, 40))
def test_the_loss_of_a_group_is_the_records_that_it_would_have_read(
    extents: tuple[Extent, ...], gone: str, offset: int
) -> None:
    # Given any history of moves, and a cluster that is not the writer
    if open_extent(extents).cluster == gone:
        return
    topic = Topic(name="t", writer=open_extent(extents).cluster, partitions={0: extents})
    to = open_extent(extents).start + 5
    # When the loss of a group is counted
    groups = list(unread(topic, gone, {0: [CommittedOffset("g", "west", offset, True)]}))
    # Then it is the number of records that it would have read there
    missed = [at for at, cluster, _ in read(extents, offset, to) if cluster == gone]
    assert sum(loss.most_lost for loss in groups) == len(missed)
    if groups and offset < to:
        assert groups[0].next == next(iter(read(without(topic, gone).partitions[0], offset, to)))[0]


@given(several=st.lists(histories(), min_size=1, max_size=4), gone=st.sampled_from(CLUSTERS), done=st.integers(0, 4))
def test_giving_up_that_is_interrupted_and_repeated_comes_to_the_same_maps(
    several: list[tuple[Extent, ...]], gone: str, done: int
) -> None:
    topics = [
        Topic(name=f"t{number}", writer=open_extent(extents).cluster, partitions={0: extents})
        for number, extents in enumerate(several)
        if open_extent(extents).cluster != gone
    ]

    interrupted = [without(topic, gone) for topic in topics[:done]] + topics[done:]

    assert [without(topic, gone) for topic in interrupted] == [without(topic, gone) for topic in topics]


@given(extents=histories(), gone=st.sampled_from(CLUSTERS), base=st.integers(0, 50), more=st.integers(0, 3))
def test_writing_to_a_given_up_cluster_again_gives_no_offset_a_second_record(
    extents: tuple[Extent, ...], gone: str, base: int, more: int
) -> None:
    # Given any history of moves, with one cluster given up
    if open_extent(extents).cluster == gone:
        return
    left = without(Topic(name="t", writer=open_extent(extents).cluster, partitions={0: extents}), gone).partitions[0]
    at = open_extent(left).start + more
    # When the topic moves there again
    back = append(left, gone, at, base)
    # Then the new stay has a writer epoch of its own, and older offsets lead where they led
    assert check(back) == []
    assert open_extent(back).writer_epoch > max(extent.writer_epoch for extent in extents)
    before = {o: (cluster, physical) for o, cluster, physical in read(extents, 0, at)}
    for offset, cluster, physical in read(back, 0, at):
        assert before[offset] == (cluster, physical)
