"""Other gateways keep connections here, and take nothing from clients by that."""

import asyncio
import socket
from pathlib import Path

import yaml

from gateway.config import load
from gateway.process.gateway import Gateway
from gateway.process.peers import Answering
from gateway.process.sockets.admission import HURRY_S
from ha_core.model import GatewayRecord
from ha_core.wire import encode_request
from stack.memory_store import MemoryStore
from tests.kit.own_gateway import free_port

OTHERS = 4
HELLO = encode_request(18, 0, 1, "app", b"")


def demanding_logins(folder: Path, port: int) -> Path:
    """The configuration of a gateway that lets one client at a time log in."""
    for name, text in (("users.yaml", "app: its password\n"), ("secret", "s" * 43)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    document = {
        "id": "gw",
        "zookeeper": {"hosts": "nowhere:1"},
        "listen": {"port": port},
        "authentication": {
            "anonymous": False,
            "users_file": str(folder / "users.yaml"),
            "phantom_secret_file": str(folder / "secret"),
            "plain_without_tls": True,
        },
        "limits": {"max_logins": 1},
        "record_facts_s": 0,
    }
    (folder / "gateway.yaml").write_text(yaml.safe_dump(document))
    return folder / "gateway.yaml"


async def test_clients_log_in_at_once_however_many_gateways_hold_a_connection(tmp_path: Path) -> None:
    # Given more gateways than clients may log in at once
    port, store = free_port(), MemoryStore()
    others = [GatewayRecord(id=f"other-{n}", node_id=50 + n, host="127.0.0.1", port=1) for n in range(OTHERS)]
    for record in others:
        store.register_gateway(record)
    gateway = Gateway(load(demanding_logins(tmp_path, port)), store, "test")
    await gateway.start()
    async with asyncio.timeout(30):
        while gateway.members.others < OTHERS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    # When each asks it, and once more
    own = [GatewayRecord(id="gw", node_id=1, host="127.0.0.1", port=port)]
    looking = [Answering(record.id) for record in others]
    # Then each is answered before any of them would have to go
    async with asyncio.timeout(HURRY_S / 2):
        for _ in range(2):
            assert await asyncio.gather(*(one.of(own) for one in looking)) == [tuple(own)] * OTHERS
    # And so is a client
    with socket.socket() as client:
        client.setblocking(False)
        async with asyncio.timeout(HURRY_S / 2):
            await gateway.loop.sock_connect(client, ("127.0.0.1", port))
            await gateway.loop.sock_sendall(client, HELLO)
            assert await gateway.loop.sock_recv(client, 4)
    for answering in looking:
        answering.close()
    await gateway.stop()
