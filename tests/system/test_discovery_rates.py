"""Unmodified clients above their request rate are answered later, by settings that change while they run."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack
from tests.kit.own_gateway import OwnGateway
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack
from tests.kit.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/session/discovery.py", "gateway/session/discovery_rates.py")]

USERS = {"busy": "b-secret", "calm": "c-secret"}


stack = own_stack({"east": "3.9.2"}, gateways=0)


def settings(gateway: OwnGateway, user: str) -> dict[str, str | int | float | bool]:
    account = client_settings(SecurityProfile("PLAIN", user, USERS[user]))
    return {"bootstrap.servers": gateway.bootstrap, "log_level": 0, **account}


def asks(admin: AdminClient, times: int) -> float:
    """Seconds for this many successive requests."""
    since = time.monotonic()
    for _ in range(times):
        assert admin.list_topics(timeout=20).topics is not None
    return time.monotonic() - since


def test_a_user_in_a_loop_waits_while_another_one_writes_and_new_settings_count_at_once(
    stack: Stack, tmp_path: Path
) -> None:
    # Given a gateway whose users may send five requests per second, and a topic
    create_topic(bootstrap(stack, "east"), "orders")
    limits = tmp_path / "discovery.yaml"
    limits.write_text(yaml.safe_dump({"user_rate": {"*": 5}}))
    (tmp_path / "users.yaml").write_text(yaml.safe_dump(USERS))
    sections: dict[str, Any] = {
        "authentication": {"users_file": str(tmp_path / "users.yaml"), "plain_without_tls": True},
        "discovery": {"settings_file": str(limits)},
    }
    with OwnGateway(stack, tmp_path, **sections) as gateway:
        busy = AdminClient(settings(gateway, "busy"))
        asks(busy, 1)
        # When one of them sends requests in a loop
        took_s = asks(busy, 25)
        # Then it gets its rate, every request is answered, and no connection was closed for it
        assert 3.0 < took_s < 12.0
        assert gateway.metric("discovery_delayed", limit="user") > 10
        assert "requests answered later, limit=user: user=busy address=127.0.0.1 asks more than 5" in gateway.said()
        assert gateway.metric("connections_ended", cause="malformed") == 0
        # And another one writes meanwhile
        producer = Producer({**settings(gateway, "calm"), "message.timeout.ms": 20_000})
        producer.produce("orders", b"x")
        assert producer.flush(20) == 0
        # When the settings are changed
        limits.write_text(yaml.safe_dump({"user_rate": {"*": 5, "busy": 5000}}))
        until(lambda: "new discovery settings are in force" in gateway.said(), "the file is followed", 10)
        # Then they apply to the next requests
        assert asks(busy, 25) < 3.0
        # And a file that cannot be read changes nothing
        limits.write_text("user_rate: {busy: none}")
        until(lambda: gateway.metric("settings_unreadable") == 1, "what is wrong is told", 10)
        assert asks(busy, 25) < 3.0
