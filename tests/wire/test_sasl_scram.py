"""SCRAM: the RFC's own exchange, both sides against each other, and attacks."""

import hashlib
import hmac
import itertools
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.wire import RemoteProtocolError, SaslServer
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.sasl import MECHANISMS, SecurityProfile
from ha_core.wire.sasl_scram import (
    HASHES,
    MAX_MESSAGE_BYTES,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    escaped,
    fits,
    key_text,
    parse_client_final,
    parse_client_first,
    parse_key,
    parse_server_final,
    parse_server_first,
    salt_text,
    scram_key,
)
from ha_core.wire.sasl_steps import Candidate, Challenge, Exchange, KeyOf, Proved, ScramKey

USER, PASSWORD, SALT = "user", "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE, MORE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
KEYS = {name: scram_key(name, PASSWORD, SALT, 4096) for name in HASHES}
FIRST = b"n,,n=user,r=" + NONCE.encode()
SERVER_FIRST = b"r=" + (NONCE + MORE).encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
"""The exchange of RFC 7677."""


class Server(NamedTuple):
    sasl: SaslServer

    def first(self, token: bytes, key: ScramKey | None = None, more: str = MORE, known: bool = True) -> bytes:
        asked = self.sasl.receive(token)
        assert isinstance(asked, KeyOf)
        step = self.sasl.reply(Candidate(key or KEYS[asked.mechanism], known, more))
        assert isinstance(step, Challenge)
        return step.data

    def final(self, token: bytes) -> Proved:
        step = self.sasl.receive(token)
        assert isinstance(step, Proved)
        return step


def server(mechanism: str = SCRAM_SHA_256) -> Server:
    sasl = SaslServer((mechanism,))
    sasl.handshake(mechanism, 1)
    return Server(sasl)


def client(mechanism: str = SCRAM_SHA_256, user: str = USER, password: str = PASSWORD) -> Exchange:
    return MECHANISMS[mechanism].client(SecurityProfile(mechanism, user, password), NONCE)


def test_the_exchange_of_the_rfc_is_spoken_on_both_sides_byte_by_byte() -> None:
    ours, theirs = client(), server()
    assert next(ours) == FIRST
    assert theirs.first(FIRST) == SERVER_FIRST
    assert ours.send(SERVER_FIRST) == FINAL
    assert theirs.final(FINAL) == Proved(USER, SERVER_FINAL)
    with pytest.raises(StopIteration):
        ours.send(SERVER_FINAL)


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@given(st.sampled_from(sorted(HASHES)), names, names)
@settings(deadline=None, max_examples=15)
def test_only_the_correct_password_is_accepted(mechanism: str, user: str, password: str) -> None:
    # Given a key, made once
    key = scram_key(mechanism, password, b"salt", 4096)
    for said, right in ((password, True), (password + "x", False)):
        ours, theirs = client(mechanism, user, said), server(mechanism)
        final = ours.send(theirs.first(next(ours), key))
        if right:
            proved = theirs.final(final)
            assert proved.user == user
            with pytest.raises(StopIteration):
                ours.send(proved.data)
        else:
            with pytest.raises(RemoteProtocolError):
                theirs.final(final)


def test_a_user_that_does_not_exist_is_refused_even_where_the_proof_fits() -> None:
    ours, theirs = client(), server()
    final = ours.send(theirs.first(next(ours), known=False))
    with pytest.raises(RemoteProtocolError, match=r"^user 'user'$"):
        theirs.final(final)


@pytest.mark.parametrize("beginning", [b"n,,", b"y,,", b"n,a=user,"])
def test_clients_that_could_bind_channels_and_those_that_act_for_themselves_are_let_in(beginning: bytes) -> None:
    key, theirs = KEYS[SCRAM_SHA_256], server()
    said = theirs.first(beginning + FIRST[3:])
    final = proof(key, FIRST[3:], said, b"c=" + b64encode(beginning) + b",r=" + (NONCE + MORE).encode())
    assert theirs.final(final).user == USER


def proof(key: ScramKey, bare: bytes, said: bytes, unproved: bytes) -> bytes:
    """A client's final message with any content, correctly proved."""
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), key.salt, key.iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(key.stored_key, b",".join((bare, said, unproved)), "sha256")
    return unproved + b",p=" + b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True)))


OTHER_NONCE = b"c=biws,r=" + NONCE.encode() + b"another"
DOWNGRADED = b"c=" + b64encode(b"y,,") + b",r=" + (NONCE + MORE).encode()


