"""The client's side of a connection against a scripted server's side, without sockets."""

from collections.abc import Iterable
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import ApiKey, ErrorCode, RemoteProtocolError, SaslServer, WireLimits
from ha_core.wire.client import (
    Answer,
    Client,
    Conversation,
    LoginRefusedError,
    UnsupportedApiError,
    learn_versions,
    log_in,
)
from ha_core.wire.codec import decode, encode
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.frames import CLOSED, NEED_DATA
from ha_core.wire.header import encode_response, read_request_header
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.sasl_steps import LoginVerdict, Plain

ACCOUNT = SecurityProfile("PLAIN", "svc", "secret")
OFFERED = {ApiKey.METADATA: (0, 9), ApiKey.SASL_AUTHENTICATE: (0, 2)}


class Broker:
    """Answers like a broker; `said` holds the requests."""

    def __init__(self, user: str = "svc", newest_api_versions: int = 3, lifetime_ms: int = 0) -> None:
        self.user, self.newest, self.lifetime_ms = user, newest_api_versions, lifetime_ms
        self.sasl = SaslServer()
        self.said: list[tuple[ApiKey, int]] = []

    def answer(self, request: bytes) -> bytes:
        header = read_request_header(request, 4, len(request))
        assert header is not None
        key, version = ApiKey(header.api_key), header.api_version
        self.said.append((key, version))
        if key is ApiKey.API_VERSIONS and version > self.newest:
            version, body = 0, {"error_code": ErrorCode.UNSUPPORTED_VERSION}
        else:
            body = self._body(key, decode(key, version, "request", request, header.body_at))
        return encode_response(key, version, header.correlation_id, encode(key, version, "response", body))

    def _body(self, key: ApiKey, request: dict[str, Any]) -> dict[str, Any]:
        if key is ApiKey.API_VERSIONS:
            return {"api_keys": [{"api_key": k, "min_version": a, "max_version": b} for k, (a, b) in OFFERED.items()]}
        if key is ApiKey.SASL_HANDSHAKE:
            return {"error_code": self.sasl.handshake(request["mechanism"], 1), "mechanisms": ["PLAIN"]}
        if key is ApiKey.SASL_AUTHENTICATE:
            return self._authenticate(request["auth_bytes"])
        return {"controller_id": 7}

    def _authenticate(self, token: bytes) -> dict[str, Any]:
        try:
            claim = self.sasl.receive(token)
            assert isinstance(claim, Plain)
            self.sasl.reply(LoginVerdict(claim.user if (claim.user, claim.password) == (self.user, "secret") else None))
        except RemoteProtocolError:
            return {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED}
        return {"session_lifetime_ms": self.lifetime_ms}


def events(client: Client, pieces: Iterable[bytes]) -> list[Answer]:
    found = []
    for piece in pieces:
        client.receive_data(piece)
        while isinstance(event := client.next_event(), Answer):
            found.append(event)
    return found


def drive(client: Client, broker: Broker, conversation: Conversation[Any]) -> Any:
    try:
        data = next(conversation)
        while True:
            (answer,) = events(client, [broker.answer(data)])
            data = conversation.send(answer.message())
    except StopIteration as done:
        return done.value


@given(st.integers(1, 40))
@settings(deadline=None)
def test_each_answer_belongs_to_the_oldest_request_however_its_bytes_arrive(size: int) -> None:
    # Given three requests in flight
    client, broker = Client("me"), Broker()
    stream = b"".join(broker.answer(client.request(ApiKey.METADATA, {}, version)) for version in (1, 9, 4))
    # When their answers arrive in pieces
    answers = events(client, [stream[at : at + size] for at in range(0, len(stream), size)])
    # Then each is decoded in the version of its request
    assert [answer.version for answer in answers] == [1, 9, 4]
    assert [answer.message()["controller_id"] for answer in answers] == [7, 7, 7]
    assert client.idle


def test_reading_the_wanted_bytes_never_passes_an_answer() -> None:
    client, broker = Client("me"), Broker()
    stream = BytesIO(broker.answer(client.request(ApiKey.METADATA, {}, 9)) + b"of somebody else")
    while (event := client.next_event()) is NEED_DATA:
        client.receive_data(stream.read(client.wanted))
    assert isinstance(event, Answer)
    assert stream.read() == b"of somebody else"


