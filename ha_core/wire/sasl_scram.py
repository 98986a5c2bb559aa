"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as in Kafka: no channel binding, no SASLprep.

    client    n,,n=USER,r=NONCE
    server    r=NONCE+MORE,s=SALT,i=ITERATIONS
    client    c=biws,r=NONCE+MORE,p=PROOF
    server    v=SIGNATURE

Invariant: neither the server's messages before the proof nor its computations depend on whether the user exists. A
proof covers all messages before it, so a recorded one fits no other nonce, and a message altered on the way fits no
proof. Each message is matched as a whole: attributes in another order, repeated or missing are invalid. Kafka's
`tokenauth` (login by a delegation token, with other keys) is refused.
"""

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from functools import lru_cache
from typing import NamedTuple

from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.sasl_steps import Candidate, Challenge, Exchange, KeyOf, Proved, ScramKey, ServerExchange

SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
"""Weakest first."""
MIN_ITERATIONS = 4096
"""With fewer, a password is guessed too easily from eavesdropped messages (RFC 7677); Kafka's tools refuse it too."""
MAX_ITERATIONS = 1_000_000
"""About a second of processor time. A server that asks for more only wants to keep its clients busy."""
MAX_MESSAGE_BYTES = 8192
SALT_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

_NONCE = rb"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = rb"[A-Za-z0-9+/]+={0,2}"
_EXTENSIONS = rb"(?P<extensions>(?:,(?![aceimnprsv]=)[A-Za-z]+=[^,\0]+)*)"
"""Unknown extensions are skipped, but a known attribute is refused if repeated or misplaced."""
_NAME = rb"(?:[^=,\0]|=2C|=3D)+"
_CLIENT_FIRST = re.compile(
    rb"(?P<gs2>(?P<binding>n|y|p=[A-Za-z0-9.-]+),(?:a=(?P<authzid>" + _NAME + rb"))?,)"
    rb"(?P<bare>n=(?P<user>" + _NAME + rb"),r=(?P<nonce>" + _NONCE + rb")" + _EXTENSIONS + rb")",
    re.DOTALL,
)
_SERVER_FIRST = re.compile(
    rb"r=(?P<nonce>" + _NONCE + rb"),s=(?P<salt>" + _BASE64 + rb"),i=(?P<iterations>[1-9][0-9]{0,9})" + _EXTENSIONS,
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    rb"(?P<unproved>c=(?P<binding>" + _BASE64 + rb"),r=(?P<nonce>" + _NONCE + rb")" + _EXTENSIONS + rb"),"
    rb"p=(?P<proof>" + _BASE64 + rb")",
    re.DOTALL,
)
_SERVER_FINAL = re.compile(rb"(?:v=(?P<signature>" + _BASE64 + rb")|e=(?P<error>[^,\0]+))" + _EXTENSIONS, re.DOTALL)
_TOKEN_LOGIN = re.compile(rb",tokenauth=true(?:,|$)", re.IGNORECASE)


class ClientFirst(NamedTuple):
    """:ivar gs2: its beginning, which the client repeats in the proved part.
    :ivar bare: the rest.
    """

    gs2: bytes
    bare: bytes
    authzid: str
    user: str
    nonce: bytes


class ServerFirst(NamedTuple):
    nonce: bytes
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    """:ivar unproved: the part before the proof.
    :ivar binding: the beginning of the first message, as repeated by the client.
    """

    unproved: bytes
    binding: bytes
    nonce: bytes
    proof: bytes


def parse_client_first(message: bytes) -> ClientFirst:
    """RemoteProtocolError if it is invalid, or asks for an unsupported feature."""
    match = _matched(_CLIENT_FIRST, message, "the client's first message")
    if match["binding"].startswith(b"p"):
        raise RemoteProtocolError("SCRAM: the client wants channel binding, which no Kafka server offers")
    if _TOKEN_LOGIN.search(match["extensions"]):
        raise RemoteProtocolError("SCRAM: logging in by a delegation token (tokenauth) is not offered")
    authzid, user = (_name(match[which] or b"") for which in ("authzid", "user"))
    return ClientFirst(match["gs2"], match["bare"], authzid, user, match["nonce"])


