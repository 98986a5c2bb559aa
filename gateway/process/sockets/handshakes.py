"""TLS handshakes with clients, before they have a connection and a session.

Each takes about a millisecond of CPU, so they run one at a time, with the rest of the loop's work in between: a storm
of returning clients does not delay the others. A client that has not finished in time makes room for others (`Logins`),
and no TLS state is held for a client that has not sent a byte.
"""

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gateway.model.counts import Counts
from gateway.process.sockets.admission import Logins
from gateway.runtime import clock
from gateway.runtime.log_rate_limiter import LogRateLimiter
from gateway.runtime.tls_server import TlsServer
from gateway.session.certificate import distinguished_name, user_of
from gateway.session.snapshot import Port
from ha_core.tls.sockets import TlsSocket
from ha_core.wire.protocol_detection import HEAD_BYTES, WITH_TLS, Speech, speech

_log = logging.getLogger(__name__)

_CLIENT_DOUBTS = "the client does not trust this gateway's certificate; it has to know the authority (its CA file)"
_EXPIRED = "this gateway's certificate has expired: put a new one into tls.certificate_file"
_WORDS = {
    "UNSUPPORTED_PROTOCOL": "the client speaks no TLS of 1.2 or above",
    "VERSION_TOO_LOW": "the client speaks no TLS of 1.2 or above",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the client speaks no TLS of 1.2 or above",
    "NO_SHARED_CIPHER": "the client knows none of the ciphers that are used here",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate, and tls.client_certificates is required",
    "TLSV1_ALERT_UNKNOWN_CA": _CLIENT_DOUBTS,
    "TLSV1_ALERT_DECRYPT_ERROR": _CLIENT_DOUBTS,  # an authority of the same name
    "SSLV3_ALERT_BAD_CERTIFICATE": _CLIENT_DOUBTS,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": f"{_CLIENT_DOUBTS}, and the name by which it reaches this one has to be in it",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _EXPIRED,
    "WRONG_VERSION_NUMBER": "the client's first bytes are not TLS",
}


class Arrived(NamedTuple):
    """A client at a listener.

    :ivar host: its address.
    :ivar user: the user of its certificate, if it has shown one.
    """

    sock: socket.socket
    port: Port
    host: str
    user: str | None = None


@dataclass(slots=True, eq=False)
class _Handshake:
    client: Arrived
    sock: socket.socket
    fd: int
    begun: bool = False
    writing: bool = False
    due: bool = False
    """It is queued for its turn."""


