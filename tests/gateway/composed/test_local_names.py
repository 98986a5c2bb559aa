"""Remote topics under their local names in composed answers, for users that are bound to a flow's target."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.handlers import Context, compose
from gateway.model.remote_topics import READING, RemoteTopicIndex
from gateway.model.topology import Topology
from ha_core.model import FlowId, RemoteTopicPortion, UserBindings
from ha_core.model.access import AccessRule
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.described_clusters import ask, cluster, everything
from tests.gateway.composed.playbook import NodesGranted, requested, world
from tests.gateway.composed.ruled_clients import allow, ruled

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
FLOW = RemoteTopicPortion.of(FlowId("A->B", "east-id", "west-id"), 0, {"A.orders": "orders", "A.new": "new"})
EAST, WEST = {"orders": 1, "later": 1}, {"A.orders": 1, "orders": 1, "local": 1}
TOPIC, GROUP = 2, 32


def named(*rules: AccessRule, alias: str | None = "A", cluster: str | None = "west") -> Context:
    """`orders` and `later` in east; in west the copy of `orders`, another `orders`, and `local`."""
    user = UserBindings(user="alice", cluster=cluster, local_names=alias)
    has = {"east": EAST, "west": WEST}
    context = world(
        **{name: {topic: {0: 1} for topic in topics} for name, topics in has.items()},  # type: ignore[arg-type]
        bindings=(user,),
    )
    clusters = {name: replace(each, cluster_id=f"{name}-id") for name, each in context.topology.clusters.items()}
    context = replace(context, topology=Topology(clusters), remote_topics=RemoteTopicIndex([FLOW]))
    return ruled(context, *rules) if rules else context


def play(context: Context, key: int, version: int, request: dict[str, Any]) -> NodesGranted:
    return NodesGranted(compose(context, key, version, request))


def listed(context: Context, request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    playbook = play(context, ApiKey.METADATA, 8, request)
    if playbook.waits:
        playbook.answers_all({"east": cluster("east", **EAST), "west": cluster("west", **WEST)})
    return {topic["name"]: topic for topic in playbook.encodes(ApiKey.METADATA, 8)["topics"]}


def test_all_topics_are_those_of_the_cluster_with_each_remote_topic_once() -> None:
    """A pattern subscription to `.*orders` gets each record once."""
    assert sorted(listed(named(), everything(8))) == ["local", "orders"]


def test_without_local_names_a_pattern_sees_all_topics_by_their_names() -> None:
    assert sorted(listed(named(alias=None), everything(8))) == ["A.orders", "later", "local", "orders"]


def test_metadata_tells_a_remote_topics_leaders_under_its_local_name() -> None:
    playbook = play(named(), ApiKey.METADATA, 8, ask("orders", version=8))
    assert [[topic["name"] for topic in one.message["topics"]] for one in playbook.asks] == [["A.orders"]]

    playbook.answers_all({"west": cluster("west", **WEST)})

    (topic,) = playbook.encodes(ApiKey.METADATA, 8)["topics"]
    assert (topic["name"], topic["error_code"], topic["partitions"][0]["leader_id"]) == ("orders", 0, 21)


def test_metadata_of_the_remote_name_is_denied() -> None:
    assert {name: topic["error_code"] for name, topic in listed(named(), ask("A.orders", version=8)).items()} == {
        "A.orders": DENIED
    }


def test_a_topic_that_is_not_copied_yet_has_no_leader_and_is_not_created() -> None:
    request = ask("later", create=True, version=8)
    assert listed(named(), request)["later"]["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE


def test_metadata_does_not_create_a_remote_topic_under_its_local_name() -> None:
    assert listed(named(), ask("new", create=True, version=8))["new"]["error_code"] == DENIED


def test_operations_are_those_of_readers() -> None:
    may_all = 0b1_1111_1111_0000
    playbook = play(
        named(), ApiKey.METADATA, 8, ask("orders", version=8) | {"include_topic_authorized_operations": True}
    )

    def answer(asked: Any) -> dict[str, Any]:
        found: dict[str, Any] = cluster("west", **WEST)(asked)
        for topic in found["topics"]:
            topic["topic_authorized_operations"] = may_all
        return found

    playbook.answers_all({"west": answer})

    (topic,) = playbook.encodes(ApiKey.METADATA, 8)["topics"]
    assert topic["topic_authorized_operations"] == may_all & READING


def test_readers_of_the_source_see_the_copy_and_others_do_not() -> None:
    assert set(listed(named(allow("topic", "orders", "read")), everything(8))) == {"orders"}
    assert set(listed(named(allow("topic", "local", "read")), everything(8))) == {"local"}


def test_ends_of_logs_are_those_of_the_copy() -> None:
    asked = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    playbook = play(named(), ApiKey.LIST_OFFSETS, 7, requested(ApiKey.LIST_OFFSETS, 7, **asked))
    (question,) = playbook.asks
    assert (question.cluster, question.message["topics"][0]["name"]) == ("west", "A.orders")

    told = {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": 37, "leader_epoch": -1}
    playbook.answers({"west": {"topics": [{"name": "A.orders", "partitions": [told]}]}})

    (topic,) = playbook.encodes(ApiKey.LIST_OFFSETS, 7)["topics"]
    assert (topic["name"], topic["partitions"][0]["offset"]) == ("orders", 37)


def test_ends_of_leader_epochs_are_those_of_the_copy() -> None:
    key, asked = ApiKey.OFFSET_FOR_LEADER_EPOCH, {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 3}
    playbook = play(named(), key, 4, requested(key, 4, topics=[{"topic": "orders", "partitions": [asked]}]))
    (question,) = playbook.asks
    assert (question.cluster, question.message["topics"][0]["topic"]) == ("west", "A.orders")

    told = {"partition": 0, "error_code": 0, "leader_epoch": 3, "end_offset": 37}
    playbook.answers({"west": {"topics": [{"topic": "A.orders", "partitions": [told]}]}})

    (topic,) = playbook.encodes(key, 4)["topics"]
    assert (topic["topic"], topic["partitions"][0]["end_offset"]) == ("orders", 37)


def test_settings_are_those_of_the_copy_and_a_group_of_equal_name_stays_one() -> None:
    wanted = [{"resource_type": kind, "resource_name": "orders", "configuration_keys": None} for kind in (TOPIC, GROUP)]
    playbook = play(named(), ApiKey.DESCRIBE_CONFIGS, 4, requested(ApiKey.DESCRIBE_CONFIGS, 4, resources=wanted))

    def answer(asked: Any) -> dict[str, Any]:
        results = [
            {"error_code": 0, "resource_type": one["resource_type"], "resource_name": one["resource_name"]}
            for one in asked.message["resources"]
        ]
        return {"results": results}

    playbook.answers_all({"east": answer, "west": answer})

    found = playbook.encodes(ApiKey.DESCRIBE_CONFIGS, 4)["results"]
    assert sorted((one["resource_type"], one["resource_name"]) for one in found) == [
        (TOPIC, "orders"),
        (GROUP, "orders"),
    ]


CHANGES: dict[str, tuple[ApiKey, int, dict[str, Any], str]] = {
    "creation": (
        ApiKey.CREATE_TOPICS,
        6,
        {
            "topics": [
                {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            ],
            "timeout_ms": 1000,
            "validate_only": False,
        },
        "topics",
    ),
    "deletion": (ApiKey.DELETE_TOPICS, 5, {"topic_names": ["orders"], "timeout_ms": 1000}, "responses"),
    "partitions": (
        ApiKey.CREATE_PARTITIONS,
        2,
        {"topics": [{"name": "orders", "count": 9, "assignments": None}], "timeout_ms": 1000, "validate_only": False},
        "results",
    ),
    "settings": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        {"resources": [{"resource_type": TOPIC, "resource_name": "orders", "configs": []}], "validate_only": False},
        "responses",
    ),
    "records": (
        ApiKey.DELETE_RECORDS,
        2,
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 5}]}], "timeout_ms": 1000},
        "topics",
    ),
}


@pytest.mark.parametrize(("key", "version", "fields", "results"), CHANGES.values(), ids=CHANGES)
def test_no_client_changes_a_topic_under_a_local_name(
    key: ApiKey, version: int, fields: dict[str, Any], results: str
) -> None:
    """Neither the remote topic, nor the topic of the same name that the client does not see."""
    playbook = play(named(), key, version, requested(key, version, **fields))

    (result,) = playbook.encodes(key, version)[results]
    code = result["partitions"][0]["error_code"] if "partitions" in result else result["error_code"]
    assert (code, result.get("name", "orders"), result.get("resource_name", "orders")) == (DENIED, "orders", "orders")


def test_a_user_of_the_source_sees_the_sources_topics() -> None:
    assert {"orders", "later"} <= set(listed(named(cluster="east"), everything(8)))
