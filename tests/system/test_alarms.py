"""`status --check` on a real stack: quiet while all is well, and each planted fault shows its code within a minute."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ha_core.cli.exits import ATTENTION, OUT_OF_REACH, SUCCESS
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic, switchyard, switchyard_command
from tests.kit.stacks import own_stack, revive
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.soak,
]
WITHIN_S = 60.0
KILLED = """
import os, signal, sys
from ha_core.operations.engine.creating import create_operation
from ha_core.operations.engine.environment import EnvironmentSettings, connect
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.proposal.requests import make_request
environment = connect(EnvironmentSettings(sys.argv[1]), by="cli:test@here")
request = make_request([f"topic:{sys.argv[2]}"], "east", "west", reason="a drill")
print(create_operation(environment, plan(environment, request)).id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A command that dies between its beginning and its fence, holding its locks."""

stack = own_stack(record_facts_s=2)


def check(stack: Stack, *more: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document of `status --check --json`."""
    done = subprocess.run(
        switchyard_command(stack, "status", "--check", *more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    return done.returncode, json.loads(done.stdout.strip().splitlines()[-1])


def codes(document: dict[str, Any], level: str = "problems") -> dict[str, str]:
    """Code → subject."""
    return {problem["code"]: problem["about"] for problem in document[level]}


def is_quiet(stack: Stack) -> bool:
    code, document = check(stack)
    return (code, document["problems"]) == (SUCCESS, [])


def shows(stack: Stack, code: str, about: str, level: str = "problems") -> bool:
    return codes(check(stack)[1], level).get(code) == about


def test_a_stack_without_a_fault_is_quiet(stack: Stack) -> None:
    until(lambda: is_quiet(stack), "quiet after its start", WITHIN_S)

    for _ in range(3):
        code, document = check(stack)
        assert (code, document["problems"], document["notices"]) == (SUCCESS, [], [])


def test_a_killed_gateway_is_named_until_it_is_back_and_a_stopped_one_is_not(stack: Stack) -> None:
    until(lambda: is_quiet(stack), "quiet before", WITHIN_S)
    # When a gateway is killed
    stack.kill("gateway/2")
    until(lambda: shows(stack, "gateway-died", "gateway gw-2"), "named", WITHIN_S)
    # Then the code is 6, and the age grows from the first check that saw it
    code, document = check(stack)
    (problem,) = document["problems"]
    assert (code, problem["command"], problem["age"]) == (ATTENTION, "switchyard gateways forget gw-2", "seen")
    assert 0 <= problem["age_s"] < WITHIN_S
    # When it is back, and is stopped on purpose
    revive(stack, "gateway/2")
    until(lambda: is_quiet(stack), "quiet again", WITHIN_S)
    stack.stop("gateway/2")
    until(lambda: len(switchyard(stack, "gateways", "list")["gateways"]) == 1, "it is gone", WITHIN_S)
    # Then the check misses it only where two are declared: a notice for the first minute
    assert is_quiet(stack)
    switchyard(stack, "gateways", "expect", "2")
    until(lambda: shows(stack, "gateways-missing", "number of gateways", "notices"), "known", WITHIN_S)
    switchyard(stack, "gateways", "expect", "any")
    revive(stack, "gateway/2")
    until(lambda: is_quiet(stack), "quiet in the end", WITHIN_S)


def test_a_command_that_was_killed_with_locks_is_known_at_once_and_an_alarm_after_a_minute(
    stack: Stack, name: str
) -> None:
    create_topic(bootstrap(stack, "east"), name)
    until(lambda: is_quiet(stack), "quiet before", WITHIN_S)
    # When a command dies before its fence
    died = subprocess.run(
        [sys.executable, "-c", KILLED, stack.zookeeper, name], capture_output=True, text=True, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    about = f"operation {died.stdout.strip()}"
    # Then it is known within seconds, and an alarm after a minute
    until(lambda: shows(stack, "operation-without-executor", about, "notices"), "known", 20)
    until(lambda: shows(stack, "operation-abandoned", about), "an alarm", WITHIN_S + 30)
    switchyard(stack, "undo", died.stdout.strip())
    until(lambda: is_quiet(stack), "quiet after the undo", WITHIN_S)


def test_users_of_a_platform_that_no_gateway_follows_are_named_until_that_is_forgotten(
    stack: Stack, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/platform.db"
    until(lambda: is_quiet(stack), "quiet before", WITHIN_S)
    # When a user is made there
    made = switchyard(stack, "platform", "migrate", "--database", database)
    assert made["now"]
    (tmp_path / "password").write_text("secret\n")
    answer = switchyard(
        stack,
        *("users", "create", "zoe", "--owner", "shop", "--password-file", str(tmp_path / "password")),
        *("--database", database, "--reason", "test"),
    )
    # Then the answer says that it is in force nowhere, and so does the check
    assert "no gateway follows this database" in answer["enforcement"][0]
    until(lambda: shows(stack, "platform-unfollowed", "users of the platform"), "named", WITHIN_S)
    switchyard(stack, "platform", "forget", "users")
    until(lambda: is_quiet(stack), "quiet", WITHIN_S)


def test_the_screen_shows_the_parts_and_ends_by_q(stack: Stack) -> None:
    # Given a terminal of 100 columns
    until(lambda: is_quiet(stack), "quiet before", WITHIN_S)
    leader, follower = pty.openpty()
    command = [part for part in switchyard_command(stack, "status", "--watch", "--interval", "1") if part != "--json"]
    env = {**os.environ, "COLUMNS": "100", "LINES": "50", "TERM": "xterm"}
    subprocess.run(["stty", "rows", "50", "cols", "100"], stdin=follower, check=True)
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=env)
    said = ""

    def drawn(times: int) -> bool:
        nonlocal said
        while select.select([leader], [], [], 0.2)[0]:
            said += os.read(leader, 1 << 16).decode(errors="replace")
        return said.count("nothing waits for an operator") >= times

    # When it has drawn twice, and q is pressed
    until(lambda: drawn(2), "drawn twice", WITHIN_S)
    os.write(leader, b"q")
    # Then it ends at once and leaves the terminal as it was
    assert process.wait(20) == SUCCESS
    drawn(0)
    os.close(leader)
    os.close(follower)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said).splitlines()
    assert said.rstrip().endswith("\x1b[?25h\x1b[?1049l")
    assert max(map(len, lines)) <= 100
    assert any("gateways: 2 of 2 expected" in line for line in lines)
    assert any(re.match(r"  east +\d* +reachable, 1 broker", line) for line in lines)


def test_a_pause_of_zookeeper_has_a_code_of_its_own(stack: Stack) -> None:
    until(lambda: is_quiet(stack), "quiet before", WITHIN_S)
    # When ZooKeeper stands still
    stack.pause("zookeeper")
    began = time.monotonic()
    code, document = check(stack)
    # Then the check ends with code 4 and names it, within a minute
    assert (code, codes(document)) == (OUT_OF_REACH, {"zookeeper-away": "zookeeper"})
    assert time.monotonic() - began < WITHIN_S
    stack.resume("zookeeper")
    until(lambda: is_quiet(stack), "quiet again", 2 * WITHIN_S)
