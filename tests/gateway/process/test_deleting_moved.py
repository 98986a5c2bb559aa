"""Moved topics that clients delete: a gateway stores a request, and answers when a caretaker has executed it."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.composed.handlers import OK, DeleteMoved
from gateway.process import deleting_moved
from gateway.process.deleting_moved import DeletingMoved
from ha_core.model import DeletionRequest, Topic, View
from ha_core.model.extent import identity
from ha_core.wire.codes import ErrorCode
from stack.memory_store import MemoryStore

MOVED = Topic(name="orders", writer="west", partitions={0: identity("west")})
POLICY, TIMED_OUT = ErrorCode.POLICY_VIOLATION, ErrorCode.REQUEST_TIMED_OUT


class World:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.view = View(1, topics={"orders": MOVED})
        self.refreshed = False

    def delete(self, then: Callable[[DeletionRequest], None], wait_ms: int = 5000) -> tuple[int, str | None]:
        """The client's answer. `then` handles the request."""

        async def refresh() -> None:
            self.refreshed = True

        async def answered() -> tuple[int, str | None]:
            deletions = DeletingMoved(self.store, "gw-1", lambda: self.view, refresh)
            working = asyncio.create_task(deletions.carry_out(DeleteMoved("alice", ("orders",), wait_ms)))
            for _ in range(1_000):
                if self.store.requested_deletions():
                    break
                await asyncio.sleep(0.01)
            then(*self.store.requested_deletions())
            (answer,) = await working
            return answer["error_code"], answer["error_message"]

        return asyncio.run(answered())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(deleting_moved, "LOOK_S", 0.01)
    monkeypatch.setattr(deleting_moved, "FOLLOWS_S", 0.1)
    monkeypatch.setattr(deleting_moved, "MIN_WAIT_S", 0.05)
    return World()


def test_a_client_is_answered_when_its_topic_is_deleted_and_its_gateway_has_seen_that(world: World) -> None:
    def delete(request: DeletionRequest) -> None:
        assert (request.user, request.gateway) == ("alice", "gw-1")
        world.view = View(2)
        world.store.settle_deletion("orders")

    assert world.delete(delete) == (OK["error_code"], None)
    assert world.refreshed, "or its gateway would say that the topic exists when it is created at once"


@pytest.mark.parametrize(("refused", "code"), [("asked", POLICY), ("away", TIMED_OUT)])
def test_a_client_gets_the_reason_why_its_topic_cannot_be_deleted(world: World, refused: str, code: int) -> None:
    def refuse(request: DeletionRequest) -> None:
        world.store.request_deletion(request.changed(refused=refused, why="cluster west does not answer"))

    assert world.delete(refuse) == (code, "cluster west does not answer")
    assert world.store.requested_deletions() == []


def test_a_client_gets_a_timeout_while_the_deletion_goes_on(world: World) -> None:
    code, why = world.delete(lambda _: None, wait_ms=50)

    assert (code, "goes on" in (why or "")) == (TIMED_OUT, True)
    assert [request.name for request in world.store.requested_deletions()] == ["orders"]


def test_a_topic_that_some_cluster_still_has_is_not_reported_as_deleted(world: World) -> None:
    code, why = world.delete(lambda request: world.store.settle_deletion(request.name))

    assert (code, "status --check" in (why or "")) == (TIMED_OUT, True)
