"""Which gateway's ports a client is shown."""

from __future__ import annotations

from gateway.composed.handlers import NodeAddress
from gateway.driver.peers import addresses, ranked
from ha_core.model import GatewayRecord, Identity

OWN = {("east", 1): NodeAddress(7, "a", 20_007)}
HOST = "10.1.2.3"
CLIENTS = [Identity("app", f"client-{n}") for n in range(200)]


def gateways(*ids: str, nodes: tuple[int, ...] = (7,)) -> list[GatewayRecord]:
    return [
        GatewayRecord(id=name, node_id=n, host=name, port=9092, first_node_port=20_000 + 1000 * n, nodes=nodes)
        for n, name in enumerate(ids)
    ]


def test_all_gateways_show_a_client_the_same_address_of_a_node() -> None:
    peers = gateways("a", "b", "c")
    for client in CLIENTS:
        seen = set()
        for asked in peers:
            own = {("east", 1): NodeAddress(7, asked.id, asked.first_node_port + 7)}
            seen.add(addresses(reversed(peers), asked.id, client, HOST, own)["east", 1])
        assert len(seen) == 1


def test_clients_are_spread_and_only_those_of_a_dead_gateway_move() -> None:
    before = {client: ranked(gateways("a", "b", "c"), client, HOST)[0].id for client in CLIENTS}
    after = {client: ranked(gateways("a", "c"), client, HOST)[0].id for client in CLIENTS}
    assert set(before.values()) == {"a", "b", "c"}
    assert all(after[client] == home for client, home in before.items() if home != "b")


def test_a_gateway_that_has_not_bound_the_node_is_not_named_for_it() -> None:
    peers = [*gateways("a"), *gateways("b", nodes=())]
    assert all(addresses(peers, "a", client, HOST, OWN) == OWN for client in CLIENTS)


def test_clients_of_one_user_and_one_client_id_are_spread_by_where_they_come_from() -> None:
    peers = gateways("a", "b")
    homes = [ranked(peers, Identity("app", "rdkafka"), f"10.0.0.{n}")[0].id for n in range(200)]
    assert 60 < homes.count("a") < 140
