"""Gateways to which queries go."""

import pytest

from ha_core.metrics.http import HttpServer
from ha_core.model import GatewayRecord
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.gateway_queries import GatewayReply, ask_gateways
from stack.memory_store import MemoryStore


def test_a_gateway_that_has_workers_is_asked_once_and_by_its_own_name(
    environment: Environment, store: MemoryStore
) -> None:
    # Given
    server = HttpServer("127.0.0.1", 0, bytes, tuple, "", {"/connections": lambda _: (200, {"total": 7})})
    port = server.start()
    try:
        for number in range(2):
            record = GatewayRecord(id=f"gw-1.{number}", worker_of="gw-1", host="h", port=1, node_id=1)
            store.client().register_gateway(record.changed(http=f"http://127.0.0.1:{port}"))
        # When
        # Then
        assert ask_gateways(environment, "/connections", {}) == [GatewayReply("gw-1", {"total": 7})]
        assert ask_gateways(environment, "/connections", {}, "gw-1") == [GatewayReply("gw-1", {"total": 7})]
        with pytest.raises(RefusedError, match=r"Gateway gw-2 does not live \(live: gw-1\)"):
            ask_gateways(environment, "/connections", {}, "gw-2")
    finally:
        server.stop()
