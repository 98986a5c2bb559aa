"""The public keys that verify tokens (RFC 7517): from a file, or from a URL that the environment allows.

A thread reads them again and again: no login waits for a server that is away, and keys that were read stay valid
meanwhile. An unknown key id triggers a read at once, though not more often than every few seconds, whatever clients
send.

`jwt.PyJWKClient` reads keys too, but inside the login that asks for one, under one lock. Its answer has no bound, its
pause after an unknown key id begins with a successful read only, and keys that have expired are gone while the issuer
is away: then every login waits for its own request. It reads no file either.
"""

import http.client
import json
import logging
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_log = logging.getLogger(__name__)

ALLOWED_URLS_VARIABLE = "SWITCHYARD_ALLOWED_URLS"
"""URLs that a gateway may read keys from, separated by commas: set by its operator, not by its configuration file."""
ALGORITHMS = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
}  # fmt: skip
"""Signatures that may be configured, and the type of their keys. None of them takes a public key for a secret."""
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})
"""Private parts of a key, which should never be published."""
MAX_BYTES = 1024 * 1024
MAX_KEYS = 100
TIMEOUT_S = 5.0
"""For the connection, and for each piece of the answer."""
ANSWER_S = 30.0
"""For the whole answer, headers and body: an issuer that sends a byte at a time would stop the thread for days."""
LEAST_PAUSE_S = 10.0
FILE_EVERY_S = 5.0


class JwksError(ValueError):
    """Keys that cannot be read or used; the text says why."""


class Key(NamedTuple):
    """:ivar alg: the one algorithm that the key is for; None: any that its type signs with."""

    kid: str | None
    kty: str
    alg: str | None
    public: Any


class UnknownKeyError(Exception):
    """:ivar certain: whether the known keys are current, so that a retry will not find the key either."""

    def __init__(self, certain: bool) -> None:
        super().__init__("no key of the issuer has signed it")
        self.certain = certain


def parse(data: bytes) -> tuple[Key, ...]:
    """The keys of a set that can verify signatures; others are ignored, as the RFC demands.

    :raises JwksError: it is not a key set, or has no such key.
    """
    try:
        listed = json.loads(data)["keys"]
        entries = [dict(entry) for entry in listed]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise JwksError('is no set of keys; it should be JSON: {"keys": […]}') from None
    keys = tuple(key for entry in entries[:MAX_KEYS] if (key := _key(entry)) is not None)
    if not keys:
        raise JwksError("has no public key of a kind that signs")
    return keys


def _key(entry: dict[str, Any]) -> Key | None:
    kid, alg = entry.get("kid"), entry.get("alg")
    if not isinstance(kid, str | None) or not isinstance(alg, str | None) or entry.get("use", "sig") != "sig":
        return None
    if entry.get("kty") not in ALGORITHMS.values() or (alg is not None and alg not in ALGORITHMS):
        return None  # RFC 7517: others are ignored. PyJWK raises errors of many kinds for them.
    import jwt

    try:
        known = jwt.PyJWK({name: value for name, value in entry.items() if name not in _PRIVATE})
    except (jwt.PyJWTError, ValueError, TypeError, LookupError, NotImplementedError):
        return None
    kty = ALGORITHMS.get(known.algorithm_name)
    if kty is None or kty != known.key_type:
        return None
    # An RSA key that names no algorithm serves all of them; a curve has one.
    return Key(kid, kty, known.algorithm_name if alg or kty != "RSA" else None, known.key)


