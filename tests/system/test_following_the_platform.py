"""Every gateway enforces users and rules of the platform soon, and their deletion as soon."""

import time
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from ha_core.kafka.errors import ConnectionLostError
from ha_core.store.store import Store
from ha_core.wire.codes import ApiKey
from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack
from tests.kit.platform import (
    PASSWORD,
    RunningPlatform,
    counted,
    create_topic,
    gateway_connection,
    known_everywhere,
    logs_in,
    metric,
    soon,
    written,
)
from tests.kit.running import switchyard
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
GATEWAYS = (0, 1, 2)
DENIED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


stack = own_stack({"east": "4.3.1"}, gateways=len(GATEWAYS), security="sasl", platform=True)


@pytest.fixture
def topic(stack: Stack, name: str) -> str:
    create_topic(stack, name)
    return name


def settings(stack: Stack, user: str, password: str) -> dict[str, object]:
    account = client_settings(SecurityProfile("PLAIN", user, password))
    return {"bootstrap.servers": stack.bootstrap, "log_level": 0, "topic.metadata.refresh.interval.ms": 500, **account}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_new_user_can_soon_log_in_at_every_gateway_by_each_mechanism_that_the_platform_keeps_keys_for(
    stack: Stack, platform: RunningPlatform, mechanism: str
) -> None:
    user = f"by-{mechanism.lower()}"
    assert not any(logs_in(stack, number, user, PASSWORD, mechanism) for number in GATEWAYS)
    platform.create_user(user, PASSWORD)
    soon(lambda: known_everywhere(stack, user, mechanism=mechanism), "the user logs in")
    assert not any(logs_in(stack, number, user, "another password", mechanism) for number in GATEWAYS)


def test_a_topic_that_is_granted_can_be_written_and_nothing_else_can(
    stack: Stack, platform: RunningPlatform, topic: str
) -> None:
    # Given a user without rights
    platform.make_known("writer")
    assert written(stack.bootstrap, "writer", topic) == DENIED

    platform.grant("writer", "write", topic)

    soon(lambda: written(stack.bootstrap, "writer", topic) is None, "the record is written")
    assert written(stack.bootstrap, "writer", f"{topic}-other") == DENIED


def test_a_reader_is_refused_while_it_reads_when_its_right_is_revoked(
    stack: Stack, platform: RunningPlatform, topic: str
) -> None:
    # Given a consumer that reads a topic with a producer
    platform.make_known("reader")
    rule = platform.grant("reader", "read", topic)
    platform.grant("reader", "read", "reader-", "group", pattern="prefixed")
    writer = Producer({**settings(stack, "admin", stack.users["admin"])})
    own = {"group.id": "reader-1", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings(stack, "reader", PASSWORD), **own})
    consumer.subscribe([topic])

    def read() -> bool:
        writer.produce(topic, b"value")
        writer.poll(0)
        message = consumer.poll(0.2)
        return message is not None and message.error() is None

    soon(read, "a record is read", 60)

    # When its right is revoked
    platform.revoke(rule)

    # Then it gets the error, and no further record
    codes = []

    def refused() -> bool:
        writer.produce(topic, b"value")
        writer.poll(0)
        message = consumer.poll(0.2)
        if message is not None and (error := message.error()) is not None:
            codes.append(error.code())
        return KafkaError.TOPIC_AUTHORIZATION_FAILED in codes

    soon(refused, "the reader is refused")
    end = time.monotonic() + 2
    while time.monotonic() < end:
        writer.produce(topic, b"after")
        message = consumer.poll(0.2)
        assert message is None or message.error() is not None
    consumer.close()


def test_connections_of_a_deleted_user_end_and_it_cannot_log_in(stack: Stack, platform: RunningPlatform) -> None:
    # Given a user with a connection to each gateway
    platform.make_known("leaver")
    open_ = [gateway_connection(stack, number, "leaver", PASSWORD) for number in GATEWAYS]

    platform.delete_user("leaver")

    def ended() -> bool:
        for connection in open_:
            if not connection.closed:
                try:
                    connection.call(ApiKey.API_VERSIONS, {}, 0)
                except ConnectionLostError:
                    continue
                return False
        return True

    soon(ended, "his connections have ended")
    assert not any(logs_in(stack, number, "leaver", PASSWORD) for number in GATEWAYS)


def test_a_new_password_is_required_and_ends_no_connection(stack: Stack, platform: RunningPlatform) -> None:
    # Given a user with a connection
    platform.make_known("changer")
    connection = gateway_connection(stack, 0, "changer", PASSWORD)

    platform.set_password("changer", "another-secret")

    soon(lambda: known_everywhere(stack, "changer", "another-secret"), "the new one is good")
    assert not any(logs_in(stack, number, "changer", PASSWORD) for number in GATEWAYS)
    connection.call(ApiKey.API_VERSIONS, {}, 0)
    connection.close()


