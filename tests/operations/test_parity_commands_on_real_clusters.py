"""The commands that a parity check prints: Kafka's own tools run them as they stand, and the drift is gone."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from ha_core.kafka.connection import BlockingConnection
from ha_core.operations.engine.environment import Environment
from ha_core.operations.parity.comparing import ParityOrder, compare
from ha_core.wire.codes import ApiKey
from stack.harness import Stack
from tests.kit.secured import secured_stack, service_settings
from tests.kit.stacks import operator
from tests.kit.tools import ACLS, CONFIGS, TOPICS, tool

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(300),
    pytest.mark.long("ha_core/plan/parity", "ha_core/operations/parity"),
]
stack, environment = secured_stack(), operator()
TOPIC = "parity-bills"
TOOLS = {"kafka-topics.sh": TOPICS, "kafka-configs.sh": CONFIGS, "kafka-acls.sh": ACLS}


def admin(stack: Stack, cluster: str) -> AdminClient:
    return AdminClient(service_settings(stack, cluster))


def create(stack: Stack, cluster: str, partitions: int, **config: str) -> None:
    client = admin(stack, cluster)
    client.create_topics([NewTopic(TOPIC, partitions, 1, config=config)])[TOPIC].result(30)


def set_quotas(environment: Environment, cluster: str, *entities: list[dict[str, str | None]]) -> None:
    ops = [{"key": "producer_byte_rate", "value": 1_234_567.0, "remove": False}]
    entries = [{"entity": entity, "ops": ops} for entity in entities]

    def ask(connection: BlockingConnection) -> dict[str, Any]:
        return connection.call(ApiKey.ALTER_CLIENT_QUOTAS, {"entries": entries, "validate_only": False})

    asked = environment.admin(environment.store.load().clusters[cluster]).asking(30).converse(None, ask)
    assert [entry["error_code"] for entry in asked["entries"]] == [0] * len(entities)


def test_the_printed_commands_mend_all_drift_of_topics_without_a_mirror(
    stack: Stack, environment: Environment, tmp_path: Path
) -> None:
    # Given a standby with too few partitions and another policy, without a rule and without two quotas
    create(stack, "east", 3, **{"cleanup.policy": "compact,delete"})
    create(stack, "west", 1, **{"cleanup.policy": "delete"})
    rule = AclBinding(
        ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:zoe", "*",
        AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW,
    )  # fmt: skip
    client = admin(stack, "east")
    client.create_acls([rule])[rule].result(30)
    set_quotas(
        environment,
        "east",
        [{"entity_type": "user", "entity_name": "zoe"}],
        [{"entity_type": "user", "entity_name": None}, {"entity_type": "client-id", "entity_name": "app 1"}],
    )
    order = ParityOrder("east", "west", (TOPIC,), ("message.timestamp.*", "segment.*", "follower.*"))

    found = compare(environment, order).drifts
    assert [one.kind for one in found] == ["partitions", "setting", "right", "quota", "quota"]

    # When each command is run as printed, with the file that its cluster's login needs
    assert stack.service is not None
    login = f'username="{stack.service["user"]}" password="{stack.service["password"]}"'
    account = tmp_path / "account.properties"
    account.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {login};\n",
        "utf-8",
    )
    for drift in found:
        script, bootstrap_option, bootstrap, *options = shlex.split(drift.command)
        assert bootstrap_option == "--bootstrap-server"
        done = tool("4.3.1", TOOLS[script], bootstrap, *options, "--command-config", str(account))
        assert done.exit_code == 0, (drift.command, done)

    # Then nothing differs
    assert compare(environment, order).drifts == ()
