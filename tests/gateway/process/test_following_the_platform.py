"""Whole gateways that follow a platform over HTTP: they apply its users and rules, also while it is away."""

import asyncio
import logging
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from gateway.process.gateway import Gateway
from gateway.process.metrics import GatewayMetrics
from ha_core.datacache.core.errors import NodeIdTakenError
from ha_core.kafka.errors import ConnectionLostError
from ha_core.platform.errors import DatabaseAwayError
from ha_core.wire import ApiKey
from stack.certificates import Authority
from tests.gateway.process.platform_service import GATEWAY_TOKEN, OTHER_TOKEN, PlatformService
from tests.gateway.process.platform_world import (
    PASSWORD,
    SOON_S,
    World,
    connect,
    followed_by_one,
    lacks,
    logs_in,
    reads,
    running,
    soon,
)

STRANGE_TOKEN = "x" * 40
"""A token of no gateway."""


async def test_users_and_rules_are_those_of_the_platform_at_every_gateway_and_follow_its_changes(world: World) -> None:
    # Given
    world.platform.put_user("alice", PASSWORD)
    world.platform.begin()
    async with running(world.gateway("gw-1"), world.gateway("gw-2")) as gateways:
        for gateway in gateways:
            for mechanism in ("PLAIN", "SCRAM-SHA-512"):
                assert await logs_in(gateway, "alice", mechanism=mechanism)
            assert not await logs_in(gateway, "bob")
            assert not reads(gateway, "alice", "orders")
        # When
        world.platform.put_user("bob", PASSWORD)
        key = world.platform.grant("alice", "orders")
        # Then
        for gateway in gateways:
            await soon(partial(logs_in, gateway, "bob"), "bob logs in")
            await soon(partial(reads, gateway, "alice", "orders"), "alice reads")
            assert not reads(gateway, "bob", "orders")
        # And when it is taken back
        world.platform.revoke(key)
        for gateway in gateways:
            await soon(partial(lacks, gateway, "alice", "orders"), "alice reads no more")


async def test_a_deleted_users_connections_end_and_those_of_one_with_a_new_password_do_not(world: World) -> None:
    # Given
    for user in ("alice", "bob"):
        world.platform.put_user(user, PASSWORD)
    world.platform.begin()
    async with running(world.gateway()) as (gateway,):
        alice, bob = [await asyncio.to_thread(connect, gateway, user) for user in ("alice", "bob")]
        # When
        world.platform.put_user("bob", "another")
        world.platform.delete_user("alice")
        # Then
        await soon(lambda: gateway.clients.ended["user_gone"] == 1, "the connection has ended")
        with pytest.raises(ConnectionLostError):
            await asyncio.to_thread(alice.call, ApiKey.METADATA, {"topics": []})
        assert not await logs_in(gateway, "alice")
        await soon(lambda: logs_in(gateway, "bob", "another"), "the new password is good")
        assert not await logs_in(gateway, "bob")
        assert await asyncio.to_thread(bob.call, ApiKey.METADATA, {"topics": []})
        bob.close()


async def test_while_the_platform_is_away_its_state_stays_in_force_and_its_age_is_shown(world: World) -> None:
    # Given
    world.platform.put_user("alice", PASSWORD)
    world.platform.grant("alice", "orders")
    world.platform.begin()
    world.section["read_s"] = 0.2
    async with running(world.gateway()) as (gateway,):
        # When
        world.platform.go_away()
        await soon(lambda: metric(gateway, "platform_unreadable", "users") == 1, "it is seen")
        # Then
        assert await logs_in(gateway, "alice")
        assert reads(gateway, "alice", "orders")
        before = metric(gateway, "platform_age_seconds", "users")
        await asyncio.sleep(0.3)
        assert metric(gateway, "platform_age_seconds", "users") > before
        assert not gateway.unready
        # And when it is back with a change
        world.platform.put_user("bob", PASSWORD)
        world.platform.begin()
        await soon(lambda: logs_in(gateway, "bob"), "what was changed meanwhile is in force")
        await soon(lambda: metric(gateway, "platform_unreadable", "users") == 0, "it is seen")


def metric(gateway: Gateway, name: str, cache: str) -> float:
    start = f'switchyard_gateway_{name}{{cache="{cache}"}} '
    (found,) = [line for line in GatewayMetrics(gateway).render().decode().splitlines() if line.startswith(start)]
    return float(found.removeprefix(start))


async def test_a_gateway_that_starts_while_the_platform_is_away_continues_with_the_stored_state(world: World) -> None:
    # Given
    world.platform.put_user("alice", PASSWORD)
    world.platform.grant("alice", "orders")
    world.platform.begin()
    async with running(world.gateway()) as (gateway,):
        assert await logs_in(gateway, "alice")
    world.platform.go_away()
    # When
    async with running(world.gateway()) as (gateway,):
        # Then
        assert await logs_in(gateway, "alice")
        assert reads(gateway, "alice", "orders")
        assert not gateway.unready
        await soon(lambda: metric(gateway, "platform_unreadable", "rules") == 1, "it is seen")
        # And it catches up as soon as the platform is back
        world.platform.delete_user("alice")
        world.platform.begin()
        await soon(partial(lacks, gateway, "alice", "orders"), "the rule has gone")


