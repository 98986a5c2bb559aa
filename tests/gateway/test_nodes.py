"""Virtual nodes: one permanent id per broker, one port each on this gateway, bound before any client sees it."""

import asyncio

import pytest

from gateway.composed.handlers import NodeAddress
from gateway.model.nodes import NodeBook, NodePortError, broker_key, gateway_key, parse_key


class Allocator:
    def __init__(self, **known: int) -> None:
        self.known = dict(known)
        self.calls = 0

    def allocate_node(self, key: str) -> int:
        self.calls += 1
        return self.known.setdefault(key, len(self.known) + 1)

    def nodes(self) -> dict[str, int]:
        return dict(self.known)


class Listeners:
    def __init__(self) -> None:
        self.bound: list[tuple[str, int, int, int]] = []
        self.refuse = False

    def __call__(self, cluster: str, broker: int, node_id: int, port: int) -> None:
        if self.refuse:
            raise OSError("address in use")
        self.bound.append((cluster, broker, node_id, port))


def book(store: Allocator, listeners: Listeners, count: int = 100) -> NodeBook:
    return NodeBook(store, listeners, first_port=20_000, count=count, host="gw")


@pytest.mark.parametrize(
    ("key", "broker"),
    [
        ("east:1", ("east", 1)),
        ("a:b:7", ("a:b", 7)),
        ("gateway:gw-1", None),
        ("east", None),
        ("east:x", None),
        (":1", None),
    ],
)
def test_keys_of_brokers_are_recognised(key: str, broker: tuple[str, int] | None) -> None:
    assert parse_key(key) == broker


def test_a_cluster_that_would_share_its_keys_with_the_gateways_is_refused() -> None:
    assert gateway_key("1") == "gateway:1"
    with pytest.raises(NodePortError, match="register it under another name"):
        broker_key("gateway", 1)


async def test_a_new_broker_gets_an_id_and_a_listener_before_its_address_is_given_out() -> None:
    listeners = Listeners()
    nodes = book(Allocator(), listeners)

    addresses = await nodes.ensure([("east", 7), ("west", 7), ("east", 7)])

    assert addresses == {("east", 7): NodeAddress(1, "gw", 20_001), ("west", 7): NodeAddress(2, "gw", 20_002)}
    assert listeners.bound == [("east", 7, 1, 20_001), ("west", 7, 2, 20_002)]
    assert nodes.ids == {("east", 7): 1, ("west", 7): 2}
    assert nodes.broker(2) == ("west", 7)


async def test_brokers_that_are_wanted_by_many_at_once_are_allocated_and_bound_once() -> None:
    store, listeners = Allocator(), Listeners()
    nodes = book(store, listeners)

    await asyncio.gather(*(nodes.ensure([("east", 1)]) for _ in range(20)))
    await nodes.ensure([("east", 1)])

    assert (store.calls, len(listeners.bound)) == (1, 1)


async def test_a_restarted_gateway_binds_what_clients_know_of_the_clusters_that_still_exist() -> None:
    listeners = Listeners()
    store = Allocator(**{"east:1": 4, "gone:1": 5, "gateway:gw-1": 6})
    nodes = book(store, listeners)

    await nodes.start(["east"])

    assert listeners.bound == [("east", 1, 4, 20_004)]
    assert await nodes.ensure([("east", 1)]) == {("east", 1): NodeAddress(4, "gw", 20_004)}
    assert listeners.bound == [("east", 1, 4, 20_004)]


async def test_a_node_whose_listener_cannot_be_bound_is_not_given_out() -> None:
    listeners = Listeners()
    nodes = book(Allocator(), listeners)
    listeners.refuse = True

    with pytest.raises(OSError, match="address in use"):
        await nodes.ensure([("east", 1)])
    listeners.refuse = False
    addresses = await nodes.ensure([("east", 1)])

    assert listeners.bound == [("east", 1, 1, 20_001)]
    assert addresses[("east", 1)].port == 20_001


def test_a_node_beyond_the_ports_says_which_setting_to_raise() -> None:
    nodes = book(Allocator(**{"east:1": 10}), Listeners(), count=10)

    with pytest.raises(NodePortError, match=r"nodes\.count=10 ends below it; raise nodes\.count"):
        asyncio.run(nodes.ensure([("east", 1)]))


@pytest.mark.parametrize("later", [{"west:1": 1}, {"east:1": 2}], ids=["another broker", "another id"])
async def test_an_id_that_changes_its_owner_means_that_the_state_was_replaced(later: dict[str, int]) -> None:
    store = Allocator(**{"east:1": 1})
    nodes = book(store, Listeners())
    await nodes.start(["east"])
    await nodes.start(["east"])
    store.known = later

    with pytest.raises(NodePortError, match="the ZooKeeper tree was replaced"):
        await nodes.start(["east"])
