"""Facts that follow from a cluster's topology."""

import pytest

from gateway.model.topology import ClusterTopology, Topology


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("hello", 99_162_322 % 50),
        ("Hello World", 862_545_276 % 50),  # hashCode -862545276
        ("polygenelubricants", 0),  # hashCode is Java's least int, which has no positive
        ("", 0),
    ],
)
def test_a_groups_coordinator_leads_the_partition_that_javas_hash_of_its_name_gives(group: str, partition: int) -> None:
    leaders = {"__consumer_offsets": {number: 100 + number for number in range(50)}}
    topology = Topology({"east": ClusterTopology("east", reachable=True, topics=leaders)})
    assert topology.coordinator("east", group) == 100 + partition


@pytest.mark.parametrize(
    "cluster",
    [
        ClusterTopology("east", reachable=True),
        ClusterTopology("east", reachable=True, topics={"__consumer_offsets": {0: -1}}),
        ClusterTopology("east", reachable=False, topics={"__consumer_offsets": {0: 1}}),
    ],
    ids=["no group yet", "no leader", "out of reach"],
)
def test_an_unknown_or_unreachable_coordinator_is_none(cluster: ClusterTopology) -> None:
    assert Topology({"east": cluster}).coordinator("east", "billing") is None
    assert Topology().coordinator("east", "billing") is None