def parse_server_first(message: bytes) -> ServerFirst:
    """RemoteProtocolError if it is invalid."""
    match = _matched(_SERVER_FIRST, message, "the server's first message")
    return ServerFirst(match["nonce"], _bytes(match["salt"], "salt"), int(match["iterations"]))


def parse_client_final(message: bytes) -> ClientFinal:
    """RemoteProtocolError if it is invalid."""
    match = _matched(_CLIENT_FINAL, message, "the client's final message")
    binding, proof = _bytes(match["binding"], "channel binding"), _bytes(match["proof"], "proof")
    return ClientFinal(match["unproved"], binding, match["nonce"], proof)


def parse_server_final(message: bytes) -> bytes:
    """The server's signature. RemoteProtocolError if the message is invalid or reports an error."""
    match = _matched(_SERVER_FINAL, message, "the server's final message")
    if match["error"] is not None:
        raise RemoteProtocolError("SCRAM: the server ends the exchange with an error")
    return _bytes(match["signature"], "signature")


def escaped(user: str) -> str:
    """A user's name, escaped for messages."""
    return user.replace("=", "=3D").replace(",", "=2C")


def scram_key(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramKey:
    """The key that a server stores for a password. It takes milliseconds by design: not for an event loop.

    :raises LocalProtocolError: no password, or a number of iterations that no client would accept.
    """
    if not password or not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise LocalProtocolError(
            f"SCRAM key with {iterations} iterations: give a password, and {MIN_ITERATIONS} to {MAX_ITERATIONS} of them"
        )
    salted = _salted(mechanism, password, salt, iterations)
    stored = _hash(mechanism, _hmac(mechanism, salted, b"Client Key"))
    return ScramKey(salt, stored, _hmac(mechanism, salted, b"Server Key"), iterations)


def fits(mechanism: str, key: ScramKey, password: str) -> bool:
    """True if this is the password of the key. As slow as `scram_key`; compares in constant time."""
    salted = _salted(mechanism, password, key.salt, key.iterations)
    stored = _hash(mechanism, _hmac(mechanism, salted, b"Client Key"))
    return hmac.compare_digest(stored, key.stored_key)


def scram_client(mechanism: str, user: str, password: str, nonce: str) -> Exchange:
    """:param nonce: printable, without a comma, and never used before.
    :raises RemoteProtocolError: the server does not follow the protocol, or does not know the password itself.
    """
    if not user or not password or "\0" in user:
        raise LocalProtocolError(f"SCRAM for user {user!r}: user and password must be there, the user without NUL")
    own = nonce.encode("ascii")
    bare = b"n=" + escaped(user).encode() + b",r=" + own
    reply = yield b"n,," + bare
    first = parse_server_first(reply)
    if not first.nonce.startswith(own) or len(first.nonce) == len(own):
        raise RemoteProtocolError("SCRAM: the server's nonce does not continue the client's: messages are replayed")
    if not MIN_ITERATIONS <= first.iterations <= MAX_ITERATIONS:
        raise RemoteProtocolError(
            f"SCRAM: the server asks for {first.iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are taken"
        )
    client_key, server_key = _keys(mechanism, password, first.salt, first.iterations)
    unproved = b"c=" + b64encode(b"n,,") + b",r=" + first.nonce
    covered = b",".join((bare, reply, unproved))
    signature = _hmac(mechanism, _hash(mechanism, client_key), covered)
    last = yield unproved + b",p=" + b64encode(_xor(client_key, signature))
    if not hmac.compare_digest(parse_server_final(last), _hmac(mechanism, server_key, covered)):
        raise RemoteProtocolError("SCRAM: the server does not prove that it knows the account")


def scram_server(mechanism: str, token: bytes) -> ServerExchange:
    first = parse_client_first(token)
    candidate = yield KeyOf(mechanism, first.user)
    assert isinstance(candidate, Candidate)
    key, nonce = candidate.key, first.nonce + candidate.nonce.encode("ascii")
    server_first = b"r=" + nonce + b",s=" + b64encode(key.salt) + b",i=" + str(key.iterations).encode()
    message = yield Challenge(server_first)
    assert isinstance(message, bytes)
    final = parse_client_final(message)
    covered = b",".join((first.bare, server_first, final.unproved))
    signature = _hmac(mechanism, key.stored_key, covered)
    # All checks are made before any result is used, so that the time does not show which one has failed.
    proved = len(final.proof) == len(signature) and hmac.compare_digest(
        _hash(mechanism, _xor(final.proof, signature)), key.stored_key
    )
    bound, fresh = hmac.compare_digest(final.binding, first.gs2), hmac.compare_digest(final.nonce, nonce)
    own = first.authzid in ("", first.user)
    if not (proved and candidate.known and bound and fresh and own):
        raise RemoteProtocolError(f"user {first.user!r}")
    return Proved(first.user, b"v=" + b64encode(_hmac(mechanism, key.server_key, covered)))


def salt_text(number: int) -> bytes:
    """A salt in the form of Kafka's tools: the lowest 130 bits of the number in base 36."""
    number %= 1 << SALT_BITS
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits.encode()


def key_text(key: ScramKey) -> str:
    """A key in Kafka's form: `salt=…,stored_key=…,server_key=…,iterations=…`."""
    parts = ((name, b64encode(getattr(key, name)).decode()) for name in ("salt", "stored_key", "server_key"))
    return ",".join((*(f"{name}={value}" for name, value in parts), f"iterations={key.iterations}"))


def parse_key(mechanism: str, text: str) -> ScramKey:
    """Reads `key_text`. LocalProtocolError for anything else; its text never contains the key."""
    try:
        fields = dict(part.split("=", 1) for part in text.split(","))
        salt, stored, server = (b64decode(fields.pop(n), validate=True) for n in ("salt", "stored_key", "server_key"))
        iterations = int(fields.pop("iterations"))
    except (KeyError, ValueError):
        raise LocalProtocolError(f"{mechanism} key: not salt=…,stored_key=…,server_key=…,iterations=…") from None
    size = hashlib.new(HASHES[mechanism]).digest_size
    if fields or not salt or len(stored) != size or len(server) != size:
        raise LocalProtocolError(f"{mechanism} key: a part is missing, or has not {size} bytes")
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise LocalProtocolError(
            f"{mechanism} key: iterations={iterations} is not {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    return ScramKey(salt, stored, server, iterations)


def _matched(pattern: re.Pattern[bytes], message: bytes, what: str) -> re.Match[bytes]:
    if len(message) > MAX_MESSAGE_BYTES:
        raise RemoteProtocolError(f"SCRAM: {what} has {len(message)} bytes: {MAX_MESSAGE_BYTES} are allowed")
    found = pattern.fullmatch(message)
    if found is None:
        raise RemoteProtocolError(f"SCRAM: {len(message)} bytes that are not {what}")
    return found


def _name(written: bytes) -> str:
    try:
        return written.replace(b"=2C", b",").replace(b"=3D", b"=").decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("SCRAM: a user's name is not UTF-8") from None


def _bytes(text: bytes, what: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise RemoteProtocolError(f"SCRAM: the {what} is not base64") from None


@lru_cache(maxsize=64)
def _keys(mechanism: str, password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """The client's and the server's key. An account logs in repeatedly with one salt: its keys are computed once."""
    salted = _salted(mechanism, password, salt, iterations)
    return _hmac(mechanism, salted, b"Client Key"), _hmac(mechanism, salted, b"Server Key")


def _salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def _hmac(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def _hash(mechanism: str, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
