"""SCRAM logins to real brokers: blocking, for commands and jobs, and on an event loop, for gateways."""

import asyncio
import math
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from gateway.upstream.dial import DialError, dial
from ha_core.kafka.admin import Admin
from ha_core.model import Cluster
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.sasl_scram import HASHES
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack

pytestmark = pytest.mark.stack
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
USER, PASSWORD = "comma, and = sign", "p=w,ümlaut"


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One broker, which has the user for both mechanisms."""
    with Stack.up({"east": request.param}, gateways=0, security="sasl") as stack:
        assert stack.service is not None
        cluster = Cluster(name="east", bootstrap=stack.clusters["east"]["bootstrap"])
        service = SecurityProfile("PLAIN", stack.service["user"], stack.service["password"])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **client_settings(service)})
        for mechanism in MECHANISMS.values():
            made = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 8192), PASSWORD.encode())
            admin.alter_user_scram_credentials([made])[USER].result(30)
        yield cluster


def account(mechanism: str, password: str = PASSWORD) -> SecurityProfile:
    return SecurityProfile(mechanism, USER, password)


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_broker_lets_the_right_password_in_and_proves_itself(cluster: Cluster, mechanism: str) -> None:
    with Admin(cluster, account(mechanism), timeout_s=20) as admin:
        assert admin.probe(timeout_s=10.0).reachable


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_broker_refuses_a_wrong_one_and_it_is_not_shown(cluster: Cluster, mechanism: str) -> None:
    wrong = f"wrong-{uuid.uuid4()}"
    with Admin(cluster, account(mechanism, wrong), timeout_s=10) as admin:
        probe = admin.probe(timeout_s=10.0)
    assert not probe.reachable
    assert "refused the account" in str(probe.error)
    assert wrong not in str(probe.error)


@pytest.mark.parametrize("mechanism", HASHES)
def test_gateways_dial_brokers_by_the_same_account(cluster: Cluster, mechanism: str) -> None:
    host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")

    async def good_for(password: str) -> float:
        dialled = await dial((host, int(port)), account(mechanism, password), "switchyard-test", 10_000)
        dialled.close()
        return dialled.renew_after_s

    assert asyncio.run(good_for(PASSWORD)) == math.inf
    with pytest.raises(DialError, match="refused the account"):
        asyncio.run(good_for("wrong"))