@pytest.mark.parametrize(
    "unproved",
    [OTHER_NONCE, b"c=biws,r=" + NONCE.encode(), DOWNGRADED],
    ids=["other", "own alone", "beginning"],
)
def test_proved_message_with_another_nonce_or_beginning_is_refused(
    unproved: bytes,
) -> None:
    theirs = server()
    said = theirs.first(FIRST)
    final = proof(KEYS[SCRAM_SHA_256], FIRST[3:], said, unproved)
    with pytest.raises(RemoteProtocolError, match="user 'user'"):
        theirs.final(final)


def test_a_recorded_proof_fits_no_other_nonce() -> None:
    theirs = server()
    theirs.first(FIRST, more="fresh")
    with pytest.raises(RemoteProtocolError):
        theirs.final(FINAL)


def test_login_on_behalf_of_another_user_is_refused() -> None:
    theirs = server()
    said = theirs.first(b"n,a=root," + FIRST[3:])
    unproved = b"c=" + b64encode(b"n,a=root,") + b",r=" + (NONCE + MORE).encode()
    with pytest.raises(RemoteProtocolError):
        theirs.final(proof(KEYS[SCRAM_SHA_256], FIRST[3:], said, unproved))


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (b"p=tls-unique,,n=user,r=abc", "channel binding"),
        (b"n,,n=user,r=abc,tokenauth=true", "delegation token"),
        (b"n,,n=user,r=abc,x=1,tokenauth=TRUE", "delegation token"),
        (b"n,,m=must,n=user,r=abc", "not the client's first message"),
        (b"n,,n=user,r=abc,m=must", "not the client's first message"),
        (b"n,,n=user,r=abc,r=def", "not the client's first message"),
        (b"n,,n=,r=abc", "not the client's first message"),
        (b"n,,n=us=er,r=abc", "not the client's first message"),
        (b"n,,n=us\0er,r=abc", "not the client's first message"),
        (b"n,,n=user,r=", "not the client's first message"),
        (b"n,,n=user,r=a\x7f", "not the client's first message"),
        (b"n,,r=abc,n=user", "not the client's first message"),
        (b"x,,n=user,r=abc", "not the client's first message"),
        (b"n,n=user,r=abc", "not the client's first message"),
        (b"n,,n=\xff,r=abc", "not UTF-8"),
        (b"n,,n=user,r=" + b"a" * MAX_MESSAGE_BYTES, "are allowed"),
        (b"", "0 bytes"),
        (b"\0user\0pencil", "not the client's first message"),
        (FINAL, "not the client's first message"),
    ],
)
def test_invalid_first_message_is_refused_without_being_repeated(token: bytes, why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why) as refused:
        server().sasl.receive(token)
    assert "pencil" not in str(refused.value)
    assert "user" not in str(refused.value).replace("a user's name", "")


@pytest.mark.parametrize(
    "final",
    [
        b"",
        FINAL[:-10],
        FINAL.replace(b",p=", b",q="),
        FINAL.replace(b"c=biws,", b""),
        FINAL.replace(b"biws", b"bi"),
        FINAL + b",p=AAAA",
        FINAL[:-44] + b"AAAA",
        FINAL[:-44] + b64encode(bytes(32)),
        FINAL[:-44] + b64encode(bytes(64)),
        FIRST,
        FINAL + b"\0",
        b"a" * 100_000,
    ],
)
def test_invalid_or_unproved_final_message_is_refused(final: bytes) -> None:
    theirs = server()
    theirs.first(FIRST)
    with pytest.raises(RemoteProtocolError) as refused:
        theirs.final(final)
    assert "dHzb" not in str(refused.value)


def test_names_with_commas_and_equals_signs_come_through() -> None:
    assert escaped("a,b=c") == "a=2Cb=3Dc"
    assert parse_client_first(b"n,a=x=2Cy,n=a=2Cb=3Dc,r=1")[2:4] == ("x,y", "a,b=c")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"r=" + NONCE.encode() + b",s=c2FsdA==,i=4096", "messages are replayed"),
        (b"r=another,s=c2FsdA==,i=4096", "messages are replayed"),
        (b"r=" + NONCE.encode() + b"x,s=c2FsdA==,i=1", "asks for 1 iterations"),
        (b"r=" + NONCE.encode() + b"x,s=c2FsdA==,i=4095", "asks for 4095 iterations"),
        (b"r=" + NONCE.encode() + b"x,s=c2FsdA==,i=2147483648", "asks for 2147483648 iterations"),
        (b"r=" + NONCE.encode() + b"x,s=c2FsdA==,i=99999999999", "not the server's first message"),
        (b"r=" + NONCE.encode() + b"x,s=c2FsdA==,i=0", "not the server's first message"),
        (b"r=" + NONCE.encode() + b"x,s=,i=4096", "not the server's first message"),
        (b"r=" + NONCE.encode() + b"x,s=A,i=4096", "not base64"),
        (b"m=must,r=" + NONCE.encode() + b"x,s=c2FsdA==,i=4096", "not the server's first message"),
        (b"e=other-error", "not the server's first message"),
        (b"", "0 bytes"),
    ],
)
def test_server_that_replays_weakens_or_overloads_is_refused(said: bytes, why: str) -> None:
    ours = client()
    next(ours)
    with pytest.raises(RemoteProtocolError, match=why):
        ours.send(said)


