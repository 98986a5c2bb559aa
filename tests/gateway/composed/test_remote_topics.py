"""Remote topics in composed answers: listed and described to their readers, and changed by no client."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.handlers import Context, compose
from gateway.model.remote_topics import READING, RemoteTopicIndex
from gateway.model.rights import Denied
from gateway.model.topology import Topology
from ha_core.model import FlowId, RemoteTopicPortion, UserBindings
from ha_core.model.access import AccessRule
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.described_clusters import ask, cluster, everything
from tests.gateway.composed.playbook import NodesGranted, requested, world
from tests.gateway.composed.ruled_clients import allow, ruled

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
REMOTE = "A.orders"
FLOW = RemoteTopicPortion.of(FlowId("A->B", "east-id", "west-id"), 0, {REMOTE: "orders", "A.new": "new"})
WHY = f"{REMOTE} is a remote topic: only flow A->B writes it, and its source is orders."
TOPIC, CONFIGS_OF_TOPIC = 2, {"resource_type": 2, "resource_name": REMOTE, "configs": []}


def copied(
    *rules: AccessRule, bound: str | None = None, denied: list[Denied] | None = None, everywhere: bool = False
) -> Context:
    """`orders` in east, and its copy in west.

    :param everywhere: east has a topic of the copy's name.
    """
    bindings = (UserBindings(user="alice", cluster=bound),) if bound else ()
    east = {"orders": {0: 1}, **({REMOTE: {0: 1}} if everywhere else {})}
    context = world(east=east, west={REMOTE: {0: 1}, "local": {0: 1}}, bindings=bindings)
    clusters = {name: replace(each, cluster_id=f"{name}-id") for name, each in context.topology.clusters.items()}
    index = RemoteTopicIndex([FLOW])
    told: list[Denied] = [] if denied is None else denied
    context = replace(context, topology=Topology(clusters), remote_topics=index, deny=told.extend)
    return ruled(context, *rules, denied=denied) if rules else context


def play(context: Context, key: int, version: int, request: dict[str, Any]) -> NodesGranted:
    return NodesGranted(compose(context, key, version, request))


def listed(context: Context, request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    playbook = play(context, ApiKey.METADATA, 8, request)
    if playbook.waits:
        seen = {"east": cluster("east", orders=1), "west": cluster("west", **{REMOTE: 1, "local": 1})}
        playbook.answers_all(seen)
    return {topic["name"]: topic for topic in playbook.encodes(ApiKey.METADATA, 8)["topics"]}


def test_a_remote_topic_is_listed_with_all_topics_and_by_its_name() -> None:
    assert set(listed(copied(), everything(8))) == {"orders", REMOTE, "local"}
    (topic,) = listed(copied(), ask(REMOTE, version=8)).values()
    assert (topic["error_code"], len(topic["partitions"])) == (0, 1)


def test_readers_of_the_source_see_its_copy_and_others_do_not() -> None:
    assert set(listed(copied(allow("topic", "orders", "read")), everything(8))) == {"orders", REMOTE}
    assert set(listed(copied(allow("topic", "local", "read")), everything(8))) == {"local"}
    assert listed(copied(allow("topic", "local", "read")), ask(REMOTE, version=8))[REMOTE]["error_code"] == DENIED


def test_the_authorized_operations_of_a_remote_topic_are_those_of_readers() -> None:
    # Given brokers that let the gateway do everything
    request = everything(8) | {"include_topic_authorized_operations": True}
    playbook = play(copied(), ApiKey.METADATA, 8, request)
    may_all = 0b1_1111_1111_0000

    def answer(name: str, *topics: str) -> Any:
        told = cluster(name, **dict.fromkeys(topics, 1))

        def with_operations(asked: Any) -> dict[str, Any]:
            found: dict[str, Any] = told(asked)
            for topic in found["topics"]:
                topic["topic_authorized_operations"] = may_all
            return found

        return with_operations

    # When
    playbook.answers_all({"east": answer("east", "orders"), "west": answer("west", REMOTE, "local")})
    # Then
    operations = {
        topic["name"]: topic["topic_authorized_operations"] for topic in playbook.encodes(ApiKey.METADATA, 8)["topics"]
    }
    assert operations == {"orders": may_all, "local": may_all, REMOTE: may_all & READING}


CHANGES: dict[str, tuple[ApiKey, int, dict[str, Any], str, str]] = {
    "a deletion": (ApiKey.DELETE_TOPICS, 5, {"topic_names": [REMOTE], "timeout_ms": 1000}, "responses", "DELETE"),
    "new partitions": (
        ApiKey.CREATE_PARTITIONS,
        2,
        {"topics": [{"name": REMOTE, "count": 9, "assignments": None}], "timeout_ms": 1000},
        "results",
        "ALTER",
    ),
    "settings": (ApiKey.ALTER_CONFIGS, 2, {"resources": [CONFIGS_OF_TOPIC]}, "responses", "ALTER_CONFIGS"),
    "single settings": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        {"resources": [CONFIGS_OF_TOPIC]},
        "responses",
        "ALTER_CONFIGS",
    ),
}


@pytest.mark.parametrize(("key", "version", "fields", "results", "operation"), CHANGES.values(), ids=CHANGES)
def test_no_client_changes_a_remote_topic(
    key: ApiKey, version: int, fields: dict[str, Any], results: str, operation: Any
) -> None:
    # Given
    denied: list[Denied] = []
    # When
    playbook = play(copied(denied=denied), key, version, requested(key, version, **fields))
    # Then
    (result,) = playbook.encodes(key, version)[results]
    assert result["error_code"] == DENIED
    assert denied == [Denied(operation, "TOPIC", REMOTE, WHY)]
    if key != ApiKey.CREATE_PARTITIONS:  # which has no words beside a denial, as in brokers
        assert result["error_message"] == WHY


def test_no_records_of_a_remote_topic_are_deleted() -> None:
    request = requested(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": REMOTE, "partitions": [{"partition_index": 0, "offset": 5}]}],
        timeout_ms=1000,
    )

    (topic,) = play(copied(), ApiKey.DELETE_RECORDS, 2, request).encodes(ApiKey.DELETE_RECORDS, 2)["topics"]

    assert topic["partitions"] == [{"partition_index": 0, "low_watermark": -1, "error_code": DENIED}]


@pytest.mark.parametrize("rules", [(), (allow("cluster", "kafka-cluster", "create"),)])
def test_a_remote_topic_is_not_created_before_its_flow_has_created_it(rules: tuple[AccessRule, ...]) -> None:
    # Given
    made = {"name": "A.new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    request = requested(ApiKey.CREATE_TOPICS, 6, topics=[made], timeout_ms=1000)
    # When
    playbook = play(copied(*rules, bound="west"), ApiKey.CREATE_TOPICS, 6, request)
    # Then
    (result,) = playbook.encodes(ApiKey.CREATE_TOPICS, 6)["topics"]
    assert result["error_code"] == DENIED
    assert "only flow A->B writes it" in result["error_message"]


def test_metadata_does_not_create_a_remote_topic() -> None:
    playbook = play(copied(bound="west"), ApiKey.METADATA, 8, ask("A.new", create=True, version=8))

    playbook.answers({"east": cluster("east"), "west": cluster("west")})

    (topic,) = playbook.encodes(ApiKey.METADATA, 8)["topics"]
    assert topic["error_code"] == DENIED


def test_a_right_to_the_cluster_deletes_no_remote_topic_and_users_without_rights_learn_nothing() -> None:
    request = requested(ApiKey.DELETE_TOPICS, 5, topic_names=[REMOTE], timeout_ms=1000)
    words = {}
    for operation, resource, name in (("delete", "cluster", "kafka-cluster"), ("describe", "topic", REMOTE)):
        playbook = play(copied(allow(resource, name, operation)), ApiKey.DELETE_TOPICS, 5, request)
        (result,) = playbook.encodes(ApiKey.DELETE_TOPICS, 5)["responses"]
        assert result["error_code"] == DENIED
        words[resource] = result["error_message"]

    assert words == {"cluster": WHY, "topic": "Topic authorization failed."}


def test_a_topic_of_the_same_name_in_another_cluster_can_be_changed() -> None:
    # Given a user of east, which has a topic of the remote topic's name
    key, version, fields, results, _ = CHANGES["settings"]
    playbook = play(copied(bound="east", everywhere=True), key, version, requested(key, version, **fields))
    # When
    playbook.answers({"east": {"responses": [{"error_code": 0, "resource_type": TOPIC, "resource_name": REMOTE}]}})
    # Then
    (result,) = playbook.encodes(key, version)[results]
    assert result["error_code"] == 0
