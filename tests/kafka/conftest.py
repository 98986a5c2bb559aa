"""Two real clusters that require a login: `east` with one broker of Kafka 3.9, `west` with three of 4.3."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest

from ha_core.kafka.admin import Admin
from ha_core.model import Cluster
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack


@pytest.fixture(scope="package")
def running() -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2", "west": "4.3.1x3"}, gateways=0, security="sasl") as stack:
        yield stack


@pytest.fixture(scope="package")
def account(running: Stack) -> SecurityProfile:
    assert running.service is not None
    return SecurityProfile("PLAIN", running.service["user"], running.service["password"])


@pytest.fixture(scope="package")
def clusters(running: Stack) -> dict[str, Cluster]:
    return {name: Cluster(name=name, bootstrap=known["bootstrap"]) for name, known in running.clusters.items()}


@pytest.fixture(scope="package")
def east(clusters: dict[str, Cluster], account: SecurityProfile) -> Iterator[Admin]:
    with Admin(clusters["east"], account, timeout_s=20) as admin:
        yield admin


@pytest.fixture(scope="package")
def west(clusters: dict[str, Cluster], account: SecurityProfile) -> Iterator[Admin]:
    with Admin(clusters["west"], account, timeout_s=20) as admin:
        yield admin


@pytest.fixture(params=["east", "west"])
def either(request: pytest.FixtureRequest) -> Admin:
    """Each of the two versions."""
    admin: Admin = request.getfixturevalue(request.param)
    return admin


@pytest.fixture(scope="package")
def fresh() -> Callable[[str], str]:
    """Names that no other test uses."""
    numbers, run = itertools.count(), uuid.uuid4().hex[:6]
    return lambda what: f"{what}-{run}-{next(numbers)}"
