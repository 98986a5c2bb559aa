"""Composed answers under rights: questions cover only allowed elements, and answers only visible ones."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.ask import AnyBroker, ClusterUnavailableError
from gateway.composed.handlers import Context, compose
from gateway.model.rights import Denied
from gateway.process.listings import Listings
from gateway.session.commands import Compose
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.described_clusters import ask, cluster, everything
from tests.gateway.composed.playbook import NodesGranted, Playbook, away, requested, world
from tests.gateway.composed.ruled_clients import allow, ruled

KEY = ApiKey.METADATA
EAST, WEST = ("east", AnyBroker(), KEY), ("west", AnyBroker(), KEY)
DENIED, UNKNOWN, NO_LEADER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 3, 5


def play(context: Context, key: int, version: int, request: dict[str, Any]) -> NodesGranted:
    return NodesGranted(compose(context, key, version, request))


def topics(answer: dict[str, Any]) -> dict[str, int]:
    return {topic["name"]: topic["error_code"] for topic in answer["topics"]}


BOTH = {"a": {0: 1}, "b": {0: 1}}
SEES = allow("topic", "a", "read")


def test_no_cluster_is_asked_for_an_invisible_topic() -> None:
    # Given
    denied: list[Denied] = []
    playbook = play(ruled(world(east=BOTH), SEES, denied=denied), KEY, 9, ask("a", "b", "c"))
    # When
    playbook.asked(EAST).message("east", topics=[{"name": "a", "topic_id": bytes(16)}])
    playbook.answers({"east": cluster("east", a=1, b=1)})
    # Then an existing topic and a missing one have the same answer
    answer = playbook.encodes(KEY, 9)
    assert topics(answer) == {"a": 0, "b": DENIED, "c": DENIED}
    assert [topic["partitions"] for topic in answer["topics"][1:]] == [[], []]
    assert denied == [Denied("DESCRIBE", "TOPIC", "b"), Denied("DESCRIBE", "TOPIC", "c")]


def test_a_pattern_subscriber_sees_readable_topics_of_an_unreachable_cluster_too() -> None:
    # Given topics that the west held when last seen
    context = world(east=BOTH, west={"a2": {0: 1}, "b2": {0: 1}}, down="west")
    playbook = play(ruled(context, allow("topic", "a", "read", pattern="prefixed")), KEY, 9, everything())
    # When
    playbook.asked(EAST).answers({"east": cluster("east", a=1, b=1)})
    # Then
    assert topics(playbook.encodes(KEY, 9)) == {"a": 0, "a2": 0}


@pytest.mark.parametrize("version", [0, 1, 9])
def test_a_request_for_invisible_topics_only_does_not_return_all_topics(version: int) -> None:
    # Given the oldest version, in which an empty list asks for all topics
    playbook = play(ruled(world(east=BOTH), SEES), KEY, version, ask("b", version=version))

    assert topics(playbook.encodes(KEY, version)) == {"b": DENIED}


def test_a_missing_topic_is_created_only_for_users_who_may_create_it() -> None:
    # Given two visible topics, one of which the user may create
    rules = (allow("topic", "new", "describe", pattern="prefixed"), allow("topic", "new-a", "create"))
    playbook = play(ruled(world(), *rules), KEY, 9, ask("new-a", "new-b", create=True))
    # When no cluster has them
    playbook.asked(EAST, WEST).answers({"east": cluster("east"), "west": cluster("west")})
    playbook.asked(EAST).message(
        "east", topics=[{"name": "new-a", "topic_id": bytes(16)}], allow_auto_topic_creation=True
    )
    playbook.answers({"east": cluster("east")})
    # Then
    assert topics(playbook.encodes(KEY, 9)) == {"new-a": 0, "new-b": DENIED}


def test_no_creation_is_denied_while_an_unreachable_cluster_may_hold_the_topic() -> None:
    playbook = play(ruled(world(), allow("topic", "new", "describe")), KEY, 9, ask("new", create=True))

    playbook.answers({"east": cluster("east"), "west": away("west")})

    assert topics(playbook.encodes(KEY, 9)) == {"new": NO_LEADER}


def test_the_list_of_all_topics_is_cached_per_view_of_it() -> None:
    # Given one answer of a cluster
    listings, replies = Listings(), [cluster("east", a=1)(Asked())]
    context, other = world(), ruled(world(), SEES)
    other = replace(other, view=context.view, topology=context.topology)
    command = Compose("token", KEY, 9, context.identity, everything())
    # Then
    mine = listings.listing(context, command, replies)
    assert listings.listing(context, command, replies) is mine
    assert listings.listing(other, command, replies) is not mine
    assert listings.listing(other, command, replies) is listings.listing(other, command, replies)


class Asked:
    message = {"topics": None, "allow_auto_topic_creation": False}  # noqa: RUF012 - a question, and nothing else


def test_a_topics_creator_sees_its_settings_only_with_the_right_to() -> None:
    # Given
    made = {"name": "a", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    request = requested(ApiKey.CREATE_TOPICS, 6, topics=[made], timeout_ms=1000)
    created = {"name": "a", "error_code": 0, "num_partitions": 1, "replication_factor": 1, "configs": []}
    for more, shown in (((), False), ((allow("topic", "a", "describe_configs"),), True)):
        playbook = play(ruled(world(), allow("topic", "a", "create"), *more), ApiKey.CREATE_TOPICS, 6, request)
        # When
        playbook.answers({"east": cluster("east"), "west": cluster("west")})
        playbook.answers({"east": {"topics": [created]}})
        # Then
        (topic,) = playbook.encodes(ApiKey.CREATE_TOPICS, 6)["topics"]
        assert (topic["num_partitions"] == 1) is shown
        assert (topic["topic_config_error_code"] == 0) is shown


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ((), {"a": DENIED, "none": DENIED}),
        (("describe",), {"a": DENIED, "none": UNKNOWN}),
        (("delete",), {"a": 0, "none": UNKNOWN}),
    ],
)
def test_a_visible_topic_is_checked_for_existence_before_the_right_to_delete_it(
    rules: tuple[str, ...], said: dict[str, int]
) -> None:
    # Given
    allowed = [allow("topic", "*", operation) for operation in rules]
    request = requested(ApiKey.DELETE_TOPICS, 5, topic_names=["a", "none"], timeout_ms=1000)
    playbook = play(ruled(world(east={"a": {0: 1}}), *allowed), ApiKey.DELETE_TOPICS, 5, request)
    # When a controller is asked, if that is allowed
    if playbook.waits:
        known = [{"name": "a", "error_code": 0}, {"name": "none", "error_code": UNKNOWN}]
        playbook.answers({"east": {"responses": known}})
    # Then
    answer = playbook.encodes(ApiKey.DELETE_TOPICS, 5)
    assert {topic["name"]: topic["error_code"] for topic in answer["responses"]} == said


def test_a_kip_848_group_is_hidden_from_users_who_may_not_see_one_of_its_topics() -> None:
    # Given
    key = ApiKey.CONSUMER_GROUP_DESCRIBE
    rules = (allow("group", "g", "describe"), SEES)
    member = {"member_id": "m", "subscribed_topic_names": ["a"], "assignment": {"topic_partitions": []}}
    assigned = {"topic_partitions": [{"topic_name": "b", "partitions": [0]}]}
    context = world(east={"__consumer_offsets": dict.fromkeys(range(50), 1)})
    playbook = play(ruled(context, *rules), key, 0, requested(key, 0, group_ids=["g"]))
    # When
    group = {"group_id": "g", "group_state": "Stable", "members": [member | {"target_assignment": assigned}]}
    playbook.answers_all({"east": {"groups": [group]}, "west": ClusterUnavailableError("west", "away")})
    # Then
    (told,) = playbook.encodes(key, 0)["groups"]
    assert (told["error_code"], told["members"], told["group_state"]) == (DENIED, [], "")


# -- access rules themselves ------------------------------------------------------------------------------------------

RULES = (
    allow("cluster", "kafka-cluster", "describe"),
    allow("topic", "orders", "read", "User:bob"),
    allow("topic", "ord", "write", "Group:tills", pattern="prefixed"),
    allow("topic", "*", "describe", "User:*"),
    allow("group", "orders", "read", "User:bob", host="10.0.0.9"),
)
ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, {"kafka-cluster", "orders", "ord", "*"}),
        ({"resource_type_filter": 2}, {"orders", "ord", "*"}),
        ({"resource_name_filter": "orders"}, {"orders"}),
        ({"resource_name_filter": "orders", "pattern_type_filter": 2}, {"orders", "ord", "*"}),
        ({"resource_name_filter": "or", "pattern_type_filter": 2}, {"*"}),
        ({"pattern_type_filter": 4}, {"ord"}),
        ({"principal_filter": "Group:tills"}, {"ord"}),
        ({"principal_filter": "User:nobody"}, set()),
        ({"host_filter": "10.0.0.9"}, {"orders"}),
        ({"operation": 8}, {"kafka-cluster", "*"}),
        ({"permission_type": 2}, set()),
    ],
)
def test_rules_are_listed_as_a_filter_describes_them(asked: dict[str, Any], found: set[str]) -> None:
    playbook = play(
        ruled(world(), *RULES), ApiKey.DESCRIBE_ACLS, 3, requested(ApiKey.DESCRIBE_ACLS, 3, **{**ANY, **asked})
    )

    answer = playbook.encodes(ApiKey.DESCRIBE_ACLS, 3)
    assert answer["error_code"] == 0
    assert {resource["resource_name"] for resource in answer["resources"]} == found


def test_rules_are_listed_only_for_users_who_may_describe_the_cluster() -> None:
    playbook = play(ruled(world(), SEES), ApiKey.DESCRIBE_ACLS, 3, requested(ApiKey.DESCRIBE_ACLS, 3, **ANY))

    answer = playbook.encodes(ApiKey.DESCRIBE_ACLS, 3)
    assert (answer["error_code"], answer["resources"]) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


CREATION = {"resource_type": 2, "resource_name": "a", "principal": "User:x", "host": "*"}
CHANGES = [
    (ApiKey.CREATE_ACLS, {"creations": [{**CREATION, "operation": 3, "permission_type": 3}] * 2}, "results"),
    (ApiKey.DELETE_ACLS, {"filters": [ANY] * 2}, "filter_results"),
]


@pytest.mark.parametrize(("key", "fields", "results"), CHANGES)
def test_users_who_may_change_rules_learn_where_they_are_kept_and_all_others_are_denied(
    key: ApiKey, fields: dict[str, Any], results: str
) -> None:
    # Given
    request = requested(key, 3, **fields)
    might, others = (allow("cluster", "kafka-cluster", "alter"),), ()
    # When
    told, denied = (play(ruled(world(), *rules), key, 3, request).encodes(key, 3)[results] for rules in (might, others))
    # Then
    assert [one["error_code"] for one in told] == [ErrorCode.SECURITY_DISABLED] * 2
    assert "kept in rules.yaml" in told[0]["error_message"]
    assert [one["error_code"] for one in denied] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


def test_without_rules_a_handler_runs_unguarded() -> None:
    playbook = Playbook(compose(world(east=BOTH), KEY, 9, ask("a", "b")))

    playbook.asked(EAST).message("east", topics=[{"name": name, "topic_id": bytes(16)} for name in ("a", "b")])


def test_a_request_is_judged_after_its_first_step_which_may_run_off_the_event_loop() -> None:
    denied: list[Denied] = []
    context = ruled(world(east=BOTH), SEES, denied=denied)
    assert context.verdicts is not None
    work = compose(context, KEY, 9, ask(*(f"t-{number}" for number in range(1000))))
    assert not context.verdicts._asked
    next(work)
    assert len(context.verdicts._asked) >= 1000
    assert denied
