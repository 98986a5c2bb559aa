"""Single revisions of a crossing, their refusals, and results derived from maps."""

from typing import Any

import pytest

from ha_core.model import (
    Extent,
    GatewayRecord,
    MigrateOperation,
    MoveRequest,
    MoveSet,
    Scope,
    Topic,
    View,
)
from ha_core.model.evidence import CrossingEvidence, Cut
from ha_core.model.extent import append, identity
from ha_core.model.operation import OperationState
from ha_core.model.producer import FIRST_CLIENT_ID, upstream_id
from ha_core.plan.absence.crossing_without_origin import crossed_with, end_change
from ha_core.plan.absence.returned import look_at, unconfirmed
from ha_core.plan.engine.revision import MoveDamagedError
from ha_core.plan.facts.clusters import ClusterFacts, Facts, PartitionEnds, ProducerFacts, Surplus, TopicFacts
from ha_core.plan.migration.crossing import (
    finish_change,
    hold_change,
    open_change,
    propose_change,
    reopen_change,
    retreat_change,
    settle_change,
    withdraw_change,
)
from ha_core.plan.migration.crossing_stages import remaining_steps, stage, went_back
from ha_core.plan.migration.cuts import Rate, Rates, cut_ahead, doubled_records
from ha_core.plan.migration.status import status_of
from ha_core.plan.move.closure import closure
from ha_core.plan.move.identity_maps import pinned_map
from ha_core.plan.preflight import CUT_RULES, PreflightCase, cuts, judge
from ha_core.plan.preflight.cuts import Cuts
from tests.kit.operations import a_migration
from tests.plan.maps import rows
from tests.plan.revisions import written

REQUEST = MoveRequest(scope=Scope(topics=("orders",)), origin="east", target="west", reason="t", cut="predicted")
KEY = ("orders", 0)
ONE = {"orders": 1, "payments": 1}
"""Partitions of each topic."""


def an_operation(*topics: str, state: OperationState = "running", **evidence: Any) -> MigrateOperation:
    return a_migration(
        id="m-1",
        state=state,
        request=REQUEST,
        moves=MoveSet(topics=topics or ("orders",)),
        evidence=CrossingEvidence(**evidence),
    )


def ends(origin: int, target: int = 7) -> dict[tuple[str, int], PartitionEnds]:
    return {KEY: PartitionEnds(target, origin)}


def proposed(cut: int = 100, before: View | None = None) -> tuple[MigrateOperation, View]:
    return written(propose_change(an_operation(), before or View(), ["orders"], ends(50), {KEY: cut}), before)


def opened(cut: int = 100) -> tuple[MigrateOperation, View]:
    operation, view = proposed(cut)
    return written(open_change(operation, view, ["orders"], ends(60), ONE), view)


def shape(view: View) -> list[tuple[Any, ...]]:
    return rows(view.topics["orders"].partitions[0])


def test_a_proposed_crossing_closes_the_origins_extent_ahead_of_its_log_and_keeps_the_writer() -> None:
    operation, view = proposed()

    assert shape(view) == [("east", 0, 100, 0, 0), ("west", 100, None, 7, 1)]
    assert view.topics["orders"].writer == "east"
    assert operation.state == "crossing"
    assert stage(operation, view.topics["orders"]) == "proposed"


@pytest.mark.parametrize("cut", [49, 50])
def test_a_cut_at_or_below_the_log_end_is_never_proposed(cut: int) -> None:
    with pytest.raises(MoveDamagedError, match="above the log end 50"):
        proposed(cut)


def test_a_proposed_cut_may_be_raised_and_never_lowered() -> None:
    operation, view = proposed()
    with pytest.raises(MoveDamagedError, match="is below 100"):
        propose_change(operation, view, ["orders"], ends(120), {KEY: 99})

    _, raised = written(propose_change(operation, view, ["orders"], ends(120, target=9), {KEY: 150}), view)

    assert shape(raised) == [("east", 0, 150, 0, 0), ("west", 150, None, 7, 1)]


@pytest.mark.parametrize("end", [100, 101])
def test_a_crossing_whose_cut_the_log_has_reached_is_not_opened(end: int) -> None:
    operation, view = proposed()
    with pytest.raises(MoveDamagedError, match="passed the cut"):
        open_change(operation, view, ["orders"], ends(end), ONE)


def test_a_crossing_whose_target_has_new_records_is_not_opened() -> None:
    operation, view = proposed()
    with pytest.raises(MoveDamagedError, match="records were written there"):
        open_change(operation, view, ["orders"], ends(60, target=8), ONE)


