"""The rows of APIs, against Kafka's own definitions.

These are its message definitions, as shipped with kafka-python, the table of authorizations in its documentation
("Operations and Resources on Protocols"), and the handling of its errors in kafka-python's classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
from kafka.errors import for_code
from kafka.protocol.schemas.load_json import load_json

from ha_core.wire import APIS, ApiKey, Destination, ErrorCode, decode, encode
from ha_core.wire.apis import GROUPS, LOGS, NEVER, ROWS, TOPICS, Api, BrokerPace, Effect, ErrorShape

UNDEFINED = {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE}
"""Offered, but missing in kafka-python's definitions."""
DEFINED = [row for row in ROWS if row.destination is not Destination.HIDDEN and row.key not in UNDEFINED]
LOOKED_FOR_ANEW = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
"""Errors after which clients look for the coordinator, which gateways do not name under a fence."""
EVERYTHING = LOGS | GROUPS | TOPICS
NOTHING = 0

AUTHORIZED: Mapping[ApiKey, tuple[str, str]] = {
    ApiKey.PRODUCE: ("Write", "Topic"),
    ApiKey.FETCH: ("Read", "Topic"),
    ApiKey.LIST_OFFSETS: ("Describe", "Topic"),
    ApiKey.METADATA: ("Describe", "Topic"),
    ApiKey.OFFSET_COMMIT: ("Read", "Group"),
    ApiKey.OFFSET_FETCH: ("Describe", "Group"),
    ApiKey.FIND_COORDINATOR: ("Describe", "Group"),
    ApiKey.JOIN_GROUP: ("Read", "Group"),
    ApiKey.HEARTBEAT: ("Read", "Group"),
    ApiKey.LEAVE_GROUP: ("Read", "Group"),
    ApiKey.SYNC_GROUP: ("Read", "Group"),
    ApiKey.DESCRIBE_GROUPS: ("Describe", "Group"),
    ApiKey.LIST_GROUPS: ("Describe", "Cluster"),
    ApiKey.CREATE_TOPICS: ("Create", "Topic"),
    ApiKey.DELETE_TOPICS: ("Delete", "Topic"),
    ApiKey.DELETE_RECORDS: ("Delete", "Topic"),
    ApiKey.INIT_PRODUCER_ID: ("Write", "TransactionalId"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("Describe", "Topic"),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("Write", "TransactionalId"),
    ApiKey.ADD_OFFSETS_TO_TXN: ("Write", "TransactionalId"),
    ApiKey.END_TXN: ("Write", "TransactionalId"),
    ApiKey.TXN_OFFSET_COMMIT: ("Write", "TransactionalId"),
    ApiKey.DESCRIBE_ACLS: ("Describe", "Cluster"),
    ApiKey.CREATE_ACLS: ("Alter", "Cluster"),
    ApiKey.DELETE_ACLS: ("Alter", "Cluster"),
    ApiKey.DESCRIBE_CONFIGS: ("DescribeConfigs", "Topic"),
    ApiKey.ALTER_CONFIGS: ("AlterConfigs", "Topic"),
    ApiKey.DESCRIBE_LOG_DIRS: ("Describe", "Cluster"),
    ApiKey.CREATE_PARTITIONS: ("Alter", "Topic"),
    ApiKey.DELETE_GROUPS: ("Delete", "Group"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("AlterConfigs", "Topic"),
    ApiKey.OFFSET_DELETE: ("Delete", "Group"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ("DescribeConfigs", "Cluster"),
    ApiKey.ALTER_CLIENT_QUOTAS: ("AlterConfigs", "Cluster"),
    ApiKey.DESCRIBE_CLUSTER: ("Describe", "Cluster"),
    ApiKey.DESCRIBE_PRODUCERS: ("Read", "Topic"),
    ApiKey.DESCRIBE_TRANSACTIONS: ("Describe", "TransactionalId"),
    ApiKey.LIST_TRANSACTIONS: ("Describe", "TransactionalId"),
}
"""The operation and the resource that an account needs; with several, the one that the request is about."""


@cache
def definitions() -> dict[int, tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """API key → name, request and response as Kafka defines them."""
    found = {}
    for file in files("kafka.protocol.schemas.resources").iterdir():
        if file.name.endswith("Request.json"):
            name = file.name.removesuffix("Request.json")
            request = load_json(f"{name}Request")
            found[request["apiKey"]] = (name, request, load_json(f"{name}Response"))
    return found


@dataclass(frozen=True)
class Field:
    """A field of a definition, and its depth."""

    depth: int
    name: str
    type: str
    entity: str | None


def span(versions: str) -> tuple[int, int]:
    """`3`, `3-5`, `3+` or `none`."""
    first, _, last = versions.partition("-")
    if versions == "none":
        return NEVER, NEVER
    return (int(versions[:-1]), NEVER) if versions.endswith("+") else (int(first), int(last or first))


def walk(fields: list[Mapping[str, Any]], version: int, depth: int = 0) -> Iterator[Field]:
    for part in fields:
        low, high = span(part["versions"])
        if low <= version <= high and "tag" not in part:
            yield Field(depth, part["name"], part["type"], part.get("entityType"))
            yield from walk(part.get("fields", []), version, depth + 1)


@dataclass(frozen=True)
class Said:
    """The definitions of one row, in the last version that it offers."""

    request: tuple[Field, ...]
    response: tuple[Field, ...]

    @classmethod
    def of(cls, row: Api) -> Said:
        _, request, response = definitions()[row.key]
        return cls(*(tuple(walk(one["fields"], row.max_version)) for one in (request, response)))

    @property
    def subject(self) -> str | None:
        """The single group or transactional id that begins the request, for which one coordinator answers."""
        first = self.request[0] if self.request else None
        return first.entity if first and first.type == "string" else None

    def names(self, *wanted: str) -> bool:
        return any(field.name in wanted for field in self.request)

    def answers(self, *wanted: str) -> bool:
        return any(field.name in wanted for field in self.response)

    def about(self, entity: str) -> bool:
        return any(field.entity == entity for field in (*self.request, *self.response))

    def asks_for_partitions(self) -> bool:
        """True if the request names partitions of topics."""
        return any(field.depth and "Partition" in field.name and "int32" in field.type for field in self.request)


def faults(row: Api) -> list[str]:
    """Contradictions between a row and Kafka's definitions; one text for each."""
    return [f"{row.key.name}: {fault}" for fault in _faults(row)]


def _faults(row: Api) -> Iterator[str]:
    name, request, _ = definitions()[row.key]
    output = Said.of(row)
    if name.lower() != row.key.name.replace("_", "").lower():
        yield f"its key is that of {name}"
    if row.flexible_from != span(request["flexibleVersions"])[0]:
        yield "its first flexible version is another one"
    if row.destination is Destination.LOCAL:
        bare = Api(
            row.key, row.min_version, row.max_version, row.flexible_from, row.why, Destination.LOCAL, Effect(0, 0)
        )
        if row != replace(bare, asks=row.asks):  # rights are checked elsewhere
            yield "says something of clusters, from which nothing is asked"
        return
    yield from _route(row, output)
    yield from _effect(row, output)
    yield from _promises(row, output)
    yield from _waits(row, output)
    yield from _refused(row, output)


def _route(row: Api, output: Said) -> Iterator[str]:
    # A group's administrator deletes offsets: all clusters with offsets of the group are asked.
    coordinators = {Destination.GROUP: "groupId", Destination.TRANSACTION: "transactionalId"}
    # A produce names its transaction, and goes where its records do.
    wanted = None if row.key is ApiKey.OFFSET_DELETE or output.names("Records") else output.subject
    if coordinators.get(row.destination) != wanted:
        yield f"goes by {coordinators.get(row.destination)}, and its request begins with {wanted}"
    if (row.destination is Destination.TOPIC) != (output.names("Records") or output.answers("Records")):
        yield "records go to and come from the leaders of partitions, and nothing else does"
    if (row.destination is Destination.NODE) != output.answers("LogDir"):
        yield "only disks are a matter of one broker"


def _effect(row: Api, output: Said) -> Iterator[str]:
    operation, resource = AUTHORIZED[row.key]
    match operation, resource:
        case "Write", "Topic":
            writes = LOGS
        case "Write", "TransactionalId":  # the markers that end it, and the offsets that it commits
            writes = LOGS | GROUPS
        case (("Read" | "Delete"), "Group"):  # members and their commits "read" the group
            writes = GROUPS
        case "Delete", "Topic" if output.asks_for_partitions():  # its records alone
            writes = LOGS
        case (("Create" | "Delete" | "Alter" | "AlterConfigs"), _):
            writes = EVERYTHING
        case _:
            writes = NOTHING
    if row.effect.writes != writes or row.changes != bool(writes):
        yield f"writes {row.effect.writes}, and is authorized to {operation} {resource}"
    reads = writes
    if not writes and output.about("transactionalId"):
        reads = LOGS | GROUPS
    elif not writes:
        groups = output.about("groupId") or output.answers("GroupId")
        reads = GROUPS if groups else LOGS if output.asks_for_partitions() else TOPICS
    if row.effect.reads != reads:
        yield f"reads {row.effect.reads}, and its fields tell of {reads}"


def _promises(row: Api, output: Said) -> Iterator[str]:
    """Effects on a group or a log that an operation carries over, and their conditions."""
    names_group = output.subject in ("groupId", "transactionalId") or (row.changes and output.about("groupId"))
    if row.lease_guarded != (names_group or row.key is ApiKey.PRODUCE or row.by_map):
        yield "answers of coordinators, of the written log, or by the topic map count only under a lease"
    if row.by_map != (row.destination is Destination.COMPOSED and row.changes and AUTHORIZED[row.key][1] != "Cluster"):
        yield "goes by the map where it changes a topic or a group of one cluster, and only there"
    # A member that never commits is seen to be alive by its heartbeats.
    commits, joins = output.names("CommittedOffset"), output.names("SessionTimeoutMs") or row.key is ApiKey.HEARTBEAT
    use = ("commit" if commits else "join" if joins else None) if row.destination is Destination.GROUP else None
    if row.use != use:
        yield f"is recorded as {row.use}, and its request says {use}"


def _waits(row: Api, output: Said) -> Iterator[str]:
    agreed = output.answers("Leader", "Assignment")  # needs requests of all members
    asks = (
        output.names("MemberId")
        and row.destination is Destination.GROUP
        and not output.names("CommittedOffset", "RequireStable")
    )
    if row.rebalance != (("waits" if agreed else "follows") if asks else None):
        yield f"{row.rebalance} with the other members of its group"
    # The controller is waited for up to a timeout, also to validate configurations; disks are scanned.
    slow = (row.by_map and output.names("TimeoutMs", "timeoutMs", "ValidateOnly")) or output.answers("LogDir")
    found = output.answers("Host") and output.names("Name", "Key")  # brokers and coordinators, which every client needs
    long = output.answers("GroupState", "Synonyms")  # groups with their members, settings with their origins
    if row.pace is not (
        BrokerPace.SLOW if slow else BrokerPace.QUICK if found else BrokerPace.LONG if long else BrokerPace.USUAL
    ):
        yield f"its pace is {row.pace.name}"


def _refused(row: Api, output: Said) -> Iterator[str]:
    """The answer under a fence, and the other fields of a refusal."""
    held = row.destination is Destination.GROUP or (
        row.destination is Destination.TRANSACTION and output.about("topicName")
    )
    if (row.fenced is not None) != held:
        yield "a fence stands before a group, and before the topics of a transaction"
    if row.fenced is not None:
        yield from _fenced(row, output)
    if row.error is None:
        return
    asked = {"name": "t", "partitions": [{"partition_index": 3}], "partition_indexes": [3]}
    if "partition_error_code" in row.error:
        asked["partitions"] = [3]
    body = row.refusal({"member_id": "m-1", "topics": [asked]}, ErrorCode.NOT_COORDINATOR)
    message = decode(row.key, row.max_version, "response", encode(row.key, row.max_version, "response", body))
    for field, value in leaves(message):
        if field in ("producer_id", "producer_epoch", "committed_offset", "generation_id") and value != -1:
            yield f"refuses with the {field} {value}, which is one"
    if output.answers("MemberId") and output.names("Protocols") and message["member_id"] != "m-1":
        yield "does not say again who was refused"


def _fenced(row: Api, output: Said) -> Iterator[str]:
    error: Any = for_code(int(row.fenced or 0))
    begins_again = error.retriable and row.fenced is not ErrorCode.CONCURRENT_TRANSACTIONS  # which only producers know
    if row.rebalance == "waits" and not output.names("SessionTimeoutMs"):
        wanted = row.fenced is ErrorCode.REBALANCE_IN_PROGRESS  # ends the round: only this error makes members rejoin
    elif row.rebalance == "follows" and output.names("GenerationId"):
        wanted = row.fenced is ErrorCode.NONE  # after any error the member gives up its partitions
    elif row.rebalance == "follows":
        wanted = begins_again  # a member that leaves asks once
    elif output.subject == "transactionalId" and not output.names("CommittedOffset"):
        wanted = row.fenced is ErrorCode.CONCURRENT_TRANSACTIONS  # the only one that waits in every client
    else:
        wanted = begins_again and row.fenced not in LOOKED_FOR_ANEW
    if not wanted:
        yield f"clients do not wait after {row.fenced!r}"


def leaves(message: Any) -> Iterator[tuple[str, Any]]:
    for name, value in message.items():
        if isinstance(value, list):
            for part in value:
                yield from leaves(part)
        else:
            yield name, value


@pytest.mark.parametrize("row", DEFINED, ids=lambda row: row.key.name)
def test_row_agrees_with_kafkas_definitions(row: Api) -> None:
    assert faults(row) == []


def test_every_row_that_is_offered_is_compared() -> None:
    offered = {row.key for row in ROWS if row.destination is not Destination.HIDDEN}
    assert offered - {ApiKey(key) for key in definitions()} == UNDEFINED


def _without(key: ApiKey, **changes: Any) -> ErrorShape:
    return ErrorShape(**{**(APIS[key].error or ErrorShape())._asdict(), **changes})


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        (ApiKey.PRODUCE, {"lease_guarded": False}),
        (ApiKey.PRODUCE, {"effect": Effect(LOGS, 0)}),
        (ApiKey.FETCH, {"effect": Effect(LOGS, LOGS)}),
        (ApiKey.FETCH, {"lease_guarded": True}),
        (ApiKey.FETCH, {"destination": Destination.NODE}),
        (ApiKey.FETCH, {"flexible_from": 11}),
        (ApiKey.METADATA, {"pace": BrokerPace.USUAL}),
        (ApiKey.LIST_OFFSETS, {"effect": Effect(TOPICS, 0)}),
        (ApiKey.FIND_COORDINATOR, {"pace": BrokerPace.SLOW}),
        (ApiKey.OFFSET_COMMIT, {"use": None}),
        (ApiKey.OFFSET_COMMIT, {"effect": Effect(GROUPS, 0)}),
        (ApiKey.OFFSET_COMMIT, {"fenced": ErrorCode.NOT_COORDINATOR}),
        (ApiKey.OFFSET_FETCH, {"error": _without(ApiKey.OFFSET_FETCH, more={})}),
        (ApiKey.OFFSET_FETCH, {"lease_guarded": False}),
        (ApiKey.OFFSET_FETCH, {"use": "commit"}),
        (ApiKey.JOIN_GROUP, {"use": "commit"}),
        (ApiKey.JOIN_GROUP, {"rebalance": None}),
        (ApiKey.JOIN_GROUP, {"error": _without(ApiKey.JOIN_GROUP, echo=())}),
        (ApiKey.HEARTBEAT, {"rebalance": "waits"}),
        (ApiKey.HEARTBEAT, {"fenced": ErrorCode.REBALANCE_IN_PROGRESS}),
        (ApiKey.LEAVE_GROUP, {"fenced": ErrorCode.UNKNOWN_MEMBER_ID}),
        (ApiKey.SYNC_GROUP, {"rebalance": "follows"}),
        (ApiKey.SYNC_GROUP, {"fenced": ErrorCode.NOT_COORDINATOR}),
        (ApiKey.LIST_GROUPS, {"effect": Effect(TOPICS, 0)}),
        (ApiKey.API_VERSIONS, {"effect": Effect(TOPICS, TOPICS)}),
        (ApiKey.CREATE_TOPICS, {"by_map": False}),
        (ApiKey.CREATE_TOPICS, {"pace": BrokerPace.USUAL}),
        (ApiKey.DELETE_RECORDS, {"effect": Effect(LOGS, 0)}),
        (ApiKey.DELETE_RECORDS, {"lease_guarded": False}),
        (ApiKey.CREATE_PARTITIONS, {"lease_guarded": False}),
        (ApiKey.INIT_PRODUCER_ID, {"error": ErrorShape()}),
        (ApiKey.INIT_PRODUCER_ID, {"fenced": ErrorCode.CONCURRENT_TRANSACTIONS}),
        (ApiKey.ADD_PARTITIONS_TO_TXN, {"fenced": None}),
        (ApiKey.ADD_PARTITIONS_TO_TXN, {"fenced": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}),
        (ApiKey.END_TXN, {"lease_guarded": False}),
        (ApiKey.END_TXN, {"effect": Effect(LOGS, LOGS)}),
        (ApiKey.CREATE_ACLS, {"by_map": True}),
        (ApiKey.ALTER_CONFIGS, {"pace": BrokerPace.QUICK}),
        (ApiKey.DESCRIBE_LOG_DIRS, {"pace": BrokerPace.USUAL}),
        (ApiKey.DELETE_GROUPS, {"lease_guarded": False}),
        (ApiKey.DELETE_GROUPS, {"effect": Effect(TOPICS, TOPICS)}),
        (ApiKey.OFFSET_DELETE, {"by_map": False}),
        (ApiKey.DESCRIBE_TRANSACTIONS, {"effect": Effect(GROUPS, 0)}),
    ],
    ids=lambda case: case.name if isinstance(case, ApiKey) else "-".join(case),
)
def test_a_wrong_flag_in_a_row_is_found(key: ApiKey, changes: dict[str, Any]) -> None:
    assert faults(APIS[key]) == []
    assert faults(replace(APIS[key], **changes))
