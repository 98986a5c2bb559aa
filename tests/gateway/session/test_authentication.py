"""Logins and the order of their steps (SASL/PLAIN)."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.topology import Topology
from gateway.session.commands import Cause, VerifyLogin
from ha_core.wire import ErrorCode, encode_request
from ha_core.wire.sasl_plain import plain_token
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, PRODUCE, produce, produced, state
from tests.gateway.session.talk import APIS, EAST, Talk, snapshot, topology

HANDSHAKE, VERSIONS, AUTHENTICATE, LIST_TRANSACTIONS = 17, 18, 36, 66
USERS = {"app": "secret", "other": "secret"}
FAILED, OUT_OF_TURN = ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE


def log_in(talk: Talk, token: bytes) -> list[int]:
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": token})
    if any(isinstance(command, VerifyLogin) for command in talk.others):
        talk.verify_login()
    return [answer["error_code"] for answer in talk.answers()]


def is_turned_away(talk: Talk) -> bool:
    return talk.cause is Cause.AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "token",
    [
        plain_token("app", "wrong"),
        plain_token("nobody", "secret"),
        plain_token("app", "secret", authzid="other"),
        b"app\0secret",
        b"\0app\0" + b"x" * 100_000,
    ],
    ids=["password", "user", "for another user", "unreadable", "too long"],
)
def test_a_wrong_claim_gets_the_same_answer_whatever_is_wrong_and_the_connection_ends(token: bytes) -> None:
    talk = Talk(users=USERS)
    assert log_in(talk, token) == [0, FAILED]
    assert is_turned_away(talk)
    assert talk.session.client.auth_state.user is None


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


def test_another_mechanism_may_be_named_after_one_that_is_not_offered() -> None:
    talk = Talk(users=USERS)
    talk.ask(HANDSHAKE, 1, {"mechanism": "SCRAM-SHA-512"})
    (answer,) = talk.answers()
    assert (answer["error_code"], answer["mechanisms"]) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert log_in(talk, plain_token("app", "secret")) == [0, 0]


def test_a_client_that_begins_a_login_has_to_complete_it_where_anonymous_clients_may_enter() -> None:
    talk = Talk()
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(3, 8, {"topics": []})
    assert talk.cause is Cause.NOT_AUTHENTICATED


CHUNKINGS = {"whole": 1_000, "byte by byte": 1}


@pytest.mark.parametrize("size", CHUNKINGS.values(), ids=CHUNKINGS)
def test_a_client_of_old_brokers_logs_in_with_a_bare_token_and_continues(size: int) -> None:
    # Given a handshake of version 0, after which tokens have no header
    talk = Talk(users=USERS, chunks=lambda data: [data[at : at + size] for at in range(0, len(data), size)])
    talk.ask(HANDSHAKE, 0, {"mechanism": "PLAIN"})
    assert talk.answers()[0]["error_code"] == 0
    # When the token comes, directly followed by a request
    token = plain_token("app", "secret")
    talk.correlation += 1
    talk.versions.append((talk.correlation, VERSIONS, 0))
    request = encode_request(VERSIONS, 0, talk.correlation, "app", b"")
    talk.send(len(token).to_bytes(4, "big") + token + request)
    # Then an empty frame confirms it, as a broker's does, and the request is answered
    assert talk.to_client[:4] == bytes(4)
    del talk.to_client[:4]
    assert talk.answers()[0]["error_code"] == 0
    assert talk.session.client.auth_state.user == "app"
    assert talk.closed is None


@pytest.mark.parametrize(
    "token", [plain_token("app", "wrong"), b"app", b""], ids=["password", "unreadable", "none at all"]
)
def test_a_wrong_bare_token_ends_the_connection_without_an_answer(token: bytes) -> None:
    talk = Talk(users=USERS)
    talk.ask(HANDSHAKE, 0, {"mechanism": "PLAIN"})
    talk.answers()
    talk.send(len(token).to_bytes(4, "big") + token)
    assert is_turned_away(talk)
    assert not talk.to_client
    assert talk.session.client.auth_state.user is None


def test_an_oversized_bare_token_is_not_awaited() -> None:
    talk = Talk(users=USERS)
    talk.ask(HANDSHAKE, 0, {"mechanism": "PLAIN"})
    talk.send((1_000_000).to_bytes(4, "big"))
    assert talk.cause is Cause.MALFORMED


def test_a_version_that_a_newly_found_cluster_lacks_is_not_forwarded_and_the_client_asks_for_versions_again() -> None:
    # Given a client that has read the offered versions, and one request in flight
    talk = Talk(state())
    earlier = talk.forwarded(PRODUCE, 9, produce(("orders", 0, batch())), to=EAST)
    # When a cluster of an older version is found, to which a crossing may lead
    clusters = dict(topology().clusters)
    clusters["west"] = replace(clusters["west"], api_versions={**APIS, PRODUCE: (0, 8)})
    talk.follow(snapshot(talk.session.context.snapshot.view, Topology(clusters)))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    # Then requests in the newer version are not forwarded, and end the connection when the earlier one is answered
    assert not talk.asked(EAST)
    assert talk.closed is None
    talk.answer(EAST, earlier, produced(("orders", 0, 0, 5)))
    assert len(talk.answers()) == 1
    assert talk.cause is Cause.UNSUPPORTED
    # And on a new connection the client gets the common versions
    again = Talk(snapshot(talk.session.context.snapshot.view, Topology(clusters)))
    again.ask(VERSIONS, 0, {})
    offered = {line["api_key"]: line["max_version"] for line in again.answers()[0]["api_keys"]}
    assert offered[PRODUCE] == 8


def test_an_api_that_a_newly_found_cluster_lacks_is_not_forwarded_either() -> None:
    # Given a client that has read that the API is offered
    talk = Talk(state())
    clusters = dict(topology().clusters)
    lacking = {key: span for key, span in APIS.items() if key != LIST_TRANSACTIONS}
    clusters["west"] = replace(clusters["west"], api_versions=lacking)
    talk.follow(snapshot(talk.session.context.snapshot.view, Topology(clusters)))
    # When it uses it: COORDINATOR_NOT_AVAILABLE would make it retry until its timeout
    talk.ask(LIST_TRANSACTIONS, 0, {"state_filters": [], "producer_id_filters": []})
    # Then no cluster is asked, and the client asks for the versions again
    assert not talk.others
    assert talk.cause is Cause.UNSUPPORTED


@pytest.mark.parametrize(("api_key", "name", "version", "oldest"), [(PRODUCE, "PRODUCE", 2, 3), (FETCH, "FETCH", 2, 4)])
def test_a_client_that_is_too_old_is_closed_and_the_reason_names_the_oldest_served_version(
    api_key: int, name: str, version: int, oldest: int
) -> None:
    talk = Talk(state())
    talk.send(encode_request(api_key, version, 1, "old", b"\0" * 14))
    assert talk.cause is Cause.UNSUPPORTED
    said = f"{name} version {version} is older than {oldest}, the oldest that is served: the client is older than"
    assert talk.why.startswith(said)


def test_a_version_that_is_too_new_is_not_reported_as_too_old() -> None:
    talk = Talk(state())
    talk.send(encode_request(PRODUCE, 99, 1, "new", b"\0" * 14))
    assert "did not follow the ApiVersions answer" in talk.why
