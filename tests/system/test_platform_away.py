"""The platform's state stays in force while it, its database or ZooKeeper is away; after that everything catches up."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from ha_core.platform.platform import Platform
from stack.harness import Stack
from tests.kit.platform import PASSWORD, RunningPlatform, create_topic, known_everywhere, logs_in, metric, soon, written
from tests.kit.stacks import own_stack

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(300),
    pytest.mark.long("gateway/follow/platform", "ha_core/platform", "ha_core/datacache"),
]
GATEWAYS = (0, 1)


stack = own_stack({"east": "4.3.1"}, gateways=len(GATEWAYS), security="sasl", platform=True)


def test_users_and_rights_outlast_the_platform_and_a_restart_of_a_gateway_without_it(
    stack: Stack, platform: RunningPlatform, name: str
) -> None:
    # Given a user who may write
    create_topic(stack, name)
    platform.make_known("keeper")
    platform.grant("keeper", "write", name)
    soon(lambda: written(stack.bootstrap, "keeper", name) is None, "the user writes")
    soon(lambda: metric(stack, 0, "platform_members", cache="rules") == len(GATEWAYS), "both take part")
    # When the platform dies, and a gateway is restarted without it
    stack.kill("platform")
    stack.restart("gateway/1")
    # Then
    assert known_everywhere(stack, "keeper")
    assert written(stack.bootstrap, "keeper", name) is None
    assert not logs_in(stack, 0, "keeper", "another")
    assert httpx.get(f"{stack.gateways[0]['http']}/readyz", trust_env=False).status_code == 200
    soon(lambda: metric(stack, 0, "platform_unreadable", cache="users") == 1, "it is told")
    old_s = metric(stack, 0, "platform_age_seconds", cache="users")
    soon(lambda: metric(stack, 0, "platform_age_seconds", cache="users") > old_s, "it grows older")
    # And changes made in the database meanwhile are in force when the platform is back
    assert stack.platform is not None
    with Platform.open(stack.platform["database"]) as registry:
        registry.delete_user("keeper", registry.read.get("users", "keeper").version, "somebody", "test")
    stack.restart("platform")
    soon(lambda: not any(logs_in(stack, number, "keeper", PASSWORD) for number in GATEWAYS), "he is gone", 30)
    soon(lambda: metric(stack, 0, "platform_unreadable", cache="users") == 0, "it is told")


def test_a_locked_database_refuses_a_change_and_known_users_keep_their_access(
    stack: Stack, platform: RunningPlatform
) -> None:
    # Given
    platform.make_known("known")
    assert stack.platform is not None
    locking = sqlite3.connect(stack.platform["database"].removeprefix("sqlite:///"), isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    # When
    status = platform.status_of("POST", "/v1/users", {"value": {"name": "late"}, "reason": "test"})
    # Then
    assert status == 503
    assert known_everywhere(stack, "known")
    locking.execute("ROLLBACK")
    locking.close()
    platform.make_known("late")


def test_without_zookeeper_users_stay_known_and_changes_are_enforced_when_it_is_back(
    stack: Stack, platform: RunningPlatform
) -> None:
    # Given
    platform.make_known("patient")
    # When
    stack.kill("zookeeper")
    platform.create_user("newcomer", PASSWORD)
    # Then
    assert known_everywhere(stack, "patient")
    stack.restart("zookeeper")
    soon(lambda: known_everywhere(stack, "newcomer"), "the new user logs in", 45)
    soon(lambda: metric(stack, 1, "platform_members", cache="users") == len(GATEWAYS), "both take part", 30)
    commits = {metric(stack, number, "platform_commit_timestamp_seconds", cache="users") for number in GATEWAYS}
    assert len(commits) == 1


def test_a_second_gateway_with_a_used_id_ends_and_the_first_goes_on(
    stack: Stack, platform: RunningPlatform, tmp_path: Path
) -> None:
    # Given the first gateway's configuration, with other ports
    (file,) = (stack.dir / "parts" / "gateway-1").rglob("gateway.yaml")
    config = yaml.safe_load(file.read_text())
    config["listen"]["port"], config["http"]["port"] = 29_991, 29_992
    config["nodes"] = {"first_port": 30_000, "count": 100}
    config["platform"]["folder"] = str(tmp_path / "kept")
    other = tmp_path / "gateway.yaml"
    other.write_text(yaml.safe_dump(config))
    # When
    command = [sys.executable, "-m", "gateway", "--config", str(other)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    # Then
    assert ended.returncode == 1
    assert "cannot start" in ended.stderr
    assert "gw-1" in ended.stderr
    platform.make_known("after-the-second")
