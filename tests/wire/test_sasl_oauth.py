"""OAUTHBEARER without a socket: its messages, and the round in which a refusal is told."""

from __future__ import annotations

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


def test_what_clients_say_besides_the_token_is_read() -> None:
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
def test_a_first_message_that_is_none_is_refused_without_being_repeated(message: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        parse_initial(message)
    assert TOKEN not in str(refused.value)


@given(st.binary(max_size=80) | st.text("np,a=\1uthBer x.", max_size=80).map(str.encode))
@settings(deadline=None)
def test_no_message_makes_the_parser_fail_otherwise_than_by_its_error(message: bytes) -> None:
    try:
        found = parse_initial(message)
    except RemoteProtocolError:
        return
    assert found.token


@pytest.mark.parametrize("token", ["", "two words", "line\n", "a\1b", "ümlaut"])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with pytest.raises(LocalProtocolError):
        initial(token)


def test_a_good_token_is_let_in_for_as_long_as_it_is_good() -> None:
    assert asked("alice").reply(LoginVerdict("alice", good_for_s=60.0)) == Proved("alice", b"", 60.0)


@pytest.mark.parametrize(
    ("authzid", "verdict"),
    [("", LoginVerdict(None, "it has expired")), ("root", LoginVerdict("alice"))],
    ids=["bad", "other"],
)
def test_a_refusal_is_told_as_json_and_ends_the_login_in_the_next_round(authzid: str, verdict: LoginVerdict) -> None:
    server = asked(authzid)
    told = server.reply(verdict)
    assert isinstance(told, Challenge)
    assert json.loads(told.data) == {"status": "invalid_token"}
    with pytest.raises(RemoteProtocolError, match=r"it has expired|asks to be somebody else"):
        server.receive(b"\1")


def test_a_refusal_cannot_be_passed_over_by_another_token() -> None:
    server = asked()
    server.reply(LoginVerdict(None, "bad"))
    with pytest.raises(RemoteProtocolError, match="not followed by the end"):
        server.receive(initial(TOKEN))


def test_the_client_ends_where_the_server_tells_what_is_wrong() -> None:
    ours = oauth_client(TOKEN)
    assert next(ours) == initial(TOKEN)
    assert ours.send(b'{"status":"invalid_token"}') == b"\1"
    content = oauth_client(TOKEN)
    next(content)
    with pytest.raises(StopIteration):
        content.send(b"")
