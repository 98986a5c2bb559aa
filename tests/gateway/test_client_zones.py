"""A client's zone follows from its address, alike at all gateways."""

from ipaddress import ip_network

import pytest

from gateway.model.client_zones import NOWHERE, ClientZones

ZONES = ClientZones.of(
    {
        "zone-1": [ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")],
        "zone-2": [ip_network("10.2.0.0/16"), ip_network("10.1.7.0/24")],
    }
)


@pytest.mark.parametrize(
    ("host", "zone"),
    [
        ("10.1.2.3", "zone-1"),
        ("10.2.2.3", "zone-2"),
        ("fd00:1::5", "zone-1"),
        ("::ffff:10.2.0.1", "zone-2"),
        ("fe80::1%eth0", NOWHERE),
        ("192.168.0.1", NOWHERE),
        ("", NOWHERE),
        ("a name", NOWHERE),
    ],
)
def test_a_client_is_in_the_zone_of_the_network_that_its_address_is_in(host: str, zone: str) -> None:
    assert ZONES.zone_of(host) == zone


def test_the_narrowest_network_that_has_the_address_counts() -> None:
    assert ZONES.zone_of("10.1.7.9") == "zone-2"


def test_only_clients_that_stay_where_they_ask_are_kept_from_gateways_of_other_zones() -> None:
    zones = ClientZones(ZONES.networks, "zone-3")
    # A client of a network is led alike by all gateways, and needs the others when its zone has none
    assert zones.listed_zone("10.1.2.3") == NOWHERE
    # A client of none would be led elsewhere by another zone's gateway
    assert zones.listed_zone("192.168.0.1") == "zone-3"


def test_clients_of_no_network_are_in_the_configured_zone() -> None:
    assert ClientZones(ZONES.networks, "zone-3").zone_of("192.168.0.1") == "zone-3"
    assert ClientZones(otherwise="zone-3").zone_of("10.1.2.3") == "zone-3"
