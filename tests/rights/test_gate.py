"""The rights in the table of APIs fit the messages, in every version: each denial can be encoded."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest

from gateway.model.rights import Gate, allows
from ha_core.model.access import AclOperation, ResourceType, access_rule
from ha_core.plan.access.rights import Rights, Verdicts
from ha_core.wire import APIS, ApiKey, Destination, ErrorCode, decode, encode
from ha_core.wire.apis import ROWS, Api
from ha_core.wire.rights import Asks, AuthorizedOperationsField, Each, Operation, Resource, Shown
from ha_core.wire.schemas import SCHEMAS
from tests.rights.answers import DENIALS
from tests.rights.requests import MADE, cases

OFFERED = [row for row in ROWS if row.destination is not Destination.HIDDEN]
ASKING = [row for row in OFFERED if not row.asks.free]
NOBODY = Rights().of("nobody", "10.0.0.1")


def may(*rules: tuple[str, str, str]) -> Verdicts:
    """(resource type, name, operation)"""
    return Rights(
        (),
        [
            access_rule(
                {"principal": "User:me", "resource_type": kind, "name": name, "operation": what, "effect": "allow"}
            )
            for kind, name, what in rules
        ],
    ).of("me", "10.0.0.1")


def codes(answer: Any) -> set[int]:
    if isinstance(answer, list):
        return {code for one in answer for code in codes(one)}
    if not isinstance(answer, dict):
        return set()
    own = {value for name, value in answer.items() if name.endswith("error_code")}
    return own | {code for value in answer.values() for code in codes(value)}


def faults(row: Api) -> list[str]:
    """Rights of a row that are missing, or that its messages do not have."""
    asks, schema = row.asks, SCHEMAS[row.key]
    if bool(asks.free) == bool(asks.needs or asks.each or asks.shown or asks.reported):
        return ["asks nothing and says no reason, or asks and says one"]
    request = {field.name: field for field in schema.fields("request")}
    response = {field.name: field for field in schema.fields("response")}
    found = [f"needs the field {need.field}" for need in asks.needs if need.field and need.field not in request]
    for each in asks.each:
        inside = {field.name for field in request[each.request_list].fields} if each.request_list in request else None
        if inside is None or (each.field and each.field not in inside):
            found.append(f"judges {each.request_list} by {each.field or 'their names'}")
        if (each.answer_list or each.request_list) not in response:
            found.append(f"answers in {each.answer_list or each.request_list}")
    for authorized_operations_field in asks.reported:
        where = (
            response[authorized_operations_field.items].fields
            if authorized_operations_field.items
            else schema.fields("response")
        )
        if authorized_operations_field.field not in {field.name for field in where}:
            found.append(f"tells operations in {authorized_operations_field.field}")
    found += [f"shows {shown.items}" for shown in asks.shown if shown.items.partition(".")[0] not in response]
    return found


def test_every_offered_api_requires_rights_that_its_messages_contain() -> None:
    assert {row.key.name: found for row in OFFERED if (found := faults(row))} == {}


@pytest.mark.parametrize(
    "asks",
    [
        Asks(),
        Asks(free="why", reported=(AuthorizedOperationsField("CLUSTER", "cluster_authorized_operations"),)),
        Asks(each=(Each("READ", "TOPIC", "subjects"),)),
        Asks(each=(Each("READ", "TOPIC", "topics", "title"),)),
        Asks(each=(Each("READ", "TOPIC", "topics", answer_list="subjects"),)),
        Asks(reported=(AuthorizedOperationsField("TOPIC", "operations", "topics"),)),
        Asks(shown=(Shown("READ", "TOPIC", "subjects", "name"),)),
    ],
)
def test_a_planted_gap_in_the_rights_of_a_row_is_found(asks: Asks) -> None:
    assert faults(replace(APIS[ApiKey.METADATA], asks=asks))


def test_the_table_uses_the_names_of_the_rules() -> None:
    assert set(get_args(Operation)) <= set(AclOperation.__members__)
    assert set(get_args(Resource)) == set(ResourceType.__members__)


WHOLE = [
    (row, version, case)
    for row in ASKING
    for version in range(row.min_version, row.max_version + 1)
    for case in cases(row.key, version, (("hidden-1",), ("hidden-1", "hidden-2")))
]


SILENT = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in (1, 2)}
"""Their answers have no field for an error: they are empty."""
JUDGED = [row for row in ASKING if row.destination is not Destination.TOPIC]
"""`Routes` judges topics of the data path."""


@pytest.mark.parametrize("row", JUDGED, ids=lambda row: row.key.name)
def test_every_version_can_answer_a_user_without_any_right(row: Api) -> None:
    for asked, version, case in WHOLE:
        if asked is not row:
            continue
        # Given a decoded request
        request = decode(row.key, version, "request", encode(row.key, version, "request", case.message))
        # When
        gate = Gate(NOBODY, row, version, request)
        # Then nothing of it is forwarded except parts that show nothing by themselves, and the answer can be encoded
        answer = gate.answer if gate.answer is not None else gate.amend(_empty(row.key, version))
        said = decode(row.key, version, "response", encode(row.key, version, "response", answer))
        assert codes(said) <= {*DENIALS, ErrorCode.NONE}
        if gate.denied and (row.key, version) not in SILENT:
            assert codes(said) & DENIALS, case
        for each in row.asks.each:
            assert gate.answer is not None or not gate.request[each.request_list]


def _empty(key: int, version: int) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {field.name: [] for field in SCHEMAS[key].fields("response") if field.is_array}
    return decode(key, version, "response", encode(key, version, "response", lists))


def test_allowed_names_are_forwarded_and_denied_ones_added_to_the_answer() -> None:
    # Given a user who may describe one of two topics
    row = APIS[ApiKey.LIST_OFFSETS]
    (case,) = cases(row.key, 7, (("seen-1", "hidden-1"),))
    gate = Gate(may(("topic", "seen-1", "describe")), row, 7, case.message)
    # When the other one is answered
    seen = {"name": "seen-1", "partitions": [{"partition_index": 0, "error_code": 0, "offset": 5}]}
    answer = gate.amend({"topics": [seen]})
    # Then
    assert [topic["name"] for topic in gate.request["topics"]] == ["seen-1"]
    assert answer["topics"][0] is seen
    assert answer["topics"][1]["partitions"] == [{"partition_index": 0, "error_code": 29}]


LISTED: Mapping[int, tuple[dict[str, Any], dict[str, Any], Callable[[dict[str, Any]], Any]]] = {
    ApiKey.METADATA: (
        {"topics": None},
        {"topics": [{"name": "seen-1"}, {"name": "hidden-1"}]},
        lambda answer: [topic["name"] for topic in answer["topics"]],
    ),
    ApiKey.LIST_GROUPS: (
        {},
        {"groups": [{"group_id": "seen-1"}, {"group_id": "hidden-1"}]},
        lambda answer: [group["group_id"] for group in answer["groups"]],
    ),
    ApiKey.LIST_TRANSACTIONS: (
        {},
        {"transaction_states": [{"transactional_id": "seen-1"}, {"transactional_id": "hidden-1"}]},
        lambda answer: [state["transactional_id"] for state in answer["transaction_states"]],
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        {"transactional_ids": ["seen-1"]},
        {
            "transaction_states": [
                {"transactional_id": "seen-1", "topics": [{"topic": "seen-1"}, {"topic": "hidden-1"}]}
            ]
        },
        lambda answer: [topic["topic"] for topic in answer["transaction_states"][0]["topics"]],
    ),
}


@pytest.mark.parametrize("key", LISTED, ids=lambda key: ApiKey(key).name)
def test_a_list_shows_visible_items_unchanged(key: int) -> None:
    # Given
    request, said, names = LISTED[key]
    kinds = ("topic", "group", "transactional_id")
    gate = Gate(may(*((kind, "seen-1", "describe") for kind in kinds)), APIS[key], 0, request)
    before = repr(said)
    # When
    answer = gate.amend(said)
    # Then
    assert names(answer) == ["seen-1"]
    assert repr(said) == before


def test_operations_are_those_that_the_user_may_do_and_the_cluster_knows() -> None:
    # Given a topic that the cluster's own account may read and write, and one that was not requested
    said = {
        "topics": [
            {"name": "seen-1", "topic_authorized_operations": 1 << AclOperation.READ | 1 << AclOperation.WRITE},
            {"name": "seen-2", "topic_authorized_operations": -(1 << 31)},
        ],
        "cluster_authorized_operations": 1 << AclOperation.CREATE,
    }
    rights = may(("topic", "seen-", "describe"), ("topic", "seen-1", "read"), ("topic", "seen-2", "read"))
    # When
    answer = Gate(rights, APIS[ApiKey.METADATA], 9, {"topics": None}).amend(said)
    # Then
    told = [topic["topic_authorized_operations"] for topic in answer["topics"]]
    assert told == [1 << AclOperation.READ, -(1 << 31)]
    assert answer["cluster_authorized_operations"] == 0


def test_a_topic_named_twice_is_refused_and_reveals_nothing() -> None:
    row = APIS[ApiKey.CREATE_TOPICS]
    twice = {"topics": [{"name": "hidden-1"}, {"name": "hidden-1"}, {"name": "hidden-2"}]}

    gate = Gate(NOBODY, row, 6, twice)

    assert [topic["name"] for topic in gate.request["topics"]] == ["hidden-1", "hidden-1"]


def test_the_hundred_thousandth_denial_of_a_request_fills_no_log() -> None:
    gate = Gate(NOBODY, APIS[ApiKey.DESCRIBE_GROUPS], 5, {"groups": [f"g{n}" for n in range(100_000)]})

    assert len(gate.denied) == 100
    assert gate.answer is not None
    assert len(gate.answer["groups"]) == 100_000


class _NeverObjecting(Verdicts):
    def objection(self, operation: int, resource: int, name: str, anyway: bool = False) -> str:
        raise AssertionError(f"asked about {name}")


@pytest.mark.parametrize("rights", [NOBODY, may(("topic", "t0", "describe")), may(("cluster", "*", "all"))])
@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.DELETE_TOPICS, ApiKey.CREATE_TOPICS])
def test_names_are_not_asked_about_one_by_one_if_no_objection_is_possible(key: ApiKey, rights: Verdicts) -> None:
    topics = [{"name": f"t{n}"} for n in range(3)]
    request = {"topics": topics, "topic_names": [topic["name"] for topic in topics]}

    Gate(_NeverObjecting(rights._indexes, rights._room), APIS[key], 5, request)


def test_the_cluster_is_judged_by_its_one_name() -> None:
    assert allows(may(("cluster", "kafka-cluster", "alter")), "DESCRIBE", "CLUSTER")
    assert not allows(may(("cluster", "other", "alter")), "DESCRIBE", "CLUSTER")


def test_every_api_that_requires_a_right_has_requests_here() -> None:
    assert {row.key for row in ASKING} == set(MADE)
