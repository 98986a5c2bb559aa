"""The gateway whose ports a client is shown."""

from gateway.composed.handlers import NodeAddress
from gateway.process.peers import Lately, addresses, own_port, ranked
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
        for gateway in peers:
            own = {("east", 1): NodeAddress(7, gateway.id, gateway.first_node_port + 7)}
            seen.add(addresses(reversed(peers), gateway.id, client, HOST, own)["east", 1])
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


def workers_of(name: str, count: int) -> list[GatewayRecord]:
    return [
        gateway.changed(worker_of=name, host="h", node_id=5)
        for gateway in gateways(*(f"{name}.{number}" for number in range(count)))
    ]


def test_all_broker_connections_of_a_client_lead_to_one_worker() -> None:
    # Given two brokers, and a client that comes to any worker by the port that they share
    peers = [worker.changed(nodes=(7, 8)) for worker in workers_of("gw-1", 3)]
    homes = set()
    for client in CLIENTS:
        seen = set()
        for gateway in peers:
            own = {("east", n): NodeAddress(n, "h", gateway.first_node_port + n) for n in (7, 8)}
            shown = addresses(peers, gateway.id, client, HOST, own)
            seen |= {node.port - node.node_id for node in shown.values()}
        # Then it is shown the ports of one of them
        assert len(seen) == 1
        homes |= seen
    # And clients are spread over all
    assert len(homes) == 3


def test_a_worker_is_probed_at_a_port_of_its_own() -> None:
    first, second = workers_of("gw-1", 2)
    assert (own_port(first), own_port(second)) == (20_007, 21_007)
    assert own_port(gateways("a")[0]) == 9092


def test_workers_are_listed_as_the_one_gateway_that_they_are_for_clients() -> None:
    lately = Lately()
    lately.see(workers_of("gw-1", 3), 0.0)
    assert lately.listed() == (NodeAddress(5, "h", 9092),)


ZONES = {"a": "zone-1", "b": "zone-1", "c": "zone-2", "d": "zone-2"}


def in_zones(*ids: str) -> list[GatewayRecord]:
    return [peer.changed(zone=ZONES[peer.id]) for peer in gateways(*ids)]


def test_clients_of_a_zone_are_spread_over_its_gateways_and_no_others() -> None:
    homes = {client: ranked(in_zones(*"abcd"), client, HOST, "zone-1")[0].id for client in CLIENTS}
    assert set(homes.values()) == {"a", "b"}
    # And whatever gateway is asked, also one of the other zone, names the same
    for client, home in homes.items():
        for gateway in in_zones(*"abcd"):
            own = {("east", 1): NodeAddress(7, gateway.id, gateway.first_node_port + 7)}
            shown = addresses(in_zones(*"dcba"), gateway.id, client, HOST, own, "zone-1")
            assert shown["east", 1].host == home


def test_where_no_gateway_of_the_zone_lives_the_others_serve_its_clients() -> None:
    homes = [ranked(in_zones("c", "d"), client, HOST, "zone-1")[0].id for client in CLIENTS]
    assert set(homes) == {"c", "d"}


def test_a_dead_gateway_of_a_zone_moves_only_its_own_clients_within_the_zone() -> None:
    before = {client: ranked(in_zones(*"abcd"), client, HOST, "zone-1")[0].id for client in CLIENTS}
    after = {client: ranked(in_zones(*"bcd"), client, HOST, "zone-1")[0].id for client in CLIENTS}
    assert set(after.values()) == {"b"}
    assert all(after[client] == home for client, home in before.items() if home == "b")


def test_clients_whose_zone_is_not_known_are_spread_over_all_gateways() -> None:
    assert {ranked(in_zones(*"abcd"), client, HOST, "")[0].id for client in CLIENTS} == set("abcd")
    # Also over gateways that are in no zone
    assert {ranked(gateways(*"ab"), client, HOST, "")[0].id for client in CLIENTS} == set("ab")


def test_gateways_of_a_zone_are_listed_by_it() -> None:
    lately = Lately()
    lately.see(in_zones(*"abc"), 0.0)
    assert [address.host for address in lately.listed("zone-1")] == ["a", "b"]
    assert [address.host for address in lately.listed()] == ["a", "b", "c"]
