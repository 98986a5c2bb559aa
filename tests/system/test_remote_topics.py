"""Clients and the remote topics of a real MirrorMaker 2: all read them, no client writes them."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from stack.harness import Stack
from stack.history.events import Committed, Delivered
from tests.kit.own_gateway import OwnGateway
from tests.kit.remote_topics import announce, kafkas_own_flow, withdraw
from tests.kit.running import bind, bootstrap, create_topic
from tests.kit.stacks import TWO_CLUSTERS
from tests.kit.waiting import until
from tests.system.conftest import MakeRun

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/model/remote_topics.py", "ha_core/store/remote_topics.py")]

LOCAL, REMOTE = "orders", "A.orders"
BOTH = r"^(A\.)?orders$"
RECORDS = 40
"""Records of each topic at first."""
USERS, PASSWORD = ("western", "alice", "bob"), "not a secret"
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """`orders` has its own records in both clusters, and MirrorMaker 2 copies east's to west."""
    with Stack.up(TWO_CLUSTERS, gateways=0) as running:
        for cluster in TWO_CLUSTERS:
            create_topic(bootstrap(running, cluster), LOCAL, 2)
            write(bootstrap(running, cluster), LOCAL, cluster)
        for user in USERS:
            bind(running, user, "west")
        announce(running, {REMOTE: LOCAL, "A.later": "later"})
        with kafkas_own_flow(running, f"{LOCAL}|later", tmp_path_factory.mktemp("mm2")):
            until(lambda: ends(bootstrap(running, "west"), REMOTE) == RECORDS, "the topic is copied", 120)
            yield running


@pytest.fixture(scope="module")
def gateway(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnGateway]:
    """The rules allow `western` everything, alice to read the source's name, bob another topic."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "users.yaml").write_text(yaml.safe_dump(dict.fromkeys(USERS, PASSWORD)))
    rules = [rule("alice", "topic", LOCAL, "read"), rule("bob", "topic", "other", "read")]
    rules += [rule(user, "group", "*", "read") for user in ("alice", "bob")]
    rules += [rule("western", kind, "*", "all") for kind in ("topic", "group", "transactional_id")]
    rules += [rule("western", "cluster", "kafka-cluster", "all")]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"rules": rules}))
    authentication = {"users_file": "users.yaml", "plain_without_tls": True}
    authorisation = {"rules_file": str(folder / "rules.yaml")}
    with OwnGateway(stack, folder, authentication=authentication, authorisation=authorisation) as running:
        yield running


def rule(user: str, kind: str, name: str, operation: str) -> dict[str, str]:
    return {
        "principal": f"User:{user}", "resource_type": kind, "name": name, "operation": operation, "effect": "allow",
    }  # fmt: skip


def write(servers: str, topic: str, prefix: str, count: int = RECORDS) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, f"{prefix}-{number}".encode(), partition=number % 2)
    assert producer.flush(30) == 0


def ends(servers: str, topic: str) -> int:
    """Sum of the log ends; -1: the topic does not exist."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "nobody", "log_level": 0})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)[1] for number in (0, 1))
    except KafkaException:
        return -1
    finally:
        consumer.close()


def known(gateway: OwnGateway, user: str = "western", **more: Any) -> dict[str, Any]:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": user, "sasl.password": PASSWORD}
    return {"bootstrap.servers": gateway.bootstrap, "client.id": user, "log_level": 0, **login, **more}


