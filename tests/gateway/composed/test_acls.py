"""Access rules as Kafka's own tools change them, with rules kept in the platform."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.acls import MANY_RULES, create_acls, delete_acls, describe_acls
from gateway.composed.handlers import CreateRules, DeletedRules, DeleteRules, Long
from ha_core.model import Identity
from ha_core.model.access import AccessRule, AclOperation, PatternType, Permission, ResourceType, RuleFilter
from ha_core.plan.access.rights import Rights
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.playbook import Playbook, requested, world

READS = AccessRule("User:alice", ResourceType.TOPIC, "orders", PatternType.LITERAL, AclOperation.READ, Permission.ALLOW)
OK = {"error_code": 0, "error_message": None}
AWAY = {"error_code": int(ErrorCode.REQUEST_TIMED_OUT), "error_message": "the platform does not answer"}
CREATION: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER: dict[str, Any] = {
    "resource_type_filter": 2,
    "resource_name_filter": "orders",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
CONTEXT = replace(world(), rights=Rights(), user="ops")


def creating(*creations: dict[str, Any]) -> Playbook:
    request = requested(ApiKey.CREATE_ACLS, 3, creations=[CREATION | one for one in creations])
    return Playbook(create_acls(CONTEXT, 3, request))


def deleting(*filters: dict[str, Any]) -> Playbook:
    request = requested(ApiKey.DELETE_ACLS, 3, filters=[FILTER | one for one in filters])
    return Playbook(delete_acls(CONTEXT, 3, request))


def test_rules_are_created_for_the_authenticated_user_with_one_result_each() -> None:
    play = creating({}, {"operation": 99}, {"operation": 4})
    assert play.step == CreateRules("ops", (READS, READS._replace(operation=AclOperation.WRITE)))

    play.gives([OK, AWAY])

    results = play.encodes(ApiKey.CREATE_ACLS, 3)["results"]
    assert [result["error_code"] for result in results] == [0, ErrorCode.INVALID_REQUEST, ErrorCode.REQUEST_TIMED_OUT]
    assert results[2]["error_message"] == "the platform does not answer"


@pytest.mark.parametrize(
    ("creation", "words"),
    [
        ({"resource_type": 6}, "resource_type 6"),
        ({"resource_type": 1}, "resource_type 1"),
        ({"resource_name": ""}, "name ''"),
        ({"resource_name": "a b"}, "no topic has it"),
        ({"resource_type": 4, "resource_name": "another"}, "kafka-cluster"),
        ({"resource_pattern_type": 2}, "resource_pattern_type 2"),
        ({"principal": "alice"}, "principal 'alice'"),
        ({"principal": "User:"}, "principal 'User:'"),
        ({"host": "example.org"}, "host 'example.org'"),
        ({"operation": 1}, "operation 1"),
        ({"permission_type": 0}, "permission_type 0"),
    ],
)
def test_an_impossible_rule_is_refused_without_a_question(creation: dict[str, Any], words: str) -> None:
    (said,) = creating(creation).encodes(ApiKey.CREATE_ACLS, 3)["results"]

    assert said["error_code"] == ErrorCode.INVALID_REQUEST
    assert words in said["error_message"]


def test_filters_get_the_deleted_rules() -> None:
    play = deleting({}, {"resource_type_filter": 6}, {"permission_type": 0})
    assert play.step == DeleteRules("ops", (RuleFilter(ResourceType.TOPIC, "orders", PatternType.LITERAL),))

    play.gives([DeletedRules(OK, (READS,))])

    first, never, unknown = play.encodes(ApiKey.DELETE_ACLS, 3)["filter_results"]
    (gone,) = first["matching_acls"]
    assert gone.items() >= {"error_code": 0, "resource_name": "orders", "principal": "User:alice"}.items()
    assert (never["error_code"], never["matching_acls"]) == (0, [])
    assert (unknown["error_code"], unknown["matching_acls"]) == (ErrorCode.INVALID_REQUEST, [])


def test_no_rule_is_reported_deleted_while_the_platform_is_unavailable() -> None:
    play = deleting({"pattern_type_filter": 2})
    assert isinstance(play.step, DeleteRules)
    assert play.step.filters[0].matching

    play.gives([DeletedRules(AWAY)])

    (said,) = play.encodes(ApiKey.DELETE_ACLS, 3)["filter_results"]
    assert (said["error_code"], said["matching_acls"]) == (ErrorCode.REQUEST_TIMED_OUT, [])


def test_many_rules_are_searched_off_the_event_loop() -> None:
    rights = Rights((), [READS._replace(name=f"orders-{number}") for number in range(MANY_RULES + 1)])
    request = requested(ApiKey.DESCRIBE_ACLS, 3, **FILTER | {"resource_name_filter": None})
    play = Playbook(describe_acls(replace(CONTEXT, rights=rights), 3, request))
    assert play.step == Long()
    assert len(play.gives(None).result["resources"]) == MANY_RULES + 1


UNJUDGED = replace(world(), user="ops", identity=Identity("u", ""))


@pytest.mark.parametrize("field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"])
def test_a_filter_that_brokers_hang_up_on_is_refused_for_rules_in_a_cluster(field: str) -> None:
    play = Playbook(describe_acls(UNJUDGED, 3, requested(ApiKey.DESCRIBE_ACLS, 3, **FILTER | {field: 0})))

    told = play.encodes(ApiKey.DESCRIBE_ACLS, 3)

    assert told["error_code"] == ErrorCode.INVALID_REQUEST
    assert f"{field} 0" in told["error_message"]


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_a_rule_that_brokers_hang_up_on_is_refused_and_the_others_reach_the_cluster(field: str) -> None:
    creations = [CREATION | {"resource_name": "a"}, CREATION | {field: 0}, CREATION | {"resource_name": "b"}]
    play = Playbook(create_acls(UNJUDGED, 3, requested(ApiKey.CREATE_ACLS, 3, creations=creations)))

    play.message("east", creations=[creations[0], creations[2]])
    play.answers({"east": {"results": [OK, AWAY]}})

    codes = [result["error_code"] for result in play.encodes(ApiKey.CREATE_ACLS, 3)["results"]]
    assert codes == [0, ErrorCode.INVALID_REQUEST, ErrorCode.REQUEST_TIMED_OUT]


def test_deletion_filters_that_brokers_hang_up_on_are_refused_without_a_question() -> None:
    filters = [FILTER | {field: 0} for field in ("resource_type_filter", "pattern_type_filter", "operation")]
    play = Playbook(delete_acls(UNJUDGED, 3, requested(ApiKey.DELETE_ACLS, 3, filters=filters)))

    results = play.encodes(ApiKey.DELETE_ACLS, 3)["filter_results"]

    assert [result["error_code"] for result in results] == [ErrorCode.INVALID_REQUEST] * 3
