"""One session to ZooKeeper through kazoo: its state, and calls that are bounded in time."""

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.security import make_digest_acl

from ha_core.store.errors import StoreError, StoreSecurityError, StoreUnavailableError
from ha_core.store.security import StoreSecurity
from ha_core.store.tree import ReplyLostError, State
from ha_core.tls.contexts import TlsFilesError
from ha_core.tls.renewing import context_of
from ha_core.wire.tls_files import TlsFiles

log = logging.getLogger(__name__)

_STATES: dict[str, State] = {
    KazooState.CONNECTED: "connected",
    KazooState.SUSPENDED: "suspended",
    KazooState.LOST: "lost",
}
_CLOSED = (ConnectionClosedError, AuthFailedError)
"""Checked before `_INTERRUPTED`: the first of them is a kind of kazoo's SessionExpiredError."""
_INTERRUPTED = (ConnectionLoss, SessionExpiredError, SessionMovedError, OperationTimeoutError)
_PAUSE_S = 0.01
"""kazoo fails pending requests shortly before it reports the new state."""


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo is not typed
    """Opens connections over TLS, with contexts that verify names and follow their files, and reports decrypted bytes
    that a selector cannot see."""

    def __init__(self, files: TlsFiles) -> None:
        super().__init__()
        self._files = files

    def create_connection(self, address: Any, hostname: str | None = None, timeout: Any = None, **_: Any) -> Any:
        """kazoo resolves names first, so `address` is numeric; `hostname` is the configured name."""
        sock = socket.create_connection(address, timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context_of(self._files, as_plain=False).wrap_socket(sock, server_hostname=hostname or address[0])
        except ValueError as error:
            sock.close()
            raise OSError(f"{hostname!r} cannot be verified by TLS: {error}") from None
        except BaseException:
            sock.close()
            raise

    def select(self, reading: Any, writing: Any, broken: Any, timeout: Any = None) -> Any:
        held = [one for one in reading if isinstance(one, ssl.SSLSocket) and one.pending()]
        if not held:
            return super().select(reading, writing, broken, timeout)
        ready, taking, bad = super().select(reading, writing, broken, 0)
        return [*held, *(one for one in ready if one not in held)], taking, bad


class ZooKeeperConnection:
    """Sends requests over a session; replaces a lost session by itself.

    :ivar patience_s: how long a call waits for an interrupted connection, and for its answer.
    """

    def __init__(self, client: Any, hosts: str, patience_s: float) -> None:
        """:param client: a started KazooClient."""
        self.client, self.hosts, self.patience_s = client, hosts, patience_s
        self._connected = threading.Event()
        self._listeners: list[Callable[[State], None]] = []
        self._guard = threading.RLock()
        self._state: State = "suspended"
        self._closed = False
        client.add_listener(self._on_state)
        self._on_state(client.state)

    @property
    def session(self) -> int:
        deadline = time.monotonic() + self.patience_s
        while True:
            self._wait_connected(deadline - time.monotonic())
            identity = self.client.client_id
            if identity is not None:
                return int(identity[0])
            time.sleep(_PAUSE_S)

    def read(self, send: Callable[[], Any], waits: bool) -> Any:
        """The answer to a request that may be repeated.

        :param send: sends it, returns kazoo's asynchronous result.
        :param waits: for a lost connection to return; else the call fails at once.
        :raises NoNodeError: kazoo's.
        """
        deadline = time.monotonic() + self.patience_s
        while True:
            self._wait_connected(deadline - time.monotonic() if waits else 0.0)
            try:
                return self._answer(send, "read", max(_PAUSE_S, deadline - time.monotonic()))
            except ReplyLostError as error:
                if not waits or time.monotonic() >= deadline:
                    raise self._unavailable(str(error)) from error
                time.sleep(_PAUSE_S)

    def write(self, send: Callable[[], Any]) -> Any:
        """The answer to a request that must not be repeated without looking.

        :raises ReplyLostError: it was sent, or may have been, and there is no answer.
        """
        self._wait_connected(self.patience_s)
        return self._answer(send, "write", self.patience_s)

    def _answer(self, send: Callable[[], Any], what: str, wait_s: float) -> Any:
        try:
            return send().get(timeout=wait_s)
        except _CLOSED as error:
            raise self._unavailable(f"{type(error).__name__} {error}") from error
        except (*_INTERRUPTED, KazooTimeoutError) as error:
            raise ReplyLostError(type(error).__name__) from error
        except NoNodeError:
            raise
        except NoAuthError as error:
            raise StoreError(
                f"ZooKeeper at {self.hosts} refused a {what}: the state belongs to another account; give the username "
                "and password_file with which it was made"
            ) from error
        except KazooException as error:
            raise StoreError(f"ZooKeeper at {self.hosts} refused a {what}: {type(error).__name__} {error}") from error

    def _wait_connected(self, wait_s: float) -> None:
        if self._closed or not self._connected.wait(max(0.0, wait_s)):
            raise self._unavailable("the session was closed" if self._closed else "the connection is interrupted")

    def _unavailable(self, why: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"ZooKeeper at {self.hosts} does not answer ({why}; calls wait up to {self.patience_s:g} s): "
            "check that it runs and can be reached from here"
        )

    def listen(self, listener: Callable[[State], None]) -> Callable[[], None]:
        """See `Tree.listen`."""
        with self._guard:
            self._listeners.append(listener)
            listener(self._state)

        def stop() -> None:
            with self._guard:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def close(self) -> None:
        self._closed = True
        try:
            self.client.stop()
            self.client.close()
        except KazooException as error:
            # Its thread is stuck in a dead connection; the session ends by its time-out.
            log.warning("the ZooKeeper session was not closed in order: %s", error)

    def _on_state(self, state: str) -> None:
        with self._guard:
            new = _STATES[state]
            if new == self._state:
                return
            self._state = new
            if new == "connected":
                self._connected.set()
            else:
                self._connected.clear()
            for listener in list(self._listeners):
                listener(new)


def open_connection(
    hosts: str, security: StoreSecurity, session_timeout_s: float, connect_timeout_s: float, patience_s: float
) -> ZooKeeperConnection:
    """See `connect`."""
    client = KazooClient(
        hosts=hosts,
        timeout=session_timeout_s,
        connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
        **_secured(security),
    )
    try:
        client.start(timeout=connect_timeout_s)
    except (KazooTimeoutError, KazooException) as error:
        raise StoreUnavailableError(
            f"no ZooKeeper answers at {hosts} within {connect_timeout_s:g} s: {_unresolved(hosts)}"
            "check the address, that it runs, and that it can be reached from here"
            f"{_over(security)}"
        ) from error
    return ZooKeeperConnection(client, hosts, patience_s)


def _secured(security: StoreSecurity) -> dict[str, Any]:
    """kazoo's arguments. StoreSecurityError: the TLS files cannot be used."""
    options: dict[str, Any] = {}
    if security.tls is not None:
        try:
            context_of(security.tls, as_plain=False)
        except TlsFilesError as error:
            raise StoreSecurityError(f"TLS to ZooKeeper: {error}") from None
        options["handler"] = TlsHandler(security.tls)
    if security.username:
        options["auth_data"] = {("digest", f"{security.username}:{security.password}")}
        options["default_acl"] = [make_digest_acl(security.username, security.password, all=True)]
    return options


def _over(security: StoreSecurity) -> str:
    """A hint for TLS, since kazoo only logs why a handshake fails."""
    if security.tls is None:
        return " without TLS"
    return " over TLS: at its secure port, with a certificate of the authority and for the name that are expected here"


def _unresolved(hosts: str) -> str:
    """A hint for host names that do not resolve: kazoo only reports that no server answered."""
    names = []
    for entry in hosts.partition("/")[0].split(","):
        host = entry.strip().rpartition(":")[0].strip("[]") or entry.strip()
        try:
            socket.getaddrinfo(host, None)
        except OSError:
            names.append(host)
    return f"the name {', '.join(map(repr, names))} does not resolve; " if names else ""