def test_a_broker_that_refuses_the_newest_api_versions_request_is_asked_in_version_zero() -> None:
    client, broker = Client("me"), Broker(newest_api_versions=0)
    drive(client, broker, learn_versions(client))
    assert broker.said == [(ApiKey.API_VERSIONS, 3), (ApiKey.API_VERSIONS, 0)]
    assert client.version(ApiKey.METADATA) == 9
    assert client.version(ApiKey.METADATA, max_version=5) == 5


def test_a_request_without_a_version_that_both_sides_speak_is_refused() -> None:
    client = Client("me")
    drive(client, Broker(), learn_versions(client))
    with pytest.raises(UnsupportedApiError, match="does not offer DESCRIBE_PRODUCERS"):
        client.request(ApiKey.DESCRIBE_PRODUCERS, {})
    with pytest.raises(UnsupportedApiError, match="offers METADATA 0 to 9, 0 to -1 are understood"):
        client.version(ApiKey.METADATA, max_version=-1)


@pytest.mark.parametrize(("lifetime_ms", "good_for_s"), [(0, None), (3_600_000, 3600)])
@pytest.mark.parametrize("learnt", [True, False])
def test_login_returns_its_lifetime(lifetime_ms: int, good_for_s: float | None, learnt: bool) -> None:
    client, broker = Client("me"), Broker(lifetime_ms=lifetime_ms)
    if learnt:
        drive(client, broker, learn_versions(client))
    assert drive(client, broker, log_in(client, ACCOUNT, "nonce")) == good_for_s
    assert broker.said[-1] == (ApiKey.SASL_AUTHENTICATE, 2 if learnt else 1)


def test_without_a_mechanism_the_client_does_not_log_in() -> None:
    client, broker = Client("me"), Broker()
    assert drive(client, broker, log_in(client, SecurityProfile(), "nonce")) is None
    assert broker.said == []


def test_a_refused_login_names_the_account_and_not_the_password() -> None:
    client = Client("me")
    with pytest.raises(LoginRefusedError, match="refused the account svc: SASL_AUTHENTICATION_FAILED") as refused:
        drive(client, Broker(user="other"), log_in(client, ACCOUNT, "nonce"))
    assert "secret" not in str(refused.value)


def test_a_broker_without_the_mechanism_is_refused_with_those_it_offers() -> None:
    client, broker = Client("me"), Broker()
    broker.sasl.mechanisms = ("SCRAM-SHA-512",)
    with pytest.raises(LoginRefusedError, match=r"does not offer the mechanism PLAIN \(it offers PLAIN\)"):
        drive(client, broker, log_in(client, ACCOUNT, "nonce"))


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (encode_response(ApiKey.METADATA, 9, 2, b""), "METADATA with correlation id 2 in place of 1"),
        (b"\x00\x00\x10\x00", "frame of 4096 bytes"),
        (b"HTTP/1.1 400", "HTTP"),
    ],
)
def test_bytes_that_are_no_answer_are_a_remote_error(data: bytes, named: str) -> None:
    client = Client("me", WireLimits(max_response_bytes=1000))
    client.request(ApiKey.METADATA, {}, 9)
    with pytest.raises(RemoteProtocolError, match=named):
        events(client, [data])


def test_an_answer_without_a_request_is_a_remote_error() -> None:
    client, broker = Client("me"), Broker()
    said = broker.answer(client.request(ApiKey.METADATA, {}, 9))
    with pytest.raises(RemoteProtocolError, match="was not asked for"):
        events(client, [said + said])


def test_a_request_that_cannot_be_written_leaves_the_client_usable() -> None:
    client, broker = Client("me"), Broker()
    with pytest.raises(LocalProtocolError):
        client.request(ApiKey.METADATA, {"no_such_field": 1}, 9)
    assert client.idle
    assert len(events(client, [broker.answer(client.request(ApiKey.METADATA, {}, 9))])) == 1


def test_a_closed_connection_is_an_event() -> None:
    client = Client("me")
    client.receive_data(b"")
    assert client.next_event() is CLOSED
