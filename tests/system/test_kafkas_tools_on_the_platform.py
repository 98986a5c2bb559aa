"""Kafka's tools change rules and quotas of the platform through one gateway, and all gateways enforce them."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ha_core.model.quota import Limits, QuotaEntity, QuotaKind
from ha_core.store.zookeeper import connect
from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack
from tests.kit import tools
from tests.kit.platform import PASSWORD, RunningPlatform, create_topic, soon, written
from tests.kit.running import ZOOKEEPER_ROOT
from tests.kit.stacks import own_stack
from tests.kit.tools import tool

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(300),
    pytest.mark.long("ha_core/platform", "gateway/follow/platform", "gateway/composed/acls.py"),
]
GATEWAYS = (0, 1)


stack = own_stack({"east": "4.3.1"}, gateways=len(GATEWAYS), security="sasl", platform=True)


@pytest.fixture
def topic(stack: Stack, name: str) -> str:
    create_topic(stack, name)
    return name


def administrator(stack: Stack, number: int) -> AdminClient:
    """An administrator's client that knows the gateway of that number first."""
    account = client_settings(SecurityProfile("PLAIN", "admin", stack.users["admin"]))
    return AdminClient({"bootstrap.servers": stack.gateways[number]["bootstrap"], "log_level": 0, **account})


def writes(user: str, topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )


def of(user: str) -> AclBindingFilter:
    # Null means any here, which the library's types do not allow.
    return AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        f"User:{user}",
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def test_an_admin_client_grants_at_one_gateway_and_revokes_at_the_other(
    stack: Stack, platform: RunningPlatform, topic: str
) -> None:
    # Given
    platform.make_known("granted")
    first, second = (administrator(stack, number) for number in GATEWAYS)
    rule = writes("granted", topic)

    def results_everywhere() -> list[KafkaError | None]:
        return [written(gateway["bootstrap"], "granted", topic) for gateway in stack.gateways]

    # When
    for future in first.create_acls([rule]).values():
        future.result(30)
    # Then
    soon(lambda: results_everywhere() == [None, None], "the record is written")
    (stored,) = platform.call("GET", "/v1/rules", user="granted")["items"]
    assert (stored["by"], stored["value"]["name"]) == ("admin", topic)
    soon(lambda: second.describe_acls(of("granted")).result(30) == [rule], "the other gateway tells it")
    # And when it is revoked
    (gone,) = second.delete_acls([of("granted")]).values()
    assert gone.result(30) == [rule]
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    soon(lambda: results_everywhere() == [denied, denied], "the record is refused")
    assert platform.call("GET", "/v1/rules", user="granted")["items"] == []


def test_a_rule_for_an_unknown_user_is_refused_with_the_platforms_text(stack: Stack, topic: str) -> None:
    admin = administrator(stack, 0)  # keep a reference: its answers end with it
    (future,) = admin.create_acls([writes("nobody-at-all", topic)]).values()

    with pytest.raises(KafkaException) as refused:
        future.result(30)

    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert "there is no user 'nobody-at-all' on the platform" in refused.value.args[0].str()


def properties(stack: Stack, folder: Path) -> str:
    """The properties file with which tools log in as an administrator."""
    login = f'username="admin" password="{stack.users["admin"]}";'
    config = folder / "admin.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {login}\n"
    )
    return str(config)


def test_kafka_acls_adds_lists_and_removes_rules_of_the_platform(
    stack: Stack, platform: RunningPlatform, topic: str, tmp_path: Path
) -> None:
    # Given
    platform.create_user("tooled", PASSWORD)
    config = properties(stack, tmp_path)

    def acls(*arguments: str) -> tools.ToolOutput:
        return tool("4.3.1", tools.ACLS, stack.bootstrap, "--command-config", config, *arguments)

    what = ("--allow-principal", "User:tooled", "--operation", "Read", "--topic", topic)
    # When
    added = acls("--add", *what)
    # Then
    assert added.exit_code == 0, added
    assert len(platform.call("GET", "/v1/rules", user="tooled")["items"]) == 1
    assert f"name={topic}" in acls("--list", "--principal", "User:tooled").out
    # And when it is revoked
    removed = acls("--remove", "--force", *what)
    assert removed.exit_code == 0, removed
    assert platform.call("GET", "/v1/rules", user="tooled")["items"] == []


def test_kafka_configs_limits_a_user_of_the_platform_at_all_gateways_and_removes_the_limit(
    stack: Stack, platform: RunningPlatform, tmp_path: Path
) -> None:
    # Given
    platform.make_known("limited")
    config = properties(stack, tmp_path)

    def configs(*arguments: str) -> tools.ToolOutput:
        whom = ("--alter", "--entity-type", "clients", "--entity-name", "limited.orders")
        return tool("4.3.1", tools.CONFIGS, stack.bootstrap, "--command-config", config, *whom, *arguments)

    store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    orders = QuotaEntity("limited", None, "orders")

    def in_force() -> dict[QuotaEntity | None, Limits]:
        return {quota.entity: quota.limits for quota in store.quotas().readable.values()}

    # When
    added = configs("--add-config", "producer_byte_rate=1000")
    # Then
    assert added.exit_code == 0, added
    (stored,) = platform.call("GET", "/v1/quotas", user="limited")["items"]
    assert (stored["by"], stored["value"]["topic"]) == ("admin", "orders")
    soon(lambda: in_force().get(orders) == {QuotaKind.PRODUCE: 1000.0}, "it is published")
    # And when the user's limit is removed
    removed = configs("--delete-config", "producer_byte_rate")
    assert removed.exit_code == 0, removed
    soon(lambda: orders not in in_force(), "it is published that he is not limited")
    assert platform.call("GET", "/v1/quotas", user="limited")["items"] == []
    store.close()
