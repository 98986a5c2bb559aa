"""Access rules that clients change through gateways which follow a platform: stored there, in force everywhere."""

import asyncio
import sqlite3
import time
from typing import Any

import pytest

from gateway.process import client_changes
from gateway.process.gateway import Gateway
from ha_core.platform import remote
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.process.platform_world import World, connect, lacks, reads, running, soon

READS_ORDERS: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
OF_ALICE: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": "User:alice",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


async def asked(gateway: Gateway, user: str, key: ApiKey, message: dict[str, Any]) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        connection = connect(gateway, user)
        try:
            return connection.call(key, message, 2)
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


async def created(gateway: Gateway, user: str = "ops", **fields: Any) -> dict[str, Any]:
    answer = await asked(gateway, user, ApiKey.CREATE_ACLS, {"creations": [READS_ORDERS | fields]})
    (result,) = answer["results"]
    return dict(result)


async def deleted(gateway: Gateway, user: str = "ops") -> dict[str, Any]:
    answer = await asked(gateway, user, ApiKey.DELETE_ACLS, {"filters": [OF_ALICE]})
    (result,) = answer["filter_results"]
    return dict(result)


async def test_a_rule_created_by_a_client_is_in_force_at_the_answering_gateway_and_soon_at_all(peopled: World) -> None:
    peopled.section["read_s"] = 3600  # so that no gateway finds it by polling
    async with running(peopled.gateway("gw-1"), peopled.gateway("gw-2")) as (first, second):
        # When
        assert await created(first) == {"error_code": 0, "error_message": None}
        # Then
        assert reads(first, "alice", "orders")
        await soon(lambda: reads(second, "alice", "orders"), "the other gateway lets him read")
        (made,) = peopled.platform.registry.read.history("rules").stored
        assert (made.by, made.reason) == ("ops", "CREATE_ACLS of a client, through old")
        # And when it is taken back through the other one
        gone = await deleted(second)
        assert [one["resource_name"] for one in gone["matching_acls"]] == ["orders"]
        assert lacks(second, "alice", "orders")
        await soon(lambda: lacks(first, "alice", "orders"), "the first gateway does not let him read")
        assert peopled.platform.registry.read.history("rules").stored[0].by == "ops"


async def test_a_user_who_may_not_alter_the_cluster_changes_nothing_and_the_platform_gets_no_request(
    peopled: World,
) -> None:
    async with running(peopled.gateway()) as (gateway,):
        assert (await created(gateway, "alice"))["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (await deleted(gateway, "alice"))["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert peopled.platform.registry.read.history("rules").stored == ()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"principal": "User:nobody"}, "there is no user 'nobody' on the platform: register it first"),
        ({"operation": 12}, "idempotent_write is an operation of the cluster only"),
        ({"resource_type": 6, "resource_name": "token"}, "resource_type 6"),
    ],
)
async def test_refusals_of_the_platform_have_a_brokers_code_and_the_platforms_text(
    peopled: World, fields: dict[str, Any], words: str
) -> None:
    async with running(peopled.gateway()) as (gateway,):
        said = await created(gateway, **fields)
        assert said["error_code"] == ErrorCode.INVALID_REQUEST
        assert words in said["error_message"]
        assert peopled.platform.registry.read.history("rules").stored == ()


async def test_changes_are_refused_while_the_platform_is_away_and_made_when_it_is_back(peopled: World) -> None:
    async with running(peopled.gateway()) as (gateway,):
        peopled.platform.go_away()
        # When
        said = [await created(gateway), await deleted(gateway)]
        # Then
        for one in said:
            assert one["error_code"] == ErrorCode.REQUEST_TIMED_OUT
            assert "does not answer: ConnectError. It is not known whether the change" in one["error_message"]
        assert lacks(gateway, "alice", "orders")
        # And when it is asked for again
        peopled.platform.begin()
        assert (await created(gateway))["error_code"] == 0
        assert reads(gateway, "alice", "orders")


async def test_a_locked_database_and_an_unknown_token_change_nothing(peopled: World) -> None:
    async with running(peopled.gateway()) as (gateway,):
        locking = sqlite3.connect(peopled.folder / "platform.db", isolation_level=None)
        locking.execute("BEGIN IMMEDIATE")
        said = await created(gateway)
        locking.execute("ROLLBACK")
        locking.close()
        assert said["error_code"] == ErrorCode.REQUEST_TIMED_OUT
        (peopled.folder / "token").write_text("x" * 40)
        said = await created(gateway)
        assert said["error_code"] == ErrorCode.REQUEST_TIMED_OUT
        assert "answers 401 to rules: see its log, and the token" in said["error_message"]
        assert "xxxx" not in said["error_message"]


async def test_a_hanging_platform_blocks_a_few_threads_and_no_other_request(
    peopled: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(client_changes, "TURN_S", 0.3)
    async with running(peopled.gateway()) as (gateway,):
        # Given a platform that takes connections and answers nothing
        peopled.platform.go_away()
        hanging = await asyncio.start_server(lambda _reader, _writer: asyncio.sleep(30), port=peopled.platform.port)
        began = time.monotonic()
        # When more ask than have a turn
        asking = [asyncio.create_task(created(gateway)) for _ in range(2 * client_changes.AT_ONCE)]
        # Then others are served
        assert (await created(gateway, "alice"))["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        said = await asyncio.gather(*asking)
        assert {one["error_code"] for one in said} == {ErrorCode.REQUEST_TIMED_OUT}
        assert any("answered no change" in one["error_message"] for one in said)
        assert time.monotonic() - began < 25
        hanging.close()
