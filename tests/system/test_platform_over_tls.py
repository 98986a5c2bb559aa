"""The platform, gateways, clients and ZooKeeper over TLS: a user of the platform logs in by SCRAM at every gateway."""

import httpx
import pytest

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import AuthenticationRefusedError
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles
from stack.harness import Stack
from tests.kit.platform import RunningPlatform, metric, soon
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300), pytest.mark.long("ha_core/tls", "ha_core/platform")]
GATEWAYS = (0, 1)
PASSWORD = "secret-of-the-test"


stack = own_stack({"east": "4.3.1"}, gateways=len(GATEWAYS), security="tls", platform=True)


def logs_in(stack: Stack, number: int, user: str) -> bool:
    assert stack.tls is not None
    host, port = stack.gateways[number]["bootstrap"].rsplit(":", 1)
    account = SecurityProfile("SCRAM-SHA-512", user, PASSWORD, tls=TlsFiles(stack.tls["ca_file"]))
    try:
        BlockingConnection(f"gateway {number}", host, int(port), account, Deadline.after(30)).close()
    except AuthenticationRefusedError:
        return False
    return True


def test_a_user_created_over_tls_can_soon_log_in_at_every_gateway(stack: Stack) -> None:
    # Given
    platform = RunningPlatform(stack)
    assert not any(logs_in(stack, number, "fresh") for number in GATEWAYS)

    platform.create_user("fresh", PASSWORD)

    soon(lambda: all(logs_in(stack, number, "fresh") for number in GATEWAYS), "the new user logs in")
    assert metric(stack, 0, "platform_members", cache="users") == len(GATEWAYS)
    platform.close()


def test_the_platform_shows_nothing_to_a_client_that_does_not_trust_it(stack: Stack) -> None:
    assert stack.platform is not None
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{stack.platform['url']}/openapi.json", trust_env=False, verify=True)