class Jwks:
    def __init__(self, source: str | Path, every_s: float) -> None:
        """:param source: a file, or a URL that is allowed (`demand_allowed`)."""
        self._source = source
        self._every_s = min(every_s, FILE_EVERY_S) if isinstance(source, Path) else every_s
        self._keys: tuple[Key, ...] | None = None
        self._read_at = -LEAST_PAUSE_S
        self._wanted = threading.Event()
        self._ended = False
        self._trouble = ""

    def begin(self) -> None:
        threading.Thread(target=self._keep, name="jwks", daemon=True).start()

    def end(self) -> None:
        self._ended = True
        self._wanted.set()

    def find(self, kid: str | None, alg: str) -> Key:
        """The key that has signed a token.

        :raises UnknownKeyError: it is not known.
        """
        keys = self._keys or ()
        fitting = [key for key in keys if key.kty == ALGORITHMS[alg] and key.alg in (None, alg)]
        named = [key for key in fitting if key.kid == kid] if kid is not None else fitting
        if len(named) == 1:
            return named[0]
        certain = self._keys is not None and time.monotonic() - self._read_at < LEAST_PAUSE_S
        self._wanted.set()
        raise UnknownKeyError(certain)

    def read(self) -> None:
        """Reads the keys now.

        :raises JwksError: they cannot be read; the known ones stay.
        """
        source = self._source
        data = _of_file(source) if isinstance(source, Path) else _of_url(source)
        try:
            self._keys = parse(data)
        except JwksError as error:
            raise JwksError(f"{source}: {error}") from None
        self._read_at = time.monotonic()

    def _keep(self) -> None:
        while not self._ended:
            try:
                self.read()
            except JwksError as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    _log.warning("the keys of tokens cannot be read: %s; those that were read before are used", error)
            except Exception:  # an issuer's answer must never end the thread: its next keys would stay unknown
                _log.exception(
                    "the keys of tokens of %s cannot be read; those that were read before are used", self._source
                )
            else:
                self._trouble = ""
            time.sleep(min(LEAST_PAUSE_S, self._every_s))
            self._wanted.wait(max(0.0, self._every_s - LEAST_PAUSE_S))
            self._wanted.clear()


def demand_allowed(url: str) -> None:
    """:raises JwksError: the environment does not allow the URL."""
    allowed = [entry.strip() for entry in os.environ.get(ALLOWED_URLS_VARIABLE, "").split(",")]
    if not url.startswith(("https://", "http://")) or url not in allowed:
        raise JwksError(f"{url}: not among the URLs that {ALLOWED_URLS_VARIABLE} allows; add it there, as it is here")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects to a URL that is not allowed are refused."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _BoundedAnswer(http.client.HTTPResponse):
    """Ends its connection after `ANSWER_S`: the socket's own timeout begins again with each byte."""

    def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self._until = time.monotonic() + ANSWER_S
        self._timer = threading.Timer(ANSWER_S, _end, (sock,))
        self._timer.daemon = True
        self._timer.start()

    def begin(self) -> None:
        super().begin()
        self.demand_in_time()  # headers that are cut off count as complete

    def demand_in_time(self) -> None:
        """:raises TimeoutError: the connection was ended."""
        if time.monotonic() >= self._until:
            raise TimeoutError

    def close(self) -> None:
        self._timer.cancel()
        super().close()


def _end(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class _BoundedAnswers(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    def do_open(self, http_class: Any, *arguments: Any, **named: Any) -> Any:
        def connection(*address: Any, **settings: Any) -> Any:
            made = http_class(*address, **settings)
            made.response_class = _BoundedAnswer
            return made

        return super().do_open(connection, *arguments, **named)


def _of_url(url: str) -> bytes:
    try:
        with urllib.request.build_opener(_NoRedirects, _BoundedAnswers).open(url, timeout=TIMEOUT_S) as answer:
            data = b""
            while len(data) <= MAX_BYTES and (part := answer.read1(MAX_BYTES)):
                data += part
            answer.demand_in_time()
    except urllib.error.HTTPError as error:
        error.close()
        raise JwksError(f"{url}: answers {error.code}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise JwksError(f"{url}: {getattr(error, 'reason', None) or type(error).__name__}") from None
    return _bounded(data, url)


def _of_file(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return _bounded(stream.read(MAX_BYTES + 1), str(file))
    except OSError as error:
        raise JwksError(f"{file}: {error.strerror}") from None


def _bounded(data: bytes, where: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise JwksError(f"{where}: longer than {MAX_BYTES} bytes")
    return data
