"""Who may enter, in which order of steps (SASL/PLAIN)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.session.commands import Cause
from ha_core.wire import ErrorCode
from ha_core.wire.sasl import plain_token
from tests.gateway.session.talk import Talk

HANDSHAKE, AUTHENTICATE = 17, 36
USERS = {"app": "secret", "other": "secret"}
FAILED, OUT_OF_TURN = ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE


def log_in(talk: Talk, token: bytes) -> list[int]:
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": token})
    return [answer["error_code"] for answer in talk.answers()]


def is_turned_away(talk: Talk) -> bool:
    return talk.closed is not None and talk.closed.cause is Cause.AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "token",
    [
        plain_token("app", "wrong"),
        plain_token("nobody", "secret"),
        plain_token("app", "secret", authzid="other"),
        b"app\0secret",
        b"\0app\0" + b"x" * 100_000,
    ],
    ids=["password", "user", "for somebody else", "unreadable", "too long"],
)
def test_a_wrong_claim_is_told_the_same_whatever_is_wrong_and_the_connection_ends(token: bytes) -> None:
    talk = Talk(users=USERS)
    assert log_in(talk, token) == [0, FAILED]
    assert is_turned_away(talk)
    assert talk.session.user is None


@pytest.mark.parametrize(("user", "error"), [("app", ErrorCode.NONE), ("other", FAILED)])
def test_a_client_may_authenticate_anew_but_not_as_somebody_else(user: str, error: ErrorCode) -> None:
    talk = Talk(users=USERS)
    assert log_in(talk, plain_token("app", "secret")) == [0, 0]
    assert log_in(talk, plain_token(user, "secret")) == [0, error]
    assert is_turned_away(talk) is (error is FAILED)
    assert talk.session.user == "app"


STEPS: dict[int, dict[str, Any]] = {
    HANDSHAKE: {"mechanism": "PLAIN"},
    AUTHENTICATE: {"auth_bytes": plain_token("app", "secret")},
}


@pytest.mark.parametrize("steps", [(AUTHENTICATE,), (HANDSHAKE, HANDSHAKE), (HANDSHAKE, AUTHENTICATE, AUTHENTICATE)])
def test_steps_out_of_turn_end_the_connection(steps: tuple[int, ...]) -> None:
    talk = Talk(users=USERS)
    for step in steps:
        talk.ask(step, 1, STEPS[step])
    assert talk.answers()[-1]["error_code"] == OUT_OF_TURN
    assert is_turned_away(talk)


def test_after_a_mechanism_that_is_not_offered_another_one_may_be_named() -> None:
    talk = Talk(users=USERS)
    talk.ask(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-512"})
    assert talk.answers()[0]["error_code"] == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert log_in(talk, plain_token("app", "secret")) == [0, 0]


def test_where_anybody_may_enter_a_client_that_begins_to_log_in_has_to_go_through_with_it() -> None:
    talk = Talk()
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(3, 9, {"topics": []})
    assert talk.closed is not None
    assert talk.closed.cause is Cause.NOT_AUTHENTICATED
