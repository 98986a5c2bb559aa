"""The users of bearer tokens, and tokens that are refused (RFC 8725)."""

import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.authentication import jwks
from gateway.authentication.jwks import ALLOWED_URLS_VARIABLE, Jwks, JwksError, demand_allowed, parse
from gateway.authentication.tokens import BearerTokens, Expected
from tests.gateway.authentication.signing import (
    AUDIENCE,
    ISSUER,
    ec_jwk,
    ec_key,
    jwk,
    key_set,
    public_pem,
    rsa_key,
    token,
)

EXPECTED = Expected(ISSUER, (AUDIENCE, "other"), ("RS256", "ES256"), required=("iat",), skew_s=5.0)


@pytest.fixture
def keys(tmp_path: Path) -> Jwks:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set())
    read = Jwks(file, 300)
    read.read()
    return read


def encoded(part: Any) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize("made", [token, lambda: token(ec_key(), "ES256", "curve"), lambda: token(aud=["x", "other"])])
def test_a_token_signed_by_the_issuer_names_its_user_while_it_is_valid(made: Any, keys: Jwks) -> None:
    verdict = BearerTokens(EXPECTED, keys.find).verify(made())
    assert verdict.user == "alice"
    assert verdict.good_for_s == pytest.approx(3605, abs=60)


def forged_by_the_public_key() -> str:
    """HS256, with the published key as its secret."""
    body = f"{encoded({'alg': 'HS256', 'kid': 'first'})}.{token().split('.')[1]}"
    return f"{body}.{encoded(hmac.digest(public_pem('first'), body.encode(), hashlib.sha256))}"


def unsigned(alg: str) -> str:
    return f"{encoded({'alg': alg, 'kid': 'first'})}.{token().split('.')[1]}."


