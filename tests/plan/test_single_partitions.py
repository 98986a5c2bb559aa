"""Single partitions move, and the rest of their topic stays: maps, writers, verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
from ha_core.model.extent import append, identity, live
from ha_core.plan.crossing import open_change, propose_change, settle_change
from ha_core.plan.crossing_stages import passed, stage
from ha_core.plan.facts import PartitionEnds, TopicFacts
from ha_core.plan.migration_status import status_of
from ha_core.plan.move import cut_change, fence_change
from ha_core.plan.moving import moving, of_all
from ha_core.plan.revision import MoveDamagedError
from tests.kit.operations import a_migration, a_switch
from tests.plan.preflight_case import HERE, Case
from tests.plan.revisions import written

ENDS = {("orders", p): PartitionEnds(target=7, origin=10 * (p + 1)) for p in range(3)}
CUTS = dict.fromkeys(ENDS, 100)


def asked(*partitions: int, origin: str = "east", target: str = "west") -> MigrateOperation:
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
    topic = moved(asked(1), None)
    assert clusters(topic) == ["east", "west", "east"]
    assert topic.writer == "east", "partitions that are added later are made where most of the topic is"
    assert topic.partitions[1][0] == Extent(cluster="east", start=0, end=20, base=0, term=0)
    assert topic.partitions[0] == identity("east")


def test_the_topic_changes_its_writer_with_its_last_partition() -> None:
    topic: Topic | None = None
    for partition in range(3):
        topic = moved(asked(partition), topic)
    assert topic is not None
    assert (clusters(topic), topic.writer) == (["west"] * 3, "west")


def test_moving_the_whole_topic_takes_the_partitions_left_in_the_origin() -> None:
    topic = moved(asked(1), None)
    ends = {key: PartitionEnds(target=before.target + 1, origin=before.origin) for key, before in ENDS.items()}
    whole = moved(asked(), topic, ends)
    assert clusters(whole) == ["west"] * 3
    assert whole.partitions[1] == topic.partitions[1], "it was there already"


def test_a_single_partition_moves_back() -> None:
    # Given a topic of which one partition has moved to west
    topic = moved(asked(1), None)
    ends = {key: PartitionEnds(target=before.origin or 0, origin=30) for key, before in ENDS.items()}
    # When it moves back
    back = moved(asked(1, origin="west", target="east"), topic, ends)
    # Then all of the topic is in east, and its map has the stay in between
    assert (clusters(back), back.writer) == (["east"] * 3, "east")
    assert [(e.cluster, e.start, e.end) for e in back.partitions[1]] == [
        ("east", 0, 20),
        ("west", 20, 43),
        ("east", 43, None),
    ]


def test_moving_a_partition_that_is_not_in_the_origin_is_refused() -> None:
    topic = moved(asked(1), None)
    with pytest.raises(MoveDamagedError, match="topic orders is written in west, not in east"):
        moved(asked(1), topic)


def test_a_single_partition_crosses_over_while_the_others_are_written_as_before() -> None:
    # When a cut is proposed for one of three partitions
    operation, view = written(propose_change(asked(1), View(), ["orders"], ENDS, CUTS))
    topic = view.topics["orders"]
    # Then it alone crosses over
    assert topic.crossing is not None
    assert topic.crossing.partitions == (1,)
    assert [topic.crosses(p) for p in range(3)] == [False, True, False]
    # When the crossing is open, and its log has reached the cut
    operation, view = written(open_change(operation, view, ["orders"], ENDS, {"orders": 3}), view)
    topic = view.topics["orders"]
    reached = {key: PartitionEnds(before.target, 100 if key[1] == 1 else before.origin) for key, before in ENDS.items()}
    assert passed(topic, reached) == (1,)
    operation, view = written(settle_change(operation, view, ["orders"], reached, {"orders": 4}, {}), view)
    topic = view.topics["orders"]
    # Then it is written in west, and the others where they were
    assert operation.state == "cut"
    assert (clusters(topic), topic.writer, stage(operation, topic)) == (["east", "west", "east"], "east", "settled")
    status = status_of(topic)
    assert status is not None
    assert [(partition.partition, partition.target) for partition in status.partitions] == [(1, "west")]


def test_the_status_of_a_crossing_ignores_partitions_that_moved_before() -> None:
    # Given a topic of which one partition has moved before
    before = moved(asked(0), None)
    # When the others cross over
    _, view = written(propose_change(asked(), View(topics={"orders": before}), ["orders"], ENDS, CUTS))
    topic = view.topics["orders"]
    # Then the status is theirs, and the first is as it was
    assert topic.crossing is not None
    assert topic.crossing.partitions == (1, 2)
    status = status_of(topic, {1: 100, 2: 100})
    assert status is not None
    assert (status.status, status.reached) == ("Migrated", 3)
    assert live(topic.partitions[0]) == live(before.partitions[0])


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
    topic = moved(asked(1), None)
    request = asked().request
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


def test_single_partitions_are_refused_by_a_forced_move() -> None:
    assert "Single partitions of topic orders are named, and east is taken for dead" in errors(named(0).forced)


def test_a_named_partition_of_a_topic_that_exists_nowhere_is_an_error() -> None:
    case = named(0).with_topic("east", TopicFacts(exists=False))
    assert "exists in no cluster" in errors(case)
