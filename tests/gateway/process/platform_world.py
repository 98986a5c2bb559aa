"""Gateways of a test's own process that follow a platform over HTTP, with a store that all of them have in common."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from gateway.config import load
from gateway.process.gateway import Gateway
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import AuthenticationRefusedError
from ha_core.model.access import AclOperation, ResourceType
from ha_core.wire.sasl import SecurityProfile
from stack.memory_store import MemoryStore
from tests.gateway.process.platform_service import GATEWAY_TOKEN, PlatformService

PASSWORD = "secret-of-the-test"
SOON_S = 20.0


class World:
    """A platform, and gateways that follow it, with a common `store`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.platform = PlatformService(folder, self.store)
        self.section: dict[str, Any] = {"folder": "kept", "hold_s": 1}
        (folder / "token").write_text(GATEWAY_TOKEN)
        (folder / "phantoms").write_text("p" * 32)

    def gateway(self, name: str = "gw-1", **more: Any) -> Gateway:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        document = {
            "id": name,
            "zookeeper": {"hosts": "nowhere:1"},
            "listen": {"port": port},
            "nodes": {"first_port": 20_000, "count": 1000},
            "authentication": {"mechanisms": ["PLAIN", "SCRAM-SHA-512"], "phantom_secret_file": "phantoms"},
            "platform": {"url": self.platform.url, "token_file": "token", **self.section},
            "record_facts_s": 0,
            **more,
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document))
        return Gateway(load(file), self.store.client(), "test")


@contextlib.asynccontextmanager
async def running(*gateways: Gateway) -> AsyncIterator[tuple[Gateway, ...]]:
    try:
        for gateway in gateways:
            await gateway.start()
        yield gateways
    finally:
        for gateway in gateways:
            await gateway.stop()


def connect(gateway: Gateway, user: str, password: str = PASSWORD, mechanism: str = "PLAIN") -> BlockingConnection:
    account = SecurityProfile(mechanism, user, password)
    return BlockingConnection("gw", "127.0.0.1", gateway.config.listen.port, account, Deadline.after(20))


async def logs_in(gateway: Gateway, user: str, password: str = PASSWORD, mechanism: str = "PLAIN") -> bool:
    try:
        connection = await asyncio.to_thread(connect, gateway, user, password, mechanism)
    except AuthenticationRefusedError:
        return False
    connection.close()
    return True


async def soon(holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    until = time.monotonic() + SOON_S
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return
        assert time.monotonic() < until, f"still not: {what}"
        await asyncio.sleep(0.02)


def reads(gateway: Gateway, user: str, topic: str) -> bool:
    rights = gateway.snapshot.rights
    assert rights is not None
    return rights.of(user, "127.0.0.1").allows(AclOperation.READ, ResourceType.TOPIC, topic)


def lacks(gateway: Gateway, user: str, topic: str) -> bool:
    return not reads(gateway, user, topic)


@contextlib.asynccontextmanager
async def followed_by_one(world: World) -> AsyncIterator[Gateway]:
    """A gateway that follows the platform, where alice is a user."""
    world.platform.put_user("alice", PASSWORD)
    world.platform.begin()
    async with running(world.gateway()) as (gateway,):
        yield gateway