LATER = time.time() + 3600
ENDLESS = b'{"exp": 1e999}'
BAD: dict[str, tuple[Callable[[], str], str]] = {
    "alg none": (lambda: unsigned("none"), "algorithm"),
    "alg None": (lambda: unsigned("None"), "algorithm"),
    "no signature": (lambda: unsigned("RS256"), "signature"),
    "the public key as a secret": (forged_by_the_public_key, "algorithm"),
    "an algorithm that is not configured": (lambda: token(algorithm="RS512"), "algorithm"),
    "another key by the same id": (lambda: token(rsa_key("another")), "signature"),
    "the id of a key of another kind": (lambda: token(kid="curve"), "no key of the issuer"),
    "an id that nobody knows": (lambda: token(rsa_key("another"), kid="another"), "no key of the issuer"),
    "an id that is a path": (lambda: token(kid="../../dev/null"), "no key of the issuer"),
    "its own key": (lambda: token(rsa_key("another"), kid=None, headers={"jwk": jwk("another")}), "signature"),
    "the address of its own key": (lambda: token(rsa_key("x"), headers={"jku": "http://127.0.0.1:1/"}), "signature"),
    "something critical": (lambda: token(headers={"crit": ["b64"], "b64": False}), "algorithm"),
    "expired": (lambda: token(exp=int(time.time()) - 6), "expired"),
    "without an end": (lambda: token(exp=None), "missing"),
    "an end that is none": (lambda: token(exp="soon"), "cannot be read"),
    "not valid yet": (lambda: token(nbf=int(LATER)), "not valid yet"),
    "made in the future": (lambda: token(iat=int(LATER)), "not valid yet"),
    "another issuer": (lambda: token(iss="https://evil.example.org"), "issuer"),
    "no issuer": (lambda: token(iss=None), "missing"),
    "another audience": (lambda: token(aud="billing"), "audience"),
    "no audience": (lambda: token(aud=None), "missing"),
    "without a claim that is required": (lambda: token(iat=None), "missing"),
    "nobody": (lambda: token(sub=None), "missing"),
    "an empty name": (lambda: token(sub=""), "names no user"),
    "a name with a line": (lambda: token(sub="alice\nroot"), "names no user"),
    "a name without end": (lambda: token(sub="a" * 300), "names no user"),
    "two parts": (lambda: ".".join(token().split(".")[:2]), "cannot be read"),
    "changed claims": (lambda: ".".join((token().split(".")[0], encoded({"sub": "root"}), token().split(".")[2])), ""),
    "an end without end": (lambda: f"{encoded({'alg': 'RS256', 'kid': 'first'})}.{encoded(ENDLESS)}.AAAA", ""),
    "deeper than a stack": (lambda: f"{encoded(b'[' * 20_000)}.e30.AAAA", "cannot be read"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_token_is_refused_and_not_logged(case: str, keys: Jwks) -> None:
    make, why = BAD[case]
    bad = make()
    verdict = BearerTokens(EXPECTED, keys.find).verify(bad)
    assert verdict.user is None
    assert not verdict.unsure
    assert why in verdict.why
    assert not any(part in verdict.why for part in bad.split(".") if len(part) > 8)


@given(st.text(max_size=60) | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}"))
@settings(deadline=None, max_examples=60)
def test_verifying_any_text_returns_a_verdict(text: str) -> None:
    read = Jwks(Path("nowhere"), 300)
    assert BearerTokens(EXPECTED, read.find).verify(text).user is None
    assert isinstance(BearerTokens(EXPECTED, read.find).claimed(text), str)


@pytest.mark.parametrize(
    ("claims", "user"),
    [
        ({"sub": "alice"}, "alice"),
        ({"sub": 7}, ""),
        ({"azp": "alice"}, ""),
        ([], ""),
        (b"[" * 8000, ""),
        (b'{"exp": ' + b"9" * 5000 + b', "sub": "alice"}', ""),
        ({"sub": "alice", "more": "x" * 8192}, ""),
        ({"sub": "x" * 256}, ""),
    ],
    ids=["text", "number", "missing", "list", "deep", "5000 digits", "long", "long name"],
)
def test_the_user_that_a_token_names_is_read_without_its_signature(claims: Any, user: str, keys: Jwks) -> None:
    assert BearerTokens(EXPECTED, keys.find).claimed(f"e30.{encoded(claims)}.forged") == user


def test_a_claim_that_is_configured_names_the_user(keys: Jwks) -> None:
    by_client = BearerTokens(EXPECTED._replace(user_claim="azp"), keys.find)
    assert by_client.verify(token(azp="billing")).user == "billing"
    assert by_client.verify(token()).user is None


def test_clocks_may_differ_by_the_configured_skew(keys: Jwks) -> None:
    assert BearerTokens(EXPECTED, keys.find).verify(token(exp=int(time.time()) - 2)).user == "alice"


def test_without_keys_no_token_is_called_wrong(tmp_path: Path) -> None:
    never = Jwks(tmp_path / "missing.json", 300)
    with pytest.raises(JwksError, match=r"missing\.json"):
        never.read()
    verdict = BearerTokens(EXPECTED, never.find).verify(token())
    assert (verdict.user, verdict.unsure) == (None, True)


def test_a_key_published_later_is_known_after_the_next_read(tmp_path: Path, keys: Jwks) -> None:
    later = token(rsa_key("second"), kid="second")
    assert BearerTokens(EXPECTED, keys.find).verify(later).user is None
    (tmp_path / "keys.json").write_bytes(key_set(jwk("second")))
    keys.read()
    assert BearerTokens(EXPECTED, keys.find).verify(later).user == "alice"
    assert BearerTokens(EXPECTED, keys.find).verify(token()).user is None


def test_keys_stay_valid_while_they_cannot_be_read_again(tmp_path: Path, keys: Jwks) -> None:
    (tmp_path / "keys.json").write_bytes(b"half of a fi")
    with pytest.raises(JwksError):
        keys.read()
    assert BearerTokens(EXPECTED, keys.find).verify(token()).user == "alice"


def test_without_a_key_id_no_key_is_guessed() -> None:
    two = parse(key_set(jwk("first"), jwk("second")))
    assert [key.kid for key in two] == ["first", "second"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 20_000,
        b'{"keys": [1]}',
        b'{"keys": []}',
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "s"}]}).encode(),
        json.dumps({"keys": [jwk("first", use="enc")]}).encode(),
        json.dumps({"keys": [jwk("first", alg="HS256")]}).encode(),
        json.dumps({"keys": [{**ec_jwk(), "crv": "P-384"}]}).encode(),
        json.dumps({"keys": [{**jwk("first"), "n": 7}]}).encode(),
        json.dumps({"keys": [{"kty": ["RSA"], "alg": {}}]}).encode(),
    ],
)
def test_data_that_is_not_a_set_of_public_keys_is_refused(data: bytes) -> None:
    with pytest.raises(JwksError):
        parse(data)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/keys", "file:///etc/passwd", "https://a.example.org/keys/other"])
