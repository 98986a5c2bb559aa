"""Who may enter, in which order of steps (SASL/PLAIN)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.session.commands import Cause
from ha_core.wire import ErrorCode, encode_request
from ha_core.wire.sasl import plain_token
from tests.gateway.session.talk import Talk

HANDSHAKE, VERSIONS, AUTHENTICATE = 17, 18, 36
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


CHUNKINGS = {"whole": 1_000, "byte by byte": 1}


@pytest.mark.parametrize("size", CHUNKINGS.values(), ids=CHUNKINGS)
def test_a_client_of_old_brokers_logs_in_with_a_bare_token_and_goes_on(size: int) -> None:
    # Given a handshake of version 0, after which tokens have no header
    talk = Talk(users=USERS, chunks=lambda data: [data[at : at + size] for at in range(0, len(data), size)])
    talk.ask(HANDSHAKE, 0, {"mechanism": "PLAIN"})
    assert talk.answers()[0]["error_code"] == 0
    # When the token comes, and a request right behind it
    token = plain_token("app", "secret")
    talk.correlation += 1
    talk.versions.append((talk.correlation, VERSIONS, 0))
    request = encode_request(VERSIONS, 0, talk.correlation, "app", b"")
    talk.send(len(token).to_bytes(4, "big") + token + request)
    # Then an empty frame says that it was right, as a broker does, and the request is answered
    assert talk.to_client[:4] == bytes(4)
    del talk.to_client[:4]
    assert talk.answers()[0]["error_code"] == 0
    assert talk.session.user == "app"
    assert talk.closed is None


@pytest.mark.parametrize(
    "token", [plain_token("app", "wrong"), b"app", b""], ids=["password", "unreadable", "none at all"]
)
def test_a_bare_token_that_is_wrong_ends_the_connection_without_an_answer(token: bytes) -> None:
    talk = Talk(users=USERS)
    talk.ask(HANDSHAKE, 0, {"mechanism": "PLAIN"})
    talk.answers()
    talk.send(len(token).to_bytes(4, "big") + token)
    assert is_turned_away(talk)
    assert not talk.to_client
    assert talk.session.user is None


def test_a_bare_token_that_is_too_long_is_not_waited_for() -> None:
    talk = Talk(users=USERS)
    talk.ask(HANDSHAKE, 0, {"mechanism": "PLAIN"})
    talk.send((1_000_000).to_bytes(4, "big"))
    assert talk.closed is not None
    assert talk.closed.cause is Cause.MALFORMED
