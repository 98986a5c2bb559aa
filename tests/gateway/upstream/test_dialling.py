"""Dialling the brokers of one cluster: a broker's troubles affect no other."""

import asyncio
import errno
import socket
from contextlib import closing
from typing import Any

import pytest

from gateway.model.topology import Address
from gateway.upstream import dial as dialling
from gateway.upstream.dial import BrokerSocket, DialError, Dialling
from ha_core.wire.sasl import SecurityProfile

HOLE, GOOD = ("10.0.0.1", 9092), ("10.0.0.2", 9092)


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> dict[Address, Any]:
    """Outcome of a dial, by address: an event to wait for before it fails, an error, or a socket."""
    outcomes: dict[Address, Any] = {}

    async def dial(address: Address, *_: Any) -> BrokerSocket:
        found = outcomes[address]
        if isinstance(found, asyncio.Event):
            await found.wait()
            raise DialError("no answer")
        if isinstance(found, OSError):
            raise DialError(found.strerror) from found
        assert isinstance(found, BrokerSocket)
        return found

    monkeypatch.setattr(dialling, "dial", dial)
    return outcomes


async def test_a_broker_that_drops_every_packet_delays_no_other_and_its_own_clients_once(
    outcome: dict[Address, Any],
) -> None:
    cluster = Dialling(SecurityProfile(), "switchyard")
    with closing(BrokerSocket(socket.socket())) as good:
        outcome.update({HOLE: asyncio.Event(), GOOD: good})
        # Given three hundred clients that connect to a broker that does not answer
        waiting = [asyncio.create_task(cluster.for_client(HOLE)) for _ in range(300)]
        await asyncio.sleep(0)
        # Then clients of another broker get there
        assert await asyncio.wait_for(cluster.for_client(GOOD), 1) is good
        # When the dial is given up, those who still wait for their turn fail, too
        begun = cluster.begun
        outcome[HOLE].set()
        errors = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 1)
        assert all(isinstance(error, DialError) for error in errors)
        assert cluster.begun == begun < 100


async def test_a_gateway_without_room_for_a_socket_does_not_blame_the_broker(outcome: dict[Address, Any]) -> None:
    cluster = Dialling(SecurityProfile(), "switchyard")
    outcome[GOOD] = OSError(errno.EMFILE, "Too many open files")
    with pytest.raises(DialError, match="Too many open files"):
        await cluster.for_client(GOOD)
    assert not cluster.rests(GOOD)
    outcome[GOOD] = OSError(errno.ECONNREFUSED, "Connection refused")
    with pytest.raises(DialError, match="Connection refused"):
        await cluster.for_client(GOOD)
    assert cluster.rests(GOOD)


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
async def test_a_host_name_with_an_empty_or_long_part_is_a_dial_that_failed(host: str) -> None:
    with pytest.raises(DialError, match="is no host name"):
        await dialling.dial((host, 9092), SecurityProfile(), "switchyard", 1_000)
