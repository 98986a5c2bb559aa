"""A cluster dies, its mirrored topics go on at their copies by operations that may die anywhere, and it comes back."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.model import LostTail
from ha_core.operations.absence.reconciling import reconcile
from ha_core.operations.absence.returned import check_origins
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.report import Report
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.running import engine
from stack.harness import Stack
from tests.kafka.clients import Settings
from tests.kafka.mirroring import caught_up, content, copying, wait_until
from tests.kit.moving import a_forced_move, a_move, linked, moved
from tests.kit.running import bootstrap
from tests.kit.stacks import own_stack
from tests.operations.dying import COMMIT, CUT_CHANGE, READ_ENDS, Call, Death, after, before, die, die_in_engine
from tests.operations.flipping import flip
from tests.operations.real_clusters import fill, held, stored_operation, stored_topic

pytestmark = pytest.mark.stack
PARTITIONS, COPIED, BEYOND, ADDED = 2, 30, 7, 4
TAKE_OVER = Call("ha_core.kafka.admin", "Admin.take_over")
DEATHS: Mapping[str, Death | None] = {
    "d.none": None,
    "d.before-hold": before(COMMIT, "hold"),
    "d.after-hold": after(COMMIT, "hold"),
    "d.before-fence": before(COMMIT, "fence"),
    "d.after-fence": after(COMMIT, "fence"),
    "d.after-take-over": after(TAKE_OVER),
    "d.after-ends": after(READ_ENDS),
    "d.before-cut": before(CUT_CHANGE),
    "d.at-cut": before(COMMIT, "cut"),
    "d.after-cut": after(COMMIT, "cut"),
}
"""Topic → where the executor of its switch dies."""
_RECONCILE = """
from ha_core.operations.engine.environment import EnvironmentSettings, connect
from ha_core.operations.absence.reconciling import reconcile
settings = EnvironmentSettings(os.environ["SWITCHYARD_ZOOKEEPER"], session_timeout_s=4.0)
with connect(settings, by="test:victim") as environment:
    reconcile(environment, "east", ["d.*"], reason="it is back")
