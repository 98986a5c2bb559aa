"""Fences and transaction fences are drained each by itself."""

from __future__ import annotations

from typing import Any, cast

from gateway.driver.connection import Connection
from gateway.driver.drains import Drains
from gateway.session.fences import fences
from ha_core.model import Fence, Topic, View

FENCE = Fence(operation="op")


class Client:
    """A connection whose session says what it holds back."""

    def __init__(self) -> None:
        self.session: Any = self
        self.ended = False
        self.writes: frozenset[bytes] = frozenset()
        self.transactions: frozenset[bytes] = frozenset()

    def holds_back(
        self, topics: frozenset[bytes], groups: frozenset[bytes], since: int, quiet: frozenset[bytes]
    ) -> bool:
        return not self.writes.isdisjoint(topics) or not self.transactions.isdisjoint(quiet)


def view(**fences: Fence) -> View:
    return View(topics={"orders": Topic.model_validate({"name": "orders", **fences})})


def follow(drains: Drains, state: View, connection: Connection) -> None:
    drains.follow(state.revision, fences(state).scopes, [connection])
    drains.progressed(connection)


def test_a_fence_in_place_of_a_transaction_fence_waits_for_what_that_one_did_not_wait_for() -> None:
    # Given a client in a transaction, with a record of its own in flight besides
    client, reports = Client(), []
    client.writes = client.transactions = frozenset({b"orders"})
    drains = Drains(lambda: reports.append(drains.drained))
    connection = cast(Connection, client)
    # When no transaction may begin any more, and the open one ends
    follow(drains, view(transaction_fence=FENCE), connection)
    assert drains.drained == ()
    client.transactions = frozenset()
    drains.progressed(connection)
    # Then that is said, and the fence waits for the record
    assert reports == [("op",)]
    follow(drains, view(fence=FENCE), connection)
    assert drains.drained == ()
    client.writes = frozenset()
    drains.progressed(connection)
    assert reports == [("op",), ("op",)]


def test_a_client_that_is_gone_keeps_no_transaction_fence_waiting() -> None:
    client = Client()
    client.transactions = frozenset({b"orders"})
    drains = Drains(lambda: None)
    follow(drains, view(transaction_fence=FENCE), cast(Connection, client))
    client.ended = True
    drains.progressed(cast(Connection, client))
    assert drains.drained == ("op",)
