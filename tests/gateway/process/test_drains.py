"""Fences and transaction fences are drained separately."""

import asyncio
import time
from contextlib import suppress
from typing import Any, cast

import pytest

from gateway.process import drains as drains_module
from gateway.process.drains import LAST_WORDS_S, Drains
from gateway.process.sockets.connection import ClientConnection
from gateway.runtime import clock, time_sliced_sweep
from gateway.session.snapshot import fences
from ha_core.model import Fence, Topic, View

FENCE = Fence(operation="op")
WITHOUT_EAST = Fence(operation="op", taken_for_dead="east")
NO_LOOP = cast(asyncio.AbstractEventLoop, None)
"""No connection is hurried."""


class Client:
    """A connection whose session holds back operations as the test wants."""

    def __init__(self) -> None:
        self.session: Any = self
        self.ended = False
        self.writes: frozenset[bytes] = frozenset()
        self.transactions: frozenset[bytes] = frozenset()
        self.answered_by: str | None = None

    def holds_back(
        self, topics: frozenset[bytes], groups: frozenset[bytes], since: int, quiet: frozenset[bytes], dead: str | None
    ) -> bool:
        writes, transactions = not self.writes.isdisjoint(topics), not self.transactions.isdisjoint(quiet)
        return writes or transactions or (dead is not None and self.answered_by == dead)


def view(**fences: Fence) -> View:
    return View(topics={"orders": Topic.model_validate({"name": "orders", **fences})})


def follow(drains: Drains, state: View, connection: ClientConnection) -> None:
    drains.follow(state.revision, fences(state).scopes, [connection])
    drains.progressed(connection)


def test_a_fence_that_replaces_a_transaction_fence_is_drained_again() -> None:
    # Given a client in a transaction, with a record of its own in flight besides
    client, reports = Client(), []
    client.writes = client.transactions = frozenset({b"orders"})
    drains = Drains(NO_LOOP, lambda: reports.append(drains.drained))
    connection = cast(ClientConnection, client)
    # When no transaction may begin any more, and the open one ends
    follow(drains, view(transaction_fence=FENCE), connection)
    assert drains.drained == ()
    client.transactions = frozenset()
    drains.progressed(connection)
    # Then that is reported, and the fence waits for the record
    assert reports == [("op",)]
    follow(drains, view(fence=FENCE), connection)
    assert drains.drained == ()
    client.writes = frozenset()
    drains.progressed(connection)
    assert reports == [("op",), ("op",)]


def test_a_client_that_is_gone_keeps_no_transaction_fence_waiting() -> None:
    client = Client()
    client.transactions = frozenset({b"orders"})
    drains = Drains(NO_LOOP, lambda: None)
    follow(drains, view(transaction_fence=FENCE), cast(ClientConnection, client))
    client.ended = True
    drains.progressed(cast(ClientConnection, client))
    assert drains.drained == ("op",)


@pytest.mark.parametrize(("fence", "drained"), [(WITHOUT_EAST, ()), (FENCE, ("op",))])
def test_an_unsent_answer_holds_the_fence_of_an_operation_that_takes_its_cluster_for_dead(
    fence: Fence, drained: tuple[str, ...]
) -> None:
    client = Client()
    client.answered_by = "east"
    drains = Drains(NO_LOOP, lambda: None)
    follow(drains, view(fence=fence), cast(ClientConnection, client))
    assert drains.drained == drained


async def test_the_loop_runs_while_connections_that_hold_up_a_fence_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given twenty clients with a write in flight, each of which takes longer to serve than a slice
    monkeypatch.setattr(drains_module, "HURRY_EVERY_S", 0.01)
    monkeypatch.setattr(time_sliced_sweep, "SLICE_S", 0.001)
    turn, hurried = 0, list[int]()

    class Slow(Client):
        def hurry(self) -> None:
            time.sleep(0.002)
            hurried.append(turn)

    clients = [cast(ClientConnection, Slow()) for _ in range(20)]
    drains = Drains(asyncio.get_running_loop(), lambda: None)
    drains.follow(1, fences(view(fence=FENCE)).scopes, clients)
    # When a fence waits for them
    keeping = asyncio.create_task(drains.keep())
    while len(hurried) < 20:
        await asyncio.sleep(0)
        turn += 1
    keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping
    # Then each has a turn of the loop
    assert len(set(hurried)) >= 20


class Waiting(Client):
    """A client whose session waits for a cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = frozenset({b"orders"})
        self.given_up: list[str] = []

    def hurry(self) -> None: ...

    def give_up(self, cluster: str) -> None:
        self.given_up.append(cluster)


@pytest.mark.parametrize(("fence", "given_up"), [(WITHOUT_EAST, {"east"}), (FENCE, set())])
async def test_clients_that_wait_for_a_cluster_taken_for_dead_are_cut_off_after_a_moment(
    monkeypatch: pytest.MonkeyPatch, fence: Fence, given_up: set[str]
) -> None:
    monkeypatch.setattr(drains_module, "HURRY_EVERY_S", 0.005)
    now = 100.0
    monkeypatch.setattr(clock, "now", lambda: now)
    writing, other = Waiting(), Waiting()
    other.writes = frozenset()
    # Given a fence that waits for one client of two
    both = [cast(ClientConnection, waiting) for waiting in (writing, other)]
    drains = Drains(asyncio.get_running_loop(), lambda: None)
    drains.follow(1, fences(view(fence=fence)).scopes, both)
    for one in both:
        drains.progressed(one)
    keeping = asyncio.create_task(drains.keep())
    # When its cluster has had a moment for its last words
    now += LAST_WORDS_S - 0.1
    await asyncio.sleep(0.03)
    assert writing.given_up == []
    now += 0.2
    await asyncio.sleep(0.03)
    keeping.cancel()
    # Then the waiting client is cut off if the operation takes its cluster for dead, and no other client is touched
    assert set(writing.given_up) == given_up
    assert other.given_up == []