def test_a_topic_settles_with_the_sequences_below_its_cut() -> None:
    # Given an open crossing, which cannot be settled below its cut
    operation, view = opened()
    with pytest.raises(MoveDamagedError, match="have not reached"):
        settle_change(operation, view, ["orders"], ends(99), ONE, {})
    producers = {KEY: (ProducerFacts(upstream_id(FIRST_CLIENT_ID + 5, 0), 3, 41, 0),)}
    # When its log has reached the cut
    done, settled = written(settle_change(operation, view, ["orders"], ends(100), ONE, producers), view)
    # Then the target is the writer, and the last sequences are stored with their writer epoch
    assert done.state == "cut"
    assert done.evidence.cuts == {"orders": (Cut(0, 100, 7, 1),)}
    topic = settled.topics["orders"]
    assert (topic.writer, topic.crossing) == ("west", None)
    assert shape(settled) == [("east", 0, 100, 0, 0), ("west", 100, None, 7, 1)]
    sequences = settled.sequences["orders"]
    assert sequences.partitions == {0: {FIRST_CLIENT_ID + 5: (3, 41)}}
    assert sequences.terms == {0: 1}


def test_a_crossing_settles_without_sequences_when_they_are_unknown() -> None:
    operation, view = opened()
    _, settled = written(settle_change(operation, view, ["orders"], ends(100), ONE, {}), view)
    assert "orders" not in settled.sequences


def test_partitions_added_during_a_crossing_stay_in_the_origin_when_it_settles() -> None:
    operation, view = opened()

    done, settled = written(settle_change(operation, view, ["orders"], ends(100), {"orders": 3}, {}), view)

    topic = settled.topics["orders"]
    assert (done.state, stage(done, topic)) == ("cut", "settled")
    assert (topic.writer, topic.partitions[1], topic.partitions[2]) == ("east", identity("east"), identity("east"))
    assert done.evidence.remaining == {"orders": (1, 2)}
    assert shape(settled)[-1][0] == "west"


def test_a_crossing_is_not_opened_when_partitions_were_added_since_its_proposal() -> None:
    operation, view = proposed()
    with pytest.raises(MoveDamagedError, match=r"partitions \[1\]"):
        open_change(operation, view, ["orders"], ends(60), {"orders": 2})


def test_an_operation_is_cut_when_the_last_of_its_topics_has_crossed_over() -> None:
    operation, view = opened()
    both = operation.model_copy(update={"moves": MoveSet(topics=("orders", "payments"))})
    other = view.topics["orders"].model_copy(update={"name": "payments"})
    view = View(topics={**view.topics, "payments": other})

    half, now = written(settle_change(both, view, ["orders"], ends(100), ONE, {}), view)
    assert half.state == "crossing"
    whole, _ = written(settle_change(half, now, ["payments"], {("payments", 0): PartitionEnds(7, 100)}, ONE, {}), now)

    assert whole.state == "cut"


def test_a_barrier_lowers_a_cut_that_was_not_reached_to_the_log_end() -> None:
    # Given an open crossing under its fence, which cannot end once the target has records of others
    operation, view = opened()
    held, fenced = written(hold_change(operation, view, ["orders"], "open"), view)
    with pytest.raises(MoveDamagedError, match="clients write there past gateways"):
        finish_change(held, fenced, ["orders"], ends(60, target=8), ONE, {})
    # When it ends below its cut
    done, over = written(finish_change(held, fenced, ["orders"], ends(60), ONE, {}), fenced)
    assert done.evidence.cuts == {"orders": (Cut(0, 60, 7, 1),)}
    # Then the cut is where the log ends
    assert done.state == "cut"
    assert shape(over) == [("east", 0, 60, 0, 0), ("west", 60, None, 7, 1)]
    assert over.topics["orders"].fence is None


def test_an_empty_partition_crosses_over_without_an_extent_of_the_origin() -> None:
    operation, view = written(propose_change(an_operation(), View(), ["orders"], ends(0), {KEY: 1}))
    operation, view = written(open_change(operation, view, ["orders"], ends(0), ONE), view)
    held, fenced = written(hold_change(operation, view, ["orders"], "open"), view)

    _, over = written(finish_change(held, fenced, ["orders"], ends(0), ONE, {}), fenced)

    assert shape(over) == [("west", 0, None, 7, 1)]


