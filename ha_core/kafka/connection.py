"""One blocking connection to one broker, the socket of a `wire.Client`.

Requests on a connection are answered in order, one at a time. After any error other than an error code inside an answer
the connection is closed for good, because the state of the request in flight is unknown.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ha_core.kafka.errors import (
    AtAddressError,
    AuthenticationRefusedError,
    ClusterUnreachableError,
    ConnectionLostError,
    NotKafkaError,
    TlsRefusedError,
    UnsupportedByClusterError,
)
from ha_core.kafka.security import begin_login
from ha_core.tls.contexts import TlsFilesError
from ha_core.tls.renewing import context_of, tls_fault
from ha_core.wire.client import (
    NEWEST,
    Answer,
    Client,
    Conversation,
    LoginRefusedError,
    UnsupportedApiError,
    learn_versions,
    login_refused,
)
from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.frames import CLOSED, NEED_DATA
from ha_core.wire.limits import WireLimits
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import Tls

T = TypeVar("T")

CLIENT_ID = "switchyard"
_LIMITS = WireLimits(max_response_bytes=128 * 1024 * 1024)
_READ_BYTES = 256 * 1024
_CORRELATION_BYTES = 4
"""The part of an answer that is new each time."""


class BlockingConnection:
    """Connects, learns the broker's versions and logs in; then `call`, or `send` and `receive` apart.

    :raises ClusterUnreachableError: refused, or silent until the deadline.
    :raises AuthenticationRefusedError: the broker refused the account, or requires one.
    :raises NotKafkaError: the peer is no Kafka broker.
    :raises TlsRefusedError: one side rejects the other's certificate, or the peer does not speak TLS.
    """

    def __init__(
        self,
        cluster: str,
        host: str,
        port: int,
        security: SecurityProfile,
        until: Deadline,
        *,
        client_id: str = CLIENT_ID,
    ) -> None:
        self.cluster = cluster
        self.address = f"{host}:{port}"
        self.closed = False
        self.until = until
        """Deadline of all requests; a caller that reuses the connection sets another."""
        self._security = security
        self.client = Client(client_id, _LIMITS)
        self._greeted_with = 0
        """Number of requests until the connection was ready; 0 before."""
        try:
            self._socket = socket.create_connection((host, port), timeout=max(until.left_s, 0.001))
        except TimeoutError:
            raise self._unreachable(f"did not accept a connection within {until.seconds:g} s") from None
        except socket.gaierror:
            raise self._unreachable(f"cannot be reached: the name {host!r} does not resolve") from None
        except OSError as error:
            raise self._unreachable(f"cannot be reached ({error.strerror or error})") from None
        except UnicodeError:  # brokers may advertise anything
            raise self._unreachable(f"cannot be reached: {host!r} is no host name") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.tls is not None:
                self._socket = self._over_tls(host, security.tls)
            self._converse(learn_versions(self.client))
            self._converse(begin_login(self.client, security))
        except BaseException:
            self.close()
            raise
        self._greeted_with = self.client.requests_made

    def _over_tls(self, host: str, files: Tls) -> socket.socket:
        self._socket.settimeout(max(self.until.left_s, 0.001))
        try:
            return context_of(files).wrap_socket(self._socket, server_hostname=host)
        except TimeoutError:
            text = f"did not finish the TLS handshake within {self.until.seconds:g} s"
            raise self._unreachable(text) from None
        except (OSError, ValueError) as error:
            text = (isinstance(error, OSError) and tls_fault(error)) or f"TLS failed ({error})"
            raise self._failed(TlsRefusedError, f"cannot be reached: {text}.") from None
        except TlsFilesError as error:
            raise self._failed(TlsRefusedError, f"cannot be reached: {error}.") from None

    def version(self, api: ApiKey, max_version: int = NEWEST) -> int:
        """The newest version up to `max_version` that both sides speak.

        :raises UnsupportedByClusterError: there is none.
        """
        try:
            return self.client.version(api, max_version)
        except UnsupportedApiError as error:
            raise UnsupportedByClusterError(self.cluster, f"{self.address} {error}.") from None

    def call(self, api: ApiKey, message: Mapping[str, Any], max_version: int = NEWEST) -> dict[str, Any]:
        """One request and its answer, as dicts of the codec; `max_version` caps the version."""
        self.send(api, message, max_version)
        return self.receive()

    def call_if_new(
        self, api: ApiKey, message: Mapping[str, Any], known: bytes, max_version: int = NEWEST
    ) -> tuple[bytes, dict[str, Any] | None]:
        """Like `call`, for long answers that seldom change. Returns the answer's bytes, and the answer if these are not
        the `known` ones: decoding it costs a thousand times as much as comparing them."""
        self.send(api, message, max_version)
        answer = self._receive()
        content = bytes(answer.frame[_CORRELATION_BYTES:])
        return content, None if content == known else self._decoded(answer)

    def send(self, api: ApiKey, message: Mapping[str, Any], max_version: int = NEWEST) -> None:
        """Sends a request without waiting; each needs a `receive`."""
        self._write(self.client.request(api, message, self.version(api, max_version)))

    def receive(self) -> dict[str, Any]:
        """The answer to the oldest request that has none yet."""
        return self._decoded(self._receive())

    def _receive(self) -> Answer:
        try:
            while (event := self.client.next_event()) is NEED_DATA:
                self.client.receive_data(self._in_time(lambda: self._socket.recv(_READ_BYTES)))
        except RemoteProtocolError as error:
            raise self._not_kafka(error) from error
        if event is CLOSED:
            raise self._lost("it closed the connection")
        return event

    def _decoded(self, answer: Answer) -> dict[str, Any]:
        try:
            return answer.message(_LIMITS)
        except RemoteProtocolError as error:
            raise self._not_kafka(error) from error

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def release(self) -> tuple[Client, socket.socket]:
        """Client and socket, for a caller without deadlines, which may call only `close` afterwards."""
        self._socket.setblocking(False)
        return self.client, self._socket

    def close(self) -> None:
        self.closed = True
        if hasattr(self, "_socket"):
            self._socket.close()

    def _converse(self, conversation: Conversation[T]) -> T:
        try:
            data = next(conversation)
            while True:
                self._write(data)
                data = conversation.send(self.receive())
        except StopIteration as done:
            result: T = done.value
            return result
        except LoginRefusedError as error:
            raise self._failed(AuthenticationRefusedError, str(error)) from None
        except RemoteProtocolError as error:
            raise self._not_kafka(error) from error

    def _write(self, data: bytes) -> None:
        self._in_time(lambda: self._socket.sendall(data))

    def _in_time(self, work: Callable[[], T]) -> T:
        """Runs `work` with the deadline as the socket's timeout."""
        try:
            self._socket.settimeout(max(self.until.left_s, 0.001))
            return work()
        except TimeoutError:
            awaited = ApiKey(self.client.waits_for).name
            raise self._unreachable(f"did not answer {awaited} within {self.until.seconds:g} s") from None
        except OSError as error:
            raise self._lost(tls_fault(error) or error.strerror or str(error)) from None

    def _lost(self, why: str) -> Exception:
        awaited = ApiKey(self.client.waits_for)
        if awaited is ApiKey.SASL_AUTHENTICATE:
            refused = login_refused(self._security, "the connection was closed")
            return self._failed(AuthenticationRefusedError, str(refused))
        if self._security.mechanism is None and self._greeted_with == self.client.requests_made - 1 > 0:
            # A SASL listener answers ApiVersions to everyone and hangs up at the next request.
            return self._failed(
                AuthenticationRefusedError,
                f"hung up at the first request ({why}). It may want a login, and {self._security.declared_in} has no "
                "mechanism: give one that has, or the address of a listener without logins.",
            )
        text = f"broke off before it answered {awaited.name} ({why}). Is the broker being stopped?"
        return self._failed(ConnectionLostError, text)

    def _unreachable(self, text: str) -> Exception:
        text = f"{text}. Is the broker running, and is the address right as seen from here?"
        return self._failed(ClusterUnreachableError, text)

    def _not_kafka(self, error: RemoteProtocolError) -> Exception:
        text = (
            f"does not answer as a Kafka broker ({error}). Give the address of a plain Kafka listener of this cluster."
        )
        return self._failed(NotKafkaError, text)

    def _failed(self, kind: type[AtAddressError], text: str) -> Exception:
        """Closes the connection for good and returns the error to raise."""
        self.close()
        return kind(self.cluster, self.address, text)


@dataclass(frozen=True, slots=True)
class Deadline:
    """`seconds` is the granted time, for error texts; `at` is on the monotonic clock."""

    seconds: float
    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def left_ms(self) -> int:
        """Timeout for the broker in requests: at least 1."""
        return max(1, int(self.left_s * 1000))

    def within(self, seconds: float) -> Deadline:
        """The earlier one of this deadline and `seconds` from now."""
        return self if self.left_s <= seconds else Deadline.after(seconds)
