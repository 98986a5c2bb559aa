"""Two real clusters that require a login: `east` with one broker of Kafka 3.9, `west` with three of 4.3."""

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.model import Cluster
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.kafka.clients import Settings, settings
from tests.kafka.mirroring import LOG, LOG_PARTITIONS, Linked


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


@pytest.fixture(scope="package")
def here(clusters: dict[str, Cluster], account: SecurityProfile) -> Settings:
    """A client of east."""
    return settings(clusters["east"], account)


@pytest.fixture(scope="package")
def there(clusters: dict[str, Cluster], account: SecurityProfile) -> Settings:
    """A client of west."""
    return settings(clusters["west"], account)


@pytest.fixture(scope="package")
def copy_logs(east: Admin, west: Admin) -> None:
    """Each cluster has the topic in which copiers record what they append."""
    for admin, replication in ((east, 1), (west, 3)):
        admin.create_topics([TopicSpec(LOG, LOG_PARTITIONS, replication, {"cleanup.policy": "compact"})])


@pytest.fixture(scope="package")
def linked(east: Admin, west: Admin, fresh: Callable[[str], str]) -> Linked:
    """Creates a topic in east and its empty copy in west, and returns their name."""

    def create(partitions: int = 1, **config: str) -> str:
        name, own = fresh("copied"), {key.replace("_", "."): value for key, value in config.items()}
        for admin, replication in ((east, 1), (west, 3)):
            admin.create_topics([TopicSpec(name, partitions, replication, own)])
        return name

    return create
