"""Repeated names in a request are answered as by brokers of 3.9.2 and 4.3.1."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.composed.ask import Ask, OneBroker
from gateway.composed.configs import alter_configs, describe_configs, incremental_alter_configs
from gateway.composed.delete_records import delete_records
from gateway.composed.groups_admin import describe_consumer_groups, describe_groups
from gateway.composed.handlers import Handler
from gateway.composed.mentions import MAX_MENTIONS
from gateway.composed.offsets import list_offsets, offset_for_leader_epoch
from gateway.composed.transactions import describe_producers, describe_transactions
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.logs import log
from tests.gateway.composed.playbook import Playbook, moved, only_topic, requested, world

INVALID, AWAY = int(ErrorCode.INVALID_REQUEST), int(ErrorCode.LEADER_NOT_AVAILABLE)
HOLDS = {"orders": {0: 1, 1: 1}}
ALTERS: list[tuple[ApiKey, Callable[..., Handler]]] = [
    (ApiKey.ALTER_CONFIGS, alter_configs),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs),
]


def altered(key: ApiKey, handler: Callable[..., Handler], *resources: tuple[int, str, str]) -> Playbook:
    """:param resources: (type, name, setting)"""
    operation = {"config_operation": 0} if key == ApiKey.INCREMENTAL_ALTER_CONFIGS else {}
    listed = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": setting, "value": "1", **operation}]}
        for kind, name, setting in resources
    ]
    return Playbook(handler(world(east={"a": {0: 1}, "b": {0: 1}}), 1, requested(key, 1, resources=listed)))


def names_of(ask: Ask) -> list[str]:
    return [resource["resource_name"] for resource in ask.message["resources"]]


def done(ask: Ask) -> dict[str, Any]:
    fields = ("resource_type", "resource_name")
    return {"responses": [{field: resource[field] for field in fields} for resource in ask.message["resources"]]}


@pytest.mark.parametrize(("key", "handler"), ALTERS)
def test_a_resource_named_twice_is_not_altered(key: ApiKey, handler: Callable[..., Handler]) -> None:
    named = (2, "a", "retention.ms"), (2, "b", "retention.ms"), (2, "a", "cleanup.policy")
    play = altered(key, handler, *named)
    # The other one is altered, and each of the two gets the error
    assert [names_of(ask) for ask in play.asks] == [["b"]]
    play.answers({"east": done})
    told = play.encodes(key, 1)["responses"]
    assert [(one["resource_name"], one["error_code"]) for one in told] == [("a", INVALID), ("b", 0), ("a", INVALID)]
    assert told[0]["error_message"] == "Each resource must appear at most once."


@pytest.mark.parametrize(("key", "handler"), ALTERS)
def test_a_broker_named_in_several_ways_is_altered_by_each(key: ApiKey, handler: Callable[..., Handler]) -> None:
    play = altered(key, handler, (4, "12", "log.retention.ms"), (4, "012", "log.dirs"), (4, "+12", "log.dir"))
    (ask,) = play.asks
    assert ask.target == OneBroker(2)
    settings = [(resource["resource_name"], resource["configs"][0]["name"]) for resource in ask.message["resources"]]
    assert settings == [("2", "log.retention.ms"), ("02", "log.dirs"), ("+2", "log.dir")]
    play.answers({"east": done})
    told = play.encodes(key, 1)["responses"]
    assert [(one["resource_name"], one["error_code"]) for one in told] == [("12", 0), ("012", 0), ("+12", 0)]


def described(*resources: tuple[int, str, str]) -> Playbook:
    listed = [{"resource_type": kind, "resource_name": name, "configuration_keys": [k]} for kind, name, k in resources]
    request = requested(ApiKey.DESCRIBE_CONFIGS, 4, resources=listed)
    return Playbook(describe_configs(world(east={"a": {0: 1}}), 4, request))


def echo(ask: Ask) -> dict[str, Any]:
    def result(resource: dict[str, Any]) -> dict[str, Any]:
        value = {"name": resource["configuration_keys"][0], "value": "1", "documentation": None, "synonyms": []}
        kept = {key: resource[key] for key in ("resource_type", "resource_name")}
        return {**kept, "error_message": None, "configs": [value]}

    return {"results": [result(resource) for resource in ask.message["resources"]]}


def test_each_mention_of_a_resource_is_described_with_its_own_settings() -> None:
    named = (2, "a", "x"), (4, "12", "u"), (2, "a", "y"), (4, "012", "v"), (4, "12", "w")
    play = described(*named).answers({"east": echo})
    told = play.encodes(ApiKey.DESCRIBE_CONFIGS, 4)["results"]
    assert [(one["resource_type"], one["resource_name"], one["configs"][0]["name"]) for one in told] == list(named)


def test_a_resource_named_very_often_is_not_described_each_time() -> None:
    play = described(*[(2, "a", "x")] * 1000)
    (ask,) = play.asks
    assert len(ask.message["resources"]) == MAX_MENTIONS
    told = play.answers({"east": echo}).encodes(ApiKey.DESCRIBE_CONFIGS, 4)["results"]
    assert [one["error_code"] for one in told] == [0] * MAX_MENTIONS + [7] * (1000 - MAX_MENTIONS)


def test_offsets_of_a_partition_named_twice_are_refused_each_time() -> None:
    for topic, end in (("orders", 5), ("moved", 120)):
        partitions = [
            {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}
            for index, timestamp in ((0, -1), (1, -1), (0, -2))
        ]
        context = world(HOLDS, {"moved": {0: 1, 1: 1}}, topics=(moved("moved"),), port=("east", 1))
        request = requested(ApiKey.LIST_OFFSETS, 7, topics=[{"name": topic, "partitions": partitions}])
        play = Playbook(list_offsets(context, 7, request))
        asked = [p["partition_index"] for ask in play.asks for p in only_topic(ask.message)["partitions"]]
        assert asked == [1]
        play.answers_all({"east": log(0, 5), "west": log(40, 60)})
        told = only_topic(play.encodes(ApiKey.LIST_OFFSETS, 7))["partitions"]
        assert [(one["partition_index"], one["error_code"], one["offset"]) for one in told] == [
            (0, INVALID, -1),
            (1, 0, end),
            (0, INVALID, -1),
        ]


def epochs(ask: Ask) -> dict[str, Any]:
    ((topic),) = ask.message["topics"]
    ends = [
        {
            "partition": partition["partition"],
            "leader_epoch": partition["leader_epoch"],
            "end_offset": 100 + partition["leader_epoch"],
        }
        for partition in topic["partitions"]
    ]
    return {"topics": [{"topic": topic["topic"], "partitions": ends}]}


def test_each_mention_of_a_partition_gets_the_end_of_its_own_epoch() -> None:
    named = [(0, 3), (1, 4), (0, 5), (0, 3)]
    partitions = [{"partition": p, "current_leader_epoch": -1, "leader_epoch": epoch} for p, epoch in named]
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    request = requested(key, 4, topics=[{"topic": "orders", "partitions": partitions}])
    play = Playbook(offset_for_leader_epoch(world(east=HOLDS, port=("east", 1)), 4, request))
    told = only_topic(play.answers({"east": epochs}).encodes(key, 4))["partitions"]
    assert [(one["partition"], one["leader_epoch"], one["end_offset"]) for one in told] == [
        (p, epoch, 100 + epoch) for p, epoch in named
    ]


def test_a_partition_named_very_often_is_not_answered_each_time() -> None:
    partitions = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}] * 1000
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    request = requested(key, 4, topics=[{"topic": "orders", "partitions": partitions}])
    play = Playbook(offset_for_leader_epoch(world(east=HOLDS, port=("east", 1)), 4, request))
    told = only_topic(play.answers({"east": epochs}).encodes(key, 4))["partitions"]
    assert [one["error_code"] for one in told] == [0] * MAX_MENTIONS + [AWAY] * (1000 - MAX_MENTIONS)


def test_records_are_deleted_up_to_the_last_offset_that_a_request_names() -> None:
    named = [(0, 5), (1, 7), (0, 3)]
    partitions = [{"partition_index": partition, "offset": offset} for partition, offset in named]
    request = requested(ApiKey.DELETE_RECORDS, 2, topics=[{"name": "orders", "partitions": partitions}])
    play = Playbook(delete_records(world(east=HOLDS, port=("east", 1)), 2, request))
    (ask,) = play.asks
    assert [(p["partition_index"], p["offset"]) for p in only_topic(ask.message)["partitions"]] == [(0, 3), (1, 7)]
    said = [{"partition_index": index, "low_watermark": low} for index, low in ((0, 3), (1, 7))]
    play.answers({"east": {"topics": [{"name": "orders", "partitions": said}]}})
    told = only_topic(play.encodes(ApiKey.DELETE_RECORDS, 2))["partitions"]
    assert [(one["partition_index"], one["low_watermark"]) for one in told] == [(0, 3), (1, 7)]


def test_each_mention_of_a_partition_gets_its_producers() -> None:
    topics = [{"name": "orders", "partition_indexes": [0, 0]}, {"name": "orders", "partition_indexes": [1, 0]}]
    key = ApiKey.DESCRIBE_PRODUCERS
    play = Playbook(describe_producers(world(east=HOLDS, port=("east", 1)), 0, requested(key, 0, topics=topics)))

    def east(ask: Ask) -> dict[str, Any]:
        indexes = only_topic(ask.message)["partition_indexes"]
        told = [{"partition_index": index, "active_producers": [{"producer_id": index}]} for index in indexes]
        return {"topics": [{"name": "orders", "partitions": told}]}

    told = only_topic(play.answers({"east": east}).encodes(key, 0))["partitions"]
    assert [(one["partition_index"], one["active_producers"][0]["producer_id"]) for one in told] == [
        (0, 0),
        (0, 0),
        (1, 1),
        (0, 0),
    ]


@pytest.mark.parametrize(
    ("key", "handler", "asked"),
    [
        (ApiKey.DESCRIBE_GROUPS, describe_groups, "groups"),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, describe_consumer_groups, "group_ids"),
    ],
)
def test_each_mention_of_a_group_is_described_and_its_cluster_asked_once(
    key: ApiKey, handler: Callable[..., Handler], asked: str
) -> None:
    names = ["g", "h", "g"] + ["g"] * 100
    play = Playbook(handler(world(), 1, requested(key, 1, **{asked: names})))

    def east(ask: Ask) -> dict[str, Any]:
        (name,) = ask.message[asked]
        return {"groups": [{"group_id": name, "group_state": "Stable", "members": []}]}

    assert sorted(name for ask in play.asks for name in ask.message[asked]) == ["g", "h"]
    told = play.answers({"east": east}).encodes(key, 1)["groups"]
    assert [one["group_id"] for one in told] == names
    states = [one["group_state"] for one in told]
    assert states == ["Stable"] * (MAX_MENTIONS + 1) + [""] * (len(names) - MAX_MENTIONS - 1)


def test_each_mention_of_a_transaction_is_described_and_its_coordinator_asked_once() -> None:
    names = ["a", "b", "a"]
    key = ApiKey.DESCRIBE_TRANSACTIONS
    play = Playbook(describe_transactions(world(), 0, requested(key, 0, transactional_ids=names)))
    assert len(play.asks) == 2

    def east(ask: Ask) -> dict[str, Any]:
        (name,) = ask.message["transactional_ids"]
        return {"transaction_states": [{"transactional_id": name, "transaction_state": f"of {name}"}]}

    told = play.answers({"east": east}).encodes(key, 0)["transaction_states"]
    assert [(one["transactional_id"], one["transaction_state"]) for one in told] == [(n, f"of {n}") for n in names]
