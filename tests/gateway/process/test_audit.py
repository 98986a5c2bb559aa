"""The audit log: a line for each refusal and each failed login, bounded."""

import json
import logging
from typing import Any

import pytest

from gateway.model.rights import Denied
from gateway.process.audit import AGAIN_S, LOGGER, MAX_LINES, PER_S, AuditLog

READS = Denied("READ", "TOPIC", "orders")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(LOGGER, "propagate", True)
    caplog.set_level(logging.INFO, LOGGER.name)
    return lambda: [json.loads(record.getMessage()) for record in caplog.records]


def test_a_refusal_has_user_address_operation_and_resource(lines: Any) -> None:
    AuditLog().denied("alice", "10.0.0.7", "fetch", [READS], 0.0)

    (line,) = lines()
    assert line.pop("at")
    assert line == {
        "event": "denied",
        "user": "alice",
        "address": "10.0.0.7",
        "api": "fetch",
        "operation": "READ",
        "resource": "TOPIC",
        "name": "orders",
    }


def test_a_failed_login_has_the_claimed_user_and_the_address(lines: Any) -> None:
    # Given
    audit = AuditLog()
    # When a client guesses passwords
    for second in range(3):
        audit.failed_login("10.0.0.7", "authentication_failed", "user 'alice'", float(second))
    # Then
    (line,) = lines()
    assert line.pop("at")
    assert line == {
        "event": "login",
        "address": "10.0.0.7",
        "cause": "authentication_failed",
        "why": "user 'alice'",
    }


def test_repeated_refusals_write_one_line_a_minute(lines: Any) -> None:
    # Given
    audit = AuditLog()
    # When
    for second in range(100):
        audit.denied("alice", "10.0.0.7", "fetch", [READS], float(second))
    # Then
    assert [line.get("again") for line in lines()] == [None, int(AGAIN_S) - 1]


def test_made_up_names_do_not_fill_the_log(lines: Any) -> None:
    # Given
    audit = AuditLog()
    # When
    for number in range(1000):
        audit.denied("eve", "10.0.0.7", "fetch", [Denied("READ", "TOPIC", f"{number}\n" + "x" * 1000)], 0.0)
    audit.denied("alice", "10.0.0.7", "fetch", [READS], PER_S)
    # Then
    written = lines()
    assert len(written) == MAX_LINES + 1
    assert written[-1]["left_out"] == 1000 - MAX_LINES
    assert max(len(line["name"]) for line in written) == 255
