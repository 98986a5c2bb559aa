"""Administrators and their tools get the brokers' answers through two gateways."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from stack.harness import Stack
from tests.kit import tools
from tests.kit.running import bootstrap, create_topic
from tests.kit.tools import tool
from tests.kit.waiting import until

pytestmark = pytest.mark.stack
VERSIONS = ("3.9.2", "4.3.1")
NEWER_GROUPS = "4.3.1"
"""The cluster that serves groups of KIP-848."""


def member(cluster: str, topic: str, group: str, protocol: str = "classic") -> Consumer:
    """A member with its partitions, directly at a cluster."""
    settings = {"bootstrap.servers": cluster, "group.id": group, "group.protocol": protocol}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.5) is not None or bool(consumer.assignment()), f"{group} has its partitions")
    return consumer


@pytest.fixture(scope="module")
def groups(stack: Stack) -> Iterator[dict[str, str]]:
    """Group → cluster: classic ones in both, and one of KIP-848 in the west."""
    made = {"tools-east": "east", "tools-west": "west", "tools-newer": "west"}
    for cluster in ("east", "west"):
        create_topic(bootstrap(stack, cluster), f"tools-in-{cluster}")
    members = [
        member(bootstrap(stack, cluster), f"tools-in-{cluster}", group, "consumer" if "newer" in group else "classic")
        for group, cluster in made.items()
    ]
    yield made
    for consumer in members:
        consumer.close()


def test_every_admin_client_sees_each_group_once(stack: Stack, groups: dict[str, str]) -> None:
    # Given two gateways, and members that bypass them
    admin = AdminClient({"bootstrap.servers": stack.bootstrap})
    other = KafkaAdminClient(bootstrap_servers=stack.bootstrap)
    # When their groups are listed by clients that merge the answers of all nodes
    seen = {
        "librdkafka": [found.id for found in admin.list_groups(timeout=30)],
        "librdkafka, newer": [listed.group_id for listed in admin.list_consumer_groups().result(30).valid],
        "kafka-python": [found["group_id"] for found in other.list_groups()],
        **{v: [row[0] for row in tool(v, tools.GROUPS, stack.bootstrap, "--list", "--state").rows()] for v in VERSIONS},
    }
    other.close()
    # Then none is missing, and none comes twice
    for client, found in seen.items():
        counted = {group: count for group, count in Counter(found).items() if group in groups}
        assert counted == dict.fromkeys(groups, 1), client


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_of_both_protocols_are_described_as_by_their_brokers(
    stack: Stack, groups: dict[str, str], version: str
) -> None:
    for group in ("tools-west", "tools-newer"):
        asked = ("--describe", "--group", group, "--members")
        directly = tool(version, tools.GROUPS, bootstrap(stack, groups[group]), *asked)
        through = tool(version, tools.GROUPS, stack.bootstrap, *asked)
        assert directly.rows()
        assert (through.exit_code, sorted(through.rows())) == (0, sorted(directly.rows()))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_of_another_cluster_is_deleted_in_its_cluster(
    stack: Stack, groups: dict[str, str], version: str
) -> None:
    # Given a group that committed without gateways, in a cluster that the admin client is not bound to
    name, west = f"tools-left-{version}", bootstrap(stack, "west")
    consumer = Consumer({"bootstrap.servers": west, "group.id": name})
    consumer.commit(offsets=[TopicPartition("tools-in-west", number, 5) for number in (0, 1)], asynchronous=False)
    consumer.close()
    directly = AdminClient({"bootstrap.servers": west})
    # When its offset of a partition is deleted through the gateways
    which = ("--group", name)
    offset = tool(version, tools.GROUPS, stack.bootstrap, "--delete-offsets", *which, "--topic", "tools-in-west:0")
    # Then only that offset is gone
    assert offset.exit_code == 0, offset.out + offset.err
    asked = directly.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(30)
    assert [one.partition for one in asked.topic_partitions] == [1]
    # And after the group is deleted, gateways call it unknown
    deleted = tool(version, tools.GROUPS, stack.bootstrap, "--delete", *which)
    assert "was successful" in deleted.out, deleted.out + deleted.err
    assert name not in [found.id for found in directly.list_groups(timeout=30)]
    again = tool(version, tools.GROUPS, stack.bootstrap, "--delete", *which)
    assert "GroupIdNotFoundException" in again.out + again.err


@pytest.mark.parametrize("version", VERSIONS)
def test_log_directories_of_all_nodes_are_listed(stack: Stack, groups: dict[str, str], version: str) -> None:
    output = tool(version, tools.LOG_DIRS, stack.bootstrap, "--describe", "--topic-list", "tools-in-east")
    assert output.exit_code == 0, output.err
    found = json.loads(next(line for line in output.out.splitlines() if line.startswith("{")))
    directories = [directory for broker in found["brokers"] for directory in broker["logDirs"]]
    # Two gateways have none, and the broker of the cluster that serves this user has three partitions
    assert [directory["logDir"] for directory in directories].count("gateway") == 2
    assert sum(len(directory["partitions"]) for directory in directories) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_each_transaction_is_listed_once(stack: Stack, groups: dict[str, str], version: str) -> None:
    name = f"tools-transaction-{version}"
    producer = Producer({"bootstrap.servers": stack.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("tools-in-east", b"x")
    producer.commit_transaction(60)
    rows = tool(version, tools.TRANSACTIONS, stack.bootstrap, "list").rows()
    assert [row[0] for row in rows].count(name) == 1


def test_a_consumer_of_the_newer_group_protocol_fails_and_says_why(
    stack: Stack, groups: dict[str, str], tmp_path: Path
) -> None:
    # When librdkafka and Java try it through the gateways
    settings = {"bootstrap.servers": stack.bootstrap, "group.id": "tools-refused", "group.protocol": "consumer"}
    consumer = Consumer(settings)
    consumer.subscribe(["tools-in-west"])
    began = time.monotonic()
    error = None
    while error is None and time.monotonic() < began + 30:
        message = consumer.poll(1)
        error = None if message is None else message.error()
    consumer.close()
    config = tmp_path / "consumer.properties"
    config.write_text("group.protocol=consumer\n", "utf-8")
    output = tool(
        NEWER_GROUPS,
        tools.CONSOLE_CONSUMER,
        stack.bootstrap,
        *("--topic", "tools-in-west", "--group", "tools-refused", "--timeout-ms", "30000"),
        *("--command-config", str(config)),
    )
    # Then the first ends with a fatal error instead of waiting, and the second names the remedy
    assert error is not None
    assert error.code() == KafkaError._FATAL
    assert "API version not supported" in str(error)
    assert "group.protocol=classic" in output.out + output.err


def test_gateways_report_their_own_cluster_id_and_the_authorized_operations_of_the_cluster(
    stack: Stack, groups: dict[str, str]
) -> None:
    # When a cluster is described through the gateways, and directly
    output = tool(NEWER_GROUPS, tools.CLUSTER, stack.bootstrap, "cluster-id")
    places = {"through": stack.bootstrap, "directly": bootstrap(stack, "east")}
    admins = {place: AdminClient({"bootstrap.servers": address}) for place, address in places.items()}
    described = {
        place: admin.describe_cluster(include_authorized_operations=True).result(30) for place, admin in admins.items()
    }
    # Then the id is the gateways' own, and the authorized operations are equal
    assert output.out.split()[-1] == described["through"].cluster_id
    assert len(described["through"].cluster_id) == 22
    assert described["through"].cluster_id != described["directly"].cluster_id
    operations = {
        place: sorted(operation.name for operation in found.authorized_operations) for place, found in described.items()
    }
    assert operations["through"] == operations["directly"] != []
