"""Logins, addresses and outages: errors when a cluster cannot be used."""

from dataclasses import replace

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import AuthenticationRefusedError, ClusterUnreachableError
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack

pytestmark = pytest.mark.stack


def test_the_probe_of_a_healthy_cluster_has_brokers_and_what_they_offer(east: Admin, west: Admin) -> None:
    # When clusters of one broker and of three are probed
    small, large = east.probe(), west.probe()
    # Then the facts have brokers and what they offer
    assert (small.reachable, small.error, small.refused) == (True, "", False)
    assert (small.brokers, large.brokers) == (
        {1: east.cluster.bootstrap},
        dict(enumerate(west.cluster.bootstrap.split(","), 1)),
    )
    assert small.describe_producers
    assert large.describe_producers


def test_a_wrong_password_is_reported_as_refused_with_the_account(
    clusters: dict[str, Cluster], account: SecurityProfile
) -> None:
    for cluster in clusters.values():
        # When a client logs in with a wrong password
        with Admin(cluster, replace(account, password="wrong")) as admin:
            facts = admin.probe()
            with pytest.raises(AuthenticationRefusedError) as caught:
                admin.topics()
        # Then the account is named, and the password is not
        assert (facts.reachable, facts.refused) == (False, True)
        first = cluster.bootstrap.split(",")[0]
        assert f"Cluster {cluster.name}: {first} refused the account {account.username}" in facts.error
        assert "wrong" not in str(caught.value)


def test_a_missing_login_is_reported_as_refused(clusters: dict[str, Cluster]) -> None:
    for cluster in clusters.values():
        with Admin(cluster, NO_SECURITY) as admin:
            facts = admin.probe()
        assert facts.refused
        assert "It may want a login" in facts.error


def test_a_dead_broker_is_named_with_cluster_and_address(
    running: Stack, clusters: dict[str, Cluster], account: SecurityProfile
) -> None:
    # Given a cluster in use
    east = clusters["east"]
    with Admin(east, account, timeout_s=3) as admin:
        admin.topics()  # its connections are warm when the broker dies
        # When its broker stands still
        running.pause("cluster/east")
        try:
            # Then that is reported within the timeout, and does not count as refused
            with pytest.raises(ClusterUnreachableError, match=f"Cluster east: {east.bootstrap} .* within 3 s"):
                admin.topics()
            assert not admin.probe().refused
        finally:
            running.resume("cluster/east")
        assert admin.probe(timeout_s=20).reachable
        # When it is dead
        running.kill("cluster/east")
        try:
            facts = admin.probe()
        finally:
            running.restart("cluster/east")
        # Then it is named with its address, and reached again after its restart
        assert not facts.reachable
        assert facts.error.startswith(f"Cluster east: {east.bootstrap} ")
        assert admin.probe(timeout_s=20).reachable


def test_a_cluster_is_reached_when_one_bootstrap_address_is_dead(
    clusters: dict[str, Cluster], account: SecurityProfile
) -> None:
    west = clusters["west"]
    half = west.model_copy(update={"bootstrap": f"127.0.0.1:1,{west.bootstrap}"})
    with Admin(half, account) as admin:
        assert admin.probe().reachable