def test_changes_that_bypass_the_service_are_enforced_soon(stack: Stack, platform: RunningPlatform) -> None:
    from ha_core.platform.changing import put
    from ha_core.platform.kinds.users import UserEntry
    from ha_core.platform.platform import Platform
    from ha_core.platform.scram import derive_all

    assert stack.platform is not None
    user = UserEntry.read({"name": "by-command", "scram": derive_all(PASSWORD, 4096)})
    with Platform.open(stack.platform["database"]) as registry:
        registry.apply([put(user)], "somebody", "test")

    soon(lambda: known_everywhere(stack, "by-command"), "the user logs in")


def test_a_command_reports_at_how_many_gateways_its_change_is_in_force(stack: Stack, platform: RunningPlatform) -> None:
    assert stack.platform is not None
    database = ("--database", stack.platform["database"], "--reason", "test")
    platform.create_user("told", PASSWORD)

    def in_force(contact: str) -> bool:
        made = switchyard(stack, "users", "set", "told", "--contact", contact, *database)
        return bool(made["enforcement"] == ["users: in force at 3 of 3 gateways."])

    tries = count()
    soon(lambda: in_force(f"try-{next(tries)}"), "the command has waited for all gateways", 60)


def test_a_setting_of_the_platform_limits_a_users_request_rate_until_it_is_deleted(
    stack: Stack, platform: RunningPlatform
) -> None:
    # Given a user without a request rate
    platform.make_known("impatient")
    account: dict[str, Any] = settings(stack, "impatient", PASSWORD)
    admin = AdminClient({**account, "topic.metadata.refresh.interval.ms": -1})

    def delayed() -> float:
        for _ in range(10):
            assert admin.list_topics(timeout=20).topics is not None
        return counted(stack, "discovery_delayed", limit="named_user")

    assert delayed() == 0
    # When the platform has a setting for it
    setting = {"type": "user_rate", "name": "impatient", "value": 4}
    made = platform.call("POST", "/v1/settings", {"value": setting, "reason": "test"})
    # Then its requests are answered later
    soon(lambda: delayed() > 0, "he waits", 60)
    # When it is deleted
    platform.call("DELETE", f"/v1/settings/{quote(made['key'], safe='')}", version=made["version"], reason="test")
    # Then they are not any more
    soon(lambda: delayed() == delayed(), "he waits no more", 60)


def test_a_quota_of_a_user_for_one_topic_throttles_its_producer_there_and_nowhere_else(
    stack: Stack, platform: RunningPlatform, topic: str
) -> None:
    # Given a user who writes to two topics, with a small quota for one of them
    create_topic(stack, f"{topic}-free")
    platform.make_known("limited")
    platform.grant("limited", "write", topic, pattern="prefixed")
    quota = {"user": "limited", "topic": topic, "producer_byte_rate": 20_000}
    platform.call("POST", "/v1/quotas", {"value": quota, "reason": "test"})
    soon(lambda: all(metric(stack, number, "quotas") > 0 for number in GATEWAYS), "gateways have the quota")
    producer = Producer({**settings(stack, "limited", PASSWORD), "linger.ms": 0, "message.timeout.ms": 60_000})

    def throttled(name: str) -> float:
        for _ in range(10):
            producer.produce(name, b"x" * 50_000)
            assert producer.flush(60) == 0
        return counted(stack, "throttled_requests", cause="produce")

    # When it writes as much to each, then it only waits for the one with the quota
    assert throttled(f"{topic}-free") == 0
    assert throttled(topic) > 0


def test_gateways_follow_a_change_of_a_cluster_on_the_platform(
    stack: Stack, platform: RunningPlatform, store: Store
) -> None:
    # Given a cluster that an operator has registered
    before = store.clusters()["east"]
    # When the platform sets its zone
    value = {"name": "east", "bootstrap": before.bootstrap, "zone": "hall-1"}
    made = platform.call("POST", "/v1/clusters", {"value": value, "reason": "test"})
    # Then all gateways have the zone, and the other fields stay
    soon(lambda: store.clusters()["east"].zone == "hall-1", "the cluster has its zone")
    after = store.clusters()["east"]
    assert after.changed(zone=before.zone, platform_us=None) == before
    assert after.platform_us == made["changed_us"]
    revision = store.load().revision
    soon(lambda: all(gateway.revision >= revision for gateway in store.gateways()), "every gateway follows it")