class Handshakes:
    """Used on one event loop only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tls: TlsServer,
        max_at_once: int,
        patience_s: float,
        counts: Counts,
        log_rate_limiter: LogRateLimiter,
        done: Callable[[Arrived], None],
    ) -> None:
        """:param max_at_once: at once; :param patience_s: how long each may take."""
        self._loop, self._tls, self._counts = loop, tls, counts
        self._log_rate_limiter, self._done = log_rate_limiter, done
        self._logins = Logins[_Handshake](max_at_once, patience_s)
        self._due: deque[_Handshake] = deque()
        self._open: set[_Handshake] = set()

    def __len__(self) -> int:
        return len(self._open)

    def start(self, client: Arrived) -> None:
        handshake = _Handshake(client, client.sock, client.sock.fileno())
        self._open.add(handshake)
        self._logins.came(handshake, clock.now())
        self._loop.add_reader(handshake.fd, self._ready, handshake)

    def has_room(self) -> bool:
        """Whether one more may begin; ends the oldest for it if that has had its time."""
        room, overstayed = self._logins.room(clock.now())
        if overstayed is not None:
            self._give_up(overstayed, "late", "others wait for their turn")
        return room

    def sweep(self) -> None:
        """Ends those that are overdue."""
        for handshake in self._logins.overdue(clock.now()):
            self._give_up(handshake, "late", "no TLS handshake in time (limits.handshake_ms)")

    def close(self) -> None:
        for handshake in tuple(self._open):
            self._forget(handshake)
            handshake.sock.close()

    def _ready(self, handshake: _Handshake) -> None:
        if handshake.due:
            return
        self._rest(handshake)
        handshake.due = True
        self._due.append(handshake)
        if len(self._due) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        while self._due:
            handshake = self._due.popleft()
            handshake.due = False
            if handshake in self._open:
                self._step(handshake)
                break
        if self._due:
            self._loop.call_soon(self._next)

    def _step(self, handshake: _Handshake) -> None:
        try:
            if not handshake.begun and not self._begin_tls(handshake):
                return
            assert isinstance(handshake.sock, TlsSocket)
            handshake.sock.do_handshake()
        except (ssl.SSLWantReadError, BlockingIOError):
            self._loop.add_reader(handshake.fd, self._ready, handshake)
        except ssl.SSLWantWriteError:
            handshake.writing = True
            self._loop.add_writer(handshake.fd, self._ready, handshake)
        except (ssl.SSLEOFError, ConnectionError):
            self._give_up(
                handshake, "left", "the client hung up; it may not trust this gateway's certificate, or its name"
            )
        except OSError as error:
            self._give_up(handshake, "failed", _words(error))
        else:
            self._finish(handshake)

    def _begin_tls(self, handshake: _Handshake) -> bool:
        head = handshake.sock.recv(HEAD_BYTES, socket.MSG_PEEK)
        if not head:
            self._give_up(handshake, "left", "the client hung up before it had sent a byte")
            return False
        spoken = speech(head) if len(head) == HEAD_BYTES else Speech.TLS  # too few bytes to recognise another protocol
        if spoken in WITH_TLS:
            self._counts.foreign["tls", spoken.value] += 1
            self._give_up(handshake, "failed", WITH_TLS[spoken])
            return False
        handshake.sock = self._tls.context().wrap_socket(
            handshake.sock, server_side=True, do_handshake_on_connect=False
        )
        handshake.begun = True
        return True

    def _finish(self, handshake: _Handshake) -> None:
        assert isinstance(handshake.sock, TlsSocket)
        certificate = handshake.sock.getpeercert()
        if certificate and ssl.cert_time_to_seconds(str(certificate["notAfter"])) < clock.wall():
            # The certificate was verified when the resumed session began, and may have expired since.
            self._give_up(handshake, "failed", "the client's certificate has expired")
            return
        user = user_of(self._tls.rules, certificate)
        if (
            certificate
            and user is None
            and self._tls.rules
            and self._log_rate_limiter.lets("certificates", clock.now())
        ):
            subject = distinguished_name(certificate.get("subject", ()))  # type: ignore[arg-type]
            _log.info("no rule of tls.principal_rules has a user for %r, from %s", subject[:200], handshake.client.host)
        self._counts.handshakes["done"] += 1
        self._forget(handshake)
        self._done(handshake.client._replace(sock=handshake.sock, user=user))

    def _give_up(self, handshake: _Handshake, outcome: str, why: str) -> None:
        self._counts.handshakes[outcome] += 1
        if self._log_rate_limiter.lets(f"TLS handshakes, outcome={outcome}", clock.now()):
            _log.info("no TLS with a client: address=%s port=%s %s", handshake.client.host, handshake.client.port, why)
        self._forget(handshake)
        handshake.sock.close()

    def _forget(self, handshake: _Handshake) -> None:
        self._rest(handshake)
        self._open.discard(handshake)
        self._logins.entered(handshake)

    def _rest(self, handshake: _Handshake) -> None:
        self._loop.remove_reader(handshake.fd)
        if handshake.writing:
            handshake.writing = False
            self._loop.remove_writer(handshake.fd)


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "unknown"
        return _WORDS.get(reason, reason.lower().replace("_", " "))
    return error.strerror or str(error)
