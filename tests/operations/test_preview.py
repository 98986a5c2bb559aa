"""The predicted cost of a move: from facts, recorded facts, and earlier moves."""

from dataclasses import replace

import pytest

from ha_core.model import (
    Extent,
    HistoryEntry,
    KnownTopic,
    MoveRequest,
    MoveSet,
    Scope,
    Topic,
    View,
)
from ha_core.operations.engine.environment import Environment
from ha_core.operations.proposal.proposal import expected_fence, preview
from ha_core.operations.proposal.recorded_ends import RecordedEnds
from ha_core.plan.facts.clusters import Facts, GroupFacts, TopicFacts
from ha_core.present.moves import preview_lines
from tests.kit.operations import a_switch

SCOPE = Scope(users=("alice",))
REQUEST = MoveRequest(scope=SCOPE, origin="east", target="west", reason="a test")
MOVES = MoveSet(topics=("orders", "refunds"), groups=("billing", "audit"))
FACTS = Facts(
    topics={
        ("east", "orders"): TopicFacts(exists=True, partitions=2, ends={0: 100, 1: 50}),
        ("east", "refunds"): TopicFacts(exists=True, partitions=1, ends={0: 7}),
        ("west", "orders"): TopicFacts(exists=False),
        ("west", "refunds"): TopicFacts(exists=True, partitions=1),
    },
    groups={("east", "billing"): GroupFacts(state="Stable", offsets={("orders", 0): 90, ("orders", 1): 50})},
)


@pytest.fixture
def clocked(environment: Environment) -> Environment:
    environment.now = lambda: "2026-11-22T10:01:40.000Z"
    return environment


def recorded(environment: Environment) -> RecordedEnds:
    return RecordedEnds.read(environment, "east", MOVES.topics)


def test_the_preview_counts_partitions_to_create_and_the_lag_of_each_group(clocked: Environment) -> None:
    found = preview(clocked, View(), REQUEST, MOVES, FACTS, recorded(clocked))

    assert found.creates == {"orders": 2}
    assert found.lag_records == {"billing": 10, "audit": None}


def test_the_preview_counts_lag_in_client_offsets(clocked: Environment) -> None:
    moved = Extent(cluster="east", start=1_000, base=0, writer_epoch=1)
    old = Extent(cluster="west", start=0, end=1_000, base=0, writer_epoch=0)
    view = View(topics={"orders": Topic(name="orders", writer="east", partitions={0: (old, moved), 1: (old, moved)})})
    groups = {("east", "billing"): GroupFacts(state="Stable", offsets={("orders", 0): 1_060})}

    found = preview(clocked, view, REQUEST, MOVES, Facts(topics=FACTS.topics, groups=groups), recorded(clocked))

    assert found.lag_records["billing"] == 40


def test_the_preview_takes_the_rate_from_log_growth_since_the_last_recording(clocked: Environment) -> None:
    seen = KnownTopic(
        cluster="east", name="orders", at="2026-11-22T10:00:00.000Z", partitions=2, replication=1, ends={0: 20, 1: 30}
    )
    clocked.store.keep_known(KnownTopic, "east", [seen])

    found = preview(clocked, View(), REQUEST, MOVES, FACTS, recorded(clocked))

    assert found.records_per_s == 1.0
    assert "100 s ago" in found.rate_from


def test_facts_that_are_recorded_during_a_slow_look_do_not_hide_the_growth(clocked: Environment) -> None:
    # Given logs that were recorded 100 s ago
    def seen(at: str, ends: dict[int, int]) -> KnownTopic:
        return KnownTopic(cluster="east", name="orders", at=at, partitions=2, replication=1, ends=ends)

    clocked.store.keep_known(KnownTopic, "east", [seen("2026-11-22T10:00:00.000Z", {0: 20, 1: 30})])
    before = recorded(clocked)
    # When they are recorded again, higher, after a look has read their ends, and the rest of the plan takes a while
    clocked.store.keep_known(KnownTopic, "east", [seen("2026-11-22T10:01:36.000Z", {0: 120, 1: 70})])
    found = preview(clocked, View(), REQUEST, MOVES, FACTS, before)
    # Then the rate is that between the two readings, not zero
    assert found.records_per_s == 1.0


@pytest.mark.parametrize(("look_s", "of_recording_s"), [(120.0, 0.0), (0.0, 60.0)])
def test_the_rate_is_unknown_if_a_look_took_so_long_that_the_time_between_is_in_doubt(
    clocked: Environment, look_s: float, of_recording_s: float
) -> None:
    at, ends = "2026-11-22T10:00:00.000Z", {0: 20, 1: 30}
    seen = KnownTopic(
        cluster="east", name="orders", at=at, partitions=2, replication=1, ends=ends, look_s=of_recording_s
    )
    clocked.store.keep_known(KnownTopic, "east", [seen])

    found = preview(clocked, View(), REQUEST, MOVES, FACTS, replace(recorded(clocked), look_s=look_s))

    assert found.records_per_s is None
    assert "their growth says nothing" in found.rate_from


def test_the_preview_calls_the_rate_unknown_when_nothing_was_recorded(clocked: Environment) -> None:
    found = preview(clocked, View(), REQUEST, MOVES, FACTS, recorded(clocked))

    assert found.records_per_s is None
    assert "rate: unknown (they were never recorded; `switchyard facts record` does so)" in [*preview_lines(found)]


def test_the_expected_fence_time_is_the_median_of_recent_moves(environment: Environment) -> None:
    # Given three moves, and none before them
    said = [expected_fence(environment)]
    for number, fenced_ms in enumerate([30.0, 40.0, 90.0]):
        operation = a_switch(id=f"switch-2026112{number}-100000-abcd")
        epoch = environment.store.create_operation(operation, (f"topic:t{number}",))
        done = HistoryEntry(at="now", epoch=epoch, step="cut_over", outcome="done", detail={"fenced_ms": fenced_ms})
        environment.store.append_history(operation.id, epoch, done)
        environment.store.update_operation(operation.model_copy(update={"state": "succeeded"}), epoch)
        # When the time of the next one is estimated after each
        said.append(expected_fence(environment))
    # Then it is the one in the middle
    assert "no move was made here yet" in said[0]
    assert said[1] == "about 30 ms, from the one move before"
    assert said[3] == "about 40 ms: the last 3 moves took 30 to 90 ms"


def test_the_preview_of_a_move_of_nothing_does_not_ask_for_recorded_facts(clocked: Environment) -> None:
    found = preview(clocked, View(), REQUEST, MoveSet(), FACTS, recorded(clocked))

    assert (found.records_per_s, found.rate_from) == (None, "no topic moves")