def test_withdrawing_a_crossing_restores_the_former_map_or_pins_the_origin() -> None:
    # Given an open crossing of a topic that had no map, on its way back
    operation, view = opened()
    back, retreated = written(retreat_change(operation, view), view)
    # When it is withdrawn, which is refused while the target has new records
    with pytest.raises(MoveDamagedError, match="records were written there"):
        withdraw_change(back, retreated, ends(120, target=8))
    _, gone = written(withdraw_change(back, retreated, ends(120)), retreated)
    # Then its map keeps everybody in the origin
    assert stage(back, retreated.topics["orders"]) == "proposed"
    assert gone.topics == {"orders": pinned_map("east", "orders", 1)}
    # Given an open crossing of a topic that had moved before
    old = Topic(
        name="orders", writer="east", partitions={0: append(append(identity("east"), "west", 10, 0), "east", 20, 10)}
    )
    before = View(topics={"orders": old})
    operation, view = written(
        propose_change(an_operation(), before, ["orders"], {KEY: PartitionEnds(10, 40)}, {KEY: 90}), before
    )
    # When it is withdrawn
    _, kept = written(withdraw_change(written(retreat_change(operation, view), view)[0], view, {}), view)
    # Then its map is as before
    assert kept.topics == before.topics


def test_an_abandoned_undo_opens_the_crossing_again_as_it_was() -> None:
    operation, view = opened()
    back, retreated = written(retreat_change(operation, view), view)

    again, now = written(reopen_change(back, retreated), retreated)

    assert now == view
    assert (again.state, again.evidence.retreated) == ("crossing", ())


def test_withdrawn_cuts_are_proposed_again_when_undoing_is_abandoned() -> None:
    # Given a way back that was killed when the cuts were withdrawn, and is given up: a gateway is late
    operation, view = opened()
    back, retreated = written(retreat_change(operation, view), view)
    withdrawn, ahead = written(withdraw_change(back, retreated, ends(50)), retreated)

    again, now = written(reopen_change(withdrawn, ahead), ahead)

    # Then the steps from the beginning on may be taken
    assert (now, again.state) == (ahead, "running")
    assert remaining_steps(again, now.topics) == ("pin", "prepare", "propose")


def test_the_crossing_of_another_operation_is_not_changed() -> None:
    operation, view = opened()
    other = operation.model_copy(update={"id": "m-2"})
    with pytest.raises(MoveDamagedError, match="for operation m-1"):
        retreat_change(other, view)


def test_a_cut_lies_ahead_by_the_expected_growth_and_at_least_by_one() -> None:
    assert cut_ahead(100_000, 2_000.0, 300.0) == 700_000
    assert cut_ahead(5, 0.0, 300.0) == 6


def test_doubled_records_are_those_of_busy_partitions_until_the_last_reaches_its_cut() -> None:
    assert doubled_records([(100, 10.0), (100, 5.0)]) == pytest.approx(100.0)
    assert doubled_records([(100, 10.0), (1, 0.0)]) is None
    assert doubled_records([(1, 0.0)]) == 0.0


def test_the_status_of_a_migration_is_derived_from_map_and_log_ends() -> None:
    # Given maps of a topic that never moved, that crosses over, that has, and whose origin has aged
    never_moved = Topic(name="t", writer="east", partitions={0: identity("east")})
    crossing = opened()[1].topics["orders"]
    over = crossing.model_copy(update={"crossing": None, "writer": "west"})
    aged = over.model_copy(update={"partitions": {0: over.partitions[0][1:]}})
    # When their status is asked for, with or without the ends of the logs
    below, reached, unknown = status_of(crossing, {0: 99}), status_of(crossing, {0: 100}), status_of(crossing)
    # Then it is derived from the map and the log ends
    assert status_of(never_moved) is None
    assert [getattr(status, "status", None) for status in (below, reached)] == ["Migrating", "Migrated"]
    assert unknown is not None
    assert (unknown.status, unknown.reached) == ("Migrating", 0)
    assert getattr(status_of(over), "status", None) == "Migrated"
    assert getattr(status_of(aged), "status", None) == "Aged"


HERE = TopicFacts(exists=True, partitions=1, starts={0: 0}, ends={0: 50}, replication=1)


def facts(here: TopicFacts = HERE, there: TopicFacts | None = None, **of_east: Any) -> Facts:
    clusters = {
        "east": ClusterFacts("east", True, brokers=(1, 2, 3), **of_east),
        "west": ClusterFacts("west", True, brokers=(1,)),
    }
    topics = {("east", "orders"): here, ("west", "orders"): there or TopicFacts(exists=False)}
    return Facts(clusters, topics)


def changed(**more: Any) -> TopicFacts:
    return TopicFacts(**{**{name: getattr(HERE, name) for name in HERE.__dataclass_fields__}, **more})


@pytest.mark.parametrize(
    ("known", "word"),
    [
        (facts(changed(transactional=True)), "transaction"),
        (facts(changed(config={"message.format.version": "0.10.2"})), "0.10.2"),
        (facts(describe_producers=False), "DESCRIBE_PRODUCERS"),
    ],
)
def test_topics_whose_batches_cannot_be_split_exactly_take_the_barrier(known: Facts, word: str) -> None:
    case = ahead(known)
    assert word in case.barriers["orders"]
    assert case.ahead == ()
    assert ahead(facts()).ahead == ("orders",)


