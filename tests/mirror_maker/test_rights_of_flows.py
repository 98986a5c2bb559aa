"""Flows between clusters with an authorizer: each right that the account lacks is named, and ACLs of readers follow."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from ha_core.flows.rights import ACCOUNT_RIGHTS
from stack.harness import Stack
from tests.kit.flows import FlowProcess, flows, until, write_flows
from tests.kit.running import bootstrap
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(900)]
USER, GROUP = "orders-app", "billing"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_ANY, _PREFIX = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
FLOW = {
    "east->west.enabled": "true",
    "east->west.topics": "orders",
    "west->east.emit.heartbeats.enabled": "false",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "2",
    "sync.topic.acls.interval.seconds": "2",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
}


def right(kind: ResourceType, operation: AclOperation, name: str = "*", user: str = USER) -> AclBinding:
    pattern = _PREFIX if name.endswith("-") else _ANY
    allow = AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, allow)


_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Alter": AclOperation.ALTER,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
}
_KINDS = {
    "copied topics": (ResourceType.TOPIC, "orders"),
    "remote topics": (ResourceType.TOPIC, "east.orders"),
    "copied groups": (ResourceType.GROUP, GROUP),
    "cluster": (ResourceType.BROKER, "kafka-cluster"),
    "topic ": (ResourceType.TOPIC, ""),
    "group ": (ResourceType.GROUP, ""),
    "transactional ids with the prefix ": (ResourceType.TRANSACTIONAL_ID, ""),
}


def documented(side: str) -> dict[str, AclBinding]:
    """ "Read copied topics" → the ACL, for all rights that the documentation names, and no others."""
    found: dict[str, AclBinding] = {}
    for one in ACCOUNT_RIGHTS:
        if one.side == side and one.resources != "group of MirrorMaker 1":
            what, _, named = one.resources.replace("SOURCE", "east").replace("TARGET", "west").partition("`")
            kind, example = _KINDS[what]
            name = named.strip("`")
            for operation in one.operations:
                found[f"{operation} {name or what}"] = right(kind, _OPERATIONS[operation], name or example)
    return found


_TOPIC, _GROUPS, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER
_SYNCS = "mm2-offset-syncs.west.internal"
IN_EAST, IN_WEST = documented("source"), documented("target")
CLOSED = [right(kind, AclOperation.READ, name, "nobody") for kind, name in ((_TOPIC, "*"), (_GROUPS, "*"))] + [
    right(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, "*", "nobody"),
    right(_CLUSTER, AclOperation.DESCRIBE, "kafka-cluster", "nobody"),
]
"""These brokers allow everything on a resource that has no ACL."""

stack = own_stack(scope="module", gateways=0, security="sasl")


def account(stack: Stack, cluster: str) -> dict[str, Any]:
    """A super user's settings."""
    assert stack.service is not None
    return {
        "bootstrap.servers": bootstrap(stack, cluster),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": stack.service["user"],
        "sasl.password": stack.service["password"],
        "log_level": 3,
    }


def grant(stack: Stack, cluster: str, *rights: AclBinding) -> None:
    admin = AdminClient(account(stack, cluster))  # without a name it ends before its answers
    for done in admin.create_acls(list(rights)).values():
        done.result(30)


def take(stack: Stack, cluster: str, right: AclBinding) -> None:
    its = AclBindingFilter(
        *(right.restype, right.name, right.resource_pattern_type, right.principal, right.host),
        *(right.operation, right.permission_type),
    )
    admin = AdminClient(account(stack, cluster))
    for done in admin.delete_acls([its]).values():
        assert len(done.result(30)) == 1


@contextmanager
def without(stack: Stack, cluster: str, right: AclBinding) -> Iterator[None]:
    take(stack, cluster, right)
    time.sleep(1)
    try:
        yield
    finally:
        grant(stack, cluster, right)


def produce(stack: Stack, *values: bytes) -> None:
    producer = Producer(account(stack, "east"))
    for value in values:
        producer.produce("orders", value, partition=0)
    assert producer.flush(30) == 0


