"""The lag of a group over the clusters that hold the records of one partition."""

import pytest

from ha_core.model import DirectGroups, Extent, Mirror, Topic, View
from ha_core.model.extent import identity
from ha_core.plan.facts.clusters import GroupFacts
from ha_core.plan.facts.lag import GroupPosition, LogRange, group_lag, group_position, topic_row

EAST, WEST = "east", "west"
AT_100 = (
    Extent(cluster=EAST, start=0, end=100, base=0, writer_epoch=0),
    Extent(cluster=WEST, start=100, end=None, base=7, writer_epoch=1),
)


def look(extents: tuple[Extent, ...], committed: int, **logs: tuple[int, int] | None) -> GroupPosition:
    def log(cluster: str) -> LogRange | None:
        found = logs[cluster]
        return LogRange(*found) if found is not None else None

    return group_position(extents, committed, log)


@pytest.mark.parametrize(
    ("committed", "position"),
    [
        (0, GroupPosition(130, 130, EAST)),
        (99, GroupPosition(130, 31, EAST)),
        (100, GroupPosition(130, 30, WEST)),
        (130, GroupPosition(130, 0, WEST)),
    ],
)
def test_lag_counts_across_the_cut_and_names_the_cluster_of_the_next_record(
    committed: int, position: GroupPosition
) -> None:
    assert look(AT_100, committed, east=(0, 100), west=(7, 37)) == position


def test_lag_does_not_count_surplus_above_the_cut() -> None:
    assert look(AT_100, 90, east=(0, 150), west=(7, 37)) == GroupPosition(130, 40, EAST)


def test_lag_does_not_count_records_that_retention_has_deleted() -> None:
    assert look(AT_100, 10, east=(80, 100), west=(7, 37)) == GroupPosition(130, 50, EAST)
    assert look(AT_100, 10, east=(100, 100), west=(7, 37)) == GroupPosition(130, 30, WEST)


def test_while_the_cut_is_ahead_the_end_is_that_of_the_origins_log() -> None:
    assert look(AT_100, 50, east=(0, 60), west=(7, 7)) == GroupPosition(60, 10, EAST)
    assert look(AT_100, 60, east=(0, 60), west=(7, 7)) == GroupPosition(60, 0, EAST)
    assert look(AT_100, 100, east=(0, 120), west=(7, 9)) == GroupPosition(102, 2, WEST)


def test_lag_does_not_count_the_hole_below_a_forced_cut() -> None:
    # Given a cut far above the known end in east
    extents = (
        Extent(cluster=EAST, start=0, end=10_000, base=0, writer_epoch=0, known_end=50),
        Extent(cluster=WEST, start=10_000, end=None, base=0, writer_epoch=1),
    )
    # When the lag below the cut is counted
    # Then it counts the records of east and west
    assert look(extents, 40, east=(0, 55), west=(0, 3)) == GroupPosition(10_003, 18, EAST)
    # And it is unknown while east does not answer, unless readers skip its records
    assert look(extents, 40, east=None, west=(0, 3)) == GroupPosition(10_003, None, EAST)
    assert look(extents, 10_001, east=None, west=(0, 3)) == GroupPosition(10_003, 2, WEST)
    skipped = (extents[0].changed(ignored=True), extents[1])
    assert look(skipped, 40, east=None, west=(0, 3)) == GroupPosition(10_003, 3, WEST)


def test_end_and_lag_are_unknown_when_the_writer_does_not_answer() -> None:
    assert look(AT_100, 120, east=(0, 100), west=None) == GroupPosition(None, None, WEST)


def mirrored(*direct: str) -> View:
    """`orders` is written in east, and mirrored to west."""
    mirror = Mirror.of("orders", EAST, WEST, "link-1", "t", "me")
    topic = Topic(name="orders", writer=EAST, partitions={0: identity(EAST)})
    patterns = {pattern: DirectGroups(pattern=pattern, since="t", by="me") for pattern in direct}
    return View(topics={"orders": topic}, mirrors={mirror.key: mirror}, direct_groups=patterns)


LOGS = {EAST: {"orders": {0: LogRange(0, 100)}}, WEST: {"orders": {0: LogRange(10, 53)}}}
"""A copy that compaction has made shorter."""


def test_a_direct_groups_lag_is_counted_in_the_log_of_the_cluster_that_has_its_commit() -> None:
    seen = {
        EAST: {"report-1": GroupFacts("Empty", offsets={("orders", 0): 90})},
        WEST: {"report-1": GroupFacts("Empty", offsets={("orders", 0): 48})},
    }
    # When a group of direct ones is looked at, and its mirror has translated its commit
    found = group_lag(mirrored("report-*"), "report-1", {}, seen, {}, LOGS)
    # Then each commit has the lag of its own log, and the standby's does not count twice
    assert found is not None
    assert [(row.coordinator, row.end, row.lag_records, row.standby) for row in found.partitions] == [
        (EAST, 100, 10, False),
        (WEST, 53, 5, True),
    ]
    assert (found.offsets, found.lag_records) == ("physical", 10)


def test_a_direct_group_that_reads_the_standby_counts_there() -> None:
    facts = GroupFacts("Stable", members=("m-1",), offsets={("orders", 0): 5})
    seen = {EAST: {"report-1": GroupFacts("Empty", offsets={("orders", 0): 90})}, WEST: {"report-1": facts}}
    found = group_lag(mirrored("report-*"), "report-1", {}, seen, {}, LOGS)
    assert found is not None
    assert [(row.coordinator, row.lag_records, row.standby) for row in found.partitions] == [
        (EAST, 10, False),
        (WEST, 43, False),
    ]
    assert found.lag_records == 53


def test_client_offsets_that_a_mirror_has_brought_do_not_count_twice() -> None:
    commit = GroupFacts("Empty", offsets={("orders", 0): 90})
    found = group_lag(mirrored(), "till", {}, {EAST: {"till": commit}, WEST: {"till": commit}}, {}, LOGS)
    assert found is not None
    assert (found.offsets, found.lag_records) == ("client", 10)


def test_a_topic_is_written_where_its_sound_partitions_are() -> None:
    # Given a topic of two partitions, one with a damaged map
    (stay,) = identity(EAST)
    maps = {0: (stay.changed(end=100),), 1: identity(WEST)}
    view = View(topics={"orders": Topic(name="orders", writer=WEST, partitions=maps)})
    # When it is listed
    row = topic_row(
        view, "orders", {}, {EAST: {"orders": {0: LogRange(0, 100)}}, WEST: {"orders": {1: LogRange(0, 7)}}}
    )
    # Then its writer is that of the sound partition, and older records of the damaged map are shown
    assert (row.partitions, row.written_in, row.older_in) == (2, (WEST,), (EAST,))
