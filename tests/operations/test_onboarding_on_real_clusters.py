"""A fleet comes to the gateways: clients past them are seen, ACLs, SCRAM users and quotas of brokers are brought."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ha_core.kafka.connection import BlockingConnection
from ha_core.operations.access.onboarding import broker_access, clients_past, leaving
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.access.onboarding import brought
from ha_core.wire.codes import ApiKey
from stack.harness import Stack
from tests.kafka.accounts import another
from tests.kit.running import bind, create_topics, switchyard_command
from tests.kit.secured import secured_stack, service_settings
from tests.kit.stacks import operator

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/access", "ha_core/plan/access", "ha_core/kafka", "ha_core/cli"),
]
stack, environment = secured_stack(), operator()
TOPIC, GROUP = "onboard-orders", "onboard-readers"


@pytest.fixture(scope="module", params=["east", "west"])
def cluster(request: pytest.FixtureRequest, stack: Stack) -> str:
    """A cluster with a user, its rule and its quota, and a client that writes and commits past the gateways."""
    name = str(request.param)
    create_topics(stack, name, TOPIC)
    another(stack, name, "ann")
    admin = AdminClient(service_settings(stack, name))
    rule = AclBinding(
        ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:ann", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin.create_acls([rule])[rule].result(30)
    return name


def set_quota(environment: Environment, cluster: str) -> None:
    entry = {
        "entity": [{"entity_type": "user", "entity_name": "ann"}],
        "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
    }
    admin = environment.admin(environment.store.load().clusters[cluster])

    def ask(connection: BlockingConnection) -> dict[str, Any]:
        return connection.call(ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [entry], "validate_only": False})

    (answer,) = admin.asking(30).converse(None, ask)["entries"]
    assert answer["error_code"] == 0


def run(stack: Stack, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        switchyard_command(stack, *arguments), capture_output=True, text=True, timeout=120, check=False
    )
    lines = done.stdout.strip().splitlines()
    assert lines, done.stderr
    return done.returncode, json.loads(lines[-1])


def test_access_of_brokers_is_shown_first_and_brought_once_in_one_change(
    stack: Stack, environment: Environment, cluster: str, tmp_path: Path
) -> None:
    set_quota(environment, cluster)
    file = tmp_path / "platform.db"
    asked = ("onboard", "access", cluster, "--without", "switchyard", "--database", f"sqlite:///{file}")

    code, _ = run(stack, *asked)
    assert code != 0  # there is no database yet
    assert not file.exists()

    found = brought(broker_access(environment, cluster))
    assert {"name": "ann"} in found.put["users"]
    assert "ann" in found.without_keys
    assert {"user": "ann", "producer_byte_rate": 1000.0} in found.put["quotas"]
    assert any(one["principal"] == "User:ann" and one["name"] == TOPIC for one in found.put["rules"])

    _, made = run(stack, *asked, "--apply")
    assert {one["what"] for one in made["entries"]} == {"made"}
    assert any("no gateway follows this database" in one for one in made["enforcement"])
    _, again = run(stack, *asked)
    assert {one["what"] for one in again["entries"]} == {"stands"}


def test_a_client_that_writes_and_commits_past_the_gateways_is_seen(
    stack: Stack, environment: Environment, cluster: str
) -> None:
    consumer = Consumer({**service_settings(stack, cluster), "group.id": GROUP, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
    consumer.close()
    producer = Producer(service_settings(stack, cluster))
    pause = environment.sleep

    def write_meanwhile(seconds: float) -> None:
        producer.produce(TOPIC, value=b"x", partition=0)
        assert producer.flush(30) == 0
        pause(min(seconds, 0.5))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "sleep", write_meanwhile)
        found = clients_past(environment, cluster, 1.0)

    assert GROUP in found.committers
    assert found.writers[TOPIC] == 1


def test_a_fleet_that_no_gateway_has_touched_may_go_back_and_an_unknown_cluster_is_refused(
    environment: Environment, cluster: str
) -> None:
    assert leaving(environment, cluster).bonds == ()
    with pytest.raises(RefusedError, match="not registered"):
        leaving(environment, "south")


def test_a_binding_to_another_cluster_keeps_a_client_from_its_brokers(stack: Stack, environment: Environment) -> None:
    bind(stack, "zoe", "west")

    code, found = run(stack, "onboard", "leave", "east")

    assert code == 6
    assert [(one["kind"], one["about"]) for one in found["bonds"]] == [("binding", "user zoe")]
    assert leaving(environment, "west").bonds == ()
