"""The lease is confirmed whatever else the process waits for."""

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Any

import pytest

from gateway.process import lease as leases
from gateway.process.peers import Answering
from gateway.runtime import clock
from gateway.session.snapshot import Lease
from ha_core.model import GatewayRecord

LEASE_MS = 400


async def test_names_without_an_answer_of_dns_do_not_cost_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = threading.Event()

    def unresolvable(*_: Any, **__: Any) -> Any:
        resolved.wait(10)
        raise socket.gaierror("no answer")

    monkeypatch.setattr(socket, "getaddrinfo", unresolvable)
    # Given a gateway that keeps its lease, and others whose names no server resolves
    lease = Lease()
    keeping = asyncio.create_task(leases.keep(lease, lambda: 1, lambda: 1, LEASE_MS, lambda: None))
    names = [GatewayRecord(id=f"gw-{n}", node_id=n, host=f"gone-{n}", port=9092) for n in range(100)]
    asking = asyncio.create_task(Answering("own", timeout_s=0.1).of(names))
    # When it looks for them for longer than a lease
    await asyncio.sleep(3 * LEASE_MS / 1000)
    # Then it still has its lease
    try:
        assert lease.holds(clock.now())
    finally:
        resolved.set()
        keeping.cancel()
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


async def test_an_answer_that_finds_the_lease_lost_again_waits_for_the_next_confirmation() -> None:
    # Given a reader whose answer waits for the lease
    told: list[str] = []

    def tell(reader: str) -> None:
        told.append(reader)
        if len(told) == 1:
            # The process was stopped meanwhile, for longer than the lease: the answer waits again
            waiting.add(reader)

    waiting = leases.AwaitingLease[str](asyncio.get_running_loop(), tell)
    waiting.add("reader")
    # When it is back twice
    waiting.resume()
    waiting.resume()
    # And once more, for readers that wait then
    waiting.resume()
    # Then the reader was resumed twice
    assert told == ["reader", "reader"]