def read(settings: dict[str, Any], pattern: str, count: int) -> dict[str, list[tuple[int, int, str]]]:
    """Topic → (partition, offset, value), read by a group that subscribes by a pattern."""
    consumer = Consumer({"auto.offset.reset": "earliest", **settings})
    consumer.subscribe([pattern])
    found: dict[str, list[tuple[int, int, str]]] = {}
    deadline = time.monotonic() + 60
    while sum(map(len, found.values())) < count:
        assert time.monotonic() < deadline, found
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            assert value is not None
            found.setdefault(topic, []).append((partition, offset, value.decode()))
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_a_group_that_subscribes_by_a_pattern_gets_local_and_remote_records(gateway: OwnGateway) -> None:
    # When
    found = read(known(gateway, **{"group.id": "aggregates"}), BOTH, 2 * RECORDS)
    # Then each topic has the records of one cluster, in the order and at the offsets of its own log
    for topic, prefix in ((LOCAL, "west"), (REMOTE, "east")):
        in_order = {p: [(offset, value) for q, offset, value in found[topic] if q == p] for p in (0, 1)}
        for partition, records in in_order.items():
            values = [f"{prefix}-{number}" for number in range(partition, RECORDS, 2)]
            assert records == list(enumerate(values)), (topic, partition)


def test_a_group_commits_offsets_of_remote_topics_and_resumes_there(stack: Stack, gateway: OwnGateway) -> None:
    # Given a group that has read both topics of another pair
    for cluster in TWO_CLUSTERS:
        create_topic(bootstrap(stack, cluster), "later", 2)
        write(bootstrap(stack, cluster), "later", cluster, 2)
    settings, pattern = known(gateway, **{"group.id": "goes-on"}), r"^(A\.)?later$"
    until(lambda: ends(bootstrap(stack, "west"), "A.later") == 2, "MirrorMaker finds the new topic")
    read(settings, pattern, 4)
    # When the source gets records
    write(bootstrap(stack, "east"), "later", "more", 2)
    # Then the group gets their copies, and nothing else
    assert read(settings, pattern, 2) == {"A.later": [(0, 1, "more-0"), (1, 1, "more-1")]}


def test_java_readers_by_a_pattern_get_local_and_remote_records(
    stack: Stack, gateway: OwnGateway, make_run: MakeRun
) -> None:
    # When
    reader = make_run(stack).start(
        "java-pattern-reader", "java", f"{LOCAL},{REMOTE}", pattern=BOTH, group="java-aggregates",
        user="western", password=PASSWORD, bootstrap=gateway.bootstrap, commit="batch",
    )  # fmt: skip
    reader.wait_for(2 * RECORDS, "delivered")
    reader.stop()
    # Then
    events = reader.history().clients["java"]
    for kind in (Delivered, Committed):
        assert {event.topic for event in events if isinstance(event, kind)} == {LOCAL, REMOTE}


def test_no_producer_writes_a_remote_topic(stack: Stack, gateway: OwnGateway) -> None:
    # Given
    before = ends(bootstrap(stack, "west"), REMOTE)
    errors: list[int] = []

    def told(error: KafkaError | None, _: Any) -> None:
        errors.append(0 if error is None else error.code())

    # When producers of all kinds try it
    for more in ({}, {"enable.idempotence": True}, {"acks": 1}):
        producer = Producer(known(gateway, **more))
        producer.produce(REMOTE, b"x", partition=0, on_delivery=told)
        producer.produce(LOCAL, b"local", partition=0, on_delivery=told)
        assert producer.flush(30) == 0
    # Then it fails, and the same producer writes the local topic
    assert sorted(errors) == [0] * 3 + [DENIED] * 3
    assert ends(bootstrap(stack, "west"), REMOTE) == before
    assert gateway.metric("refusals", cause="remote_topic") == 3


def test_no_transaction_writes_a_remote_topic(stack: Stack, gateway: OwnGateway) -> None:
    # Given
    before = ends(bootstrap(stack, "west"), REMOTE)
    producer = Producer(known(gateway, **{"transactional.id": "remote"}))
    producer.init_transactions(60)
    producer.begin_transaction()
    # When
    producer.produce(REMOTE, b"x", partition=0)
    producer.produce(LOCAL, b"x", partition=0)
    with pytest.raises(KafkaException) as failed:
        producer.commit_transaction(60)
    # Then the producer fails as with a broker that denies it, and another one goes on
    assert failed.value.args[0].txn_requires_abort()
    another = Producer(known(gateway, **{"transactional.id": "remote"}))
    another.init_transactions(60)
    another.begin_transaction()
    another.produce(LOCAL, b"x", partition=0)
    another.commit_transaction(60)
    assert ends(bootstrap(stack, "west"), REMOTE) == before


