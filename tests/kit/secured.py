"""Clusters that require logins, and clients with the service account."""

from collections.abc import Iterator
from typing import Any

import pytest

from ha_core.kafka.security import SECURITY_FILE_VARIABLE
from ha_core.store.security import FILE_VARIABLE
from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack
from tests.kit.stacks import TWO_CLUSTERS


def secured_stack() -> Any:
    """A fixture: a stack with logins. This process reaches its clusters with the service account meanwhile."""

    @pytest.fixture(scope="module")
    def stack() -> Iterator[Stack]:
        up = Stack.up(TWO_CLUSTERS, gateways=1, security="sasl")
        with up as running, pytest.MonkeyPatch.context() as variables:
            variables.setenv(SECURITY_FILE_VARIABLE, running.document["security_file"])
            if running.zookeeper_security_file is not None:
                variables.setenv(FILE_VARIABLE, running.zookeeper_security_file)
            yield running

    return stack


def service_settings(stack: Stack, cluster: str) -> dict[str, Any]:
    """Settings of a client of confluent-kafka that reaches a cluster past the gateways, as the service account."""
    assert stack.service is not None
    profile = SecurityProfile("PLAIN", stack.service["user"], stack.service["password"])
    return {"bootstrap.servers": stack.clusters[cluster]["bootstrap"], **client_settings(profile)}
