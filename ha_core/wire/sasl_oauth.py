"""OAUTHBEARER (RFC 7628, KIP-255): a token signed by a third party. The caller verifies it and finds its user."""

import json
import re
from typing import NamedTuple

from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.sasl_scram import escaped
from ha_core.wire.sasl_steps import Bearer, Challenge, Exchange, Proved, ServerExchange, user_of

OAUTHBEARER = "OAUTHBEARER"
_END = b"\x01"
_TOKEN = r"[A-Za-z0-9._~+/-]+=*"
_INITIAL = re.compile(
    rb"(?P<binding>n|y|p=[A-Za-z0-9.-]+),(?:a=(?P<authzid>(?:[^=,\0\x01]|=2C|=3D)+))?,\x01"
    rb"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)+)\x01"
)
_AUTH = re.compile(r"bearer +(?P<token>" + _TOKEN + r") *", re.IGNORECASE)
MAX_EXTENSIONS = 32


class Initial(NamedTuple):
    """:ivar extensions: further pairs from the client (KIP-342), such as `logicalCluster`."""

    authzid: str
    token: str
    extensions: dict[str, str]

    def __repr__(self) -> str:
        return f"Initial(authzid={self.authzid!r}, token=***, extensions={sorted(self.extensions)})"


def parse_initial(message: bytes) -> Initial:
    """RemoteProtocolError if it is not a client's first message."""
    found = _INITIAL.fullmatch(message)
    if found is None:
        raise RemoteProtocolError(f"OAUTHBEARER: {len(message)} bytes that are not a client's first message")
    if found["binding"].startswith(b"p"):
        raise RemoteProtocolError("OAUTHBEARER: the client wants channel binding, which no Kafka server offers")
    pairs: dict[str, str] = {}
    for pair in found["pairs"].decode("ascii").split("\x01")[:-1]:
        key, _, value = pair.partition("=")
        if key in pairs:
            raise RemoteProtocolError("OAUTHBEARER: something is said twice")
        pairs[key] = value
        if len(pairs) > MAX_EXTENSIONS:
            raise RemoteProtocolError(f"OAUTHBEARER: more than {MAX_EXTENSIONS} extensions")
    bearer = _AUTH.fullmatch(pairs.pop("auth", ""))
    if bearer is None:
        raise RemoteProtocolError("OAUTHBEARER: a first message without a bearer token")
    try:
        authzid = (found["authzid"] or b"").replace(b"=2C", b",").replace(b"=3D", b"=").decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("OAUTHBEARER: a user's name is not UTF-8") from None
    return Initial(authzid, bearer["token"], pairs)


def initial(token: str, authzid: str = "") -> bytes:
    """The client's first message. LocalProtocolError if it is no token."""
    if re.fullmatch(_TOKEN, token) is None:
        raise LocalProtocolError(f"OAUTHBEARER: {len(token)} characters that are no bearer token")
    name = f"a={escaped(authzid)}" if authzid else ""
    return f"n,{name},\x01auth=Bearer {token}\x01\x01".encode()


def oauth_client(token: str) -> Exchange:
    answer = yield initial(token)
    if answer:
        yield _END  # the server has sent its error, and repeats it as the end of the login


def oauth_server(token: bytes) -> ServerExchange:
    first = parse_initial(token)
    verdict = user_of((yield Bearer(first.authzid, first.token)), first.authzid)
    if verdict.user is None:
        answer = yield Challenge(json.dumps({"status": "invalid_token"}).encode(), refuses=True)
        if answer != _END:
            raise RemoteProtocolError("OAUTHBEARER: a refused token was not followed by the end")
        raise RemoteProtocolError(verdict.why)
    return Proved(verdict.user, good_for_s=verdict.good_for_s)