def test_no_administrator_changes_a_remote_topic_through_a_gateway(stack: Stack, gateway: OwnGateway) -> None:
    # Given
    admin = AdminClient(known(gateway))
    short = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
    configs = ConfigResource(ConfigResource.Type.TOPIC, REMOTE, incremental_configs=[short])
    new = NewTopic("A.unmade", 1, 1)
    announce(stack, {"A.unmade": "unmade"}, gateway, flow="A->west, of another file")
    # When
    attempts = {
        "delete": admin.delete_topics([REMOTE])[REMOTE],
        "grow": admin.create_partitions([NewPartitions(REMOTE, 9)])[REMOTE],
        "set": next(iter(admin.incremental_alter_configs([configs]).values())),
        "truncate": next(iter(admin.delete_records([TopicPartition(REMOTE, 0, 3)]).values())),
        "create": admin.create_topics([new])["A.unmade"],
    }
    failures: dict[str, KafkaError] = {}
    for what, attempt in attempts.items():
        with pytest.raises(KafkaException) as failed:
            attempt.result(30)
        failures[what] = failed.value.args[0]
    # Then
    assert {failure.code() for failure in failures.values()} == {DENIED}
    assert "only flow A->west writes it, and its source is orders." in failures["set"].str()
    assert len(admin.list_topics(REMOTE, timeout=30).topics[REMOTE].partitions) == 2
    # And its settings, which are read, are the same
    described = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, REMOTE)])
    assert next(iter(described.values())).result(30)["retention.ms"].value != "1000"
    withdraw(stack, gateway, flow="A->west, of another file")


def test_metadata_lists_the_operations_of_readers(gateway: OwnGateway) -> None:
    admin = AdminClient(known(gateway))
    found = admin.describe_topics(TopicCollection([REMOTE, LOCAL]), include_authorized_operations=True)

    may = {name: set(told.result(30).authorized_operations) for name, told in found.items()}
    reading = {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}
    assert may[REMOTE] == reading
    assert may[LOCAL] > reading


def test_users_that_may_read_the_source_read_its_copy_and_others_do_not_see_it(gateway: OwnGateway) -> None:
    # When
    found = read(known(gateway, "alice", **{"group.id": "of-alice"}), r"^.*orders$", 2 * RECORDS)
    listed = {user: set(AdminClient(known(gateway, user)).list_topics(timeout=30).topics) for user in ("alice", "bob")}
    # Then
    assert set(found) == {LOCAL, REMOTE}
    assert listed == {"alice": {LOCAL, REMOTE}, "bob": set()}
    by_name = AdminClient(known(gateway, "bob")).list_topics(REMOTE, timeout=30).topics[REMOTE]
    assert by_name.error is not None
    assert by_name.error.code() == DENIED


def test_a_topic_can_be_written_again_once_its_flows_claim_has_ended(stack: Stack, gateway: OwnGateway) -> None:
    # Given a topic that no program copies any more
    create_topic(bootstrap(stack, "west"), "A.left", 2)
    announce(stack, {"A.left": "left"}, gateway, flow="A->west, of another file")
    refused = Producer(known(gateway))
    refused.produce("A.left", b"x", partition=0)
    refused.flush(30)
    assert ends(bootstrap(stack, "west"), "A.left") == 0
    # When
    withdraw(stack, gateway, flow="A->west, of another file")
    # Then
    allowed = Producer(known(gateway))
    allowed.produce("A.left", b"x", partition=0)
    allowed.flush(30)
    assert ends(bootstrap(stack, "west"), "A.left") == 1
