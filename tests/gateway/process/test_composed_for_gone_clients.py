"""Composed requests of clients that have gone."""

import asyncio
import socket
from collections.abc import Hashable
from typing import Any

import pytest

from gateway.composed.handlers import NodeAddress
from gateway.config import Config
from gateway.process.composing import Errands
from gateway.process.gateway import Gateway
from gateway.process.sockets.handshakes import Arrived
from gateway.session.commands import Cause, Compose
from gateway.session.snapshot import Port
from ha_core.model import Identity
from ha_core.wire import ApiKey
from stack.memory_store import MemoryStore


async def test_reads_end_with_their_connection_and_changes_are_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given two clients of a gateway whose clusters are slow
    config = Config.model_validate(
        {"id": "gw", "zookeeper": {"hosts": "nowhere:1"}, "authentication": {"anonymous": True}}
    )
    gateway = Gateway(config, MemoryStore(), "test")
    gateway.self_node = NodeAddress(1, "gw", 1)
    slow = asyncio.Event()
    ends: list[tuple[Hashable, str]] = []

    async def compose(_: Any, command: Compose, __: Any) -> dict[str, Any]:
        try:
            await slow.wait()
        except asyncio.CancelledError:
            ends.append((command.token, "left"))
            raise
        ends.append((command.token, "done"))
        return {}

    monkeypatch.setattr(gateway.composer, "compose", compose)
    pairs = [socket.socketpair() for _ in range(2)]
    for ours, _ in pairs:
        ours.setblocking(False)
        gateway.clients._admit(Arrived(ours, Port(), "127.0.0.1"))
    gone, stays = sorted(gateway.clients.open, key=lambda connection: connection.client.sock.fileno())
    identity = Identity("anonymous", "app")
    for connection, token, key in (
        (gone, 1, ApiKey.METADATA),
        (gone, 2, ApiKey.DELETE_TOPICS),
        (stays, 3, ApiKey.METADATA),
    ):
        gateway.fulfil(connection, Compose(token, key, 1, identity, {}))
    await asyncio.sleep(0)
    # When one of them disconnects
    gone.end(Cause.CLIENT_LEFT)
    await asyncio.sleep(0.01)
    # Then its reads are no longer worked on
    assert ends == [(1, "left")]
    # And its changes are completed, as are the other's requests
    slow.set()
    await asyncio.sleep(0.01)
    assert ends == [(1, "left"), (2, "done"), (3, "done")]
    assert not gateway.errands
    stays.end(Cause.SHUTDOWN)
    for _, theirs in pairs:
        theirs.close()


async def test_finished_work_is_forgotten_and_a_stop_cancels_the_rest() -> None:
    errands = Errands(asyncio.get_running_loop())
    for completes in (True, False):
        errands.start("client", asyncio.sleep(0), completes)
    await asyncio.sleep(0.01)
    assert not errands
    assert not errands._tasks
    for completes in (True, False):
        errands.start("client", asyncio.sleep(60), completes)
    await errands.close()
    await asyncio.sleep(0)
    assert not errands
