"""Migrations with a predicted cut on real ZooKeeper and two Kafka clusters, without gateways: clients write to the
origin directly, so all that comes above a cut stays surplus."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from ha_core.model import MigrateOperation, Operation
from ha_core.model.extent import live
from ha_core.model.producer import FIRST_CLIENT_ID
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.migration.crossing import below, cuts
from ha_core.operations.migration.crossing.ends import look
from ha_core.operations.migration.crossing.steps import CrossingSteps
from ha_core.operations.migration.planning import plan_migration
from ha_core.operations.running import engine
from ha_core.plan.facts.clusters import ProducerFacts
from ha_core.plan.move.carry_over import below_cut
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.operations.dying import (
    COMMIT,
    CREATE_TOPICS,
    DELETE_EMPTY_TOPICS,
    FINISH,
    SURPLUS,
    after,
    before,
    die_in_engine,
)
from tests.operations.real_clusters import (
    live_gateway,
    run_to_success,
    run_until_open,
    stored_operation,
    stored_topic,
    topics_of,
)
from tests.plan.maps import rows

pytestmark = pytest.mark.stack
PARTITIONS, RECORDS, AHEAD = 2, 30, 10


@pytest.fixture
def environment(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    monkeypatch.setattr(cuts, "LOOKS_APART_S", 0.0)
    with connect(EnvironmentSettings(stack.zookeeper, session_timeout_s=4.0), by="test:operator") as opened:
        yield opened


def write(stack: Stack, cluster: str, topic: str, count: int, *partitions: int, first: int = 0) -> None:
    """`count` records of an idempotent producer to each partition, the `first` of them in batches of their own."""
    producer = Producer({"bootstrap.servers": bootstrap(stack, cluster), "enable.idempotence": True})
    for number in range(count):
        for partition in partitions or range(PARTITIONS):
            producer.produce(topic, value=b"%d" % number, partition=partition)
        if number + 1 == first:
            assert producer.flush(20) == 0
    assert producer.flush(20) == 0


@pytest.fixture
def topic(stack: Stack) -> str:
    """A topic with `RECORDS` records in each partition of east."""
    return new_topic(stack)


def begin(environment: Environment, topic: str, ahead: int | None = AHEAD, **more: Any) -> MigrateOperation:
    """The operation of one topic whose cuts lie `ahead` of its ends (None: where the rates say)."""
    cut_at = {(topic, p): RECORDS + ahead for p in range(PARTITIONS)} if ahead is not None else {}
    given = {"cut": "predicted", "cut_at": cut_at, **more}
    proposal = plan_migration(environment, [topic], "east", "west", reason=topic, **given)
    proposal.require_sound()
    (batch,) = proposal.batches
    operation = engine.start(environment, batch)
    assert isinstance(operation, MigrateOperation)
    return operation


def begin_crossing(environment: Environment, topic: str, **more: Any) -> MigrateOperation:
    """An open crossing of one topic whose cuts lie `AHEAD` of its ends."""
    operation = begin(environment, topic, **more)
    run_until_open(environment, operation.id)
    return operation


def extents(environment: Environment, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    return {p: rows(extents) for p, extents in stored_topic(environment, topic).partitions.items()}


def cut_at(cut: int, base: int = 0) -> list[tuple[Any, ...]]:
    return [("east", 0, cut, 0, 0), ("west", cut, None, base, 1)]


def assert_over(environment: Environment, operation_id: str, topic: str, *cuts: int) -> None:
    """The topic has crossed over at `cuts`, and nothing of the operation is left."""
    view = environment.store.load()
    assert extents(environment, topic) == {p: cut_at(cut) for p, cut in enumerate(cuts)}
    document = view.topics[topic]
    assert (document.writer, document.crossing, document.fence) == ("west", None, None)
    assert [lock for lock in environment.store.locks() if lock.operation == operation_id] == []
    assert stored_operation(environment, operation_id).state == "succeeded"


def assert_untouched(stack: Stack, environment: Environment, operation_id: str, topic: str) -> None:
    assert topic not in environment.store.load().topics
    assert topic not in topics_of(stack, "west")
    assert [lock for lock in environment.store.locks() if lock.operation == operation_id] == []


def test_a_topic_crosses_over_once_every_partition_has_reached_its_cut(
    stack: Stack, environment: Environment, topic: str
) -> None:
    # Given a crossing whose cuts lie ahead
    operation = begin(environment, topic)
    report = engine.resume(environment, operation.id)
    assert report.result == "crossing", report.error
    document = environment.store.load().topics[topic]
    assert document.crossing is not None
    assert (document.writer, document.crossing.state) == ("east", "open")
    # When one partition has reached its cut
    write(stack, "east", topic, AHEAD + 5, 0)
    report = engine.resume(environment, operation.id)
    # Then its producers are known, and nothing has changed for the topic
    assert report.result == "crossing", report.error
    found = environment.operation(operation.id)
    assert isinstance(found, MigrateOperation)
    assert list(found.evidence.below[topic]) == [0]
    assert environment.store.load().topics[topic] == document
    # And when the other has too, the topic is over
    write(stack, "east", topic, AHEAD, 1)
    report = engine.resume(environment, operation.id)
    assert report.result == "succeeded", report.error
    assert_over(environment, operation.id, topic, RECORDS + AHEAD, RECORDS + AHEAD)
    steps = [(entry.step, entry.detail.get("status")) for entry in environment.store.history(operation.id)]
    assert ("propose", "Migrating") in steps
    assert ("settle", "Migrated") in steps


def test_the_last_sequences_below_the_cut_are_carried_to_the_target(
    stack: Stack, environment: Environment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Producers of gateways have ids of their own range; here a cluster's are taken for them
    def of_gateways(known: Any, surplus: Any) -> Any:
        return tuple(
            ProducerFacts(
                producer.producer_id + FIRST_CLIENT_ID,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp_ms,
            )
            for producer in below_cut(known, surplus) or ()
        )

    # Given producers who wrote below the cut, and on across it
    monkeypatch.setattr(below, "below_cut", of_gateways)
    operation = begin_crossing(environment, topic)
    write(stack, "east", topic, AHEAD + 25, first=AHEAD)
    # When the crossing is settled
    assert engine.resume(environment, operation.id).result == "succeeded"
    # Then what each of them had last written below the cut is stored
    sequences = environment.store.load().sequences[topic]
    assert sequences.terms == {0: 1, 1: 1}
    for partition in range(PARTITIONS):
        assert sorted(last for _, last in sequences.partitions[partition].values()) == [AHEAD - 1, RECORDS - 1]


def test_cuts_that_the_log_passes_before_gateways_serve_them_are_proposed_again(
    stack: Stack, environment: Environment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a log that passes its cut twice while gateways are waited for
    served, times = CrossingSteps.serve, count()

    def late(effects: CrossingSteps) -> None:
        if next(times) < 2:
            write(stack, "east", topic, 30, 0)
        served(effects)

    monkeypatch.setattr(CrossingSteps, "serve", late)
    operation = begin(environment, topic)
    # When the migration is run
    report = engine.resume(environment, operation.id)
    # Then the cut of that partition was raised until it was ahead, and the history tells so
    assert report.result == "crossing", report.error
    raised = live(stored_topic(environment, topic).partitions[0])
    assert (raised.cluster, raised.term) == ("west", 1)
    assert raised.start > RECORDS + 60
    assert extents(environment, topic)[1] == cut_at(RECORDS + AHEAD)
    notes = [e for e in environment.store.history(operation.id) if (e.step, e.outcome) == ("propose", "note")]
    assert len(notes) >= 1


def test_a_migration_is_undone_when_the_log_outruns_every_proposed_cut(
    stack: Stack, environment: Environment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a log that grows faster than any cut is raised
    served, size = CrossingSteps.serve, [AHEAD]

    def late(effects: CrossingSteps) -> None:
        size[0] *= 5 if size[0] < 5_000 else 10
        write(stack, "east", topic, size[0], 0)
        served(effects)

    monkeypatch.setattr(CrossingSteps, "serve", late)
    operation = begin(environment, topic)
    # When the migration is run
    report = engine.resume(environment, operation.id)
    # Then it is undone, and the error names the option that leaves more room
    assert report.result == "undone"
    assert "--preparation" in report.error
    assert_untouched(stack, environment, operation.id, topic)


def test_a_migration_is_undone_when_a_gateway_does_not_drain_and_the_gateway_is_named(
    stack: Stack, environment: Environment, topic: str
) -> None:
    # Given a migration that waits for gateways for a short time only
    operation = begin(environment, topic, drain_timeout_s=0.2)
    # When it is run while one of them does not drain
    with live_gateway(environment, "gw-1"):
        report = engine.resume(environment, operation.id)
    # Then it is undone without a trace
    assert report.result == "undone"
    assert "gw-1" in report.error
    assert_untouched(stack, environment, operation.id, topic)


def test_a_crossing_opens_once_every_gateway_has_drained(environment: Environment, topic: str) -> None:
    operation = begin(environment, topic)

    with live_gateway(environment, "gw-1", drained=(operation.id,)):
        report = engine.resume(environment, operation.id)

    assert report.result == "crossing", report.error


def test_idle_partitions_are_ended_by_a_barrier_at_their_log_ends(
    stack: Stack, environment: Environment, topic: str
) -> None:
    operation = begin_crossing(environment, topic)
    write(stack, "east", topic, AHEAD + 3, 1)

    report = engine.resume(environment, operation.id, at_once=True)

    assert report.result == "succeeded", report.error
    assert_over(environment, operation.id, topic, RECORDS, RECORDS + AHEAD)


@pytest.mark.parametrize("grown", [("east", "west"), ("east",)])
def test_partitions_added_during_a_crossing_stay_in_the_origin_with_a_command_to_move_them(
    stack: Stack, environment: Environment, topic: str, grown: tuple[str, ...]
) -> None:
    operation = begin_crossing(environment, topic)
    # When both copies grow, or the origin's alone, and a producer writes to the new partition past the gateways
    for cluster in grown:
        admin = AdminClient({"bootstrap.servers": bootstrap(stack, cluster)})
        admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)])[topic].result(20)
    write(stack, "east", topic, 1, PARTITIONS)

    write(stack, "east", topic, AHEAD + 3, 1)
    progress = look(environment, operation)
    report = engine.resume(environment, operation.id, at_once=True)

    # Then what had a cut crosses over, and the new one stays: the target is not the writer of what no map lists
    assert f"{topic}:{PARTITIONS} were added in east meanwhile" in progress.words
    assert report.result == "succeeded", report.error
    document = environment.store.load().topics[topic]
    assert (document.writer, document.fence, document.crossing) == ("east", None, None)
    assert [document.partitions[p][-1].cluster for p in range(PARTITIONS + 1)] == ["west"] * PARTITIONS + ["east"]
    ended = environment.operation(operation.id)
    assert ended is not None
    assert f"`switchyard migrate {topic}:{PARTITIONS} --from east --to west` brings them after" in ended.result


def test_a_crossing_past_its_finish_time_is_ended_by_the_next_resume(environment: Environment, topic: str) -> None:
    operation = begin_crossing(environment, topic, finish_after_s=3600)
    assert engine.resume(environment, operation.id).result == "crossing"
    environment.now = lambda: "2199-01-01T00:00:00Z"

    assert engine.resume(environment, operation.id).result == "succeeded"
    assert_over(environment, operation.id, topic, RECORDS, RECORDS)


def test_a_crossing_that_cannot_be_finished_because_a_gateway_does_not_drain_continues(
    environment: Environment, topic: str
) -> None:
    # Given an open crossing
    operation = begin_crossing(environment, topic, drain_timeout_s=0.2)
    # When it is to be finished while a gateway does not drain
    with live_gateway(environment, "gw-1"):
        report = engine.resume(environment, operation.id, at_once=True)
    # Then it is as it was before, without a fence
    assert report.result == "crossing"
    assert "gw-1" in report.error
    document = environment.store.load().topics[topic]
    assert document.fence is None
    assert document.crossing is not None


def test_a_crossing_is_undone_without_a_trace_while_the_target_has_no_records(
    stack: Stack, environment: Environment, topic: str
) -> None:
    operation = begin_crossing(environment, topic)
    write(stack, "east", topic, AHEAD + 5, 0)

    report = engine.undo(environment, operation.id)

    assert report.result == "undone"
    assert_untouched(stack, environment, operation.id, topic)
    assert engine.undo(environment, operation.id).result == "undone"


def test_undoing_a_crossing_is_refused_once_the_target_has_records_and_the_move_back_is_named(
    stack: Stack, environment: Environment, topic: str
) -> None:
    # Given an open crossing in whose target a record was written
    operation = begin_crossing(environment, topic)
    before = environment.store.load()
    write(stack, "west", topic, 1, 0)
    # When it is to be undone, it is refused
    with pytest.raises(RefusedError, match="--from west --to east"):
        engine.undo(environment, operation.id)
    # Then nothing has changed, it can be settled, and after that the answer is the same
    assert environment.store.load() == before
    write(stack, "east", topic, AHEAD)
    assert engine.resume(environment, operation.id).result == "succeeded"
    with pytest.raises(RefusedError, match="--from west --to east"):
        engine.undo(environment, operation.id)


def test_an_undo_that_a_gateway_does_not_follow_leaves_the_crossing_open(environment: Environment, topic: str) -> None:
    # Given an open crossing
    operation = begin_crossing(environment, topic, drain_timeout_s=0.2)
    before = environment.store.load().topics
    # When it is to be undone while a gateway does not drain
    with live_gateway(environment, "gw-1"), pytest.raises(Exception, match="continues as before"):
        engine.undo(environment, operation.id)
    # Then its maps are as they were
    assert environment.store.load().topics == before


def test_a_topic_that_migrates_there_and_back_keeps_every_client_offset(
    stack: Stack, environment: Environment, topic: str
) -> None:
    # Given a topic that has crossed over to west, and got records there
    first = begin_crossing(environment, topic)
    write(stack, "east", topic, AHEAD + 5)
    run_to_success(environment, first.id)
    write(stack, "west", topic, 7)
    end = RECORDS + AHEAD + 7
    # When it crosses over again, to east
    cut_at = {(topic, 0): end + 4, (topic, 1): end + 4}
    proposal = plan_migration(environment, [topic], "west", "east", reason="back", cut="predicted", cut_at=cut_at)
    proposal.require_sound()
    second = engine.start(environment, proposal.batches[0])
    run_until_open(environment, second.id)
    write(stack, "west", topic, 4)
    run_to_success(environment, second.id)
    # Then its map has each stay where clients have its offsets
    assert extents(environment, topic)[0] == [
        ("east", 0, RECORDS + AHEAD, 0, 0),
        ("west", RECORDS + AHEAD, end + 4, 0, 1),
        ("east", end + 4, None, RECORDS + AHEAD + 5, 2),
    ]


DEATHS_BEFORE_IT_IS_OPEN = {
    "before topics are created": before(CREATE_TOPICS),
    "after topics are created": after(CREATE_TOPICS),
    "before the proposal": before(COMMIT, "propose"),
    "after the proposal": after(COMMIT, "propose"),
    "before it is open": before(COMMIT, "open"),
    "after it is open": after(COMMIT, "open"),
}
DEATHS_AT_THE_CUT = {
    "before producers are read": before(SURPLUS),
    "before it settles": before(COMMIT, "settle"),
    "after it has settled": after(COMMIT, "settle"),
    "before the result is written": before(FINISH),
}
DEATHS_WHILE_ENDING_AT_ONCE = {
    "before the fence": before(COMMIT, "hold"),
    "after the fence": after(COMMIT, "hold"),
    "before the end under the fence": before(COMMIT, "finish"),
    "after the end under the fence": after(COMMIT, "finish"),
}
DEATHS_WHILE_UNDOING = {
    "before the undo": before(COMMIT, "retreat"),
    "while undoing": after(COMMIT, "retreat"),
    "after it was withdrawn": after(COMMIT, "withdraw"),
    "after topics were deleted": after(DELETE_EMPTY_TOPICS),
}


def new_topic(stack: Stack) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    create_topic(bootstrap(stack, "east"), name, PARTITIONS)
    write(stack, "east", name, RECORDS)
    return name


def die_where(point: str, stack: Stack, environment: Environment, operation: Operation) -> None:
    """The executor is killed at `point` of the operation."""
    if point in DEATHS_BEFORE_IT_IS_OPEN:
        die_in_engine(stack, DEATHS_BEFORE_IT_IS_OPEN[point], "resume", operation.id)
        return
    run_until_open(environment, operation.id)
    if point in DEATHS_AT_THE_CUT:
        write(stack, "east", operation.reason, AHEAD + 5)
        die_in_engine(stack, DEATHS_AT_THE_CUT[point], "resume", operation.id)
    elif point in DEATHS_WHILE_ENDING_AT_ONCE:
        die_in_engine(stack, DEATHS_WHILE_ENDING_AT_ONCE[point], "resume at once", operation.id)
    else:
        die_in_engine(stack, DEATHS_WHILE_UNDOING[point], "undo", operation.id)


def test_a_migration_killed_at_any_point_is_brought_to_its_end_by_resume(
    stack: Stack, environment: Environment
) -> None:
    # Given a migration for each point at which its executor is killed
    points = [*DEATHS_BEFORE_IT_IS_OPEN, *DEATHS_AT_THE_CUT, *DEATHS_WHILE_ENDING_AT_ONCE, *DEATHS_WHILE_UNDOING]
    begun = {point: begin(environment, new_topic(stack)) for point in points}
    for point, operation in begun.items():
        die_where(point, stack, environment, operation)

    for point, operation in begun.items():
        # When it is resumed
        topic = operation.reason
        report = engine.resume(environment, operation.id)
        # Then it is undone where the undo had begun, over where it had been, and a crossing goes on everywhere else
        if point in DEATHS_WHILE_UNDOING and point != "before the undo":
            assert report.result == "undone", (point, report.error)
            assert_untouched(stack, environment, operation.id, topic)
            continue
        if point in DEATHS_AT_THE_CUT or point == "after the end under the fence":
            assert report.result == "succeeded", (point, report.error)
            cut = RECORDS + AHEAD if point in DEATHS_AT_THE_CUT else RECORDS
            assert_over(environment, operation.id, topic, cut, cut)
            continue
        assert report.result == "crossing", (point, report.error)
        document = environment.store.load().topics[topic]
        assert document.fence is None
        assert document.crossing is not None
        assert document.crossing.state == "open"
        write(stack, "east", topic, AHEAD)
        assert engine.resume(environment, operation.id).result == "succeeded", point
        assert_over(environment, operation.id, topic, RECORDS + AHEAD, RECORDS + AHEAD)


def test_planning_a_migration_reports_every_obstacle_and_changes_nothing(
    stack: Stack, environment: Environment, topic: str
) -> None:
    # Given topics of which each has another obstacle, a crossing of one of them, and a gateway without crossings
    occupied, misshapen, compacted, safer = (f"{what}-{topic}" for what in ("full", "odd", "compact", "safe"))
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    for name in (occupied, misshapen):
        create_topic(east, name, PARTITIONS)
    create_topic(east, compacted, PARTITIONS, **{"cleanup.policy": "compact"})
    create_topic(east, safer, PARTITIONS, **{"min.insync.replicas": "2"})
    create_topic(west, occupied, PARTITIONS)
    create_topic(west, misshapen, PARTITIONS + 1)
    write(stack, "west", occupied, 1)
    migrating = begin(environment, topic)
    engine.resume(environment, migrating.id)
    before = environment.store.load()
    # When their migration is planned
    with live_gateway(environment, "gw-old", crossings=False):
        proposal = plan_migration(
            environment,
            [occupied, misshapen, compacted, safer, topic],
            "east",
            "west",
            reason="test",
            cut="predicted",
            cut_at={(compacted, 0): 0, ("no-such-topic", 1): 5},
        )
    # Then each obstacle is named with a remedy, and nothing has changed
    said = {(v.level, v.about): v.text for v in proposal.verdicts}
    assert "data of its own" in said["error", f"topic {occupied}"]
    assert f"{PARTITIONS + 1} partitions in west" in said["error", f"topic {misshapen}"]
    assert "compact" in said["warning", f"topic {compacted}"]
    assert "2 replicas in sync" in said["error", f"topic {safer}"]
    assert migrating.id in said["error", f"topic {topic}"]
    assert "gw-old" in said["error", "gateways"]
    assert all(v.remedy for v in proposal.verdicts if v.level == "error")
    assert environment.store.load() == before
    # When cuts are given by hand, below a log's end and for an unknown topic
    cut_at = {(compacted, 0): 0, ("no-such-topic", 1): 5}
    proposal = plan_migration(environment, [compacted], "east", "west", reason="test", cut="predicted", cut_at=cut_at)
    texts = " ".join(v.text for v in proposal.verdicts if v.level == "error")
    # Then both are errors
    assert "is not above its log end, 0" in texts
    assert "partition 1 of topic no-such-topic" in texts


def test_topics_with_transactions_migrate_by_a_barrier_and_a_verdict_says_so(
    stack: Stack, environment: Environment, topic: str
) -> None:
    # Given a topic with transactions
    transactional = f"paid-{topic}"
    create_topic(bootstrap(stack, "east"), transactional, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap(stack, "east"), "transactional.id": transactional})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(transactional, b"1", partition=0)
    producer.commit_transaction(20)
    # When it is to migrate together with one without
    proposal = plan_migration(environment, [f"*{topic}"], "east", "west", reason="test", cut="predicted")
    # Then it is a batch of its own, which migrates by a barrier
    proposal.require_sound()
    assert [(b.request.cut, b.moves.topics) for b in proposal.batches] == [
        ("predicted", (topic,)),
        ("barrier", (transactional,)),
    ]
    (verdict,) = [v for v in proposal.verdicts if v.about == f"topic {transactional}"]
    assert "takes the barrier" in verdict.text
    assert {row.topic for row in proposal.partitions} == {topic}
    operation = engine.start(environment, proposal.batches[1])
    assert engine.resume(environment, operation.id).result == "succeeded"
    assert environment.store.load().topics[transactional].writer == "west"
