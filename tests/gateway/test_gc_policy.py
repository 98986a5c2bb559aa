"""Ended connections are freed without a full collection, and that runs when memory grows."""

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from gateway.runtime.gc_policy import MIN_PAUSE_S, SearchDue
from gateway.session.commands import Cause
from ha_core.wire import encode, encode_request
from tests.gateway.process.host import FakeHost

PRODUCE = 0
MIB = 1 << 20


@pytest.mark.parametrize("who", ["the client", "the gateway"])
async def test_a_connection_that_ends_leaves_no_cycle(who: str) -> None:
    # Given a client with a request on its way to a broker, and no search for cycles
    host = FakeHost()
    connection, client = host.client()
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": b""}]}]
    body = encode(PRODUCE, 7, "request", {"acks": 1, "timeout_ms": 1000, "topic_data": data})
    await host.loop.sock_sendall(client, encode_request(PRODUCE, 7, 1, "app", body))
    async with asyncio.timeout(5):
        while not connection.session.in_flight.queue:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    gone = weakref.ref(connection.session)
    gc.disable()
    try:
        # When one side ends it
        if who == "the gateway":
            connection.end(Cause.IDLE)
        client.close()
        host.brokers.pop().close()
        del connection
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while gone() is not None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
    finally:
        gc.enable()
    # Then nothing is left of it
    assert gone() is None


def test_a_full_collection_runs_when_memory_has_grown_by_half_and_at_most_once_an_hour() -> None:
    need = SearchDue(100 * MIB, at=50.0)
    assert not need.due(149 * MIB, 50.0 + MIN_PAUSE_S)
    assert not need.due(150 * MIB, 49.0 + MIN_PAUSE_S)
    assert need.due(150 * MIB, 50.0 + MIN_PAUSE_S)