def end(stack: Stack, cluster: str, topic: str) -> int:
    consumer = Consumer(account(stack, cluster) | {"group.id": "counter of a test"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
    except KafkaException:
        return 0
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def file(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a flow that has run with all rights, so that its topics exist."""
    for cluster, rights in (("east", IN_EAST), ("west", IN_WEST)):
        grant(stack, cluster, *CLOSED, *rights.values())
    admin = AdminClient(account(stack, "east"))
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
    time.sleep(2)
    produce(stack, *(b"%d" % number for number in range(100)))
    consumer = Consumer(account(stack, "east") | {"group.id": GROUP})
    for _ in range(60):
        try:
            consumer.commit(offsets=[TopicPartition("orders", 0, 42)], asynchronous=False)
            break
        except KafkaException:
            time.sleep(0.5)
    consumer.close()
    login = f'{_MODULE} required username="{USER}" password="{stack.users[USER]}";'
    clusters = {name: bootstrap(stack, name) for name in ("east", "west")}
    folder = tmp_path_factory.mktemp("flows")
    found = write_flows(folder, clusters, FLOW | {"sasl.jaas.config": login})
    with flows(found) as process:
        until(lambda: end(stack, "west", "east.orders") > 100, 60, process.text)
        until(lambda: committed(stack) > 0, 60, process.text)
    # These rights suffice, also for what is written at the end
    assert not [word for word in ("lacks", "AUTHORIZATION", "not told") if word in process.text()], process.text()
    return found


def committed(stack: Stack) -> int:
    consumer = Consumer(account(stack, "west") | {"group.id": GROUP})
    try:
        (found,) = consumer.committed([TopicPartition("east.orders", 0)], timeout=20)
        return int(found.offset)
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("cluster", "missing", "text"),
    [
        (
            "west",
            "Write mm2-copies.internal",
            "west: the account lacks the right Write on the topic mm2-copies.internal: the flow cannot run",
        ),
        (
            "east",
            f"Read {_SYNCS}",
            f"east: the account lacks the right Read on the topic {_SYNCS}: the flow cannot run",
        ),
        (
            "west",
            "DescribeConfigs east.checkpoints.internal",
            "west: the account lacks the right DescribeConfigs on the topic east.checkpoints.internal: the flow cannot",
        ),
    ],
)
def test_a_right_without_which_a_flow_cannot_run_is_an_error_before_anything_starts(
    stack: Stack, file: Path, cluster: str, missing: str, text: str
) -> None:
    with without(stack, cluster, {"east": IN_EAST, "west": IN_WEST}[cluster][missing]):
        process = FlowProcess(file)
        assert process.process.wait(60) == 2, process.text()
        assert text in process.text()
        assert "starts" not in process.text()


@pytest.mark.parametrize(
    ("cluster", "missing", "text"),
    [
        (
            "east",
            "Read copied topics",
            "east: the account lacks the right Read on the topic orders: they are not copied",
        ),
        (
            "west",
            "Alter remote topics",
            "west: the account lacks the right Alter on the topic east.orders: they get no more",
        ),
        (
            "west",
            "AlterConfigs remote topics",
            "lacks the right AlterConfigs on the topic east.orders: they do not get their",
        ),
        ("east", "DescribeConfigs copied topics", "lacks the right DescribeConfigs on the topic orders"),
        ("west", "Alter cluster", "west: the account lacks the right Alter on the cluster: ACLs are not synced"),
        ("east", "Describe cluster", "east: the account lacks the right Describe on the cluster: ACLs are not synced"),
        (
            "east",
            "Describe copied groups",
            "east: may not find the coordinator of group billing: GROUP_AUTHORIZATION_FAILED",
        ),
        (
            "west",
            "Read copied groups",
            "west: may not find the coordinator of group billing: GROUP_AUTHORIZATION_FAILED",
        ),
        ("west", "Describe east-mm2", "does not start yet: Cluster west: may not "),
        (
            "west",
            "Write switchyard-copy-",
            "east.orders-0 is not copied: Cluster west: may not find the coordinator of switchyard-copy-",
        ),
    ],
)
def test_a_right_without_which_a_part_of_the_flow_fails_is_named_and_the_flow_runs(
    stack: Stack, file: Path, cluster: str, missing: str, text: str
) -> None:
    right = {"east": IN_EAST, "west": IN_WEST}[cluster][missing]
    with without(stack, cluster, right), flows(file) as process:
        until(lambda: text in process.text(), 60, process.text)
        grant(stack, cluster, right)
        # Then it works as soon as the right is given
        before = end(stack, "west", "east.orders")
        produce(stack, b"later")
        until(lambda: end(stack, "west", "east.orders") > before, 90, process.text)


def test_a_topic_that_the_account_may_not_see_is_named(stack: Stack, file: Path) -> None:
    with (
        without(stack, "east", IN_EAST["Describe copied topics"]),
        without(stack, "east", IN_EAST["Read copied topics"]),
        without(stack, "east", IN_EAST["DescribeConfigs copied topics"]),
        flows(file) as process,
    ):
        text = "east->west: topics names orders, which east does not have, or does not show to this account"
        until(lambda: text in process.text(), 60, process.text)


def test_a_flow_recovers_when_a_revoked_right_is_given_back(stack: Stack, file: Path) -> None:
    """After some refusals librdkafka's idempotent producer refuses for ever, so the worker replaces it."""
    with flows(file) as process:
        before = end(stack, "east", _SYNCS)
        produce(stack, b"one")
        until(lambda: end(stack, "east", _SYNCS) > before, 60, process.text)
        with without(stack, "east", IN_EAST[f"Write {_SYNCS}"]):
            produce(stack, b"two")
            wanted = f"offset syncs: east: topic {_SYNCS} accepts no records: "
            until(lambda: wanted in process.text(), 60, process.text)
            assert f"Give the account the right Write on topic {_SYNCS}" in process.text()
        before = end(stack, "east", _SYNCS)
        produce(stack, b"three")
        until(lambda: end(stack, "east", _SYNCS) > before, 60, process.text)
        until(lambda: "offset syncs: works again" in process.text(), 30, process.text)


def test_readers_of_a_topic_may_read_its_copy_and_no_client_may_write_it(stack: Stack, file: Path) -> None:
    acls = [
        right(_TOPIC, AclOperation.READ, "orders", "reader"),
        right(_TOPIC, AclOperation.ALL, "orders", "owner"),
        right(_TOPIC, AclOperation.WRITE, "orders", "writer"),
    ]
    west = AdminClient(account(stack, "west"))
    with flows(file) as process:
        grant(stack, "east", *acls)

        def there() -> set[tuple[str, str]]:
            anyone: Any = None
            allowed = AclOperation.ANY, AclPermissionType.ALLOW
            wanted = AclBindingFilter(_TOPIC, "east.orders", _ANY, anyone, anyone, *allowed)
            found = {(one.principal, one.operation.name) for one in west.describe_acls(wanted).result(30)}
            return {(principal, operation) for principal, operation in found if principal != f"User:{USER}"}

        until(lambda: there() == {("User:reader", "READ"), ("User:owner", "READ")}, 60, lambda: f"{there()}")
        assert process.process.poll() is None
