"""The policy table: complete, within what the codec reads, and honest in what it advertises."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import (
    POLICIES,
    ApiKey,
    ErrorCode,
    RemoteProtocolError,
    Route,
    advertised,
    decode,
    encode,
    peek_group,
    peek_transactional_id,
)
from ha_core.wire.policy import _TABLE
from ha_core.wire.schemas import APIS
from tests.wire.samples import seeds

EVERYTHING = {int(key): (0, 20) for key in ApiKey}


def offered(*clusters: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    return {line["api_key"]: (line["min_version"], line["max_version"]) for line in advertised(clusters)}


def test_every_api_key_has_exactly_one_line() -> None:
    assert sorted(line.key for line in _TABLE) == sorted(ApiKey)


def test_every_offered_version_can_be_read_and_written() -> None:
    for line in POLICIES.values():
        if line.route is Route.HIDDEN:
            assert line.max_version < line.min_version
            assert line.why
        else:
            low, high = APIS[line.key].versions
            assert low <= line.min_version <= line.max_version <= high


def test_versions_with_broker_addresses_or_topic_ids_are_not_offered() -> None:
    for line in POLICIES.values():
        if line.route in (Route.HIDDEN, Route.LOCAL) or line.key is ApiKey.FIND_COORDINATOR:
            continue
        if line.key is ApiKey.CONSUMER_GROUP_DESCRIBE:  # names topics too, and its ids are zeros
            continue
        for kind in ("request", "response"):
            names = _names(APIS[line.key].fields(kind), line.max_version)
            assert "topic_id" not in names
            assert "node_endpoints" not in names


def _names(fields: Any, version: int) -> set[str]:
    present = [field for field in fields if field.at(version)]
    return {field.name for field in present}.union(*[_names(field.fields, version) for field in present])


def test_what_is_advertised_is_common_to_the_table_and_all_clusters() -> None:
    old = EVERYTHING | {1: (4, 11), 3: (0, 8)}
    narrow = EVERYTHING | {1: (6, 15), 65: (1, 2)}
    both = offered(old, narrow)
    assert both[ApiKey.FETCH] == (6, 11)
    assert both[ApiKey.METADATA] == (0, 8)
    assert ApiKey.DESCRIBE_TRANSACTIONS not in both
    assert ApiKey.SHARE_GROUP_HEARTBEAT not in both


def test_an_api_that_one_cluster_lacks_is_left_out_unless_the_gateway_answers_it() -> None:
    lacking = {key: span for key, span in EVERYTHING.items() if key not in (ApiKey.LIST_TRANSACTIONS, 17, 36)}
    both = offered(EVERYTHING, lacking)
    assert ApiKey.LIST_TRANSACTIONS not in both
    assert both[ApiKey.SASL_HANDSHAKE] == (0, 1)
    assert both[ApiKey.SASL_AUTHENTICATE] == (0, 2)


def test_without_a_known_cluster_everything_is_advertised_that_the_gateway_serves() -> None:
    # A Java client that finds no METADATA ends with UnsupportedVersionException, where it should wait for the clusters
    assert offered() == offered(EVERYTHING)


def test_produce_claims_0_only_where_every_cluster_claims_it() -> None:
    assert offered(EVERYTHING)[ApiKey.PRODUCE] == (0, 9)
    assert offered(EVERYTHING, EVERYTHING | {0: (3, 12)})[ApiKey.PRODUCE] == (3, 9)


def test_the_advertised_list_is_a_message() -> None:
    body = encode(ApiKey.API_VERSIONS, 3, "response", {"api_keys": advertised([EVERYTHING])})
    assert decode(ApiKey.API_VERSIONS, 3, "response", body)["api_keys"] == advertised([EVERYTHING])


GROUP_FIELD = {
    ApiKey.OFFSET_COMMIT: "group_id",
    ApiKey.OFFSET_FETCH: "group_id",
    ApiKey.JOIN_GROUP: "group_id",
    ApiKey.HEARTBEAT: "group_id",
    ApiKey.LEAVE_GROUP: "group_id",
    ApiKey.SYNC_GROUP: "group_id",
    ApiKey.OFFSET_DELETE: "group_id",
    ApiKey.TXN_OFFSET_COMMIT: "group_id",
    ApiKey.ADD_OFFSETS_TO_TXN: "group_id",
}
GROUP_CASES = [
    (key, version) for key in GROUP_FIELD for version in range(POLICIES[key].min_version, POLICIES[key].max_version + 1)
]
TRANSACTION_CASES = [
    (line.key, version)
    for line in POLICIES.values()
    if line.route is Route.TRANSACTION
    for version in range(line.min_version, line.max_version + 1)
]


@pytest.mark.parametrize(("key", "version"), GROUP_CASES)
@pytest.mark.parametrize("group", ["", "payments", "g" * 200])
def test_the_group_is_found_without_decoding(key: int, version: int, group: str) -> None:
    body = encode(key, version, "request", {GROUP_FIELD[ApiKey(key)]: group})
    shared = b"head" + body + b"\xff" * 300
    assert peek_group(key, version, shared, 4, 4 + len(body)) == group.encode()
    with pytest.raises(RemoteProtocolError):
        peek_group(key, version, shared, 4, 4)


@pytest.mark.parametrize(("key", "version"), TRANSACTION_CASES)
@pytest.mark.parametrize("name", ["tx", "x" * 200])
def test_the_transactional_id_is_found_without_decoding(key: int, version: int, name: str) -> None:
    body = encode(key, version, "request", {"transactional_id": name})
    assert peek_transactional_id(key, version, body, 0, len(body)) == name.encode()


def test_a_producer_id_may_be_asked_for_without_a_transactional_id() -> None:
    for version in range(5):
        body = encode(ApiKey.INIT_PRODUCER_ID, version, "request", {"transactional_id": None})
        assert peek_transactional_id(ApiKey.INIT_PRODUCER_ID, version, body, 0, len(body)) is None
    with pytest.raises(RemoteProtocolError, match="null"):
        peek_transactional_id(ApiKey.END_TXN, 0, b"\xff\xff", 0, 2)


def test_requests_without_or_with_several_groups_are_refused() -> None:
    with pytest.raises(KeyError):
        peek_group(ApiKey.METADATA, 9, b"", 0, 0)
    with pytest.raises(RemoteProtocolError, match="several groups"):
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
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.TOPIC_AUTHORIZATION_FAILED.retriable
    assert not ErrorCode.NONE.retriable
    assert {int(code) for code in ErrorCode} >= set(range(-1, 131))
