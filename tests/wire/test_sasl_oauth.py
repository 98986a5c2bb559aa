"""OAUTHBEARER without a socket: its messages, and the round that reports a refusal."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import RemoteProtocolError, SaslServer
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.sasl_oauth import OAUTHBEARER, Initial, initial, oauth_client, parse_initial
from ha_core.wire.sasl_steps import Bearer, Challenge, LoginVerdict, Proved

TOKEN = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl"


def asked(authzid: str = "") -> SaslServer:
    server = SaslServer((OAUTHBEARER,))
    server.handshake(OAUTHBEARER, 1)
    assert server.receive(initial(TOKEN, authzid)) == Bearer(authzid, TOKEN)
    return server


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\1"), max_size=20))
@settings(deadline=None)
def test_a_first_message_is_read_as_written(authzid: str) -> None:
    assert parse_initial(initial(TOKEN, authzid)) == Initial(authzid, TOKEN, {})


def test_extensions_beside_the_token_are_read() -> None:
    message = f"n,,\1auth=bearer  {TOKEN}\1logicalCluster=lkc-1\1traceId=a b\1\1".encode()
    assert parse_initial(message) == Initial("", TOKEN, {"logicalCluster": "lkc-1", "traceId": "a b"})
    assert TOKEN not in repr(parse_initial(message))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\1\1",
        initial(TOKEN)[:-1],
        initial(TOKEN) + b"\1",
        f"n,\1auth=Bearer {TOKEN}\1\1".encode(),
        f"p=tls-unique,,\1auth=Bearer {TOKEN}\1\1".encode(),
        f"x,,\1auth=Bearer {TOKEN}\1\1".encode(),
        f"n,,\1auth=Basic {TOKEN}\1\1".encode(),
        f"n,,\1auth={TOKEN}\1\1".encode(),
        b"n,,\1auth=Bearer \1\1",
        f"n,,\1auth=Bearer {TOKEN} {TOKEN}\1\1".encode(),
        f"n,,\1auth=Bearer {TOKEN}\1auth=Bearer {TOKEN}\1\1".encode(),
        f"n,,\1auth=Bearer {TOKEN}\1k1=v\1\1".encode(),
        f"n,,\1auth=Bearer {TOKEN}\1k=\x00\1\1".encode(),
        f"n,,\1auth=Bearer {TOKEN}\1".encode() + b"".join(b"%b=1\1" % (b"k" * n) for n in range(1, 40)) + b"\1",
        b"n,a=\xff,\1auth=Bearer x\1\1",
        b"\x00user\x00" + TOKEN.encode(),
    ],
)
def test_invalid_first_message_is_refused_without_being_repeated(message: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        parse_initial(message)
    assert TOKEN not in str(refused.value)


@given(st.binary(max_size=80) | st.text("np,a=\1uthBer x.", max_size=80).map(str.encode))
@settings(deadline=None)
def test_parser_raises_only_its_own_error(message: bytes) -> None:
    try:
        found = parse_initial(message)
    except RemoteProtocolError:
        return
    assert found.token


@pytest.mark.parametrize("token", ["", "two words", "line\n", "a\1b", "ümlaut"])
def test_invalid_token_is_not_sent(token: str) -> None:
    with pytest.raises(LocalProtocolError):
        initial(token)


def test_valid_token_is_accepted_for_its_lifetime() -> None:
    assert asked("alice").reply(LoginVerdict("alice", good_for_s=60.0)) == Proved("alice", b"", 60.0)


@pytest.mark.parametrize(
    ("authzid", "verdict"),
    [("", LoginVerdict(None, "it has expired")), ("root", LoginVerdict("alice"))],
    ids=["bad", "other"],
)
def test_refusal_is_sent_as_json_and_ends_the_login_in_the_next_round(authzid: str, verdict: LoginVerdict) -> None:
    server = asked(authzid)
    told = server.reply(verdict)
    assert isinstance(told, Challenge)
    assert json.loads(told.data) == {"status": "invalid_token"}
    with pytest.raises(RemoteProtocolError, match=r"it has expired|asks to act for another user"):
        server.receive(b"\1")


def test_another_token_does_not_override_a_refusal() -> None:
    server = asked()
    server.reply(LoginVerdict(None, "bad"))
    with pytest.raises(RemoteProtocolError, match="not followed by the end"):
        server.receive(initial(TOKEN))


def test_client_ends_after_an_error_of_the_server() -> None:
    ours = oauth_client(TOKEN)
    assert next(ours) == initial(TOKEN)
    assert ours.send(b'{"status":"invalid_token"}') == b"\1"
    content = oauth_client(TOKEN)
    next(content)
    with pytest.raises(StopIteration):
        content.send(b"")
