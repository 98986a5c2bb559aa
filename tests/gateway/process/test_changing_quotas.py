"""Quotas that clients change through gateways which follow a platform: stored there, and in force everywhere."""

import asyncio
from typing import Any

from gateway.process.gateway import Gateway
from ha_core.model.quota import Limits, QuotaEntity, QuotaKind
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.process.platform_world import World, connect, running, soon

ALICE = QuotaEntity("alice")


def entry(entity: dict[str, str | None], **limits: float | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in limits.items()],
    }


async def altered(
    gateway: Gateway, *entries: dict[str, Any], user: str = "ops", validate_only: bool = False
) -> list[dict[str, Any]]:
    def ask() -> list[dict[str, Any]]:
        connection = connect(gateway, user)
        try:
            request = {"entries": list(entries), "validate_only": validate_only}
            return list(connection.call(ApiKey.ALTER_CLIENT_QUOTAS, request, 1)["entries"])
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


def in_force(gateway: Gateway) -> dict[QuotaEntity, Limits]:
    quotas = gateway.snapshot.quotas
    return {} if quotas is None else dict(quotas.limits)


async def test_a_quota_set_by_a_client_is_stored_on_the_platform_and_in_force_at_all_gateways(peopled: World) -> None:
    async with running(peopled.gateway("gw-1"), peopled.gateway("gw-2")) as (first, second):
        # When a user, and one of the user's topics, get a quota
        said = await altered(
            first,
            entry({"user": "alice"}, producer_byte_rate=1000.0),
            entry({"client-id": "alice.orders"}, consumer_byte_rate=500.0),
        )
        # Then
        assert [one["error_code"] for one in said] == [0, 0]
        expected = {
            ALICE: {QuotaKind.PRODUCE: 1000.0},
            QuotaEntity("alice", None, "orders"): {QuotaKind.FETCH: 500.0},
        }
        assert in_force(first) == expected
        await soon(lambda: in_force(second) == expected, "the other gateway has them")
        history = peopled.platform.registry.read.history("quotas").stored
        assert {(stored_entry.by, stored_entry.reason) for stored_entry in history} == {
            ("ops", "ALTER_CLIENT_QUOTAS of a client, through old")
        }
        # And when one limit is added and one taken away, through the other gateway
        await altered(second, entry({"user": "alice"}, request_percentage=12.5, producer_byte_rate=None))
        assert in_force(second)[ALICE] == {QuotaKind.REQUEST: 12.5}
        # and then the last one
        await altered(second, entry({"user": "alice"}, request_percentage=None))
        assert ALICE not in in_force(second)
        assert peopled.platform.registry.read.find("quotas", history[-1].key) is None


async def test_refusals_of_the_platform_reach_the_client_and_validate_only_changes_nothing(peopled: World) -> None:
    async with running(peopled.gateway()) as (gateway,):
        for_unknown_user = entry({"user": "nobody"}, producer_byte_rate=1.0)
        for_alice = entry({"user": "alice"}, producer_byte_rate=1.0)
        for only in (True, False):
            said = await altered(gateway, for_unknown_user, for_alice, validate_only=only)
            assert [one["error_code"] for one in said] == [ErrorCode.INVALID_REQUEST, 0]
            assert "there is no user 'nobody' on the platform" in said[0]["error_message"]
            assert (ALICE in in_force(gateway)) is not only
        (denied,) = await altered(gateway, for_alice, user="alice")
        assert denied["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_while_the_platform_is_away_quotas_stay_in_force_and_cannot_be_changed(peopled: World) -> None:
    async with running(peopled.gateway()) as (gateway,):
        await altered(gateway, entry({"user": "alice"}, producer_byte_rate=1000.0))
        peopled.platform.go_away()
        (said,) = await altered(gateway, entry({"user": "alice"}, producer_byte_rate=None))
        assert said["error_code"] == ErrorCode.REQUEST_TIMED_OUT
        assert in_force(gateway) == {ALICE: {QuotaKind.PRODUCE: 1000.0}}


async def test_a_platform_that_publishes_no_quotas_accepts_none(peopled: World) -> None:
    peopled.platform.go_away()
    peopled.platform.publishes_quotas = False
    peopled.platform.begin()
    async with running(peopled.gateway()) as (gateway,):
        (said,) = await altered(gateway, entry({"user": "alice"}, producer_byte_rate=1000.0))
        assert said["error_code"] == ErrorCode.REQUEST_TIMED_OUT
        assert "start it with --zookeeper" in said["error_message"]
        assert peopled.platform.registry.read.history("quotas").stored == ()


async def test_a_gateway_that_does_not_have_quotas_from_the_platform_changes_its_own_and_none_of_the_platforms(
    peopled: World,
) -> None:
    async with running(peopled.gateway()) as (gateway,):
        await altered(gateway, entry({"user": "alice"}, producer_byte_rate=1000.0))
    peopled.section["follows"] = ["users", "rules"]
    async with running(peopled.gateway()) as (gateway,):
        await soon(lambda: ALICE in in_force(gateway), "it is in force")
        said = await altered(
            gateway,
            entry({"user": "alice"}, producer_byte_rate=5.0),
            entry({"user": "nobody"}, producer_byte_rate=5.0),
        )
        assert [one["error_code"] for one in said] == [ErrorCode.INVALID_REQUEST, 0]
        assert "is one of the platform: change it there" in said[0]["error_message"]
        await soon(lambda: QuotaEntity("nobody") in in_force(gateway), "the other one is in force")
        assert in_force(gateway)[ALICE] == {QuotaKind.PRODUCE: 1000.0}