@pytest.mark.parametrize(
    "last", [b"v=" + b64encode(bytes(32)), b"e=invalid-proof", b"", b"v=AAAA", SERVER_FINAL + b",v=AAAA"]
)
def test_server_that_does_not_know_the_account_is_refused(last: bytes) -> None:
    ours = client()
    next(ours)
    ours.send(SERVER_FIRST)
    with pytest.raises(RemoteProtocolError):
        ours.send(last)


PARSERS = (parse_client_first, parse_server_first, parse_client_final, parse_server_final)


@given(st.sampled_from(PARSERS), st.binary(max_size=60) | st.text("nyp=,acrsiv+/A09 \0", max_size=60).map(str.encode))
@settings(deadline=None)
def test_parsers_raise_only_their_own_error(parser: object, message: bytes) -> None:
    assert callable(parser)
    said = ""
    try:
        parser(message)
    except RemoteProtocolError as error:
        said = str(error)
    assert len(message) < 8 or message.decode("latin-1") not in said


@given(st.sampled_from(list(zip(PARSERS, (FIRST, SERVER_FIRST, FINAL, SERVER_FINAL), strict=True))), st.data())
@settings(deadline=None)
def test_message_with_one_changed_byte_is_refused_or_differs(
    case: tuple[Callable[[bytes], Any], bytes], data: st.DataObject
) -> None:
    parser, message = case
    at = data.draw(st.integers(0, len(message) - 1))
    changed = message[:at] + bytes([data.draw(st.integers(0, 255))]) + message[at + 1 :]
    try:
        same = parser(changed) == parser(message)
    except RemoteProtocolError:
        return
    # Two base64 texts may stand for the same bytes, because of unused bits at the end.
    assert same is (changed == message) or re.search(rb"[A-Za-z0-9+/]=*$", changed)


def test_parsers_take_time_in_proportion_to_a_message_only() -> None:
    # Groups of extensions, which a careless pattern tries in all their divisions
    hostile = b"c=biws,r=x" + b",xx=yy" * (MAX_MESSAGE_BYTES // 6 - 10) + b",p=*"
    with pytest.raises(RemoteProtocolError):
        parse_client_final(hostile)


@pytest.mark.parametrize(("password", "iterations"), [("", 4096), ("x", 4095), ("x", 1_000_001)])
def test_weak_key_is_not_made(password: str, iterations: int) -> None:
    with pytest.raises(LocalProtocolError):
        scram_key(SCRAM_SHA_256, password, b"salt", iterations)


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_key_is_read_as_it_is_written_and_fits_its_password_alone(mechanism: str) -> None:
    key = KEYS[mechanism]
    assert parse_key(mechanism, key_text(key)) == key
    assert fits(mechanism, key, PASSWORD)
    assert not fits(mechanism, key, "pen")
    assert b64encode(key.stored_key).decode() not in repr(key)


GOOD = key_text(KEYS[SCRAM_SHA_512])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        GOOD.replace("4096", "1"),
        GOOD.replace("4096", "four"),
        GOOD.replace("salt=", "salz="),
        GOOD + ",more=1",
        key_text(KEYS[SCRAM_SHA_256]),
        GOOD.replace("stored_key=", "stored_key=*"),
        re.sub("salt=[^,]*", "salt=", GOOD),
    ],
)
def test_a_text_that_is_no_key_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        parse_key(SCRAM_SHA_512, text)
    assert not text or text not in str(refused.value)


def test_salts_are_written_as_kafkas_tools_write_them() -> None:
    assert [salt_text(number) for number in (0, 35, 36, (1 << 130) + 36)] == [b"0", b"z", b"10", b"10"]


def test_client_caches_its_keys_between_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = itertools.count()
    slow = hashlib.pbkdf2_hmac
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *args: (next(computed), slow(*args))[1])
    for _ in range(3):
        ours = client(password="used again and again")
        next(ours)
        ours.send(SERVER_FIRST)
    assert next(computed) == 1
