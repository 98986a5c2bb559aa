"""The table of APIs is complete, consistent with schemas and handlers, and correct in what it advertises."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.composed import HANDLERS
from gateway.session import requests, transactions
from ha_core.wire import (
    APIS,
    ApiKey,
    Destination,
    ErrorCode,
    RemoteProtocolError,
    advertised,
    decode,
    encode,
    peek_group,
)
from ha_core.wire.apis import ROWS, Api
from ha_core.wire.codes import RETRIABLE
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.schemas import SCHEMAS
from ha_core.wire.tables import Field, Schema
from tests.wire.samples import seeds

EVERYTHING = {int(key): (0, 20) for key in ApiKey}
FIRST_FIELD = {Destination.GROUP: "group_id", Destination.TRANSACTION: "transactional_id"}
"""The first field, which routes a request without decoding the rest."""
GENERATIONS = {"generation_id", "generation_id_or_member_epoch"}
SESSION_KEYS = frozenset({*requests.HANDLERS, *requests.LOGIN_STEPS, ApiKey.API_VERSIONS})
TRANSACTION_KEYS = frozenset(transactions.HANDLERS)


@dataclass(frozen=True)
class Table:
    """Everything that has to fit together to serve an API."""

    rows: tuple[Api, ...] = ROWS
    schemas: Mapping[int, Schema] = field(default_factory=lambda: SCHEMAS)
    composed: Iterable[int] = tuple(HANDLERS)
    session: Iterable[int] = SESSION_KEYS
    transactions: Iterable[int] = TRANSACTION_KEYS

    def row(self, key: ApiKey, **changes: Any) -> Table:
        """The table with one row changed."""
        return replace(self, rows=tuple(replace(row, **changes) if row.key is key else row for row in self.rows))

    def schema(self, key: ApiKey, **changes: Any) -> Table:
        return replace(self, schemas={**self.schemas, int(key): replace(self.schemas[key], **changes)})


def faults(table: Table) -> list[str]:
    """Missing and inconsistent parts of the table; one text for each fault."""
    keys = [row.key for row in table.rows]
    found = [f"{key.name}: {keys.count(key)} rows" for key in ApiKey if keys.count(key) != 1]
    found += [f"{ApiKey(key).name}: a schema without a row" for key in table.schemas if key not in keys]
    for row in table.rows:
        found += [f"{row.key.name}: {fault}" for fault in _faults(row, table)]
    return found


def _faults(row: Api, table: Table) -> Iterable[str]:
    # A transaction that began in another cluster is ended there, the others by the client's own coordinator.
    composed = row.destination is Destination.COMPOSED or row.key is ApiKey.END_TXN
    if composed != (row.key in table.composed):
        yield "composed without a handler" if composed else "a handler of what is not composed"
    if row.destination is Destination.HIDDEN:
        if row.min_version <= row.max_version or not row.why:
            yield "hidden, but with versions or without a reason"
        return
    schema = table.schemas.get(row.key)
    if schema is None:
        yield "offered without a schema"
        return
    low, high = schema.versions
    if not low <= row.min_version <= row.max_version <= high:
        yield f"versions {row.min_version} to {row.max_version}, where the schema has {low} to {high}"
    if row.destination in (Destination.TOPIC, Destination.LOCAL) and row.key not in table.session:
        yield f"{row.destination.name} without a handler in the session"
    if (row.destination is Destination.TRANSACTION) != (row.key in table.transactions):
        handler = (
            "without a handler"
            if row.destination is Destination.TRANSACTION
            else "a handler of what has another destination"
        )
        yield f"TRANSACTION {handler} in the session"
    if row.destination in FIRST_FIELD:
        first = next((field for field in schema.fields("request") if field.at(row.max_version)), None)
        if first is None or (first.name, first.type) != (FIRST_FIELD[row.destination], "string"):
            yield f"routed by {FIRST_FIELD[row.destination]}, which is not the first field of its request"
        if row.error is None:
            yield "sent to a coordinator without an error shape"
    named = {field.name for field in schema.fields("request")}
    if row.destination is Destination.TRANSACTION and "producer_id" not in named:
        yield "led by its producer's id, which its request does not name"
    if row.destination is Destination.GROUP and named & GENERATIONS and "member_id" not in named:
        yield "a member's request that does not name the member"
    if row.rebalance is not None and (row.error is None or row.error.topics or not {*row.error.echo} <= {"member_id"}):
        yield "refused while it waits in a rebalance, when no more is known of it than its member"
    if row.destination is Destination.GROUP and row.fenced is None:
        yield "sent to a group's coordinator without an answer under a fence"
    if row.fenced is not None and row.error is None:
        yield "an answer under a fence without an error shape"
    if row.by_map and not (row.destination is Destination.COMPOSED and row.changes):
        yield "goes by the map, but composes no change"
    if row.error is not None and row.fenced is not ErrorCode.NONE:
        yield from _unsaid(row, schema)


def _unsaid(row: Api, schema: Schema) -> Iterable[str]:
    """Checks that a refusal can be encoded, and is decoded as one, in every version."""
    asked, code = _asked(schema), ErrorCode.NOT_COORDINATOR
    for version in range(row.min_version, row.max_version + 1):
        try:
            body = encode(row.key, version, "response", row.refusal(asked, code))
        except (LocalProtocolError, KeyError) as error:
            yield f"its refusal v{version} cannot be written: {error}"
            return
        codes = _codes(decode(row.key, version, "response", body), schema.fields("response"), version)
        if codes != {code}:
            yield f"its refusal v{version} says {codes}"


def _asked(schema: Schema) -> dict[str, Any]:
    """A request that names one partition in each of its lists of partitions."""
    topics = next((part for part in schema.fields("request") if part.name == "topics"), None)
    lists = {
        part.name: [3] if part.type == "[]int32" else [{"partition_index": 3}]
        for part in (topics.fields if topics else ())
        if part.is_array
    }
    return {"member_id": "m", "topics": [{"name": "t", **lists}]}


def _codes(answer: Mapping[str, Any], fields: tuple[Field, ...], version: int) -> set[int]:
    found: set[int] = set()
    for part in fields:
        if part.at(version):
            if part.name.endswith("error_code"):
                found.add(answer[part.name])
            for entry in answer[part.name] if part.type == "[]" else ():
                found |= _codes(entry, part.fields, version)
    return found


def test_the_table_of_apis_is_complete() -> None:
    assert faults(Table()) == []


_NO_GROUP = SCHEMAS[ApiKey.HEARTBEAT].request.replace("group_id ", "group_name ")
_NO_MEMBER = SCHEMAS[ApiKey.HEARTBEAT].request.replace("member_id ", "member ")
_NO_PRODUCER = SCHEMAS[ApiKey.END_TXN].request.replace("producer_id ", "producer ")


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (Table(rows=ROWS[1:]), "PRODUCE: 0 rows"),
        (Table(rows=(*ROWS, ROWS[0])), "PRODUCE: 2 rows"),
        (Table(rows=ROWS[1:]), "PRODUCE: a schema without a row"),
        (Table(schemas={k: v for k, v in SCHEMAS.items() if k != ApiKey.HEARTBEAT}), "HEARTBEAT: offered without"),
        (Table().row(ApiKey.HEARTBEAT, max_version=5), "HEARTBEAT: versions 0 to 5, where the schema has 0 to 4"),
        (Table().schema(ApiKey.HEARTBEAT, request=_NO_GROUP), "HEARTBEAT: routed by group_id"),
        (Table().row(ApiKey.METADATA, destination=Destination.TRANSACTION), "METADATA: routed by transactional_id"),
        (Table().row(ApiKey.HEARTBEAT, fenced=None), "HEARTBEAT: sent to a group's coordinator without an answer"),
        (Table().schema(ApiKey.END_TXN, request=_NO_PRODUCER), "END_TXN: led by its producer's id"),
        (Table().schema(ApiKey.HEARTBEAT, request=_NO_MEMBER), "HEARTBEAT: a member's request that does not name"),
        (Table().row(ApiKey.OFFSET_FETCH, rebalance="waits"), "OFFSET_FETCH: refused while it waits"),
        (Table().row(ApiKey.SYNC_GROUP, error=None), "SYNC_GROUP: an answer under a fence without an error shape"),
        (Table().row(ApiKey.END_TXN, error=None), "END_TXN: sent to a coordinator without an error shape"),
        (
            Table().row(ApiKey.OFFSET_COMMIT, error=APIS[ApiKey.SYNC_GROUP].error),
            "OFFSET_COMMIT: its refusal v2 cannot be written",
        ),
        (
            Table().row(ApiKey.OFFSET_FETCH, error=APIS[ApiKey.SYNC_GROUP].error),
            "OFFSET_FETCH: its refusal v1 says",
        ),
        (Table(composed=set(HANDLERS) - {ApiKey.METADATA}), "METADATA: composed without a handler"),
        (Table(composed={*HANDLERS, ApiKey.FETCH}), "FETCH: a handler of what is not composed"),
        (Table(session=SESSION_KEYS - {ApiKey.FETCH}), "FETCH: TOPIC without a handler in the session"),
        (Table(transactions=TRANSACTION_KEYS - {ApiKey.END_TXN}), "END_TXN: TRANSACTION without a handler"),
        (
            Table(transactions={*TRANSACTION_KEYS, ApiKey.METADATA}),
            "METADATA: TRANSACTION a handler of what has another",
        ),
        (Table().row(ApiKey.VOTE, why=""), "VOTE: hidden, but with versions or without a reason"),
        (Table().row(ApiKey.VOTE, max_version=0), "VOTE: hidden, but with versions or without a reason"),
        (Table().row(ApiKey.METADATA, by_map=True), "METADATA: goes by the map, but composes no change"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_planted_gap_in_the_table_of_apis_is_found(table: Table, fault: str) -> None:
    assert [text for text in faults(table) if text.startswith(fault)]


_READS = ("LIST_", "DESCRIBE_", "FIND_", "METADATA", "OFFSET_FOR_", "CONSUMER_GROUP_DESCRIBE")


@pytest.mark.parametrize("row", [row for row in ROWS if row.key in HANDLERS], ids=lambda row: row.key.name)
def test_a_composed_api_counts_as_a_change_unless_it_only_reads(row: Api) -> None:
    assert row.changes == (not row.key.name.startswith(_READS))


def offered(*clusters: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    return {line["api_key"]: (line["min_version"], line["max_version"]) for line in advertised(clusters)}


def test_versions_with_broker_addresses_or_topic_ids_are_not_offered() -> None:
    for row in APIS.values():
        if row.destination in (Destination.HIDDEN, Destination.LOCAL) or row.key is ApiKey.FIND_COORDINATOR:
            continue
        if row.key is ApiKey.CONSUMER_GROUP_DESCRIBE:  # names topics too, and its ids are zeros
            continue
        for kind in ("request", "response"):
            names = _names(SCHEMAS[row.key].fields(kind), row.max_version)
            assert "topic_id" not in names
            assert "node_endpoints" not in names


def _names(fields: Any, version: int) -> set[str]:
    present = [field for field in fields if field.at(version)]
    return {field.name for field in present}.union(*[_names(field.fields, version) for field in present])


def test_advertised_versions_are_common_to_the_table_and_all_clusters() -> None:
    old = EVERYTHING | {1: (4, 11), 3: (0, 7)}
    narrow = EVERYTHING | {1: (6, 15), 65: (1, 2)}
    both = offered(old, narrow)
    assert both[ApiKey.FETCH] == (6, 11)
    assert both[ApiKey.METADATA] == (0, 7)
    assert ApiKey.DESCRIBE_TRANSACTIONS not in both
    assert ApiKey.SHARE_GROUP_HEARTBEAT not in both


def test_metadata_is_advertised_below_the_version_at_which_clients_rely_on_leader_epochs() -> None:
    # From 9 on librdkafka would send epoch 0 with each fetch, since gateways tell it no epoch
    assert offered(EVERYTHING)[ApiKey.METADATA] == (0, 8)


def test_an_api_that_one_cluster_lacks_is_left_out_unless_the_gateway_answers_it() -> None:
    lacking = {key: span for key, span in EVERYTHING.items() if key not in (ApiKey.LIST_TRANSACTIONS, 17, 36)}
    both = offered(EVERYTHING, lacking)
    assert ApiKey.LIST_TRANSACTIONS not in both
    assert both[ApiKey.SASL_HANDSHAKE] == (0, 1)
    assert both[ApiKey.SASL_AUTHENTICATE] == (0, 2)


def test_without_a_known_cluster_everything_the_gateway_serves_is_advertised() -> None:
    # A Java client that finds no METADATA exits with UnsupportedVersionException; it should wait for the clusters
    assert offered() == offered(EVERYTHING)


def test_produce_version_zero_is_advertised_only_when_every_cluster_offers_it() -> None:
    assert offered(EVERYTHING)[ApiKey.PRODUCE] == (0, 9)
    assert offered(EVERYTHING, EVERYTHING | {0: (3, 12)})[ApiKey.PRODUCE] == (3, 9)


def test_the_advertised_list_of_apis_can_be_encoded() -> None:
    body = encode(ApiKey.API_VERSIONS, 3, "response", {"api_keys": advertised([EVERYTHING])})
    assert decode(ApiKey.API_VERSIONS, 3, "response", body)["api_keys"] == advertised([EVERYTHING])


GROUP_CASES = [
    (row.key, version)
    for row in ROWS
    if row.destination is Destination.GROUP
    for version in range(row.min_version, row.max_version + 1)
]


@pytest.mark.parametrize(("key", "version"), GROUP_CASES)
@pytest.mark.parametrize("group", ["", "payments", "g" * 200])
def test_the_group_of_a_request_is_found_without_decoding(key: int, version: int, group: str) -> None:
    body = encode(key, version, "request", {"group_id": group})
    shared = b"head" + body + b"\xff" * 300
    assert peek_group(key, version, shared, 4, 4 + len(body)) == group.encode()
    with pytest.raises(RemoteProtocolError):
        peek_group(key, version, shared, 4, 4)


def test_a_request_with_no_group_or_with_several_is_refused() -> None:
    with pytest.raises(KeyError):
        peek_group(ApiKey.METADATA, 9, b"", 0, 0)
    with pytest.raises(RemoteProtocolError, match="7 is the last version offered"):
        peek_group(ApiKey.OFFSET_FETCH, 8, b"\x02", 0, 1)
    with pytest.raises(RemoteProtocolError, match="null"):
        peek_group(ApiKey.HEARTBEAT, 0, b"\xff\xff", 0, 2)


@given(st.sampled_from(GROUP_CASES), seeds)
@settings(deadline=None)
def test_random_group_requests_are_read_or_refused(case: tuple[int, int], seed: int) -> None:
    rnd = random.Random(seed)
    data = rnd.randbytes(rnd.randrange(30))
    try:
        assert len(peek_group(*case, data, 0, len(data))) <= len(data)
    except RemoteProtocolError:
        return


def test_error_codes_know_which_are_retriable() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in RETRIABLE
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED not in RETRIABLE
    assert ErrorCode.NONE not in RETRIABLE
    assert {int(code) for code in ErrorCode} >= set(range(-1, 131))