async def test_a_gateway_without_any_state_of_the_platform_serves_no_client_and_says_why(world: World) -> None:
    # Given no platform
    world.platform.put_user("alice", PASSWORD)
    gateway = world.gateway()
    starting = asyncio.create_task(gateway.start())
    try:
        await soon(lambda: "does not answer" in " ".join(gateway.unready), "it is said")
        assert "users, rules, settings of the platform were never read" in " ".join(gateway.unready)
        assert not gateway.clients.listeners
        # When
        world.platform.begin()
        # Then
        await asyncio.wait_for(starting, SOON_S)
        assert await logs_in(gateway, "alice")
    finally:
        starting.cancel()
        await gateway.stop()


async def test_a_locked_database_refuses_changes_and_takes_nothing_from_gateways(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a database that another process has locked
    async with followed_by_one(world) as gateway:
        locking = sqlite3.connect(world.folder / "platform.db", isolation_level=None)
        locking.execute("BEGIN EXCLUSIVE")
        # When
        changing = asyncio.create_task(asyncio.to_thread(world.platform.put_user, "bob", PASSWORD))
        # Then
        assert await logs_in(gateway, "alice")
        with pytest.raises(DatabaseAwayError):
            await changing
        assert await logs_in(gateway, "alice")
        locking.execute("ROLLBACK")
        locking.close()
        assert not await logs_in(gateway, "bob")
        world.platform.put_user("bob", PASSWORD)
        await soon(lambda: logs_in(gateway, "bob"), "bob logs in")


async def test_a_second_gateway_with_the_same_id_does_not_start_and_the_first_goes_on(world: World) -> None:
    # Given
    async with followed_by_one(world) as gateway:
        second = world.gateway()
        assert second.platform is not None
        # When
        with pytest.raises(NodeIdTakenError, match=r"node gw-1 of the cache users is .* another process"):
            await asyncio.to_thread(second.platform.begin)
        await asyncio.to_thread(second.platform.close)
        # Then
        world.platform.put_user("bob", PASSWORD)
        await soon(lambda: logs_in(gateway, "bob"), "the first one follows")


async def test_a_token_replaced_in_its_file_is_used_without_a_restart(world: World) -> None:
    # Given
    world.section["read_s"] = 0.2
    async with followed_by_one(world) as gateway:
        # When the old one is withdrawn
        (world.folder / "token").write_text(OTHER_TOKEN)
        world.platform.go_away()
        del world.platform.tokens[0]
        world.platform.put_user("bob", PASSWORD)
        world.platform.begin()
        # Then
        await soon(lambda: logs_in(gateway, "bob"), "bob logs in")


@pytest.mark.parametrize("trusted", [True, False])
async def test_over_tls_only_a_platform_with_a_certificate_of_the_authority_is_used(
    world: World, tmp_path: Path, trusted: bool
) -> None:
    # Given
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other", "Somebody else")
    world.platform.close()
    world.platform = PlatformService(tmp_path, world.store, authority.issue("platform", ["127.0.0.1"]))
    world.section["tls"] = {"ca_file": str((authority if trusted else other).file)}
    world.platform.put_user("alice", PASSWORD)
    world.platform.begin()
    gateway = world.gateway()
    starting = asyncio.create_task(gateway.start())
    try:
        if trusted:
            await asyncio.wait_for(starting, SOON_S)
            assert await logs_in(gateway, "alice")
        else:
            await soon(lambda: any("does not answer: ConnectError" in why for why in gateway.unready), "said")
            assert not gateway.clients.listeners
    finally:
        starting.cancel()
        await gateway.stop()


async def test_no_output_of_a_gateway_has_tokens_or_keys(world: World, caplog: pytest.LogCaptureFixture) -> None:
    # Given all output of a gateway while all goes well, and while it does not
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    world.section["read_s"] = 0.2
    async with followed_by_one(world) as gateway:
        assert await logs_in(gateway, "alice", mechanism="SCRAM-SHA-512")
        assert not await logs_in(gateway, "alice", "another", mechanism="SCRAM-SHA-512")
        (world.folder / "token").write_text(STRANGE_TOKEN)
        await soon(lambda: metric(gateway, "platform_unreadable", "users") == 1, "refused")
        (world.folder / "token").unlink()
        await soon(lambda: "token_file" in repr(gateway.platform and gateway.platform.states()), "no token")
        world.platform.go_away()
        said.extend((GatewayMetrics(gateway).render().decode(), repr(gateway.config), gateway.config.model_dump_json()))
        said.append(repr(gateway.platform and gateway.platform.states()))
    # Then
    keys = world.platform.registry.source("users").changes(0, 10).rows[0].value
    assert keys is not None
    secrets = [GATEWAY_TOKEN, STRANGE_TOKEN, PASSWORD]
    secrets += [kept[name] for kept in keys["scram"].values() for name in ("salt", "stored_key", "server_key")]
    seen = "\n".join([*said, caplog.text])
    assert "does not answer" in seen or "answers 401" in seen
    assert [secret for secret in secrets if secret in seen] == []
