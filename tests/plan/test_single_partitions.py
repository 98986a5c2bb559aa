"""Single partitions move, and the rest of their topic stays: maps, writers, verdicts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import (
    Crossing,
    Extent,
    MigrateOperation,
    MoveRequest,
    Scope,
    SwitchOperation,
    Topic,
    View,
)
from ha_core.model.extent import append, identity, open_extent
from ha_core.plan.absence.given_up import losses, without
from ha_core.plan.absence.returned import confirmed, look_at, unconfirmed
from ha_core.plan.engine.revision import MoveDamagedError
from ha_core.plan.facts.clusters import PartitionEnds, TopicFacts
from ha_core.plan.facts.verdict import Verdict
from ha_core.plan.migration.crossing import propose_change
from ha_core.plan.migration.cuts import FASTEST_PER_S, UNKNOWN_RESERVE
from ha_core.plan.migration.status import status_of
from ha_core.plan.move.partitions import left_in, moving, of_all
from ha_core.plan.move.planner import cut_change, fence_change
from tests.kit.operations import a_migration, a_switch, a_tail
from tests.plan.preflight_case import HERE, Case
from tests.plan.revisions import written

ENDS = {("orders", p): PartitionEnds(target=7, origin=10 * (p + 1)) for p in range(3)}
CUTS = dict.fromkeys(ENDS, 100)


def migration_of(*partitions: int, origin: str = "east", target: str = "west") -> MigrateOperation:
    """An operation that moves these partitions of `orders`; none: all of it."""
    scope = Scope(topics=("orders",), partitions={"orders": partitions} if partitions else {})
    request = MoveRequest(scope=scope, origin=origin, target=target, reason="t")
    return a_migration(state="running", request=request)


def moved(operation: MigrateOperation, topic: Topic | None, ends: dict[tuple[str, int], PartitionEnds] = ENDS) -> Topic:
    """The topic after a barrier."""
    view = View(topics={topic.name: topic} if topic else {})
    behind_a_fence = a_switch(request=operation.request)
    (fenced, running) = fence_change(behind_a_fence, view).puts
    assert isinstance(fenced, Topic)
    assert isinstance(running, SwitchOperation)
    (after, *_) = cut_change(running, View(topics={"orders": fenced}), ends, {}, {}).puts
    assert isinstance(after, Topic)
    return after


def clusters(topic: Topic) -> list[str]:
    return [topic.written(partition).cluster for partition in sorted(topic.partitions)]


def test_a_barrier_changes_the_writer_of_the_named_partitions_only() -> None:
    topic = moved(migration_of(1), None)
    assert clusters(topic) == ["east", "west", "east"]
    assert topic.writer == "east", "partitions that are added later are made where most of the topic is"
    assert topic.partitions[1][0] == Extent(cluster="east", start=0, end=20, base=0, writer_epoch=0)
    assert topic.partitions[0] == identity("east")


def test_the_topic_changes_its_writer_with_its_last_partition() -> None:
    topic: Topic | None = None
    for partition in range(3):
        topic = moved(migration_of(partition), topic)
    assert topic is not None
    assert (clusters(topic), topic.writer) == (["west"] * 3, "west")


def test_moving_the_whole_topic_takes_the_partitions_left_in_the_origin() -> None:
    topic = moved(migration_of(1), None)
    ends = {key: PartitionEnds(target=before.target + 1, origin=before.origin) for key, before in ENDS.items()}
    whole = moved(migration_of(), topic, ends)
    assert clusters(whole) == ["west"] * 3
    assert whole.partitions[1] == topic.partitions[1], "it was there already"


def test_a_single_partition_moves_back() -> None:
    # Given a topic with one partition moved to west
    topic = moved(migration_of(1), None)
    ends = {key: PartitionEnds(target=before.origin or 0, origin=30) for key, before in ENDS.items()}
    # When it moves back
    back = moved(migration_of(1, origin="west", target="east"), topic, ends)
    # Then all of the topic is in east, and its map has the stay in between
    assert (clusters(back), back.writer) == (["east"] * 3, "east")
    assert [(e.cluster, e.start, e.end) for e in back.partitions[1]] == [
        ("east", 0, 20),
        ("west", 20, 43),
        ("east", 43, None),
    ]


def test_moving_a_partition_that_is_not_in_the_origin_is_refused() -> None:
    topic = moved(migration_of(1), None)
    with pytest.raises(MoveDamagedError, match="topic orders is written in west, not in east"):
        moved(migration_of(1), topic)


def test_the_status_of_a_crossing_ignores_partitions_that_moved_before() -> None:
    # Given a topic with one partition moved before
    before = moved(migration_of(0), None)
    # When the others cross over
    _, view = written(propose_change(migration_of(), View(topics={"orders": before}), ["orders"], ENDS, CUTS))
    topic = view.topics["orders"]
    # Then the status is theirs, and the first is as it was
    assert topic.crossing is not None
    assert topic.crossing.partitions == (1, 2)
    status = status_of(topic, {1: 100, 2: 100})
    assert status is not None
    assert (status.status, status.reached) == ("Migrated", 3)
    assert open_extent(topic.partitions[0]) == open_extent(before.partitions[0])


def test_a_crossing_partition_without_an_origin_extent_is_a_damaged_map() -> None:
    topic = Topic(
        name="orders",
        writer="east",
        partitions={0: identity("east")},
        crossing=Crossing(operation="m-1", state="open", partitions=(0,)),
    )
    with pytest.raises(ValueError, match="map is damaged"):
        topic.written(0)


def test_moving_partitions_are_found_for_many_topics_at_once() -> None:
    topic = moved(migration_of(1), None)
    request = migration_of().request
    assert request is not None
    keys = [("orders", 0), ("orders", 1), ("orders", 2), ("never-moved", 0)]
    assert of_all(request, {"orders": topic}, keys) == (("orders", 0), ("orders", 2), ("never-moved", 0))
    assert moving(request, topic, range(3)) == (0, 2)
    assert topic.writers == {"east", "west"}


def named(*partitions: int, topic: Topic | None = None, **request: str) -> Case:
    scope = Scope(topics=("orders",), partitions={"orders": partitions})
    return replace(
        Case(), scope=scope, request={"include_other_users": True, **request}, topics=(topic,) if topic else ()
    )


def errors(case: Case) -> str:
    return " ".join(verdict.text for verdict in case.judge() if verdict.level == "error")


def test_a_named_partition_that_the_topic_lacks_is_an_error() -> None:
    assert "has partitions 0 to 1 in east; 5 is not among them" in errors(named(0, 5))


def test_a_named_partition_written_elsewhere_is_an_error_that_names_its_cluster() -> None:
    moved_one = Topic(
        name="orders", writer="east", partitions={0: identity("east"), 1: append(identity("east"), "west", 20, 0)}
    )

    assert "partition 1 is written in west, not in east" in errors(named(0, 1, topic=moved_one))


def test_single_partitions_of_a_topic_with_transactions_are_refused() -> None:
    case = named(0).with_topic("east", replace(HERE, transactional=True))
    assert "a transaction cannot write to partitions in two clusters" in errors(case)


def by_force(*partitions: int, max_rate: int | None = None) -> MigrateOperation:
    operation = migration_of(*partitions)
    more = {"mode": "forced", "unread": "wait", "max_rate_records_s": max_rate}
    return operation.model_copy(update={"request": operation.request.model_copy(update=more)})


SEEN = {("orders", p): PartitionEnds(target=7, seen=10 * (p + 1), seen_age_s=60.0) for p in range(3)}


@given(partition=st.integers(0, 2), grown=st.integers(0, 60 * FASTEST_PER_S), rate=st.sampled_from([None, 1_000]))
def test_a_forced_partition_is_cut_above_any_offset_it_can_have_assigned_and_the_others_stay(
    partition: int, grown: int, rate: int | None
) -> None:
    topic = moved(by_force(partition, max_rate=rate), None, SEEN)

    east, west = topic.partitions[partition]
    grown = grown if rate is None else grown // (FASTEST_PER_S // rate)
    assert west.start == east.end
    assert west.start > 10 * (partition + 1) + grown
    assert (east.known_end, west.cluster, west.base) == (10 * (partition + 1), "west", 7)
    assert topic.writer == "east"
    assert all(topic.partitions[other] == identity("east") for other in range(3) if other != partition)


def test_a_partition_without_a_known_end_has_an_unknown_loss_and_not_zero() -> None:
    ends = {key: PartitionEnds(target=7) for key in SEEN}

    topic = moved(by_force(1), None, ends)

    (loss,) = losses(topic, "east", (1,))
    assert (loss.known, loss.most_lost, loss.known_end) == (0, UNKNOWN_RESERVE, 0)
    assert list(unconfirmed(View(topics={"orders": topic}))) == [("orders", 1, topic.partitions[1][0])]


def test_a_partition_is_read_to_its_true_end_and_can_move_back_after_its_broker_returns() -> None:
    # Given a partition that has left by force
    topic = moved(by_force(1), None, SEEN)
    # When its broker is back with more records than were known
    ((name, partition, extent),) = unconfirmed(View(topics={"orders": topic}))
    found = look_at(name, partition, extent, 26)
    topic = topic.changed(partitions={**topic.partitions, partition: confirmed(topic.partitions[partition], found)})
    # Then these records are read at their offsets, and the cut stays
    assert (found.outcome, found.beyond) == ("whole", 6)
    east, west = topic.partitions[1]
    assert (east.end, east.known_end, west.start) == (26, None, extent.end)
    # And the partition can move back as any other
    ends = {("orders", p): PartitionEnds(target=26, origin=9) for p in range(3)}
    back = moved(migration_of(1, origin="west", target="east"), topic, ends)
    assert [one.cluster for one in back.partitions[1]] == ["east", "west", "east"]


def test_unread_records_of_one_partition_are_given_up_while_the_origin_writes_the_others() -> None:
    topic = moved(by_force(1), None, SEEN)

    after = without(topic, "east", (1,))

    assert after.partitions == {0: identity("east"), 1: topic.partitions[1][1:], 2: identity("east")}
    with pytest.raises(ValueError, match="is the writer of orders"):
        without(topic, "east", (0, 1))
    with pytest.raises(ValueError, match="is the writer of orders"):
        without(topic, "east")


LOST_ONE = replace(HERE, ends={0: 10}, starts={0: 0}, leaderless={1: 20}, leaderless_age_s=90.0)
"""A topic of two partitions, the second without a leader."""


def alone(case: Case) -> Verdict:
    """The `moves-alone` verdict of a forced move of single partitions; asserts that there is no error."""
    assert errors(case) == ""
    (found,) = (verdict for verdict in case.judge() if verdict.code == "moves-alone")
    return found


def test_partitions_of_a_dead_cluster_move_by_force_with_the_last_known_end_of_each() -> None:
    seen = named(1).forced.with_topic("east", replace(HERE, age_s=6.0)).asking(unread="wait")
    assert "Partition 1 moves alone; 1 ended at 20 when it was last seen, 6 s ago." in alone(seen).text
    assert "Partition 0 waits for east, and cannot be written." in alone(seen).text
    assert "Move topic orders as a whole" in alone(seen).remedy


def test_a_partition_without_a_leader_moves_by_force_out_of_a_cluster_that_answers() -> None:
    case = named(1, mode="forced", unread="wait").with_topic("east", LOST_ONE)
    assert "1 ended at 20 when it was last seen, 90 s ago. Partition 0 stays in east" in alone(case).text
    assert any("taken for dead only for the named partitions" in verdict.text for verdict in case.judge())


def test_a_partition_without_a_leader_that_was_never_seen_is_unknown() -> None:
    case = named(1, mode="forced", unread="wait").with_topic("east", replace(LOST_ONE, leaderless={1: None}))
    assert "the end of 1 is unknown, so its cut is 2^40 offsets higher" in alone(case).text


@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
def test_a_partition_with_a_leader_is_refused_by_a_forced_move_out_of_a_cluster_that_answers(
    partitions: tuple[int, ...],
) -> None:
    case = named(*partitions, mode="forced", unread="wait").with_topic("east", LOST_ONE)
    assert "Origin east answers, and leads orders-0:" in errors(case)


def test_a_whole_topic_is_refused_by_a_forced_move_out_of_a_cluster_that_leads_some_of_it() -> None:
    case = named(1, mode="forced", unread="wait").with_topic("east", LOST_ONE)
    assert "Origin east answers: a forced move" in errors(replace(case, scope=Scope(topics=("orders",))))


def test_a_planned_move_of_a_partition_without_a_leader_names_the_way_out() -> None:
    case = named(1).with_topic("east", LOST_ONE)
    (found,) = (verdict for verdict in case.judge() if verdict.level == "error")
    assert (found.code, found.number) == ("leaderless", 1)
    assert "switchyard migrate-from-fault orders:1 --from east --to west" in found.remedy


def test_partitions_beside_a_leaderless_one_move_under_a_fence_but_not_by_a_cut_ahead() -> None:
    case = named(0).with_topic("east", LOST_ONE)
    assert errors(case) == ""
    assert "Partition 1 has no leader" in errors(case.asking(cut="predicted"))


def test_a_forced_move_of_a_partition_is_refused_while_its_topic_crosses_over() -> None:
    _, view = written(propose_change(migration_of(), View(), ["orders"], ENDS, CUTS))
    case = named(1, topic=view.topics["orders"], mode="forced", unread="wait").with_topic("east", LOST_ONE)
    assert "is crossing over in operation" in errors(case)
    assert "resume migrate-1 --without-origin" in " ".join(verdict.remedy for verdict in case.judge())


def test_a_topic_left_by_force_returns_as_a_whole_and_not_by_partition() -> None:
    tail = a_tail("orders", "west", "east", operation="s-1", partitions={})
    assert left_in(by_force().request, "orders", [tail]) == tail
    assert left_in(by_force(1).request, "orders", [tail]) is None


def test_a_named_partition_of_a_topic_that_exists_nowhere_is_an_error() -> None:
    case = named(0).with_topic("east", TopicFacts(exists=False))
    assert "exists in no cluster" in errors(case)
