"""The server's side of a handshake, and PLAIN, without a socket."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import ErrorCode, RemoteProtocolError, SaslServer, WireLimits
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.sasl_plain import parse_plain, plain_token
from ha_core.wire.sasl_steps import Bearer, LoginVerdict, Plain, Proved, UnjudgedError

words = st.text(min_size=1).filter(lambda text: "\0" not in text and text.encode("utf-8", "ignore").decode() == text)


@given(words, words, st.just("") | words)
@settings(deadline=None)
def test_a_token_is_read_as_written(user: str, password: str, authzid: str) -> None:
    assert parse_plain(plain_token(user, password, authzid)) == Plain(authzid, user, password)


@given(st.binary(max_size=40))
@settings(deadline=None)
def test_other_bytes_than_a_token_are_refused(token: bytes) -> None:
    try:
        claim = parse_plain(token)
    except RemoteProtocolError:
        return
    assert plain_token(claim.user, claim.password, claim.authzid) == token


@pytest.mark.parametrize("token", [b"", b"user\0secret", b"\0user\0", b"\0\0secret", b"\0u\0s\0", b"\0\xff\0secret"])
def test_incomplete_tokens_are_refused(token: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        parse_plain(token)
    assert "secret" not in str(refused.value)


def test_a_secret_is_not_shown_in_repr() -> None:
    assert "hunter2" not in repr(Plain("", "u", "hunter2"))
    assert "hunter2" not in repr(Bearer("", "hunter2"))


@pytest.mark.parametrize(("user", "password"), [("", "p"), ("u", ""), ("u\0", "p"), ("u", "p\0")])
def test_a_token_that_could_not_be_read_back_is_not_written(user: str, password: str) -> None:
    with pytest.raises(LocalProtocolError):
        plain_token(user, password)


def test_a_client_authenticates_and_re_authenticates() -> None:
    server = SaslServer()
    for _ in range(2):
        assert server.handshake("PLAIN", 1) is ErrorCode.NONE
        assert not server.raw_tokens
        assert server.receive(plain_token("u", "p")) == Plain("", "u", "p")
        assert server.claimed == "u"
        assert server.reply(LoginVerdict("u", good_for_s=7.0)) == Proved("u", b"", 7.0)


@pytest.mark.parametrize(
    ("authzid", "verdict"),
    [("", LoginVerdict(None, "wrong")), ("other", LoginVerdict("u"))],
    ids=["the wrong password", "the right one, to act for another user"],
)
def test_a_refused_client_cannot_start_another_handshake(authzid: str, verdict: LoginVerdict) -> None:
    server = SaslServer()
    server.handshake("PLAIN", 1)
    server.receive(plain_token("u", "p", authzid))
    with pytest.raises(RemoteProtocolError):
        server.reply(verdict)
    assert server.handshake("PLAIN", 1) is ErrorCode.ILLEGAL_SASL_STATE


def test_unverifiable_claim_differs_from_a_wrong_one() -> None:
    server = SaslServer()
    server.handshake("PLAIN", 1)
    server.receive(plain_token("u", "p"))
    with pytest.raises(UnjudgedError, match="nobody knows"):
        server.reply(LoginVerdict(None, "nobody knows", unsure=True))


def test_an_unknown_mechanism_may_be_followed_by_a_known_one() -> None:
    server = SaslServer()
    assert server.handshake("SCRAM-SHA-512", 1) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert server.mechanisms == ("PLAIN",)
    assert server.handshake("PLAIN", 0) is ErrorCode.NONE
    assert server.raw_tokens


def test_tokens_out_of_turn_or_too_long_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="SaslHandshake is expected"):
        SaslServer().receive(plain_token("u", "p"))
    server = SaslServer(limits=WireLimits(max_sasl_bytes=3))
    server.handshake("PLAIN", 1)
    with pytest.raises(RemoteProtocolError, match="4 bytes"):
        server.receive(plain_token("u", "p"))
    with pytest.raises(LocalProtocolError):
        server.reply(LoginVerdict("u"))


def test_token_during_verification_is_out_of_turn() -> None:
    server = SaslServer()
    server.handshake("PLAIN", 1)
    server.receive(plain_token("u", "p"))
    with pytest.raises(RemoteProtocolError, match="the answer to a question is expected"):
        server.receive(plain_token("u", "p"))