"""
WHOLE, LESS, GONE, OTHER, UNDONE = tuple(DEATHS), "r.less", "r.gone", "r.other", "r.undone"
COUNTED, GROWN, COPY_TOO, SOUND, DAMAGED = "r.counted", "r.grown", "r.grown-too", "x.sound", "x.damaged"
LEFT, LATER = "r.left", "s.later"
TOPICS = (*WHOLE, LESS, GONE, OTHER, COUNTED, GROWN, COPY_TOO, UNDONE, SOUND, DAMAGED, LEFT, LATER)


def opened(stack: Stack) -> Environment:
    return connect(EnvironmentSettings(stack.zookeeper, session_timeout_s=4.0), by="test:operator")


stack = own_stack(gateways=0)


@pytest.fixture
def environment(stack: Stack) -> Iterator[Environment]:
    with opened(stack) as environment:
        yield environment


def copy_all(environment: Environment, *topics: str, target: str = "west") -> None:
    """All that the source of these mirrors has by now."""
    mirrors = environment.store.load().mirrors
    some = [mirrors[f"{topic}@{target}"] for topic in topics]
    here, there = admin_of(environment, some[0].source), admin_of(environment, target)
    ensure_copy_log(there, some[0].log, some[0].log_partitions)
    copies = [copy for mirror in some for copy in copies_of(mirror, PARTITIONS)]
    ends = {key: found.log_end for key, found in here.ends([copy.key for copy in copies]).items()}
    with copying(here, there, copies, starts={}) as job:
        wait_until(lambda: caught_up(job, ends), job.statuses)


@dataclass(frozen=True)
class Dead:
    """East had all topics and died with records that west has not, and with an unknown partition; west was not written
    since."""

    stack: Stack


@pytest.fixture(scope="module")
def dead(stack: Stack) -> Dead:
    with opened(stack) as environment:
        specs = [TopicSpec(name, PARTITIONS, 1, {"retention.ms": "7200000"}) for name in TOPICS]
        admin_of(environment, "east").create_topics(specs)
        for name in TOPICS:
            fill(stack, "east", name, COPIED, partitions=PARTITIONS)
        linked(environment, *TOPICS)
        copy_all(environment, *TOPICS)
        fill(stack, "west", DAMAGED, 1, partitions=1)  # by a producer that is no copier
        for name in TOPICS:
            fill(stack, "east", name, BEYOND, partitions=PARTITIONS)
        record(environment, ["east"])
    for topic, clusters in ((GROWN, ["east"]), (COPY_TOO, ["west", "east"])):
        for cluster in clusters:
            admin = AdminClient({"bootstrap.servers": bootstrap(stack, cluster)})
            admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)])[topic].result(30)
        fill(stack, "east", topic, ADDED, partitions=PARTITIONS + 1)
    stack.kill("cluster/east")
    return Dead(stack)


def begun(environment: Environment, topic: str) -> str:
    """A forced switch of the topic, of which nothing was done yet."""
    return engine.start(environment, plan(environment, a_forced_move(topic))).id


def tail_of(environment: Environment, topic: str) -> LostTail:
    (tail,) = (lost_tail for lost_tail in environment.store.lost_tails() if lost_tail.topic == topic)
    return tail


@pytest.mark.parametrize("topic", WHOLE)
def test_a_switch_that_died_anywhere_is_continued_to_the_same_map(
    dead: Dead, environment: Environment, topic: str
) -> None:
    # Given a forced switch whose executor died
    operation, death = begun(environment, topic), DEATHS[topic]
    if death is not None:
        die_in_engine(dead.stack, death, "resume", operation)
    # When another process resumes it
    report = engine.resume(environment, operation)
    # Then all copied records are read from the copy, the rest is a hole, and the topic is not copied any more
    assert (report.result, report.error) == ("succeeded", "")
    view = environment.store.load()
    assert view.topics[topic].clusters == {"west"}
    assert f"{topic}@west" not in view.mirrors
    ends = admin_of(environment, "west").ends([(topic, p) for p in range(PARTITIONS)])
    for partition, extents in view.topics[topic].partitions.items():
        *copied, last = extents
        assert sum((extent.end or 0) - extent.start for extent in copied) == COPIED
        assert [extent.start for extent in copied][:1] == [0]
        assert last.start > 3_000_000_000
        assert last.base <= ends[topic, partition].log_end
        assert all((extent.physical_end or 0) <= last.base for extent in copied)
    assert {p: tail.mirrored for p, tail in tail_of(environment, topic).partitions.items()} == {0: COPIED, 1: COPIED}
    # And the copy goes by what its source went by, and has nothing that only a copy needs: brokers of Kafka 4 refuse
    # records an hour ahead where a topic is silent, and those of 3.9 take them
    there = admin_of(environment, "west").topics([topic], offsets=False)[topic].config
    assert {key: value for key, value in there.items() if key != "min.insync.replicas"} == {
        "retention.ms": "7200000",
        "message.timestamp.after.max.ms": str(2**63 - 1),
    }
    assert not [lock for lock in environment.store.locks() if lock.operation == operation]


def test_the_loss_is_known_before_the_switch_even_without_a_copy_job(dead: Dead, environment: Environment) -> None:
    # Given a dead cluster, and a job that has ended: no task reports how far copies are
    # When a forced switch is proposed
    (verdict,) = (one for one in plan(environment, a_forced_move(UNDONE)).verdicts if one.code == "copy-unknown")
    # Then copiers' notes, above which a copy may go, and the last look at the dead cluster bound it
    assert (verdict.level, verdict.unit) == ("warning", "records")
    assert verdict.number is not None
    assert BEYOND * PARTITIONS <= verdict.number <= (COPIED + BEYOND) * PARTITIONS
    assert "east was last seen " in verdict.text


def test_a_topic_that_grew_with_its_copy_since_its_cluster_was_last_seen_goes_on_there_with_all_partitions(
    dead: Dead, environment: Environment
) -> None:
    # Given a copy that has a partition which its dead source was never seen with, and of which nothing is copied
    # When the topic is forced to it
    report = engine.resume(environment, begun(environment, COPY_TOO))
    # Then each partition goes on there, above all that the source can have given out
    assert (report.result, report.error) == ("succeeded", "")
    topic = stored_topic(environment, COPY_TOO)
    assert topic.clusters == {"west", "east"}
    assert [extents[-1].cluster for _, extents in sorted(topic.partitions.items())] == ["west"] * (PARTITIONS + 1)
    *waiting, last = topic.partitions[PARTITIONS]
    assert [extent.cluster for extent in waiting] == ["east"]
    # Above the one marker by which the copy was taken over
    assert (last.base, last.start > 3_000_000_000) == (1, True)


def test_records_that_a_copy_deleted_and_its_dead_source_had_are_counted_and_wait_for_the_source(
    dead: Dead, environment: Environment
) -> None:
    # Given a copy that begins five records later than its dead source did
    admin = AdminClient({"bootstrap.servers": bootstrap(dead.stack, "west")})
    for deleted in admin.delete_records([TopicPartition(LATER, 0, 1 + 5)]).values():
        deleted.result(30)
    # When a forced switch is proposed, and carried out
    proposal = plan(environment, a_forced_move(LATER))
    report = moved(environment, proposal)
    # Then the proposal counts the records that cannot be read, and they wait for the source
    (verdict,) = (one for one in proposal.verdicts if one.code == "copy-begins-later")
    assert (verdict.level, verdict.number) == ("warning", 5)
    assert "at most 5 records were deleted there that east had" in verdict.text
    assert (report.result, report.error) == ("succeeded", "")
    extents = stored_topic(environment, LATER).partitions
    assert [(extent.cluster, extent.start, extent.end) for extent in extents[0][:-1]] == [
        ("east", 0, 5),
        ("west", 5, COPIED),
    ]
    assert {extent.cluster for extent in extents[1]} == {"west"}
    ended = stored_operation(environment, report.operation)
    assert f"west had deleted at most 5 records of {LATER} that east had" in ended.result


def test_a_switch_that_is_undone_before_its_cut_gives_the_copies_back(dead: Dead, environment: Environment) -> None:
    operation = begun(environment, UNDONE)
    die_in_engine(dead.stack, before(COMMIT, "cut"), "resume", operation)
    assert environment.store.load().mirrors[f"{UNDONE}@west"].held == operation
    # When an operator takes it back
    assert engine.undo(environment, operation).result == "undone"
    # Then the mirror is as it was, and no tail is told of
    view = environment.store.load()
    assert view.mirrors[f"{UNDONE}@west"].held is None
    assert view.topics[UNDONE].writers == {"east"}
    assert UNDONE not in {tail.topic for tail in environment.store.lost_tails()}


def test_a_damaged_copy_stops_a_switch_until_the_operator_lets_its_topic_stay(
    dead: Dead, environment: Environment
) -> None:
    # Given two topics of the dead cluster, of which one has a copy that another producer has written to
    def switched(*topics: str, damaged_copies: str) -> Report:
        return moved(environment, a_forced_move(*topics, damaged_copies=damaged_copies))

    before = stored_topic(environment, DAMAGED)
    # When both are to go, then nothing moves, and the copy is named with the way out
    refused = switched(SOUND, DAMAGED, damaged_copies="refuse")
    assert refused.result == "undone"
    assert f"topic {DAMAGED}: Its copy in west cannot be used: {DAMAGED}-0: " in refused.error
    assert "another producer writes to the copy" in refused.error
    assert "--damaged-copies leave" in refused.error
    assert SOUND not in refused.error
    # When the damaged one may stay
    report = switched(SOUND, DAMAGED, damaged_copies="leave")
    # Then the other goes on at its copy, and what stayed is told, and is as it was
    assert (report.result, report.error) == ("succeeded", "")
    assert list(report.stayed) == [DAMAGED]
    assert {partition.topic for partition in report.partitions} == {SOUND}
    view = environment.store.load()
    assert view.topics[SOUND].clusters == {"west"}
    assert stored_topic(environment, DAMAGED).partitions == before.partitions
    assert view.topics[DAMAGED].fence is None
    assert view.mirrors[f"{DAMAGED}@west"].held is None
    assert DAMAGED not in {tail.topic for tail in environment.store.lost_tails()}
    assert f"{DAMAGED} stayed in east" in stored_operation(environment, report.operation).result
    # When only it is to move, then the contents of its copy are not guessed
    alone = switched(DAMAGED, damaged_copies="leave")
    assert alone.result == "undone"
    assert "Nothing else is to move" in alone.error
    assert "Delete nothing there while east may not come back" in alone.error
    # When its source may be gone for good, it goes on at what is known to be good of it
    kept = switched(DAMAGED, damaged_copies="good-part")
    # Then all mirrored records are read there, and the other producer's record is not
    assert (kept.result, kept.error) == ("succeeded", "")
    extents = stored_topic(environment, DAMAGED).partitions[0]
    assert [(extent.cluster, extent.start, extent.end, extent.base) for extent in extents[:-1]] == [
        ("west", 0, COPIED, 1)
    ]
    assert extents[-1].base > COPIED + 1
    ended = stored_operation(environment, kept.operation)
    assert "only the good part of damaged copies is read" in ended.result


@pytest.fixture(scope="module")
def back(dead: Dead) -> Dead:
    """All are switched, and east is back: of one topic with less than was copied, of one with nothing, of two with
    another record in each partition."""
    with opened(dead.stack) as environment:
        for topic in (LESS, GONE, OTHER, COUNTED, GROWN, LEFT):
            assert engine.resume(environment, begun(environment, topic)).result == "succeeded"
    (data,) = Path(dead.stack.dir).glob(f"**/cluster-east*/data/{LESS}-0")
    shutil.rmtree(data)
    for topic in (OTHER, COUNTED):
        for partition in range(PARTITIONS):
            flip(dead.stack, "east", topic, partition, below=COPIED)
    dead.stack.restart("cluster/east")
    admin = AdminClient({"bootstrap.servers": bootstrap(dead.stack, "east")})
    admin.delete_topics([GONE])[GONE].result(30)
    return dead


def test_nothing_of_a_returned_cluster_is_served_again_by_looking_at_it(back: Dead, environment: Environment) -> None:
    maps = environment.store.load().topics
    result = check_origins(environment, ["d.*"])
    assert (result.returns, result.reports) == ((), ())
    assert environment.store.load().topics == maps


def test_a_tail_is_counted_exactly_and_its_cluster_becomes_the_standby(back: Dead, environment: Environment) -> None:
    # When what is back is only looked at
    looked = reconcile(environment, "east", ["d.*"], dry_run=True, reason="")
    # Then what no copy has is counted, and nothing was changed
    assert {(one.topic, one.partition, one.start, one.end, one.records) for one in looked.tails} == {
        (topic, partition, COPIED, COPIED + BEYOND, BEYOND) for topic in WHOLE for partition in range(PARTITIONS)
    }
    assert all((one.bytes or 0) > BEYOND * 20 for one in looked.tails)
    assert looked.reports == ()
    assert not [mirror for mirror in environment.store.load().mirrors if mirror.endswith("@east")]
    # When it is reconciled by a process that dies when a mirror is turned round, and a while later by another one
    die(back.stack, before(COMMIT, "reconcile"), _RECONCILE)
    wait_until(lambda: not held(environment), lambda: held(environment))
    later = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
    environment.now = lambda: later
    done = reconcile(environment, "east", ["d.*"], reason="it is back")
    # Then the same is kept, with how to fetch it, and the mirrors go the other way
    assert {one._replace(start=None, end=None) for one in done.tails} == {
        one._replace(start=None, end=None) for one in looked.tails
    }
    first = done.tails[0]
    fetch = f"--topic {first.topic} --partition {first.partition} --offset {COPIED} "
    fetch += f"--isolation-level read_committed --max-messages {BEYOND}"
    assert done.fetch(first).endswith(fetch)
    assert (sorted(done.mirrored), done.not_mirrored, done.put_off) == (sorted(WHOLE), {}, ())
    tail = tail_of(environment, "d.none")
    assert tail.counted is not None
    assert {p: partition.records for p, partition in tail.partitions.items()} == {0: BEYOND, 1: BEYOND}
    # And what they had was compared with their copies before
    assert done.compared.keys() == set(WHOLE)
    assert all(comparison.equal and comparison.records == PARTITIONS * COPIED for comparison in done.compared.values())
    # And they copy what the new writer gets, once, above what east has of its own
    for topic in WHOLE:
        fill(back.stack, "west", topic, 5, partitions=PARTITIONS)
    copy_all(environment, *WHOLE, target="east")
    assert compare_mirrors(environment, WHOLE, "east", 1.0, 0).equal
    east: Settings = {"bootstrap.servers": bootstrap(back.stack, "east")}
    assert len(content(east, "d.none")) == COPIED + BEYOND + 5
    # When that is asked for again
    again = reconcile(environment, "east", ["d.*"], reason="once more")
    # Then the counts are what they were, and nothing is written
    assert again.records == done.records
    assert (again.reports, again.mirrored, again.needs_attention) == ((), (), False)


def test_a_switch_back_leads_to_the_returned_cluster_and_its_tail_stays_out_of_the_map(
    back: Dead, environment: Environment
) -> None:
    # Given a topic whose returned cluster has been made its standby
    topic = "d.none"
    assert f"{topic}@east" in environment.store.load().mirrors
    fill(back.stack, "west", topic, 3, partitions=PARTITIONS)
    before = stored_topic(environment, topic).partitions
    # When it is switched back
    report = moved(environment, a_move(topic, origin="west", target="east"))
    # Then all of it is read in east, without the tail, and west is the standby again
    assert (report.result, report.error) == ("succeeded", "")
    view = environment.store.load()
    assert view.topics[topic].clusters == {"east"}
    assert view.mirrors[f"{topic}@west"].source == "east"
    tail = tail_of(environment, topic)
    for partition, extents in view.topics[topic].partitions.items():
        *closed, last = extents
        assert last.start == before[partition][-1].start + 8
        assert sum((extent.end or 0) - extent.start for extent in closed) == COPIED + 8
        lost = range(tail.partitions[partition].mirrored, tail.partitions[partition].end or 0)
        assert not any(extent.holds(offset) for extent in extents for offset in lost)
    # And what west has is compared with what it is led to, not with the tail
    copy_all(environment, topic)
    assert compare_mirrors(environment, [topic], "west", 1.0, 0).equal


def test_a_returned_cluster_with_unseen_partitions_is_no_standby_and_they_are_reported(
    back: Dead, environment: Environment
) -> None:
    # When it is reconciled, twice
    for _ in range(2):
        result = reconcile(environment, "east", [GROWN], reason="it is back")
        # Then the partition that no map has is reported, with its place, and nothing is copied over it
        why = result.not_mirrored[GROWN]
        assert f"partition {PARTITIONS} with {ADDED} records" in why
        assert "link it again" in why
        assert result.needs_attention
        assert f"{GROWN}@east" not in environment.store.load().mirrors


@pytest.mark.parametrize(("topic", "outcome"), [(LESS, "less"), (GONE, "gone")])
def test_of_a_cluster_that_is_back_with_less_than_was_copied_nothing_is_guessed(
    back: Dead, environment: Environment, topic: str, outcome: str
) -> None:
    # When it is reconciled
    result = reconcile(environment, "east", [topic], reason="it is back")
    # Then it is told, nothing is mirrored, and the tail stays open
    assert outcome in {tail.outcome for tail in result.open}
    assert result.needs_attention
    assert f"{topic}@east" not in environment.store.load().mirrors
    assert tail_of(environment, topic).counted is None
    assert stored_topic(environment, topic).clusters == {"west"}
    # When the operator does without
    accepted = reconcile(environment, "east", [topic], accept_loss=True, reason="it is lost")
    # Then it is closed, with what could be counted
    assert [report.result for report in accepted.reports] == ["succeeded"]
    assert tail_of(environment, topic).counted is not None


def test_a_returned_cluster_that_has_other_records_than_the_copy_does_not_become_its_standby(
    back: Dead, environment: Environment
) -> None:
    # When what is back is compared with the copy, up to where it was mirrored: a sample, then all of it
    sampled = reconcile(environment, "east", [OTHER], reason="it is back")
    whole = reconcile(environment, "east", [OTHER], verify="full", reason="it is back")
    # Then what differs is told with its first offset, the tail is counted, and nothing is mirrored
    for result in (sampled, whole):
        assert [one.outcome for one in result.open] == ["differs"] * PARTITIONS
        assert {(one.differs_at, one.difference) for one in result.open} == {(COPIED - 1, "another value")}
        assert [one.records for one in result.tails] == [BEYOND] * PARTITIONS
        assert result.needs_attention
        assert result.mirrored == ()
    assert f"{OTHER}@east" not in environment.store.load().mirrors
    tail = tail_of(environment, OTHER)
    assert (tail.counted, {part.differs_at for part in tail.partitions.values()}) == (None, {COPIED - 1})
    # When nothing is compared any more, then the earlier difference is not forgotten
    unseen = reconcile(environment, "east", [OTHER], verify="none", reason="it is back")
    assert [one.outcome for one in unseen.open] == ["differs"] * PARTITIONS
    assert f"{OTHER}@east" not in environment.store.load().mirrors
    # When the operator does without, then it is closed, and is no standby either when that is asked for again
    accepted = reconcile(environment, "east", [OTHER], accept_loss=True, reason="it is wiped")
    assert [report.result for report in accepted.reports] == ["succeeded"]
    again = reconcile(environment, "east", [OTHER], reason="once more")
    assert (again.mirrored, again.reports) == ((), ())
    assert f"{OTHER}@east" not in environment.store.load().mirrors


def test_a_tail_counted_before_is_compared_when_its_cluster_becomes_the_standby(
    back: Dead, environment: Environment
) -> None:
    # Given a tail that was counted, and whose records below it were not compared
    counted = reconcile(environment, "east", [COUNTED], mirror=False, verify="none", reason="it is back")
    assert ([one.outcome for one in counted.tails], counted.needs_attention) == (["counted"] * PARTITIONS, False)
    assert tail_of(environment, COUNTED).counted is not None
    # When its cluster is to become the standby
    result = reconcile(environment, "east", [COUNTED], verify="full", reason="it is healthy")
    # Then what differs is found, the tail is open again, and nothing is mirrored there
    assert [one.outcome for one in result.open] == ["differs"] * PARTITIONS
    assert result.mirrored == ()
    assert f"{COUNTED}@east" not in environment.store.load().mirrors
    tail = tail_of(environment, COUNTED)
    assert (tail.counted, {part.differs_at for part in tail.partitions.values()}) == (None, {COPIED - 1})
    assert {part.records for part in tail.partitions.values()} == {BEYOND}


def test_a_topic_whose_copy_dies_before_its_returned_cluster_was_reconciled_goes_on_there(
    back: Dead, environment: Environment
) -> None:
    # Given a topic that went on in west, whose old cluster is back with all that it had, when west dies
    back.stack.kill("cluster/west")
    # When it is reconciled then, nothing of it is given up
    with pytest.raises(RefusedError, match="west does not answer, not east"):
        reconcile(environment, "east", [LEFT], accept_loss=True, reason="west is down")
    # When it is switched back by force
    report = moved(environment, a_forced_move(LEFT, origin="west", target="east"))
    # Then what was mirrored is read there, and it is written there, above the tail
    assert (report.result, report.error) == ("succeeded", "")
    for extents in stored_topic(environment, LEFT).partitions.values():
        first, last = extents[0], extents[-1]
        assert (first.cluster, first.start, first.end, first.base) == ("east", 0, COPIED, 0)
        assert (last.cluster, last.base) == ("east", COPIED + BEYOND)
    # And when both are there, the tail is counted without what was written since
    fill(back.stack, "east", LEFT, 3, partitions=PARTITIONS)
    back.stack.restart("cluster/west")
    tails = reconcile(environment, "east", [LEFT], reason="both are there").tails
    assert {(tail.partition, tail.outcome, tail.start, tail.end, tail.records) for tail in tails} == {
        (partition, "counted", COPIED, COPIED + BEYOND, BEYOND) for partition in range(PARTITIONS)
    }
