"""Topics and log ends on real brokers of two versions."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, RequestRefusedError, StandsInTheWayError, TopicMissingError
from ha_core.kafka.facts import LogEnds, TopicSpec
from ha_core.model import Cluster
from ha_core.store.errors import FencedOffError
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.kafka.clients import produce, settings
from tests.kafka.mirroring import wait_until

pytestmark = pytest.mark.stack
Fresh = Callable[[str], str]


def test_a_topic_is_created_like_its_original(east: Admin, west: Admin, fresh: Fresh) -> None:
    # Given a topic with a configuration of its own
    name = fresh("orders")
    east.create_topics(
        [TopicSpec(name, 5, 1, {"cleanup.policy": "compact", "retention.ms": "3600000", "min.insync.replicas": "1"})]
    )
    # When it is created in another cluster
    made = west.create_topics([east.topics([name])[name]])
    # Then the copy is like it
    assert made.created == (name,)
    assert made.notes == ()
    copy = west.topics([name])[name]
    assert (copy.partitions, copy.replication) == (5, 1)
    assert copy.config == {"cleanup.policy": "compact", "retention.ms": "3600000", "min.insync.replicas": "1"}
    assert [copy.ends[partition].never_used for partition in range(5)] == [True] * 5


def test_a_topic_that_is_compacted_by_its_brokers_default_is_compacted_in_its_copy(
    east: Admin, west: Admin, fresh: Fresh, clusters: dict[str, Cluster], account: SecurityProfile
) -> None:
    # Given a topic without a policy of its own, in a cluster that compacts by default
    name = fresh("keyed")
    east.create_topics([TopicSpec(name, 1, 1)])
    assert not east.topics([name])[name].config
    admin = AdminClient(settings(clusters["east"], account))
    (broker,) = admin.list_topics(timeout=30).brokers

    def default(how: AlterConfigOpType) -> None:
        entry = ConfigEntry("log.cleanup.policy", "compact", incremental_operation=how)
        changed = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry])
        admin.incremental_alter_configs([changed])[changed].result(30)

    default(AlterConfigOpType.SET)
    try:
        wait_until(lambda: bool(east.topics([name])[name].config), lambda: east.topics([name]))
        # When it is created in one that does not
        original = east.topics([name])[name]
        west.create_topics([original])
    finally:
        default(AlterConfigOpType.DELETE)
    # Then it keeps no less, and no more, of its keys there
    assert original.config == {"cleanup.policy": "compact"}
    assert west.topics([name])[name].config["cleanup.policy"] == "compact"


def test_topic_config_keys_unknown_to_the_cluster_are_dropped_with_a_note(west: Admin, fresh: Fresh) -> None:
    # Given a configuration with keys that the cluster does not know
    name = fresh("old")
    config = {
        "message.format.version": "2.8",
        "retention.ms": "60000",
        "vendor.special": "x",
        "min.insync.replicas": "1",
    }
    # When a topic is created with it
    made = west.create_topics([TopicSpec(name, 1, 1, config)])
    # Then these keys are left out, and named
    assert made.created == (name,)
    assert [note.split(" is not")[0] for note in made.notes] == [
        f"{name}: message.format.version=2.8",
        f"{name}: vendor.special=x",
    ]
    assert west.topics([name])[name].config == {"retention.ms": "60000", "min.insync.replicas": "1"}


def test_an_invalid_topic_config_value_is_refused_and_nothing_is_created(either: Admin, fresh: Fresh) -> None:
    name = fresh("bad")
    with pytest.raises(RequestRefusedError, match=r"retention\.ms=soon"):
        either.create_topics([TopicSpec(name, 1, 1, {"retention.ms": "soon"})])
    assert either.topics([name]) == {}


def test_replication_and_min_insync_replicas_are_lowered_to_the_number_of_brokers(
    east: Admin, west: Admin, fresh: Fresh
) -> None:
    name = fresh("replicated")
    spec = TopicSpec(name, 2, 3, {"min.insync.replicas": "2"})
    west.create_topics([spec])
    assert west.topics([name])[name].replication == 3

    made = east.create_topics([spec])

    there = east.topics([name])[name]
    assert (there.replication, there.config["min.insync.replicas"]) == (1, "1")
    assert len(made.notes) == 2


def test_a_default_of_min_insync_replicas_above_the_replication_is_lowered(west: Admin, fresh: Fresh) -> None:
    name = fresh("single")
    west.create_topics([TopicSpec(name, 1, 1)])
    assert west.topics([name])[name].config == {"min.insync.replicas": "1"}


def test_creating_a_topic_twice_changes_nothing(either: Admin, fresh: Fresh) -> None:
    spec = TopicSpec(fresh("twice"), 2, 1)
    either.create_topics([spec])
    again = either.create_topics([spec])
    assert (again.created, again.existing) == ((), (spec.name,))


def test_another_partition_count_is_refused_before_anything_is_created(either: Admin, fresh: Fresh) -> None:
    existing, other = fresh("narrow"), fresh("other")
    either.create_topics([TopicSpec(existing, 2, 1)])
    with pytest.raises(StandsInTheWayError, match=f"{existing} has the partition count 2, and 3 is needed"):
        either.create_topics([TopicSpec(other, 1, 1), TopicSpec(existing, 3, 1)])
    assert either.topics([other]) == {}


def no_objection() -> None:
    """A `still_ours` that never objects."""


def test_a_topic_recreated_since_it_was_checked_is_not_deleted(
    either: Admin, fresh: Fresh, account: SecurityProfile
) -> None:
    # Given an empty topic, and a process that has inspected it and stands still before it deletes it
    spec = TopicSpec(fresh("again"), 1, 1)
    either.create_topics([spec])

    def meanwhile() -> None:
        with Admin(either.cluster, account, timeout_s=20) as other:
            other.delete_empty_topics([spec.name], no_objection)
            other.create_topics([spec])

    # When another process has deleted and re-created it meanwhile
    either.delete_empty_topics([spec.name], meanwhile)
    # Then the new topic still exists
    assert set(either.topics([spec.name])) == {spec.name}


def test_an_executor_that_was_taken_over_neither_creates_nor_deletes_topics(either: Admin, fresh: Fresh) -> None:
    # Given an executor whose operation another one has taken over
    spec = TopicSpec(fresh("kept"), 1, 1)

    def taken_over() -> None:
        raise FencedOffError("op", 1, 2)

    # When it creates a topic
    # Then it does not
    with pytest.raises(FencedOffError):
        either.create_topics([spec], still_ours=taken_over)
    assert either.topics([spec.name]) == {}
    either.create_topics([spec])
    # When it deletes one that is there
    # Then that stays
    with pytest.raises(FencedOffError):
        either.delete_empty_topics([spec.name], taken_over)
    assert set(either.topics([spec.name])) == {spec.name}


def test_an_empty_topic_is_deleted_and_a_missing_one_is_no_error(either: Admin, fresh: Fresh) -> None:
    name = fresh("undo")
    either.create_topics([TopicSpec(name, 2, 1)])
    assert either.delete_empty_topics([name, fresh("never")], no_objection) == (name,)
    assert either.topics([name]) == {}


def test_a_topic_that_was_used_is_never_deleted(either: Admin, fresh: Fresh, account: SecurityProfile) -> None:
    used, empty = fresh("used"), fresh("empty")
    either.create_topics([TopicSpec(used, 2, 1), TopicSpec(empty, 1, 1)])
    produce(settings(either.cluster, account), used, 1, partition=1)
    with pytest.raises(StandsInTheWayError, match=f"{used} is not deleted: partition 1 runs from 0 to 1"):
        either.delete_empty_topics([empty, used], no_objection)
    assert set(either.topics([used, empty])) == {used, empty}


def test_asking_for_a_topic_does_not_create_it(either: Admin, fresh: Fresh) -> None:
    name = fresh("absent")
    either.probe([name])
    with pytest.raises(TopicMissingError, match=name):
        either.ends([(name, 0)])
    assert either.topics([name]) == {}


def test_a_partition_that_does_not_exist_is_named(either: Admin, fresh: Fresh) -> None:
    name = fresh("two")
    either.create_topics([TopicSpec(name, 2, 1)])
    with pytest.raises(TopicMissingError, match="no partition 2 \\(it has 2\\)"):
        either.ends([(name, 0), (name, 2)])


def test_ends_of_many_partitions_are_read_together(either: Admin, fresh: Fresh, account: SecurityProfile) -> None:
    name = fresh("wide")
    either.create_topics([TopicSpec(name, 12, 1)])
    for partition in range(12):
        produce(settings(either.cluster, account), name, partition, partition)
    found = either.ends([(name, partition) for partition in range(12)])
    assert [found[name, partition].log_end for partition in range(12)] == list(range(12))
    assert all(ends.replicated and not ends.open_transaction for ends in found.values())


def test_records_acknowledged_by_the_leader_alone_count_to_an_end_that_is_not_settled(
    running: Stack, west: Admin, fresh: Fresh, account: SecurityProfile
) -> None:
    # Given a partition whose only follower has stopped fetching
    name = fresh("leader-only")
    west.create_topics([TopicSpec(name, 6, 2, {"min.insync.replicas": "1"})])
    found = west.ends([(name, partition) for partition in range(6)])
    partition = next(part for (_, part), ends in found.items() if ends.leader == 1)
    (follower,) = _replicas(west, account, name, partition) - {1}
    # It has found the leader already: a new producer might ask the paused broker for it
    producer = Producer(settings(west.cluster, account) | {"acks": "1"})
    for _ in range(3):
        producer.produce(name, b"x", partition=partition)
    assert producer.flush(20) == 0
    assert settled_ends(west, [(name, partition)])[name, partition].replicated
    running.pause(f"cluster/west/{follower}")
    try:
        # When the leader acknowledges more
        for _ in range(4):
            producer.produce(name, b"x", partition=partition)
        assert producer.flush(20) == 0
        lagging = west.ends([(name, partition)])[name, partition]
    finally:
        running.resume(f"cluster/west/{follower}")
    # Then the end has them, above the high watermark, and is settled once they are replicated
    assert (lagging.high_watermark, lagging.log_end, lagging.replicated) == (3, 7, False)
    later = settled_ends(west, [(name, partition)])[name, partition]
    assert (later.high_watermark, later.log_end, later.replicated) == (7, 7, True)


def test_an_open_transaction_shows_in_log_ends_and_producer_states(
    either: Admin, fresh: Fresh, account: SecurityProfile
) -> None:
    # Given a producer with an open transaction
    name = fresh("ledger")
    either.create_topics([TopicSpec(name, 1, 1)])
    producer = Producer(settings(either.cluster, account) | {"transactional.id": fresh("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"x", partition=0)
    producer.flush(20)
    # When ends and producers are read, before the commit and after it
    during, states = settled_ends(either, [(name, 0)])[name, 0], either.producers([(name, 0)])[name, 0]
    producer.commit_transaction(30)
    # Then the transaction shows in both, until its marker is appended
    assert during.replicated
    assert during.open_transaction
    assert [state.transaction_start_offset for state in states] == [0]
    # The commit is acknowledged before its marker is appended.
    while (after := settled_ends(either, [(name, 0)])[name, 0]).open_transaction:
        pass
    assert (after.last_stable, after.log_end) == (2, 2)


def test_leaders_report_the_last_sequence_of_each_producer(
    either: Admin, fresh: Fresh, account: SecurityProfile
) -> None:
    # Given two idempotent producers in one partition, none in the next, and one without idempotence in the last
    name = fresh("sequences")
    either.create_topics([TopicSpec(name, 3, 1)])
    base = settings(either.cluster, account)
    produce(base, name, 7, 0, enable_idempotence=True)
    produce(base, name, 4, 0, enable_idempotence=True)
    produce(base, name, 5, 2, enable_idempotence=False)
    # When leaders are asked for their producers
    facts = either.producers([(name, 0), (name, 1), (name, 2)])
    # Then those with idempotence have their last sequences
    assert sorted(state.last_sequence for state in facts[name, 0]) == [3, 6]
    assert len({state.producer_id for state in facts[name, 0]}) == 2
    assert facts[name, 1] == ()
    assert facts[name, 2] == ()
    assert {state.coordinator_epoch for state in facts[name, 0]} == {-1}


def test_a_paused_leader_is_left_out_of_topic_descriptions_and_named_by_reading_ends(
    running: Stack, west: Admin, fresh: Fresh
) -> None:
    # Given a topic with partitions on three brokers
    name = fresh("headless")
    west.create_topics([TopicSpec(name, 6, 1)])
    keys = [(name, partition) for partition in range(6)]
    leaders = {key: ends.leader for key, ends in west.ends(keys).items()}
    # When one of them stands still
    running.pause("cluster/west/3")
    try:
        description = west.topics([name], timeout_s=4)[name]
        with pytest.raises(KafkaAdminError, match="Cluster west: .*" + west.cluster.bootstrap.split(",")[2]):
            west.ends(keys, timeout_s=2)
    finally:
        running.resume("cluster/west/3")
    # Then its partitions are left out, and read again when it continues
    assert set(description.ends) == {part for (_, part), leader in leaders.items() if leader != 3}
    assert len(settled_ends(west, keys)) == 6


def _replicas(admin: Admin, account: SecurityProfile, topic: str, partition: int) -> set[int]:
    from confluent_kafka.admin import AdminClient

    client = AdminClient(settings(admin.cluster, account))
    return set(client.list_topics(topic, timeout=20).topics[topic].partitions[partition].replicas)


def settled_ends(admin: Admin, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], LogEnds]:
    """The ends once they are replicated."""
    found = admin.ends(partitions)
    while not all(ends.replicated for ends in found.values()):
        found = admin.ends(partitions)
    return found