def ahead(known: Facts, *gateways: GatewayRecord, view: View | None = None) -> PreflightCase:
    view = view or View()
    return PreflightCase(view, REQUEST, closure(view, {}, REQUEST), known, (), gateways)


def judged(known: Facts, *gateways: GatewayRecord, view: View | None = None) -> list[str]:
    rules = (cuts.old_gateways, cuts.migrating, cuts.less_safe, cuts.compacted)
    verdicts = judge(rules, ahead(known, *gateways, view=view))
    assert all(verdict.remedy for verdict in verdicts)
    return [f"{verdict.level} {verdict.about}: {verdict.text}" for verdict in verdicts]


def test_a_target_with_fewer_in_sync_replicas_is_refused() -> None:
    two = changed(config={"min.insync.replicas": "2"})
    assert "with 2 replicas in sync, west with 1" in judged(facts(two))[0]
    assert "with 2 replicas in sync, west with 1" in judged(facts(changed(default_min_in_sync=2), HERE))[0]
    assert judged(facts(two, there=two)) == []
    assert judged(facts(there=HERE)) == []


def test_gateways_without_crossings_and_topics_already_crossing_over_are_refused() -> None:
    old = GatewayRecord(id="gw-old", host="h", port=1, node_id=1)
    new = GatewayRecord(id="gw-new", host="h", port=1, node_id=2, crossings=True)
    (verdict,) = judged(facts(), old, new)
    assert "gw-old" in verdict
    assert "gw-new" not in verdict
    _, view = opened()
    assert "m-1" in judged(facts(), view=view)[0]
    assert judged(facts(changed(config={"cleanup.policy": "compact,delete"})))[0].startswith("warning topic orders")


def test_a_cut_given_by_hand_must_lie_above_its_log_end_and_idle_partitions_are_named() -> None:
    given = {KEY: 50, ("orders", 9): 70}
    rates = Rates({KEY: Rate(1.0, 1.0)}, "a test")
    verdicts = judge(CUT_RULES, Cuts(View(), REQUEST, {KEY: 50, ("orders", 3): 7}, rates, given))
    assert [v.level for v in verdicts] == ["error", "error", "info"]
    assert "is not above its log end, 50" in verdicts[0].text
    assert "partition 9" in verdicts[1].text
    assert "orders-3" in verdicts[2].text
    assert "--finish-with-barrier" in verdicts[2].remedy


def test_first_sequences_in_the_target_tell_the_last_ones_below_the_cut() -> None:
    origin = Extent(cluster="east", start=0, end=100, base=0, writer_epoch=2)
    target = Extent(cluster="west", start=100, base=7, writer_epoch=3)
    mine, fresh, older = (FIRST_CLIENT_ID + n for n in range(3))
    first = {upstream_id(mine, 3): (1, 57), upstream_id(fresh, 3): (0, 0), upstream_id(older, 1): (0, 9), 12: (0, 4)}

    producer_facts = crossed_with(Surplus(first), target, origin)

    assert producer_facts is not None
    assert [(producer.producer_id, producer.epoch, producer.last_sequence) for producer in producer_facts] == [
        (upstream_id(mine, 2), 1, 56)
    ]
    assert crossed_with(Surplus(first, whole=False), target, origin) is None


@pytest.mark.parametrize(
    ("end", "target", "kept", "found"),
    [
        (60, 7, (), ()),  # the log has not reached its cut yet
        (100, 8, (), ()),
        (99, 8, (), (0,)),  # a record in the target shows that the log had reached its cut
        (99, 7, (0,), (0,)),
        (100, 7, (0,), ()),
    ],
)
def test_a_log_end_below_a_reached_cut_means_that_the_log_lost_records(
    end: int, target: int, kept: tuple[int, ...], found: tuple[int, ...]
) -> None:
    _, view = opened()
    assert went_back(view.topics["orders"], ends(end, target), kept) == found


def test_a_crossing_whose_log_lost_records_ends_at_its_cut_and_counts_the_loss() -> None:
    # Given an open crossing that had reached its cut, and is fenced because its log ends below the cut again
    operation, view = opened()
    operation, view = written(hold_change(operation, view, ["orders"], "open"), view)
    # When the crossing is ended at the cut
    operation, view = written(end_change(operation, view, ["orders"], ends(80, 9), {}, "wait"), view)
    # Then the target is the writer from the cut on, and readers below it wait for the missing records
    assert operation.state == "cut"
    assert shape(view) == [("east", 0, 100, 0, 0), ("west", 100, None, 7, 1)]
    ((name, partition, extent),) = unconfirmed(view)
    found = look_at(name, partition, extent, 80)
    assert (found.outcome, found.found_end, found.missing) == ("less", 80, 20)
