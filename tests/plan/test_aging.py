"""Rules for dropping an old extent: each one alone, then all against a model of the offsets that readers can get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Cluster, Extent, Group, Topic, Usage, Use, UserBindings, View
from ha_core.model.extent import Hole, check, locate
from ha_core.plan.migration.aging import (
    GONE,
    RESTLESS_MS,
    CommittedOffset,
    LogFacts,
    blocks,
    closed_extents,
    counts,
    drop,
    undeletable,
)
from ha_core.plan.routing.resolve import group_homes

NOW_MS = 10_000_000
OLD = Extent(cluster="east", start=0, end=100, base=20, writer_epoch=0)
LIVE = Extent(cluster="west", start=100, end=None, base=0, writer_epoch=1)
ORDERS = Topic(name="orders", writer="west", partitions={0: (OLD, LIVE)})
DRAINED = LogFacts(start=120, end=120)


def reasons(extent: Extent = OLD, log: LogFacts | None = DRAINED, *commits: CommittedOffset) -> list[str]:
    return [block.reason for block in blocks((extent, LIVE), extent, log, commits, NOW_MS)]


def test_an_extent_without_records_that_no_group_needs_is_aged() -> None:
    assert reasons() == []
    assert reasons(OLD, DRAINED, CommittedOffset("billing", "west", 100, True)) == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (LogFacts(20, 120), ["held"]),
        (LogFacts(119, 120), ["held"]),
        (LogFacts(120, 130), []),
        (LogFacts(130, 130), []),
        (LogFacts(90, 90), ["lost"]),
        (LogFacts(20, 90), ["lost", "held"]),
        (LogFacts(0, 0), ["lost"]),
        (GONE, ["lost"]),
        (None, ["unasked"]),
    ],
)
def test_an_extent_ages_only_when_its_log_starts_at_or_after_its_end(log: LogFacts | None, expected: list[str]) -> None:
    assert reasons(OLD, log) == expected


def test_accepting_a_loss_lifts_no_other_obstacle_to_aging() -> None:
    assert blocks((OLD, LIVE), OLD, GONE, (), NOW_MS, accept_loss=True) == ()
    assert [b.reason for b in blocks((OLD, LIVE), OLD, LogFacts(20, 90), (), NOW_MS, accept_loss=True)] == ["held"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "retention deletes them"),
        ({"retention.ms": "60000"}, "60000 ms"),
        ({"retention.ms": "-1"}, "unlimited"),
        ({"retention.ms": "-1", "retention.bytes": "1000"}, "retention deletes them"),
        ({"cleanup.policy": "compact"}, "compacted"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "60000"}, "60000 ms"),
    ],
)
def test_the_obstacle_to_aging_names_the_retention_of_the_records(config: dict[str, str], words: str) -> None:
    (block,) = blocks((OLD, LIVE), OLD, LogFacts(20, 120, config=config), (), NOW_MS)

    assert words in block.text


def test_the_obstacle_to_aging_counts_in_client_offsets() -> None:
    (block,) = blocks((OLD, LIVE), OLD, LogFacts(30, 120), (), NOW_MS)

    assert block.text.startswith("east holds offsets 10 to 100: ")


def test_an_obstacle_by_a_masked_cluster_suggests_unmasking_and_never_giving_up() -> None:
    found = blocks((OLD, LIVE), OLD, None, (), NOW_MS, unasked=["east", "north"], masked={"east": "rack fire"})

    assert [block.reason for block in found] == ["masked", "masked", "unasked"]
    for block in found[:2]:
        assert "masked (rack fire): `switchyard unmask east`" in block.text
        assert "give-up" not in block.text
        assert "does not answer" not in block.text


def test_groups_below_the_end_are_named_and_those_without_members_are_called_dead() -> None:
    # When an extent is judged that two groups have not read, one of them without members
    found = blocks(
        (OLD, LIVE),
        OLD,
        DRAINED,
        [CommittedOffset("slow", "west", 7, True), CommittedOffset("gone", "east", 99, False)],
        NOW_MS,
        unasked=["north"],
    )
    # Then both are named, and so is the cluster that could not be asked
    assert [block.reason for block in found] == ["unasked", "dead", "lagging"]
    assert "north" in found[0].text
    assert "group gone at offset 99" in found[1].text
    assert "reset or delete" in found[1].text
    assert "group slow at offset 7, 93 before the end" in found[2].text


def test_groups_of_an_unreachable_cluster_are_advised_to_wait_for_its_return() -> None:
    # Given an extent with an unconfirmed end
    unsure = OLD.changed(known_end=60)
    # When it is judged with two groups below it
    found = blocks(
        (unsure, LIVE),
        unsure,
        None,
        [CommittedOffset("slow", "west", 7, True), CommittedOffset("gone", "west", 9, False)],
        NOW_MS,
    )
    # Then the way out is to wait, with an upper bound of the unread records
    gone, slow = found[-2:]
    assert gone.text == (
        "dead group gone at offset 9, at most 91 before the end (west): when east is back, read on with it, "
        "or reset or delete it"
    )
    assert slow.text == "lagging group slow at offset 7, at most 93 before the end (west): it waits for east"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (LogFacts(130, 130, earlier_end=125), ["written"]),
        (LogFacts(130, 130, earlier_end=130), []),
        (LogFacts(130, 130, last_write_ms=NOW_MS - 1), ["written"]),
        (LogFacts(130, 130, last_write_ms=NOW_MS - RESTLESS_MS), []),
        (LogFacts(120, 120, earlier_end=100, last_write_ms=NOW_MS - 1), []),
    ],
)
def test_recent_growth_past_the_extent_shows_writes_past_the_gateways(log: LogFacts, expected: list[str]) -> None:
    assert reasons(OLD, log) == expected


def test_growth_by_a_later_stay_in_the_same_log_is_no_bypass() -> None:
    again = Extent(cluster="east", start=150, end=160, base=120, writer_epoch=2)
    back = (OLD, LIVE.changed(end=150), again, Extent(cluster="west", start=160, base=50, writer_epoch=3))
    log = LogFacts(120, 130, earlier_end=125, last_write_ms=NOW_MS - 1)

    assert blocks(back, OLD, log, (), NOW_MS) == ()
    assert [block.reason for block in blocks(back, again, log, (), NOW_MS)] == ["held"]
    assert blocks((OLD, LIVE, Extent(cluster="east", start=150, base=120, writer_epoch=2)), OLD, log, (), NOW_MS) == ()


def test_an_extent_that_readers_skip_waits_for_no_group() -> None:
    skipped = OLD.changed(ignored=True)

    assert reasons(skipped, DRAINED, CommittedOffset("billing", "west", 7, False)) == []
    assert reasons(skipped, LogFacts(20, 120)) == ["held"]


def test_an_extent_with_an_unconfirmed_end_is_kept() -> None:
    unconfirmed = OLD.changed(known_end=50)

    assert reasons(unconfirmed, LogFacts(70, 70)) == ["unconfirmed"]


def test_the_open_extent_of_the_writer_never_ages() -> None:
    with pytest.raises(ValueError, match="writer"):
        blocks((OLD, LIVE), LIVE, DRAINED, (), NOW_MS)
    with pytest.raises(ValueError, match="writer"):
        drop((OLD, LIVE), {100})


def test_a_reader_below_a_dropped_extent_continues_at_the_next_one() -> None:
    left = drop((OLD, LIVE), {0})

    assert left == (LIVE,)
    assert check(left) == []
    assert locate(left, 5) == Hole(LIVE)


@pytest.mark.parametrize(
    ("topic", "logs", "words"),
    [
        (ORDERS, {0: DRAINED}, "1 of 1 partitions"),
        (ORDERS.model_copy(update={"partitions": {0: (LIVE,)}}), {0: DRAINED}, ""),
        (ORDERS.model_copy(update={"partitions": {0: (LIVE,)}}), {0: DRAINED, 1: LogFacts(3, 4)}, "offsets 3 to 4"),
        (ORDERS.model_copy(update={"partitions": {0: (LIVE,)}}), {0: LogFacts(0, 0)}, "never used"),
        (ORDERS.model_copy(update={"partitions": {0: (LIVE,)}}), {}, "does not have it"),
        (ORDERS.model_copy(update={"writer": "east"}), {0: DRAINED}, "writer"),
    ],
)
def test_a_topic_may_be_deleted_only_where_an_aged_migration_left_it_drained(
    topic: Topic, logs: dict[int, LogFacts], words: str
) -> None:
    reason = undeletable(topic, "east", logs)

    assert words in reason
    assert bool(reason) == bool(words)


@given(
    start=st.integers(0, 60),
    length=st.integers(0, 60),
    commits=st.lists(st.integers(0, 60), max_size=3),
    end=st.integers(1, 40),
    base=st.integers(0, 10),
)
def test_no_extent_ages_that_holds_readable_records_or_that_a_group_waits_for(
    start: int, length: int, commits: list[int], end: int, base: int
) -> None:
    # Given any extent, log and commits
    extent = Extent(cluster="east", start=0, end=end, base=base, writer_epoch=0)
    log = LogFacts(start, start + length)
    readable = {offset for offset in range(end) if log.start <= base + offset < log.end}
    # When it is judged
    found = blocks(
        (extent,), extent, log, [CommittedOffset(f"g{n}", "west", o, True) for n, o in enumerate(commits)], NOW_MS
    )
    # Then it ages only if nothing can be read, and every group is past it; and each obstacle is a true one
    if not found:
        assert not readable
        assert all(offset >= end for offset in commits)
    for block in found:
        assert block.reason != "held" or readable
        assert block.reason != "lost" or log.end < base + end


def test_closed_extents_are_named_by_partition_and_writer_epoch() -> None:
    assert [(partition, extent.writer_epoch) for partition, extent in closed_extents(ORDERS)] == [(0, 0)]


def used_by(user: str) -> Usage:
    return Usage(user=user, groups={"billing": (Use(how="commit", since="2026-01-01T00:00:00Z"),)})


def bound(user: str, cluster: str) -> UserBindings:
    return UserBindings(user=user, groups={"billing": cluster})


MOVED = Group(name="billing", cluster="west")


@pytest.mark.parametrize(
    ("groups", "bindings", "usages", "expected"),
    [
        ((), (), (), None),
        ((MOVED,), (), (), {"west"}),
        ((), (bound("alice", "west"),), (used_by("alice"),), None),
        ((MOVED,), (bound("alice", "west"),), (used_by("alice"), used_by("bob")), {"east", "west"}),
        ((MOVED,), (bound("alice", "north"),), (used_by("alice"),), {"north", "west"}),
        ((Group(name="billing"),), (), (), None),
    ],
    ids=["nobody", "moved", "never_moved", "another_user_stays", "bound_anew", "fenced_only"],
)
def test_a_group_that_moved_is_at_home_there_and_wherever_a_known_user_is_led(
    groups: tuple[Group, ...],
    bindings: tuple[UserBindings, ...],
    usages: tuple[Usage, ...],
    expected: set[str] | None,
) -> None:
    east = Cluster(name="east", bootstrap="east:9092", default=True)
    north = Cluster(name="north", bootstrap="north:9092")
    view = View(
        clusters={"east": east, "north": north},
        bindings={binding.user: binding for binding in bindings},
        groups={group.name: group for group in groups},
    )

    assert group_homes(view, usages).get("billing") == expected


def test_a_group_whose_user_has_no_cluster_has_no_known_home() -> None:
    view = View(groups={"billing": MOVED})

    assert group_homes(view, [used_by("alice")]) == {}


@pytest.mark.parametrize(
    ("homes", "cluster", "live", "expected"),
    [
        ({"billing": {"west"}}, "east", False, False),
        ({"billing": {"west"}}, "east", True, True),
        ({"billing": {"west"}}, "west", False, True),
        ({"billing": {"west", "east"}}, "east", False, True),
        ({}, "east", False, True),
    ],
)
def test_a_commit_counts_unless_the_group_has_no_members_there_and_its_home_is_elsewhere(
    homes: dict[str, set[str]], cluster: str, live: bool, expected: bool
) -> None:
    assert counts(CommittedOffset("billing", cluster, 5, live), homes) is expected