def test_only_urls_that_the_environment_allows_are_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        ALLOWED_URLS_VARIABLE, "https://b.example.org/keys, https://a.example.org/keys,file:///etc/passwd"
    )
    demand_allowed("https://a.example.org/keys")
    with pytest.raises(JwksError, match=ALLOWED_URLS_VARIABLE):
        demand_allowed(url)


def test_an_issuer_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(JwksError, match=r"http://127\.0\.0\.1:1/keys"):
        Jwks("http://127.0.0.1:1/keys", 300).read()


@contextmanager
def issuer(*pieces: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """The URL of an issuer that answers one request with these pieces."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            client, _ = listening.accept()
            with client, suppress(OSError):
                client.recv(4096)
                for piece in pieces:
                    client.sendall(piece)
                    time.sleep(pause_s)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/keys"
        thread.join()


def test_keys_are_read_from_an_issuer_that_sends_them_in_pieces() -> None:
    data = key_set()
    with issuer(b"HTTP/1.0 200 OK\r\n\r\n", data[:100], data[100:], pause_s=0.01) as url:
        read = Jwks(url, 300)
        read.read()
    assert read.find("first", "RS256").kid == "first"


@pytest.mark.parametrize(
    ("pieces", "pause_s", "why"),
    [
        ([b"no HTTP at all\r\n"], 0.0, "BadStatusLine"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"five\r\n"], 0.0, "IncompleteRead"),
        ([b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"], 0.0, "answers 302"),
        ([b"HTTP/1.0 200 OK\r\n\r\n", b" " * 4000], 0.0, "longer than 2000 bytes"),
        ([b"HTTP/1.0 200 OK\r\n\r\n", *[b" "] * 100], 0.01, "TimeoutError"),
        ([b"HTTP/1.0 200 OK\r\nName: ", *[b"v"] * 100], 0.01, "TimeoutError"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"0"] * 100], 0.01, "TimeoutError"),
    ],
    ids=[
        "no HTTP",
        "no chunk",
        "a redirect",
        "a long answer",
        "a body by bytes",
        "a header by bytes",
        "a chunk's size by bytes",
    ],
)
def test_an_answer_of_an_issuer_is_bounded_in_time_and_size_and_no_other_url_is_asked(
    pieces: list[bytes], pause_s: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "MAX_BYTES", 2000)
    monkeypatch.setattr(jwks, "ANSWER_S", 0.2)
    with issuer(*pieces, pause_s=pause_s) as url, pytest.raises(JwksError, match=why):
        Jwks(url, 300).read()


@pytest.mark.parametrize(
    "odd",
    [
        {**jwk("odd"), "alg": "none"},
        {"kty": "oct", "alg": "HS256"},
        {"kty": "RSA", "alg": "RS256"},
        {"kty": "EC", "crv": "P-256"},
        {"kty": "OKP", "crv": "X448", "x": "AA"},
        {"kty": ["RSA"]},
        {"alg": "RS256"},
    ],
)
def test_a_key_that_cannot_be_used_does_not_keep_the_others_from_being_used(odd: dict[str, Any]) -> None:
    assert [key.kid for key in parse(key_set(odd, jwk("good")))] == ["good"]


def test_keys_of_each_kind_serve_the_algorithms_that_they_name() -> None:
    named, published = jwk("named", alg="PS256"), {**jwk("first"), "d": "AQAB"}
    found = parse(key_set(named, published, {**ec_jwk(), "alg": "ES256"}, {"kty": "oct", "k": "c2VjcmV0"}))
    assert [(key.kid, key.kty, key.alg) for key in found] == [
        ("named", "RSA", "PS256"),
        ("first", "RSA", None),
        ("curve", "EC", "ES256"),
    ]
