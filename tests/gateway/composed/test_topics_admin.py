"""Creating, deleting and growing topics; configurations of topics and nodes; the cluster's description."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.acls import create_acls, delete_acls, describe_acls
from gateway.composed.ask import AnyBroker, Ask, Controller, OneBroker
from gateway.composed.configs import alter_configs, describe_configs, incremental_alter_configs
from gateway.composed.handlers import HANDLERS, Context, DeleteMoved, NeedNodes, failed
from gateway.composed.metadata import describe_cluster, metadata
from gateway.composed.topics_admin import create_partitions, create_topics, delete_topics
from ha_core.model import Crossing, Fence, Mirror, Topic, UserBindings
from ha_core.model.mirror import COPY_LOG
from ha_core.model.topic import Deletion
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.described_clusters import cluster, everything
from tests.gateway.composed.playbook import (
    CLUSTER_ID,
    NodesGranted,
    Playbook,
    away,
    moved,
    only_topic,
    requested,
    world,
)

CREATE, DELETE, GROW = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS
WEST = UserBindings(user="alice", cluster="west")
BEING_MOVED = Topic(name="t", fence=Fence(operation="op-9"))
POLICY, EXISTS, BAD_ASSIGNMENT, TIMED_OUT, INVALID_REQUEST = 44, 36, 39, 7, 42

STILL_THERE = {"orders": {0: 1}}
DELETED = Topic(name="orders", deletion=Deletion(operation="delete-1", since="2026-01-01T00:00:00Z"))
NOTHING: dict[str, Any] = {"topics": []}


def creating(context: Context, *names: str, brokers: tuple[int, ...] = (), **more: Any) -> Playbook:
    assignments = [{"partition_index": 0, "broker_ids": list(brokers)}] if brokers else []
    topics = [
        {"name": n, "num_partitions": 3, "replication_factor": 1, "assignments": assignments, "configs": []}
        for n in names
    ]
    return Playbook(create_topics(context, 6, requested(CREATE, 6, topics=topics, timeout_ms=5000, **more)))


def created(ask: Ask) -> dict[str, Any]:
    return {"topics": [{"name": t["name"], "error_message": None, "configs": []} for t in ask.message["topics"]]}


def outcomes(play: Playbook, field: str = "topics") -> list[tuple[str, int]]:
    return [(r["name"], r["error_code"]) for r in play.result[field]]


def test_a_topic_is_created_by_the_controller_of_its_users_cluster() -> None:
    play = creating(world(bindings=(WEST,)), "t", validate_only=True)

    play.asked(("east", AnyBroker(), ApiKey.METADATA), ("west", AnyBroker(), ApiKey.METADATA))
    play.answers({"east": NOTHING, "west": NOTHING})
    play.asked(("west", Controller(), CREATE)).message("west", validate_only=True, timeout_ms=5000)
    assert play.asks[0].timeout_ms > 5000
    play.answers({"west": created})

    assert outcomes(play) == [("t", 0)]
    assert only_topic(play.encodes(CREATE, 6))["configs"] == []


ABSENT = {"east": NOTHING, "west": NOTHING}
SEEN = {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
TAKEN: dict[str, tuple[dict[str, Any], str, dict[str, Any], int, str]] = {
    "in another cluster": ({"west": {"t": {0: 1}}}, "t", ABSENT, EXISTS, "topic t exists in cluster west"),
    "just created in another cluster": ({}, "t", ABSENT | {"west": SEEN}, EXISTS, "west"),
    "being deleted": ({"east": STILL_THERE, "topics": (DELETED,)}, "orders", ABSENT, TIMED_OUT, "is being deleted"),
    "a copy log": ({}, COPY_LOG, ABSENT, ErrorCode.INVALID_TOPIC_EXCEPTION, ""),
    "moved, in no cluster": ({"topics": (moved(),)}, "orders", ABSENT, POLICY, "`switchyard topics delete orders`"),
    "moved, and a cluster is away": ({"topics": (moved(),)}, "orders", ABSENT | {"west": away("west")}, EXISTS, ""),
}


@pytest.mark.parametrize(("known", "name", "replies", "code", "words"), TAKEN.values(), ids=TAKEN)
def test_a_name_that_is_taken_is_not_created_and_the_error_says_why(
    known: dict[str, Any], name: str, replies: dict[str, Any], code: int, words: str
) -> None:
    play = creating(world(**known), name).answers(replies)

    assert outcomes(play) == [(name, code)]
    assert words in (only_topic(play.result)["error_message"] or "")


def test_no_topic_is_created_while_a_cluster_was_never_seen() -> None:
    context = world(down="west")
    unseen = dict(context.topology.clusters)
    del unseen["west"]
    play = creating(
        Context(**{**vars(context), "topology": type(context.topology)(unseen)}),
        "t",
    )

    play.answers({"east": NOTHING})

    assert outcomes(play) == [("t", TIMED_OUT)]
    assert "cluster west was not reached yet" in only_topic(play.result)["error_message"]


def test_replicas_are_named_by_virtual_node_and_arrive_as_brokers() -> None:
    play = creating(world(), "t", brokers=(12, 11))

    play.answers({"east": NOTHING, "west": NOTHING})

    assert only_topic(play.asks[0].message)["assignments"] == [{"partition_index": 0, "broker_ids": [2, 1]}]


@pytest.mark.parametrize(("node", "why"), [(21, "node 21 is a broker of cluster west"), (1, "node 1 is not a broker")])
def test_replicas_on_nodes_outside_the_topics_cluster_are_refused(node: int, why: str) -> None:
    play = creating(world(), "t", brokers=(11, node))

    play.answers({"east": NOTHING, "west": NOTHING})

    assert outcomes(play) == [("t", BAD_ASSIGNMENT)]
    assert why in only_topic(play.result)["error_message"]


def test_a_cluster_that_does_not_answer_is_a_timeout_that_clients_retry() -> None:
    play = creating(world(), "t")

    play.answers({"east": NOTHING, "west": NOTHING}).answers({"east": away("east")})

    assert outcomes(play) == [("t", TIMED_OUT)]


@pytest.mark.parametrize("key", [CREATE, DELETE, GROW])
def test_a_topic_named_twice_is_refused_as_by_controllers_and_the_others_are_served(key: int) -> None:
    # Given a request that names a topic twice, with another one
    context = world(east={} if key == CREATE else {"t": {0: 1}, "u": {0: 1}})
    if key == CREATE:
        play = creating(context, "t", "u", "t")
        assert [topic["name"] for topic in play.asks[0].message["topics"]] == ["u"]
        play.answers({"east": NOTHING, "west": NOTHING})
    elif key == DELETE:
        play = deleting(context, "t", "u", "t")
    else:
        topics = [{"name": name, "count": count, "assignments": None} for name, count in (("t", 2), ("u", 2), ("t", 3))]
        play = Playbook(create_partitions(context, 3, requested(GROW, 3, topics=topics, timeout_ms=5000)))
    # When it is answered
    play.asked(("east", Controller(), key))
    assert [topic["name"] for topic in play.asks[0].message["topics"]] == ["u"]
    field = {CREATE: "topics", DELETE: "responses", GROW: "results"}[ApiKey(key)]
    play.answers({"east": {field: [{"name": "u", "error_message": None}]}})
    # Then it is refused once, and the other one is served
    assert outcomes(play, field) == [("t", INVALID_REQUEST), ("u", 0)]
    play.encodes(key, {CREATE: 6, DELETE: 5, GROW: 3}[ApiKey(key)])


def deleting(context: Context, *names: str) -> Playbook:
    return Playbook(delete_topics(context, 5, requested(DELETE, 5, topic_names=list(names), timeout_ms=5000)))


def test_topics_are_deleted_in_their_cluster_and_moved_or_fenced_ones_are_refused_with_a_reason() -> None:
    context = world(east={"a": {0: 1}, "t": {0: 1}}, west={"b": {0: 1}}, topics=(moved(), BEING_MOVED))
    play = deleting(context, "b", "orders", "t", "a")

    play.asked(("east", Controller(), DELETE), ("west", Controller(), DELETE))
    play.message("east", topic_names=["a"]).message("west", topic_names=["b"])
    play.answers({c: {"responses": [{"name": n}]} for c, n in (("east", "a"), ("west", "b"))})
    # A moved topic is deleted by an operation, whose outcome is the answer
    assert play.step == DeleteMoved("anonymous", ("orders",), 5000)
    play.gives([failed(ErrorCode.REQUEST_TIMED_OUT, "cluster west does not answer")])

    assert outcomes(play, "responses") == [("b", 0), ("orders", TIMED_OUT), ("t", POLICY), ("a", 0)]
    texts = [r["error_message"] for r in play.encodes(DELETE, 5)["responses"]]
    assert texts[1] == "cluster west does not answer"
    assert "topic t is being moved by operation op-9" in texts[2]


def test_a_moved_topic_is_not_deleted_during_an_operation() -> None:
    crossing = moved().changed(crossing=Crossing(operation="op-7", state="open"))
    play = deleting(world(topics=(crossing,)), "orders")

    assert outcomes(play, "responses") == [("orders", POLICY)]


def asked_of_a_concealed_topic(name: str, context: Context) -> Iterator[tuple[str, str]]:
    """(API, its error for the topic, without a question to a cluster)."""
    epochs = {"topic": name, "partitions": [{"partition": 0, "leader_epoch": 3}]}
    log = {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    resource = {"resource_type": 2, "resource_name": name}
    altered = resource | {"configs": []}
    asked: list[tuple[ApiKey, int, dict[str, Any]]] = [
        (ApiKey.METADATA, 8, {"topics": [{"name": name}], "allow_auto_topic_creation": True}),
        (ApiKey.LIST_OFFSETS, 7, {"topics": [log]}),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": [epochs]}),
        (ApiKey.DELETE_RECORDS, 2, {"topics": [{"name": name, "partitions": [{"partition_index": 0}]}]}),
        (ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": name, "partition_indexes": [0]}]}),
        (GROW, 3, {"topics": [{"name": name, "count": 6, "assignments": None}], "timeout_ms": 5000}),
        (DELETE, 5, {"topic_names": [name], "timeout_ms": 5000}),
        (ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource | {"configuration_keys": None}]}),
        (ApiKey.ALTER_CONFIGS, 2, {"resources": [altered]}),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [altered]}),
    ]
    for key, version, fields in asked:
        play = NodesGranted(HANDLERS[key](context, version, requested(key, version, **fields)))
        yield key.name, str(play.encodes(key, version))


@pytest.mark.parametrize("name", ["orders", COPY_LOG])
def test_a_topic_under_deletion_or_a_copy_log_is_unknown_and_no_cluster_is_asked(name: str) -> None:
    there = {name: {0: 1}}

    for api, answer in asked_of_a_concealed_topic(name, world(east=there, west=there, topics=(DELETED,))):
        assert "'error_code': 3" in answer, f"{api} answers {answer}"


def test_a_topic_under_deletion_and_a_copy_log_are_in_no_list_of_all_topics() -> None:
    context = world(east={**STILL_THERE, "a": {0: 1}}, west=STILL_THERE, topics=(DELETED,))
    play = NodesGranted(metadata(context, 9, everything()))

    play.answers({"east": cluster("east", **{COPY_LOG: 1}, orders=1, a=1), "west": cluster("west", orders=1)})

    assert [topic["name"] for topic in play.result["topics"]] == ["a"]


def growing(context: Context, name: str, assignments: list[dict[str, Any]] | None = None) -> Playbook:
    topics = [{"name": name, "count": 6, "assignments": assignments}]
    return Playbook(create_partitions(context, 3, requested(GROW, 3, topics=topics, timeout_ms=5000)))


def test_a_moved_topic_grows_in_its_writers_cluster() -> None:
    play = growing(world(topics=(moved(),)), "orders", [{"broker_ids": [22]}])

    play.asked(("west", Controller(), GROW))
    assert only_topic(play.asks[0].message)["assignments"] == [{"broker_ids": [2]}]
    play.answers({"west": {"results": [{"name": "orders"}]}})

    assert outcomes(play, "results") == [("orders", 0)]


@pytest.mark.parametrize(
    "how",
    [
        {"fence": Fence(operation="op-9")},
        {"transaction_fence": Fence(operation="op-9")},
        {"writer": "east", "crossing": Crossing(operation="op-9", state="open")},
    ],
)
def test_a_topic_does_not_grow_during_a_move(how: dict[str, Any]) -> None:
    play = growing(world(topics=(moved().model_copy(update=how),)), "orders")

    assert outcomes(play, "results") == [("orders", POLICY)]
    assert "op-9" in play.encodes(GROW, 3)["results"][0]["error_message"]


def mirrored_in_west(behind: str = "", **more: Any) -> Context:
    """`t` is written in east and mirrored to west, and from there to `behind`."""
    topic = Topic.model_validate(
        {"name": "t", "writer": "east", "partitions": {0: [{"cluster": "east", "start": 0, "base": 0, "term": 0}]}}
    )
    mirror = Mirror.of("t", "east", "west", "link", "2026-01-01T00:00:00Z", "test")
    chained = (Mirror.of("t", "west", behind, "link-2", "2026-01-01T00:00:00Z", "test"),) if behind else ()
    mirrors = (mirror, *chained)
    return world(east={"t": {0: 1}}, west={"t": {0: 1}}, topics=(topic.model_copy(update=more),), mirrors=mirrors)


def grown(code: int = 0, text: str | None = None) -> dict[str, Any]:
    return {"results": [{"name": "t", "error_code": code, "error_message": text}]}


def test_a_mirrored_topic_grows_on_its_standby_before_its_source() -> None:
    play = growing(mirrored_in_west(), "t", [{"broker_ids": [12]}])
    # First the source is asked whether it would accept
    play.asked(("east", Controller(), GROW)).message("east", validate_only=True).answers({"east": grown()})
    # Then the standby gets the partitions, wherever its brokers place them
    play.asked(("west", Controller(), GROW)).message("west", validate_only=False)
    assert only_topic(play.asks[0].message) == {"name": "t", "count": 6, "assignments": None}
    play.answers({"west": grown()})
    # And the source last
    play.asked(("east", Controller(), GROW)).message("east", validate_only=False)
    assert only_topic(play.asks[0].message)["assignments"] == [{"broker_ids": [2]}]
    play.answers({"east": grown()})
    assert outcomes(play, "results") == [("t", 0)]


def test_a_topic_with_a_chain_of_copies_grows_in_all_of_them_before_its_writer() -> None:
    # Given a copy in west, which is copied to north, and has grown already
    play = growing(mirrored_in_west(behind="north"), "t")
    # When the topic grows, then only the writer is asked whether it would
    play.asked(("east", Controller(), GROW)).message("east", validate_only=True).answers({"east": grown()})
    # And both copies grow before it
    play.asked(("west", Controller(), GROW), ("north", Controller(), GROW))
    play.answers({"west": grown(37, "it has 6"), "north": grown()})
    play.asked(("east", Controller(), GROW)).answers({"east": grown()})
    assert outcomes(play, "results") == [("t", 0)]


def test_a_change_that_the_source_would_refuse_leaves_the_standby_unchanged() -> None:
    play = growing(mirrored_in_west(), "t")
    play.answers({"east": grown(37, "it has 8")})
    assert outcomes(play, "results") == [("t", 37)]
    assert "cluster east: it has 8" in play.encodes(GROW, 3)["results"][0]["error_message"]


def test_a_standby_that_has_the_partitions_already_delays_nothing() -> None:
    play = growing(mirrored_in_west(), "t").answers({"east": grown()}).answers({"west": grown(37, "it has 6")})
    play.asked(("east", Controller(), GROW)).answers({"east": grown()})
    assert outcomes(play, "results") == [("t", 0)]


def test_a_mirrored_topic_does_not_grow_without_its_standby_and_the_error_has_a_way_out() -> None:
    play = growing(mirrored_in_west(), "t").answers({"east": grown()}).answers({"west": away("west")})
    assert outcomes(play, "results") == [("t", TIMED_OUT)]
    assert "Unlink it" in play.encodes(GROW, 3)["results"][0]["error_message"]


def test_neither_side_of_a_mirror_grows_while_an_operation_moves_the_topic() -> None:
    play = growing(mirrored_in_west(fence=Fence(operation="op-9")), "t")
    assert outcomes(play, "results") == [("t", POLICY)]


def configs(context: Context, *resources: tuple[int, str]) -> Playbook:
    listed = [{"resource_type": t, "resource_name": n, "configuration_keys": None} for t, n in resources]
    return Playbook(describe_configs(context, 4, requested(ApiKey.DESCRIBE_CONFIGS, 4, resources=listed)))


def config_of(ask: Ask) -> dict[str, Any]:
    def result(resource: dict[str, Any]) -> dict[str, Any]:
        value = {"name": "where", "value": f"{ask.cluster} {resource['resource_name']}", "documentation": None}
        kept = {key: resource[key] for key in ("resource_type", "resource_name")}
        return {**kept, "error_message": None, "configs": [value | {"synonyms": []}]}

    return {"results": [result(resource) for resource in ask.message["resources"]]}


def test_configurations_come_from_the_topics_cluster_and_from_the_nodes_broker() -> None:
    play = configs(world(west={"w": {0: 1}}), (4, "22"), (2, "w"), (2, "e"))

    play.asked(
        ("west", OneBroker(2), ApiKey.DESCRIBE_CONFIGS),
        ("west", AnyBroker(), ApiKey.DESCRIBE_CONFIGS),
        ("east", AnyBroker(), ApiKey.DESCRIBE_CONFIGS),
    ).answers({"east": config_of, "west": config_of})

    results = play.encodes(ApiKey.DESCRIBE_CONFIGS, 4)["results"]
    assert [(r["resource_type"], r["resource_name"], r["configs"][0]["value"]) for r in results] == [
        (4, "22", "west 2"),
        (2, "w", "west w"),
        (2, "e", "east e"),
    ]


def test_a_gateways_node_has_no_configuration_and_an_unknown_node_is_an_error() -> None:
    results = configs(world(), (4, "1"), (4, "77"), (4, "x")).encodes(ApiKey.DESCRIBE_CONFIGS, 4)["results"]

    assert [(r["error_code"], r["configs"], r["error_message"]) for r in results] == [
        (0, [], None),
        (42, [], "node 77 is neither a broker nor a gateway"),
        (42, [], "node 'x' is neither a broker nor a gateway"),
    ]


@pytest.mark.parametrize(
    ("key", "handler"),
    [(ApiKey.ALTER_CONFIGS, alter_configs), (ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs)],
)
def test_configurations_are_changed_by_the_controller_or_the_broker_and_never_on_a_gateway(
    key: ApiKey, handler: Any
) -> None:
    operation = {"config_operation": 0} if key == ApiKey.INCREMENTAL_ALTER_CONFIGS else {}
    entries = [{"name": "retention.ms", "value": "1", **operation}]
    named = ((2, "e"), (4, "12"), (4, "1"))
    resources = [{"resource_type": t, "resource_name": n, "configs": entries} for t, n in named]
    play = Playbook(handler(world(), 1, requested(key, 1, resources=resources, validate_only=True)))

    play.asked(("east", Controller(), key), ("east", OneBroker(2), key))
    assert all(ask.message["validate_only"] for ask in play.asks)
    play.answers(
        {
            "east": lambda a: (
                away("east")
                if a.target == OneBroker(2)
                else {"responses": [{"resource_type": 2, "resource_name": "e", "error_message": None}]}
            )
        }
    )

    codes = [(r["resource_name"], r["error_code"]) for r in play.encodes(key, 1)["responses"]]
    assert codes == [("e", 0), ("12", TIMED_OUT), ("1", 42)]


@pytest.mark.parametrize(
    ("topic", "refused"),
    [
        (BEING_MOVED, True),
        (Topic(name="t", writer="east", crossing=Crossing(operation="op-9", state="proposed")), True),
        (Topic(name="t", writer="east", transaction_fence=Fence(operation="op-9")), False),
    ],
    ids=["fence", "crossing", "transaction fence"],
)
def test_topic_settings_are_not_altered_under_a_fence_or_with_a_cut_ahead(topic: Topic, refused: bool) -> None:
    resources = [{"resource_type": 2, "resource_name": "t", "configs": [{"name": "retention.ms", "value": "1"}]}]
    asked = requested(ApiKey.ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    play = Playbook(alter_configs(world(east={"t": {0: 1}}, topics=(topic,)), 1, asked))

    if refused:
        (told,) = play.encodes(ApiKey.ALTER_CONFIGS, 1)["responses"]
        assert (told["error_code"], "op-9" in told["error_message"]) == (TIMED_OUT, True)
    else:
        play.asked(("east", Controller(), ApiKey.ALTER_CONFIGS))


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, GROW])
@pytest.mark.parametrize("moves", [False, True])
def test_a_topic_change_that_a_move_may_have_missed_gets_a_retriable_error(key: ApiKey, moves: bool) -> None:
    # Given a change that was sent to the topic's cluster
    topic = moved("t")
    context = world(topics=(topic,))
    after = topic.changed(fence=Fence(operation="op-9")) if moves else topic
    context = replace(context, latest=lambda: replace(context.view, topics={"t": after}))
    resource = {"resource_type": 2, "resource_name": "t", "configs": [{"name": "retention.ms", "value": "1"}]}
    named = {"name": "t", "count": 6, "assignments": None}
    fields = {"topics": [named], "timeout_ms": 5000} if key is GROW else {"resources": [resource]}
    play = Playbook(HANDLERS[key](context, 1, requested(key, 1, validate_only=False, **fields)))
    play.asked(("west", Controller(), key))
    # When a move fences the topic before the cluster answers
    done = {"results": [{"name": "t", "error_message": None}]}
    play.answers({"west": done if key is GROW else {"responses": [{"resource_type": 2, "resource_name": "t"}]}})
    # Then the gateway does not acknowledge the change
    answer = play.encodes(key, 1)
    (told,) = answer.get("results") or answer["responses"]
    assert told["error_code"] == (TIMED_OUT if moves else 0)


def test_the_cluster_is_described_as_gateways_and_virtual_nodes_of_the_users_brokers() -> None:
    play = Playbook(describe_cluster(world(bindings=(WEST,)), 1, requested(ApiKey.DESCRIBE_CLUSTER, 1)))

    play.wants(("west", 1), ("west", 2))

    answer = play.encodes(ApiKey.DESCRIBE_CLUSTER, 1)
    assert (answer["cluster_id"], answer["controller_id"]) == (CLUSTER_ID, 1)
    assert [(b["broker_id"], b["port"]) for b in answer["brokers"]] == [
        (1, 19_092),
        (2, 19_093),
        (21, 20_021),
        (22, 20_022),
    ]


def test_the_gateways_describe_themselves_while_the_users_cluster_is_away() -> None:
    play = Playbook(describe_cluster(world(down="east"), 1, requested(ApiKey.DESCRIBE_CLUSTER, 1)))

    assert [b["broker_id"] for b in play.encodes(ApiKey.DESCRIBE_CLUSTER, 1)["brokers"]] == [1, 2]


@pytest.mark.parametrize(("endpoint", "error"), [(2, 114), (3, 115), (0, 115)])
def test_controllers_are_not_described(endpoint: int, error: int) -> None:
    play = Playbook(describe_cluster(world(), 1, requested(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=endpoint)))

    assert play.encodes(ApiKey.DESCRIBE_CLUSTER, 1)["error_code"] == error


def test_a_topic_that_is_not_created_shows_no_settings() -> None:
    topic = {"name": "e", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    play = Playbook(create_topics(world(), 5, requested(ApiKey.CREATE_TOPICS, 5, topics=[topic, topic])))
    (told,) = play.encodes(ApiKey.CREATE_TOPICS, 5)["topics"]
    assert (told["error_code"], told["configs"]) == (42, [])


ANY_RULE = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
READS_TOPIC = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}


@pytest.mark.parametrize(
    ("key", "handler", "fields", "results"),
    [
        (ApiKey.DESCRIBE_ACLS, describe_acls, ANY_RULE, None),
        (ApiKey.CREATE_ACLS, create_acls, {"creations": [READS_TOPIC, READS_TOPIC]}, "results"),
        (ApiKey.DELETE_ACLS, delete_acls, {"filters": [ANY_RULE, ANY_RULE]}, "filter_results"),
    ],
)
def test_access_rules_belong_to_the_users_cluster_and_fail_retriably_while_it_is_away(
    key: ApiKey, handler: Any, fields: dict[str, Any], results: str | None
) -> None:
    play = Playbook(handler(world(bindings=(WEST,)), 3, requested(key, 3, **fields)))

    assert [a.cluster for a in play.asks] == ["west"]
    play.answers({"west": away("west")})

    answer = play.encodes(key, 3)
    failed = answer[results] if results else [answer]
    assert [(f["error_code"], "west is not available" in f["error_message"]) for f in failed] == [(TIMED_OUT, True)] * (
        2 if results else 1
    )


ALTER_AND_DESCRIBE = 1 << 7 | 1 << 8


@pytest.mark.parametrize(
    ("offered", "asked"),
    [({ApiKey.DESCRIBE_CLUSTER: (0, 1)}, (ApiKey.DESCRIBE_CLUSTER, 1)), ({}, (ApiKey.METADATA, 8))],
    ids=["from 2.8 on", "before 2.8"],
)
@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_CLUSTER, ApiKey.METADATA])
def test_authorized_operations_of_the_cluster_are_those_of_the_users_brokers(
    key: ApiKey, offered: Any, asked: tuple[ApiKey, int]
) -> None:
    # Given a user of the west
    context = world(bindings=(WEST,), offered=offered)
    version, fields = (9, NOTHING) if key == ApiKey.METADATA else (1, {})
    handle = metadata if key == ApiKey.METADATA else describe_cluster
    # When it asks for the operations, too
    request = requested(key, version, include_cluster_authorized_operations=True, **fields)
    play = Playbook(handle(context, version, request))
    while play.waits:
        if isinstance(play.step, NeedNodes):
            play.wants(*play.step.brokers)
        else:
            # Then the west is asked
            play.asked(("west", AnyBroker(), asked[0])).message("west", include_cluster_authorized_operations=True)
            play.answers({"west": {"cluster_authorized_operations": ALTER_AND_DESCRIBE}}, version=asked[1])
    assert play.encodes(key, version)["cluster_authorized_operations"] == ALTER_AND_DESCRIBE


def test_authorized_operations_of_an_unreachable_cluster_are_omitted() -> None:
    request = requested(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
    play = Playbook(describe_cluster(world(), 1, request)).wants(("east", 1), ("east", 2))
    play.answers({"east": away("east")})
    assert play.encodes(ApiKey.DESCRIBE_CLUSTER, 1)["cluster_authorized_operations"] == -(1 << 31)


def test_a_request_that_creates_no_topics_gets_an_empty_answer() -> None:
    play = Playbook(create_topics(world(), 6, requested(ApiKey.CREATE_TOPICS, 6, topics=[])))
    assert play.encodes(ApiKey.CREATE_TOPICS, 6)["topics"] == []


def creation(partitions: int, **more: Any) -> dict[str, Any]:
    return {"name": f"t{partitions}", "num_partitions": partitions, "replication_factor": 1} | more


@pytest.mark.parametrize(
    "topics",
    [
        [creation(10_001)],
        [creation(1 << 24)],
        [creation(5_000), creation(5_001)],
        [creation(-1, assignments=[{"partition_index": n, "broker_ids": [11]} for n in range(10_001)])],
    ],
    ids=["one above the bound", "2^24", "two together", "assignments"],
)
@pytest.mark.parametrize("only_validate", [False, True])
def test_more_partitions_than_a_controller_can_create_are_refused_and_no_cluster_is_asked(
    topics: list[dict[str, Any]], only_validate: bool
) -> None:
    request = requested(CREATE, 6, topics=topics, timeout_ms=1_000, validate_only=only_validate)

    told = Playbook(create_topics(world(), 6, request)).encodes(CREATE, 6)["topics"]

    assert [one["error_code"] for one in told] == [ErrorCode.INVALID_PARTITIONS] * len(topics)
    assert "10000 at most" in told[0]["error_message"]


@pytest.mark.parametrize(
    ("count", "assigned"), [(10_003, 0), (1 << 24, 0), (5, 10_001)], ids=["above the bound", "2^24", "assignments"]
)
def test_a_topic_does_not_grow_by_more_partitions_than_a_controller_can_create(count: int, assigned: int) -> None:
    topic = {"name": "orders", "count": count, "assignments": [{"broker_ids": [11]}] * assigned or None}
    request = requested(GROW, 3, topics=[topic], timeout_ms=1_000, validate_only=True)

    (told,) = Playbook(create_partitions(world(east={"orders": {0: 1, 1: 2}}), 3, request)).encodes(GROW, 3)["results"]

    assert told["error_code"] == ErrorCode.INVALID_PARTITIONS


def test_a_topic_grows_by_the_maximum_number_of_partitions() -> None:
    topic = {"name": "orders", "count": 10_002, "assignments": None}
    request = requested(GROW, 3, topics=[topic], timeout_ms=1_000, validate_only=True)

    play = Playbook(create_partitions(world(east={"orders": {0: 1, 1: 2}}), 3, request))

    assert [ask.cluster for ask in play.asks] == ["east"]


@pytest.mark.parametrize("name", ["9" * 5000, "-1", "x", "9" * 20])
@pytest.mark.parametrize("kind", [4, 8])
def test_a_broker_id_of_any_length_is_an_invalid_request(kind: int, name: str) -> None:
    key, resource = ApiKey.DESCRIBE_CONFIGS, {"resource_type": kind, "resource_name": name}
    request = requested(key, 4, resources=[resource])

    (told,) = Playbook(describe_configs(world(), 4, request)).encodes(key, 4)["results"]

    assert told["error_code"] == ErrorCode.INVALID_REQUEST
