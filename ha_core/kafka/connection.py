"""One blocking connection to one broker, for requests that confluent-kafka does not have.

Requests on a connection are answered in order, one at a time. After any error but a refusal inside an answer the
connection is closed for good: what was in flight is unknown.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import (
    AuthenticationRefusedError,
    ClusterUnreachableError,
    ConnectionLostError,
    NotKafkaError,
    UnsupportedByClusterError,
    name_of,
)
from ha_core.kafka.security import SecurityProfile
from ha_core.wire.codec import decode, encode, supported
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.frames import CLOSED, NEED_DATA, FrameReader
from ha_core.wire.header import encode_request, response_body_at
from ha_core.wire.limits import Limits

CLIENT_ID = "switchyard"
_LIMITS = Limits(max_response_bytes=128 * 1024 * 1024)
_READ_BYTES = 256 * 1024


class Connection:
    """Connects, learns the broker's versions and logs in; then `call`, or `send` and `receive` apart.

    :raises ClusterUnreachableError: refused, or silent until the deadline.
    :raises AuthenticationRefusedError: the account was not taken, or an account is needed.
    :raises NotKafkaError: what answers is no Kafka broker.
    """

    def __init__(
        self,
        cluster: str,
        host: str,
        port: int,
        security: SecurityProfile,
        deadline: Deadline,
        *,
        client_id: str = CLIENT_ID,
    ) -> None:
        self.cluster = cluster
        self.address = f"{host}:{port}"
        self.closed = False
        self._client_id = client_id
        self._security = security
        self._correlation = 0
        self._pending: deque[tuple[ApiKey, int, int]] = deque()
        self._frames = FrameReader(_LIMITS, "response")
        self._versions: dict[int, tuple[int, int]] = {}
        self._ready = False
        try:
            self._socket = socket.create_connection((host, port), timeout=max(deadline.left_s, 0.001))
        except TimeoutError:
            raise self._unreachable(f"did not accept a connection within {deadline.seconds:g} s") from None
        except socket.gaierror:
            raise self._unreachable(f"cannot be reached: the name {host!r} does not resolve") from None
        except OSError as error:
            raise self._unreachable(f"cannot be reached ({error.strerror or error})") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._learn_versions(deadline)
            if security.mechanism is not None:
                self._log_in(deadline)
        except BaseException:
            self.close()
            raise
        self._ready = True

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """API key → (oldest, newest version) that the broker offers."""
        return self._versions

    def version(self, api: ApiKey, most: int = 32767) -> int:
        """The newest version up to `most` that both sides speak.

        :raises UnsupportedByClusterError: there is none.
        """
        ours, theirs = supported(api) or (0, -1), self._versions.get(api)
        if theirs is None:
            raise UnsupportedByClusterError(
                self.cluster, f"{self.address} does not offer {api.name}; it needs a newer version of Kafka."
            )
        newest = min(ours[1], theirs[1], most)
        if newest < max(ours[0], theirs[0]):
            raise UnsupportedByClusterError(
                self.cluster,
                f"{self.address} offers {api.name} {theirs[0]} to {theirs[1]}, {ours[0]} to {min(ours[1], most)} are "
                "understood here; use a release of this program for that version of Kafka.",
            )
        return newest

    def call(
        self, api: ApiKey, message: Mapping[str, Any], deadline: Deadline, most: int = 32767, version: int | None = None
    ) -> dict[str, Any]:
        """One request and its answer, as dicts of the codec; `most` caps the version, `version` fixes it."""
        self.send(api, message, deadline, most, version)
        return self.receive(deadline)

    def send(
        self, api: ApiKey, message: Mapping[str, Any], deadline: Deadline, most: int = 32767, version: int | None = None
    ) -> None:
        """Sends a request without waiting; each needs a `receive`."""
        spoken = self.version(api, most) if version is None else version
        body = encode(api, spoken, "request", message)
        self._correlation += 1
        frame = encode_request(api, spoken, self._correlation, self._client_id, body)
        self._pending.append((api, spoken, self._correlation))
        try:
            self._socket.settimeout(max(deadline.left_s, 0.001))
            self._socket.sendall(frame)
        except TimeoutError:
            raise self._silent(api, deadline) from None
        except OSError as error:
            raise self._lost(api, error.strerror or str(error)) from None

    def receive(self, deadline: Deadline) -> dict[str, Any]:
        """The answer to the oldest request that has none yet."""
        api, version, correlation = self._pending[0]
        frame = self._frame(api, deadline)
        self._pending.popleft()
        got = int.from_bytes(frame[:4], "big", signed=True)
        if got != correlation:
            raise self._not_kafka(f"answered {api.name} with correlation id {got} in place of {correlation}")
        try:
            if api is ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
                version = 0  # a broker that does not know the version answers in the oldest one (KIP-511)
            at = response_body_at(api, version, frame, 0)
            return decode(api, version, "response", frame, at, _LIMITS)
        except RemoteProtocolError as error:
            raise self._not_kafka(f"sent an answer that cannot be read ({error})") from error

    @property
    def idle(self) -> bool:
        """Every request has its answer."""
        return not self._pending

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _frame(self, api: ApiKey, deadline: Deadline) -> bytes:
        while True:
            try:
                event = self._frames.next_event()
            except RemoteProtocolError as error:
                raise self._not_kafka(f"does not answer as a Kafka broker ({error})") from error
            if event is CLOSED:
                raise self._lost(api, "it closed the connection")
            if event is not NEED_DATA:
                return event
            try:
                self._socket.settimeout(max(deadline.left_s, 0.001))
                self._frames.receive_data(self._socket.recv(_READ_BYTES))
            except TimeoutError:
                raise self._silent(api, deadline) from None
            except OSError as error:
                raise self._lost(api, error.strerror or str(error)) from None

    def _learn_versions(self, deadline: Deadline) -> None:
        ask = {"client_software_name": CLIENT_ID, "client_software_version": "1"}
        answer = self.call(ApiKey.API_VERSIONS, ask, deadline, version=3)
        if answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION:
            answer = self.call(ApiKey.API_VERSIONS, {}, deadline, version=0)
        if answer["error_code"]:
            raise self._not_kafka(f"refused to say its versions: {name_of(answer['error_code'])}")
        self._versions = {one["api_key"]: (one["min_version"], one["max_version"]) for one in answer["api_keys"]}

    def _log_in(self, deadline: Deadline) -> None:
        profile = self._security
        handshake = self.call(ApiKey.SASL_HANDSHAKE, {"mechanism": profile.mechanism}, deadline, version=1)
        code = handshake["error_code"]
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            raise self._refused(
                f"takes no logins, but the security profile of user {profile.username} wants one. Register the cluster "
                "with a profile without a mechanism, or give the address of its SASL listener."
            )
        if code:
            raise self._refused(
                f"does not offer the mechanism {profile.mechanism} (it offers "
                f"{', '.join(handshake['mechanisms']) or 'none'}): {name_of(code)}. Correct the security profile."
            )
        token = f"\0{profile.username}\0{profile.password}".encode()
        try:
            answer = self.call(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": token}, deadline)
        except ConnectionLostError:
            answer = {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": "the connection was closed"}
        if answer["error_code"]:
            raise self._refused(
                f"refused the account {profile.username}: {answer['error_message'] or name_of(answer['error_code'])}. "
                "Correct user or password in the security profile, or create the account in the cluster."
            )

    def _lost(self, api: ApiKey, why: str) -> Exception:
        self.close()
        if self._ready and self._security.mechanism is None and self._correlation <= 2:
            # A SASL listener answers ApiVersions to everyone and hangs up at the next request.
            return AuthenticationRefusedError(
                self.cluster,
                self.address,
                f"hung up at the first request ({why}). It may want a login: register the cluster with a security "
                "profile that has a mechanism, or give the address of a listener without logins.",
            )
        return ConnectionLostError(
            self.cluster, self.address, f"broke off before it answered {api.name} ({why}). Is the broker being stopped?"
        )

    def _silent(self, api: ApiKey, deadline: Deadline) -> ClusterUnreachableError:
        return self._unreachable(f"did not answer {api.name} within {deadline.seconds:g} s")

    def _unreachable(self, text: str) -> ClusterUnreachableError:
        if hasattr(self, "_socket"):
            self.close()
        return ClusterUnreachableError(
            self.cluster,
            self.address,
            f"{text}. Is the broker running, and is the address right as seen from here?",
        )

    def _not_kafka(self, text: str) -> NotKafkaError:
        self.close()
        return NotKafkaError(
            self.cluster, self.address, f"{text}. Give the address of a plain Kafka listener of this cluster."
        )

    def _refused(self, text: str) -> AuthenticationRefusedError:
        return AuthenticationRefusedError(self.cluster, self.address, text)


_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
