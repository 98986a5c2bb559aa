"""Migrations with a predicted cut on real ZooKeeper and two Kafka clusters, without gateways: clients write to the
origin directly, so all that comes above a cut stays surplus."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from ha_core.model import MigrateOperation, Topic, View
from ha_core.model.extent import open_extent
from ha_core.model.producer import FIRST_CLIENT_ID
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.report import Report
from ha_core.operations.migration.crossing import below, cuts
from ha_core.operations.migration.crossing.ends import read_progress
from ha_core.operations.migration.crossing.steps import CrossingSteps
from ha_core.operations.migration.planning import MigrationProposal, plan_migration
from ha_core.operations.running import engine
from ha_core.plan.move.carry_over import below_cut
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.operations.dying import (
    COMMIT,
    CREATE_TOPICS,
    DELETE_EMPTY_TOPICS,
    FINISH,
    SURPLUS,
    Death,
    after,
    before,
    die_in_engine,
)
from tests.operations.real_clusters import (
    live_gateway,
    run_to_success,
    run_until_open,
    stored_operation,
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


@dataclass(frozen=True)
class Crossing:
    """A topic with `RECORDS` records in each partition of east, and its migrations."""

    stack: Stack
    environment: Environment
    topic: str

    @property
    def view(self) -> View:
        return self.environment.store.load()

    @property
    def document(self) -> Topic:
        return self.view.topics[self.topic]

    def write(self, cluster: str, count: int, *partitions: int, first: int = 0) -> None:
        """`count` records of an idempotent producer to each partition, the `first` of them in batches of their own."""
        write(self.stack, cluster, self.topic, count, *partitions, first=first)

    def begin(self, origin: str = "east", target: str = "west", **more: Any) -> str:
        """The operation whose cuts lie `AHEAD` of the ends."""
        cut_at = {(self.topic, p): RECORDS + AHEAD for p in range(PARTITIONS)}
        given = {"cut": "predicted", "cut_at": cut_at, **more}
        proposal = plan_migration(self.environment, [self.topic], origin, target, reason="test", **given)
        proposal.require_sound()
        (batch,) = proposal.batches
        return engine.start(self.environment, batch).id

    def opened(self, *route: str, **more: Any) -> str:
        """The operation of an open crossing."""
        operation = self.begin(*route, **more)
        run_until_open(self.environment, operation)
        return operation

    def operation(self, operation_id: str) -> MigrateOperation:
        found = stored_operation(self.environment, operation_id)
        assert isinstance(found, MigrateOperation)
        return found

    def resume(self, operation: str, **how: Any) -> Report:
        return engine.resume(self.environment, operation, **how)

    def extents(self) -> dict[int, list[tuple[Any, ...]]]:
        return {p: rows(extents) for p, extents in self.document.partitions.items()}

    def assert_over(self, operation: str, *cuts: int) -> None:
        """The topic has crossed over at `cuts`, and nothing of the operation is left."""
        assert self.extents() == {p: cut_at(cut) for p, cut in enumerate(cuts)}
        document = self.document
        assert (document.writer, document.crossing, document.fence) == ("west", None, None)
        assert [lock for lock in self.environment.store.locks() if lock.operation == operation] == []
        assert stored_operation(self.environment, operation).state == "succeeded"

    def assert_untouched(self, operation: str) -> None:
        assert self.topic not in self.view.topics
        assert self.topic not in topics_of(self.stack, "west")
        assert [lock for lock in self.environment.store.locks() if lock.operation == operation] == []


def write(stack: Stack, cluster: str, topic: str, count: int, *partitions: int, first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap(stack, cluster), "enable.idempotence": True})
    for number in range(count):
        for partition in partitions or range(PARTITIONS):
            producer.produce(topic, value=b"%d" % number, partition=partition)
        if number + 1 == first:
            assert producer.flush(20) == 0
    assert producer.flush(20) == 0


def new_crossing(stack: Stack, environment: Environment) -> Crossing:
    made = Crossing(stack, environment, f"orders-{uuid.uuid4().hex[:8]}")
    create_topic(bootstrap(stack, "east"), made.topic, PARTITIONS)
    made.write("east", RECORDS)
    return made


@pytest.fixture
def crossing(stack: Stack, environment: Environment) -> Crossing:
    return new_crossing(stack, environment)


def cut_at(cut: int, base: int = 0) -> list[tuple[Any, ...]]:
    return [("east", 0, cut, 0, 0), ("west", cut, None, base, 1)]


def test_a_topic_crosses_over_once_every_partition_has_reached_its_cut(crossing: Crossing) -> None:
    # Given a crossing whose cuts lie ahead
    operation = crossing.begin()
    report = crossing.resume(operation)
    assert report.result == "crossing", report.error
    document = crossing.document
    assert document.crossing is not None
    assert (document.writer, document.crossing.state) == ("east", "open")
    # When one partition has reached its cut
    crossing.write("east", AHEAD + 5, 0)
    report = crossing.resume(operation)
    # Then its producers are known, and nothing has changed for the topic
    assert report.result == "crossing", report.error
    assert list(crossing.operation(operation).evidence.below[crossing.topic]) == [0]
    assert crossing.document == document
    # And when the other has too, the topic is over
    crossing.write("east", AHEAD, 1)
    report = crossing.resume(operation)
    assert report.result == "succeeded", report.error
    crossing.assert_over(operation, RECORDS + AHEAD, RECORDS + AHEAD)
    steps = [(entry.step, entry.detail.get("status")) for entry in crossing.environment.store.history(operation)]
    assert ("propose", "Migrating") in steps
    assert ("settle", "Migrated") in steps


def test_the_last_sequences_below_the_cut_are_carried_to_the_target(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Producers of gateways have ids of their own range; here a cluster's are taken for them
    def of_gateways(known: Any, surplus: Any) -> Any:
        facts = below_cut(known, surplus) or ()
        return tuple(replace(producer, producer_id=producer.producer_id + FIRST_CLIENT_ID) for producer in facts)

    # Given producers who wrote below the cut, and on across it
    monkeypatch.setattr(below, "below_cut", of_gateways)
    operation = crossing.opened()
    crossing.write("east", AHEAD + 25, first=AHEAD)
    # When the crossing is settled
    assert crossing.resume(operation).result == "succeeded"
    # Then what each of them had last written below the cut is stored
    sequences = crossing.view.sequences[crossing.topic]
    assert sequences.terms == {0: 1, 1: 1}
    for partition in range(PARTITIONS):
        assert sorted(last for _, last in sequences.partitions[partition].values()) == [AHEAD - 1, RECORDS - 1]


def written_before_gateways_serve(monkeypatch: pytest.MonkeyPatch, crossing: Crossing, counts: list[int]) -> None:
    """Each time the operation waits until gateways serve its cuts, as many records as is next are written before."""
    served, left = CrossingSteps.serve, iter(counts)

    def late(effects: CrossingSteps) -> None:
        if (count := next(left, 0)) > 0:
            crossing.write("east", count, 0)
        served(effects)

    monkeypatch.setattr(CrossingSteps, "serve", late)


def test_cuts_that_the_log_passes_before_gateways_serve_them_are_proposed_again(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a log that passes its cut twice while gateways are waited for
    written_before_gateways_serve(monkeypatch, crossing, [30, 30])
    operation = crossing.begin()
    # When the migration is run
    report = crossing.resume(operation)
    # Then the cut of that partition was raised until it was ahead, and the history tells so
    assert report.result == "crossing", report.error
    raised = open_extent(crossing.document.partitions[0])
    assert (raised.cluster, raised.writer_epoch) == ("west", 1)
    assert raised.start > RECORDS + 60
    assert crossing.extents()[1] == cut_at(RECORDS + AHEAD)
    notes = [e for e in crossing.environment.store.history(operation) if (e.step, e.outcome) == ("propose", "note")]
    assert len(notes) >= 1


def test_a_migration_is_undone_when_the_log_outruns_every_proposed_cut(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a log that grows faster than any cut is raised
    written_before_gateways_serve(monkeypatch, crossing, [50, 250, 1_250, 6_250, 62_500, 625_000])
    operation = crossing.begin()
    # When the migration is run
    report = crossing.resume(operation)
    # Then it is undone, and the error names the option that leaves more room
    assert report.result == "undone"
    assert "--preparation" in report.error
    crossing.assert_untouched(operation)


def test_a_migration_is_undone_when_a_gateway_does_not_drain_and_the_gateway_is_named(crossing: Crossing) -> None:
    # Given a migration that waits for gateways for a short time only
    operation = crossing.begin(drain_timeout_s=0.2)
    # When it is run while one of them does not drain
    with live_gateway(crossing.environment, "gw-1"):
        report = crossing.resume(operation)
    # Then it is undone without a trace
    assert report.result == "undone"
    assert "gw-1" in report.error
    crossing.assert_untouched(operation)


def test_a_crossing_opens_once_every_gateway_has_drained(crossing: Crossing) -> None:
    operation = crossing.begin()

    with live_gateway(crossing.environment, "gw-1", drained=(operation,)):
        run_until_open(crossing.environment, operation)


def test_idle_partitions_are_ended_by_a_barrier_at_their_log_ends(crossing: Crossing) -> None:
    operation = crossing.opened()
    crossing.write("east", AHEAD + 3, 1)

    assert crossing.resume(operation, at_once=True).result == "succeeded"
    crossing.assert_over(operation, RECORDS, RECORDS + AHEAD)


@pytest.mark.parametrize("grown", [("east", "west"), ("east",)])
def test_partitions_added_during_a_crossing_stay_in_the_origin_with_a_command_to_move_them(
    crossing: Crossing, grown: tuple[str, ...]
) -> None:
    operation = crossing.opened()
    # When both copies grow, or the origin's alone, and a producer writes to the new partition past the gateways
    for cluster in grown:
        admin = AdminClient({"bootstrap.servers": bootstrap(crossing.stack, cluster)})
        admin.create_partitions([NewPartitions(crossing.topic, PARTITIONS + 1)])[crossing.topic].result(20)
    crossing.write("east", 1, PARTITIONS)

    crossing.write("east", AHEAD + 3, 1)
    progress = read_progress(crossing.environment, crossing.operation(operation))
    report = crossing.resume(operation, at_once=True)

    # Then what had a cut crosses over, and the new one stays: the target is not the writer of what no map lists
    assert f"{crossing.topic}:{PARTITIONS} were added in east meanwhile" in progress.words
    assert report.result == "succeeded", report.error
    document = crossing.document
    assert (document.writer, document.fence, document.crossing) == ("east", None, None)
    assert [document.partitions[p][-1].cluster for p in range(PARTITIONS + 1)] == ["west"] * PARTITIONS + ["east"]
    command = f"`switchyard migrate {crossing.topic}:{PARTITIONS} --from east --to west`"
    assert f"{command} brings them after" in crossing.operation(operation).result


def test_a_crossing_past_its_finish_time_is_ended_by_the_next_resume(crossing: Crossing) -> None:
    operation = crossing.opened(finish_after_s=3600)
    assert crossing.resume(operation).result == "crossing"
    crossing.environment.now = lambda: "2199-01-01T00:00:00Z"

    assert crossing.resume(operation).result == "succeeded"
    crossing.assert_over(operation, RECORDS, RECORDS)


def test_a_crossing_that_cannot_be_finished_because_a_gateway_does_not_drain_continues(crossing: Crossing) -> None:
    # Given an open crossing
    operation = crossing.opened(drain_timeout_s=0.2)
    # When it is to be finished while a gateway does not drain
    with live_gateway(crossing.environment, "gw-1"):
        report = crossing.resume(operation, at_once=True)
    # Then it is as it was before, without a fence
    assert report.result == "crossing"
    assert "gw-1" in report.error
    document = crossing.document
    assert document.fence is None
    assert document.crossing is not None


def test_a_crossing_is_undone_without_a_trace_while_the_target_has_no_records(crossing: Crossing) -> None:
    operation = crossing.opened()
    crossing.write("east", AHEAD + 5, 0)

    report = engine.undo(crossing.environment, operation)

    assert report.result == "undone"
    crossing.assert_untouched(operation)
    assert engine.undo(crossing.environment, operation).result == "undone"


def test_undoing_a_crossing_is_refused_once_the_target_has_records_and_the_move_back_is_named(
    crossing: Crossing,
) -> None:
    # Given an open crossing in whose target a record was written
    operation = crossing.opened()
    before = crossing.view
    crossing.write("west", 1, 0)
    # When it is to be undone, it is refused
    with pytest.raises(RefusedError, match="--from west --to east"):
        engine.undo(crossing.environment, operation)
    # Then nothing has changed, it can be settled, and after that the answer is the same
    assert crossing.view == before
    crossing.write("east", AHEAD)
    assert crossing.resume(operation).result == "succeeded"
    with pytest.raises(RefusedError, match="--from west --to east"):
        engine.undo(crossing.environment, operation)


def test_an_undo_that_a_gateway_does_not_follow_leaves_the_crossing_open(crossing: Crossing) -> None:
    # Given an open crossing
    operation = crossing.opened(drain_timeout_s=0.2)
    before = crossing.view.topics
    # When it is to be undone while a gateway does not drain
    with live_gateway(crossing.environment, "gw-1"), pytest.raises(Exception, match="continues as before"):
        engine.undo(crossing.environment, operation)
    # Then its maps are as they were
    assert crossing.view.topics == before


def test_a_topic_that_migrates_there_and_back_keeps_every_client_offset(crossing: Crossing) -> None:
    # Given a topic that has crossed over to west, and got records there
    first = crossing.opened()
    crossing.write("east", AHEAD + 5)
    run_to_success(crossing.environment, first)
    crossing.write("west", 7)
    end = RECORDS + AHEAD + 7
    # When it crosses over again, to east
    second = crossing.opened("west", "east", cut_at={(crossing.topic, p): end + 4 for p in range(PARTITIONS)})
    crossing.write("west", 4)
    run_to_success(crossing.environment, second)
    # Then its map has each stay where clients have its offsets
    assert crossing.extents()[0] == [
        ("east", 0, RECORDS + AHEAD, 0, 0),
        ("west", RECORDS + AHEAD, end + 4, 0, 1),
        ("east", end + 4, None, RECORDS + AHEAD + 5, 2),
    ]


class Kill(NamedTuple):
    """Where an executor dies.

    :ivar stage: of the crossing when the executor begins.
    :ivar result: of the operation when another process resumes it.
    """

    death: Death
    call: Literal["resume", "resume at once", "undo"]
    stage: Literal["planned", "open", "at its cuts"]
    result: Literal["crossing", "succeeded", "undone"]


KILLS = {
    "before topics are created": Kill(before(CREATE_TOPICS), "resume", "planned", "crossing"),
    "after topics are created": Kill(after(CREATE_TOPICS), "resume", "planned", "crossing"),
    "before the proposal": Kill(before(COMMIT, "propose"), "resume", "planned", "crossing"),
    "after the proposal": Kill(after(COMMIT, "propose"), "resume", "planned", "crossing"),
    "before it is open": Kill(before(COMMIT, "open"), "resume", "planned", "crossing"),
    "after it is open": Kill(after(COMMIT, "open"), "resume", "planned", "crossing"),
    "before producers are read": Kill(before(SURPLUS), "resume", "at its cuts", "succeeded"),
    "before it settles": Kill(before(COMMIT, "settle"), "resume", "at its cuts", "succeeded"),
    "after it has settled": Kill(after(COMMIT, "settle"), "resume", "at its cuts", "succeeded"),
    "before the result is written": Kill(before(FINISH), "resume", "at its cuts", "succeeded"),
    "before the fence": Kill(before(COMMIT, "hold"), "resume at once", "open", "crossing"),
    "after the fence": Kill(after(COMMIT, "hold"), "resume at once", "open", "crossing"),
    "before the end under the fence": Kill(before(COMMIT, "finish"), "resume at once", "open", "crossing"),
    "after the end under the fence": Kill(after(COMMIT, "finish"), "resume at once", "open", "succeeded"),
    "before the undo": Kill(before(COMMIT, "retreat"), "undo", "open", "crossing"),
    "while undoing": Kill(after(COMMIT, "retreat"), "undo", "open", "undone"),
    "after it was withdrawn": Kill(after(COMMIT, "withdraw"), "undo", "open", "undone"),
    "after topics were deleted": Kill(after(DELETE_EMPTY_TOPICS), "undo", "open", "undone"),
}


def test_a_migration_killed_at_any_point_is_brought_to_its_end_by_resume(
    stack: Stack, environment: Environment
) -> None:
    # Given a migration for each point at which its executor is killed
    crossings = {point: new_crossing(stack, environment) for point in KILLS}
    begun = {point: crossing.begin() for point, crossing in crossings.items()}
    for point, kill in KILLS.items():
        if kill.stage != "planned":
            run_until_open(environment, begun[point])
        if kill.stage == "at its cuts":
            crossings[point].write("east", AHEAD + 5)
        die_in_engine(stack, kill.death, kill.call, begun[point])

    for point, kill in KILLS.items():
        # When it is resumed
        crossing, operation = crossings[point], begun[point]
        report = crossing.resume(operation)
        # Then it is undone where the undo had begun, over where it had been, and a crossing goes on everywhere else
        assert report.result == kill.result, (point, report.error)
        if kill.result == "undone":
            crossing.assert_untouched(operation)
            continue
        if kill.result == "crossing":
            document = crossing.document
            assert document.fence is None
            assert document.crossing is not None
            assert document.crossing.state == "open"
            crossing.write("east", AHEAD)
            assert crossing.resume(operation).result == "succeeded", point
        cut = RECORDS if point == "after the end under the fence" else RECORDS + AHEAD
        crossing.assert_over(operation, cut, cut)


def test_planning_a_migration_reports_every_obstacle_and_changes_nothing(crossing: Crossing) -> None:
    # Given topics of which each has another obstacle, a crossing of one of them, and a gateway without crossings
    occupied, misshapen, compacted, safer = (f"{what}-{crossing.topic}" for what in ("full", "odd", "compact", "safe"))
    east, west = bootstrap(crossing.stack, "east"), bootstrap(crossing.stack, "west")
    for name in (occupied, misshapen):
        create_topic(east, name, PARTITIONS)
    create_topic(east, compacted, PARTITIONS, **{"cleanup.policy": "compact"})
    create_topic(east, safer, PARTITIONS, **{"min.insync.replicas": "2"})
    create_topic(west, occupied, PARTITIONS)
    create_topic(west, misshapen, PARTITIONS + 1)
    write(crossing.stack, "west", occupied, 1)
    migrating = crossing.begin()
    crossing.resume(migrating)
    before = crossing.view

    def planned(*topics: str) -> MigrationProposal:
        cut_at = {(compacted, 0): 0, ("no-such-topic", 1): 5}
        how: dict[str, Any] = {"reason": "test", "cut": "predicted", "cut_at": cut_at}
        return plan_migration(crossing.environment, topics, "east", "west", **how)

    # When their migration is planned
    with live_gateway(crossing.environment, "gw-old", crossings=False):
        proposal = planned(occupied, misshapen, compacted, safer, crossing.topic)
    # Then each obstacle is named with a remedy, and nothing has changed
    said = {(v.level, v.about): v.text for v in proposal.verdicts}
    assert "data of its own" in said["error", f"topic {occupied}"]
    assert f"{PARTITIONS + 1} partitions in west" in said["error", f"topic {misshapen}"]
    assert "compact" in said["warning", f"topic {compacted}"]
    assert "2 replicas in sync" in said["error", f"topic {safer}"]
    assert migrating in said["error", f"topic {crossing.topic}"]
    assert "gw-old" in said["error", "gateways"]
    assert all(v.remedy for v in proposal.verdicts if v.level == "error")
    assert crossing.view == before
    # And cuts given by hand, below a log's end and for an unknown topic, are errors, too
    texts = " ".join(v.text for v in planned(compacted).verdicts if v.level == "error")
    assert "is not above its log end, 0" in texts
    assert "partition 1 of topic no-such-topic" in texts


def test_topics_with_transactions_migrate_by_a_barrier_and_a_verdict_says_so(crossing: Crossing) -> None:
    # Given a topic with transactions
    transactional = f"paid-{crossing.topic}"
    create_topic(bootstrap(crossing.stack, "east"), transactional, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap(crossing.stack, "east"), "transactional.id": transactional})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(transactional, b"1", partition=0)
    producer.commit_transaction(20)
    # When it is to migrate together with one without
    proposal = plan_migration(
        crossing.environment, [f"*{crossing.topic}"], "east", "west", reason="test", cut="predicted"
    )
    # Then it is a batch of its own, which migrates by a barrier
    proposal.require_sound()
    assert [(b.request.cut, b.moves.topics) for b in proposal.batches] == [
        ("predicted", (crossing.topic,)),
        ("barrier", (transactional,)),
    ]
    (verdict,) = [v for v in proposal.verdicts if v.about == f"topic {transactional}"]
    assert "takes the barrier" in verdict.text
    assert {row.topic for row in proposal.partitions} == {crossing.topic}
    operation = engine.start(crossing.environment, proposal.batches[1]).id
    assert crossing.resume(operation).result == "succeeded"
    assert crossing.view.topics[transactional].writer == "west"
