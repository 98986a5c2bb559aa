"""Posts events to a receiver that an operator has chosen, over connections that lead nowhere else.

- The address is looked up once for each connection, judged, and connected to: a name cannot lead to another address
  after it was judged. Link-local addresses, where clouds serve their instances' secrets, are refused; so are multicast
  and unspecified ones. Private addresses are allowed, since receivers are inside as a rule.
- Redirects are not followed, proxies of the environment are not used.
- Without TLS only a loopback address is accepted, as that of a forwarder on this host.
- The token comes from a file or from the environment, never from the command line, which every user of the host sees.
  No error names it, or the path and the query of the URL.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from ha_core.operations.engine.errors import MoveError, unchanged
from ha_core.plan.audit.events import CONTENT_TYPE

TIMEOUT_S = 10.0
"""Longest wait for the connection, and for each part of an answer."""
EXCHANGE_S = 30.0
"""Longest time of a request with its answer: a receiver that sends a byte at a time would else hold a push for days."""
MAX_ANSWER = 4_096
"""Bytes of an answer that are read; none of them is shown."""
_PORTS = {"https": 443, "http": 80}


class NotAcceptedError(MoveError):
    """The receiver has not accepted an event."""

    def __init__(self, text: str, again: bool) -> None:
        self.again = again
        """Whether a repetition may help."""
        super().__init__(text)


@dataclass(frozen=True)
class Receiver:
    """:param token: sent as a bearer token; empty: none.
    :param ca_file: certificates of the authorities that the receiver's certificate may be of; empty: the system's.
    """

    url: SplitResult
    token: str = field(default="", repr=False)
    ca_file: str = ""

    @classmethod
    def read(cls, url: str, token: str = "", ca_file: str = "") -> Receiver:
        """:raises RefusedError: the URL or the token cannot be used."""
        try:
            split = urlsplit(url)
            port = split.port
        except ValueError as error:
            raise unchanged("The URL of the receiver is not usable: write https://HOST[:PORT]/PATH.") from error
        if split.scheme not in _PORTS or not split.hostname or port == 0:
            raise unchanged("The URL of the receiver is not usable: write https://HOST[:PORT]/PATH.")
        if split.username is not None or split.password is not None:
            raise unchanged(
                "The URL of the receiver has a user or a password: put the token into a file, and name it by "
                "--token-file or SWITCHYARD_HISTORY_TOKEN_FILE."
            )
        if any(ord(c) <= 32 or ord(c) >= 127 for c in f"{url}{token}"):
            raise unchanged("The URL of the receiver or its token has spaces, or characters that are not ASCII.")
        try:
            str(split.hostname).encode("idna")  # a name with an empty or long part cannot be looked up
        except UnicodeError as error:
            raise unchanged("The host of the receiver is no host name: correct the URL.") from error
        if ca_file:
            _context(ca_file)
        return cls(split, token, ca_file)

    @property
    def host(self) -> str:
        return str(self.url.hostname)

    @property
    def port(self) -> int:
        return self.url.port or _PORTS[self.url.scheme]

    @property
    def name(self) -> str:
        """For its cursor and for people: the URL itself may hold a secret."""
        return f"{self.host}-{hashlib.sha256(self.url.geturl().encode()).hexdigest()[:12]}"

    def post(self, body: bytes) -> None:
        """:raises NotAcceptedError: it does not answer, or with another status than 2xx.
        :raises RefusedError: its address is not allowed.
        """
        path = self.url.path or "/"
        target = f"{path}?{self.url.query}" if self.url.query else path
        headers = {"Content-Type": CONTENT_TYPE, "User-Agent": "switchyard", "Connection": "close"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection = self._open()
            late = threading.Event()
            ending = threading.Timer(EXCHANGE_S, _shut, (connection.sock, late))
            ending.daemon = True
            ending.start()
            try:
                connection.request("POST", target, body, headers)
                answer = connection.getresponse()
                answer.read(MAX_ANSWER)
                if late.is_set():
                    raise TimeoutError(f"its answer did not end within {EXCHANGE_S:g} s")
            finally:
                ending.cancel()
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise NotAcceptedError(f"{self.host} port {self.port} does not answer: {_why(error)}", True) from None
        if not 200 <= answer.status < 300:
            text = f"{self.host} port {self.port} answered with status {answer.status}"
            if 300 <= answer.status < 400:
                text += ", and redirects are not followed: give the URL that it leads to"
            # 408 and 429 ask for a repetition; other refusals stand.
            raise NotAcceptedError(text, answer.status >= 500 or answer.status in {408, 429})

    def _open(self) -> http.client.HTTPConnection:
        """A connection to the address that was judged."""
        address = self._address()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        plain = socket.create_connection((address, self.port), TIMEOUT_S)
        if self.url.scheme == "https":
            try:
                connection.sock = _context(self.ca_file).wrap_socket(plain, server_hostname=self.host)
            except BaseException:
                plain.close()
                raise
        else:
            connection.sock = plain
        return connection

    def _address(self) -> str:
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        for text in addresses:
            address = ipaddress.ip_address(text.partition("%")[0])
            judged = getattr(address, "ipv4_mapped", None) or address
            if judged.is_link_local or judged.is_multicast or judged.is_unspecified:
                raise unchanged(f"{self.host} is {text}, where no receiver of the history may be.")
            if self.url.scheme == "http" and not judged.is_loopback:
                raise unchanged(f"{self.host} is {text}, not on this host: the history is pushed by https only.")
        return addresses[0]


def _context(ca_file: str) -> ssl.SSLContext:
    """:raises RefusedError: the file has no certificates."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        why = "has no certificate" if isinstance(error, ssl.SSLError) else f"cannot be read: {error.strerror}"
        raise unchanged(f"The file of the receiver's authorities, {ca_file}, {why}.") from error


def _shut(sock: socket.socket, late: threading.Event) -> None:
    """Ends what another thread waits for on the socket."""
    late.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    """Without the URL, and without bytes of the receiver, which may echo the token."""
    if isinstance(error, http.client.HTTPException):
        return "its answer is no answer of HTTP, or ended early"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({error.verify_message})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
