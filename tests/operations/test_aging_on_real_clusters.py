"""Old extents go when nothing of them can be read or is needed any more, and their topic with them if that is asked."""

import uuid
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.kafka.errors import StandsInTheWayError
from ha_core.model import Document, Mirror
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.migration.aging import Aging, age
from ha_core.operations.migration.crossing import cuts
from ha_core.operations.migration.planning import plan_migration
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.proposal.requests import make_request
from ha_core.operations.running import engine
from ha_core.store.commits import StateChange
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import operator
from tests.operations import real_clusters
from tests.operations.real_clusters import at, fill, live_member, run_to_success, stored_topic

pytestmark = pytest.mark.stack
PARTITIONS, RECORDS = 2, 30
produce, expire = (partial(do, partitions=PARTITIONS) for do in (fill, real_clusters.expire))


environment = operator(session_timeout_s=4.0)


@pytest.fixture
def topic(environment: Environment) -> str:
    """A topic with records in east that has not moved yet."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    create_topic(bootstrap(environment, "east"), name, PARTITIONS, **{"retention.ms": "3600000"})
    produce(environment, "east", name, RECORDS)
    return name


def move(environment: Environment, scope: str, origin: str = "east", target: str = "west") -> None:
    proposal = plan(environment, make_request([scope], origin, target, reason="test", include_other_users=True))
    run_to_success(environment, engine.start(environment, proposal).id)


def commit(environment: Environment, cluster: str, group: str, topic: str, offset: int) -> None:
    admin = environment.admin(environment.store.load().clusters[cluster])
    admin.set_group_offsets(group, {(topic, partition): (offset, "") for partition in range(PARTITIONS)})


def reasons(result: Aging) -> list[list[str]]:
    return [[block.reason for block in old.blocks] for old in result.extents]


def clusters_of(environment: Environment, topic: str) -> list[str]:
    partitions = stored_topic(environment, topic).partitions.values()
    return sorted({extent.cluster for extents in partitions for extent in extents})


def test_an_extent_past_retention_is_dropped_and_its_topic_deleted_only_on_request(
    environment: Environment, topic: str
) -> None:
    # Given a topic that has moved
    move(environment, f"topic:{topic}")
    produce(environment, "west", topic, 5)
    view = environment.store.load()
    # When it is aged while its old log still holds records
    held = age(environment, [topic], delete_origin=True)
    # Then it is kept, and what keeps it is said
    assert reasons(held) == [["held"]] * PARTITIONS
    assert "3600000 ms" in held.extents[0].blocks[0].text
    assert held.kept == {f"{topic} in east": f"{PARTITIONS} of {PARTITIONS} partitions are not aged there"}
    assert environment.store.load() == view
    # When retention has taken them
    expire(environment, "east", topic, RECORDS)
    # Then a dry run changes nothing
    assert reasons(age(environment, [topic], delete_origin=True, dry_run=True)) == [[]] * PARTITIONS
    assert environment.store.load() == view
    # When it is aged
    aged = age(environment, [topic])
    # Then its extents are gone in one revision, and its topic is still there
    assert clusters_of(environment, topic) == ["west"]
    (report,) = aged.reports
    assert environment.store.load().revision == report.revision == view.revision + 1
    (entry,) = [
        entry for entry in environment.store.history(report.operation) if (entry.step, entry.outcome) == ("age", "done")
    ]
    assert entry.detail["aged"] == {
        topic: [[partition, "east", 0, RECORDS, RECORDS, RECORDS] for partition in range(PARTITIONS)]
    }
    assert "east" in environment.clusters_with(topic, view)
    # When that is to be deleted too
    deleted = age(environment, [topic], delete_origin=True)
    # Then it is, once, and no lock is left
    assert deleted.deleted == {"east": (topic,)}
    assert environment.clusters_with(topic, view) == ["west"]
    assert environment.store.history(deleted.reports[0].operation)[-1].detail["deleted"] == [topic]
    assert deleted.reports[0].operation not in {lock.operation for lock in environment.store.locks()}
    assert age(environment, [topic], delete_origin=True).deleted == {}


def test_lagging_and_dead_groups_keep_an_extent_until_they_are_past_the_cut(
    environment: Environment, topic: str
) -> None:
    # Given a moved topic, a group without members below its cut, and one with a member there
    commit(environment, "east", f"dead-{topic}", topic, 7)
    move(environment, f"topic:{topic}")
    expire(environment, "east", topic, RECORDS)
    with live_member(environment, "west", f"slow-{topic}", topic) as reader:
        reader.commit(offsets=[TopicPartition(topic, p, 9) for p in range(PARTITIONS)], asynchronous=False)
        # When it is aged
        blocked = age(environment, [topic])
        # Then both groups keep it, and are named
        assert reasons(blocked) == [["dead", "lagging"]] * PARTITIONS
        dead, lagging = blocked.extents[0].blocks
        assert f"dead group dead-{topic} at offset 7" in dead.text
        assert f"lagging group slow-{topic} at offset 9" in lagging.text
        assert clusters_of(environment, topic) == ["east", "west"]
        # When both are past the cut, and it is aged again
        reader.commit(offsets=[TopicPartition(topic, p, RECORDS) for p in range(PARTITIONS)], asynchronous=False)
        commit(environment, "east", f"dead-{topic}", topic, RECORDS)
        age(environment, [topic])
        # Then its extent is gone
        assert clusters_of(environment, topic) == ["west"]


@pytest.mark.parametrize("idempotent", [True, False])
def test_writes_to_the_origin_past_the_gateways_are_detected_and_never_deleted(
    environment: Environment, topic: str, idempotent: bool
) -> None:
    # Given a moved topic, and new records in its old log
    move(environment, f"topic:{topic}")
    expire(environment, "east", topic, RECORDS)
    record(environment)
    produce(environment, "east", topic, 3, idempotent=idempotent)
    # When it is aged
    result = age(environment, [topic], delete_origin=True)
    # Then they keep it
    assert reasons(result) == [["written"]] * PARTITIONS
    # When they are two hours old, and it is aged again
    # He has stopped for a while
    record(environment)
    later = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    environment.now = lambda: later
    result = age(environment, [topic], delete_origin=True)
    # Then its extents are gone, and its topic stays, since some of its records are in no map
    assert clusters_of(environment, topic) == ["west"]
    assert "that are in no map" in result.kept[f"{topic} in east"]
    assert "east" in environment.clusters_with(topic, environment.store.load())
    east = environment.admin(environment.store.load().clusters["east"])
    with pytest.raises(StandsInTheWayError, match="holds offsets"):
        east.delete_drained_topics([topic], lambda: None)


def test_an_origin_that_lost_its_topic_is_not_taken_for_drained(environment: Environment, topic: str) -> None:
    # Given a moved topic that was deleted in its origin past the gateways
    move(environment, f"topic:{topic}")
    admin = AdminClient(at(environment, "east"))
    admin.delete_topics([topic])[topic].result(30)
    # When it is aged
    # Then it is kept as lost, and a loss is accepted for named topics only
    assert reasons(age(environment, [topic])) == [["lost"]] * PARTITIONS
    with pytest.raises(RefusedError, match="Give the topics"):
        age(environment, accept_loss=True)
    assert clusters_of(environment, topic) == ["east", "west"]
    # When the loss is accepted
    age(environment, [topic], accept_loss=True)
    # Then its extents are gone
    assert clusters_of(environment, topic) == ["west"]


def test_aging_skips_a_topic_that_another_operation_has_locked(environment: Environment, topic: str) -> None:
    # Given a moved topic that is about to move back
    move(environment, f"topic:{topic}")
    request = make_request([f"topic:{topic}"], "west", "east", reason="test")
    begun = engine.start(environment, plan(environment, request))
    # When it is aged
    try:
        result = age(environment, [topic])
    finally:
        engine.undo(environment, begun.id)
    # Then it is put off, and the operation is named
    assert result.extents == ()
    assert begun.id in result.put_off[0]


def test_surplus_of_a_crossing_does_not_block_aging_but_later_writes_to_the_origin_do(
    environment: Environment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a topic that has crossed over, and surplus of an idempotent producer beyond its cut
    monkeypatch.setattr(cuts, "LOOKS_APART_S", 0.0)
    ahead, surplus = 10, 15
    cut_at = {(topic, partition): RECORDS + ahead for partition in range(PARTITIONS)}
    proposal = plan_migration(environment, [topic], "east", "west", reason="test", cut="predicted", cut_at=cut_at)
    (batch,) = proposal.batches
    operation = engine.start(environment, batch)
    assert engine.resume(environment, operation.id).result == "crossing"
    produce(environment, "east", topic, ahead + surplus, idempotent=True)
    record(environment, ["east"])
    run_to_success(environment, operation.id)
    # When retention has taken all of it
    expire(environment, "east", topic, RECORDS + ahead + surplus)
    # Then nothing keeps it
    assert reasons(age(environment, [topic], dry_run=True)) == [[]] * PARTITIONS
    # But when a producer continues to write there
    produce(environment, "east", topic, 1, idempotent=True)
    # Then that does
    assert reasons(age(environment, [topic], dry_run=True)) == [["written"]] * PARTITIONS
    # But not if the log is the copy of a mirror, whose copier writes past the gateways
    mirror = Mirror.of(topic, "west", "east", f"link-{topic}", "2026-11-23T02:00:00Z", "test")
    key: tuple[type[Document], str] = (Mirror, mirror.key)
    environment.store.commit(StateChange(change_id=f"link {topic}", puts=(mirror,), expected={key: None}))
    assert reasons(age(environment, [topic], dry_run=True)) == [[]] * PARTITIONS
    environment.store.commit(StateChange(change_id=f"unlink {topic}", deletes=(key,), expected={key: 0}))


def test_an_aged_topic_is_not_deleted_while_a_group_commits_offsets_of_it_in_the_same_cluster(
    environment: Environment, topic: str
) -> None:
    # Given an aged migration, and a group that has read it all and commits in the old cluster
    move(environment, f"topic:{topic}")
    group = f"{topic}-readers"
    commit(environment, "east", group, topic, RECORDS)
    expire(environment, "east", topic, RECORDS)
    # When its topic is to be deleted there
    result = age(environment, [topic], delete_origin=True)
    # Then it ages, and the topic stays until the group is gone
    assert clusters_of(environment, topic) == ["west"]
    assert result.deleted == {}
    assert f"group {group} commits offsets of it there" in result.kept[f"{topic} in east"]
    admin = AdminClient(at(environment, "east"))
    admin.delete_consumer_groups([group])[group].result(30)
    assert age(environment, [topic], delete_origin=True).deleted == {"east": (topic,)}
