"""The client's side of one connection to a broker, without I/O: requests in, bytes out; bytes in, answers out.

    write(client.request(ApiKey.METADATA, {"topics": None}))
    while (event := client.next_event()) is NEED_DATA:
        client.receive_data(read())
    answer = event.message()

Answers come in the order of the requests. `learn_versions` and `log_in` are conversations: generators that yield bytes
to write, are sent the answer to them, and return their result. The owner of the socket drives them, blocking or not. An
error blames one side: after a RemoteProtocolError the connection has to be closed; a LocalProtocolError leaves it
usable.
"""

from collections import deque
from collections.abc import Generator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from ha_core.wire.codec import decode, decode_in_place, encode, encode_in_pieces, supported
from ha_core.wire.codes import ApiKey, ErrorCode, name_of
from ha_core.wire.encoding import Pieces
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError, WireError
from ha_core.wire.frames import Event, FrameReader
from ha_core.wire.header import encode_request, request_head, response_body_at
from ha_core.wire.limits import DEFAULT_LIMITS, WireLimits
from ha_core.wire.sasl import MECHANISMS, SecurityProfile

T = TypeVar("T")
Conversation = Generator[bytes, dict[str, Any], T]
"""Yields bytes to write, is sent the answer."""

NEWEST = 32_767
_UNLESS_NAMED = {int(ApiKey.FETCH): 12}
"""Newest versions for callers that name none: the next one has topic ids, which most callers do not know."""
_SOFTWARE = {"client_software_name": "switchyard", "client_software_version": "1"}
_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


class UnsupportedApiError(LocalProtocolError):
    """The broker and the codec have no common version of an API."""


class LoginRefusedError(WireError):
    """The broker refuses the account; the text has the reason and the remedy."""


class Answer(NamedTuple):
    """The answer to the oldest outstanding request: a frame, not decoded yet."""

    api_key: int
    version: int
    frame: bytes | memoryview
    """A view if it came by `receive_frame`: records of the message are then views of the same memory."""

    def message(self, limits: WireLimits = DEFAULT_LIMITS) -> dict[str, Any]:
        """RemoteProtocolError: the frame is complete and in order, but cannot be decoded."""
        try:
            at = response_body_at(self.api_key, self.version, self.frame, 0)
            if isinstance(self.frame, memoryview):
                return decode_in_place(self.api_key, self.version, "response", self.frame, at, limits)
            return decode(self.api_key, self.version, "response", self.frame, at, limits)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"its answer cannot be read: {error}") from None


class Client:
    """
    :ivar versions: API key → (oldest, newest) that the broker offers; empty until `learn_versions`.
    :ivar requests_made: number of requests made.
    """

    def __init__(self, client_id: str, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.requests_made = 0
        self._client_id = client_id
        self._frames = FrameReader(limits.max_response_bytes)
        self._waiting: deque[tuple[int, int, int]] = deque()

    @property
    def idle(self) -> bool:
        """True if every request has its answer."""
        return not self._waiting

    @property
    def waits_for(self) -> int:
        """The API key of the oldest request without an answer."""
        return self._waiting[0][0]

    @property
    def wanted(self) -> int:
        """Bytes missing before the next event, for callers that must not read ahead."""
        return self._frames.wanted

    def version(self, api_key: int, max_version: int = NEWEST) -> int:
        """The newest version up to `max_version` that both sides speak.

        :raises UnsupportedApiError: there is none.
        """
        name, ours, theirs = ApiKey(api_key).name, supported(api_key) or (0, -1), self.versions.get(api_key)
        if theirs is None:
            raise UnsupportedApiError(f"does not offer {name}; it needs a newer version of Kafka")
        if max_version == NEWEST:
            max_version = _UNLESS_NAMED.get(api_key, NEWEST)
        newest = min(ours[1], theirs[1], max_version)
        if newest < max(ours[0], theirs[0]):
            raise UnsupportedApiError(
                f"offers {name} {theirs[0]} to {theirs[1]}, {ours[0]} to {min(ours[1], max_version)} are understood "
                "here; use a release of this program for that version of Kafka"
            )
        return newest

    def request(self, api_key: int, message: Mapping[str, Any] | bytes, version: int | None = None) -> bytes:
        """Bytes of a request in `version`, else in the newest common one; the body may already be encoded."""
        spoken = self.version(api_key) if version is None else version
        body = message if isinstance(message, bytes) else encode(api_key, spoken, "request", message)
        correlation = self._next_correlation()
        data = encode_request(api_key, spoken, correlation, self._client_id, body)
        self._asks(api_key, spoken, correlation)
        return data

    def request_in_pieces(self, api_key: int, message: Mapping[str, Any], version: int) -> Pieces:
        """Bytes of a request, in pieces. Records are not copied: they must not change before they are written."""
        body = encode_in_pieces(api_key, version, "request", message)
        correlation = self._next_correlation()
        head = request_head(api_key, version, correlation, self._client_id, sum(map(len, body)))
        self._asks(api_key, version, correlation)
        return [head, *body]

    def _next_correlation(self) -> int:
        return (self.requests_made + 1) & 0x7FFF_FFFF

    def _asks(self, api_key: int, version: int, correlation: int) -> None:
        self.requests_made += 1
        self._waiting.append((api_key, version, correlation))

    def receive_data(self, data: bytes) -> None:
        """b"" means that the broker has closed the connection."""
        self._frames.receive_data(data)

    def receive_frame(self, frame: memoryview) -> None:
        """Like `receive_data`, but a complete answer after its size is not copied: the memory then belongs to the
        answer."""
        self._frames.receive_frame(frame)

    def next_event(self) -> Answer | Literal[Event.NEED_DATA, Event.CLOSED]:
        """RemoteProtocolError: invalid, or no answer to the oldest request."""
        frame = self._frames.next_event()
        if isinstance(frame, Event):
            return frame
        got = int.from_bytes(frame[:4], "big", signed=True)
        if not self._waiting:
            raise RemoteProtocolError(f"answer {got} was not asked for")
        api_key, version, correlation = self._waiting[0]
        if got != correlation:
            raise RemoteProtocolError(
                f"answered {ApiKey(api_key).name} with correlation id {got} in place of {correlation}"
            )
        self._waiting.popleft()
        if api_key == ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
            version = 0  # a broker that does not know the version answers in the oldest one (KIP-511)
        return Answer(api_key, version, frame)


def learn_versions(client: Client) -> Conversation[None]:
    """Requests the versions that the broker offers."""
    answer = yield client.request(ApiKey.API_VERSIONS, _SOFTWARE, 3)
    if answer["error_code"] == ErrorCode.UNSUPPORTED_VERSION:
        answer = yield client.request(ApiKey.API_VERSIONS, {}, 0)
    if answer["error_code"]:
        raise RemoteProtocolError(f"refused to say its versions: {name_of(answer['error_code'])}")
    client.versions = {api["api_key"]: (api["min_version"], api["max_version"]) for api in answer["api_keys"]}


def log_in(client: Client, profile: SecurityProfile, nonce: str) -> Conversation[float | None]:
    """Logs in by the profile's mechanism; returns the session's lifetime in seconds (KIP-368), None: unlimited.

    :param nonce: printable, without a comma, and never used before.
    :raises LoginRefusedError: the broker refuses the account, or does not prove that it knows it.
    """
    if profile.mechanism is None:
        return None
    # Version 0 would switch the connection to bare SASL bytes without Kafka's frames.
    answer = yield client.request(ApiKey.SASL_HANDSHAKE, {"mechanism": profile.mechanism}, 1)
    if answer["error_code"] == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginRefusedError(
            f"takes no logins, but {profile.declared_in}, with {_named(profile)}, wants one. Give one without a "
            "mechanism, or the address of the cluster's SASL listener."
        )
    if answer["error_code"]:
        raise LoginRefusedError(
            f"does not offer the mechanism {profile.mechanism} (it offers {', '.join(answer['mechanisms']) or 'none'})"
            f": {name_of(answer['error_code'])}. Correct {profile.declared_in}."
        )
    exchange = MECHANISMS[profile.mechanism].client(profile, nonce)
    version = client.version(ApiKey.SASL_AUTHENTICATE) if client.versions else 1
    lifetime_ms = 0
    token = next(exchange, None)
    while token is not None:
        answer = yield client.request(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": token}, version)
        if answer["error_code"]:
            raise login_refused(profile, answer["error_message"] or name_of(answer["error_code"]))
        lifetime_ms = answer["session_lifetime_ms"]
        try:
            token = exchange.send(answer["auth_bytes"])
        except StopIteration:
            token = None
        except RemoteProtocolError as error:
            raise LoginRefusedError(
                f"does not follow {profile.mechanism} when logging in {_named(profile)} ({error}). Is it the right "
                f"broker, and is the password in {profile.declared_in} the account's?"
            ) from None
    return lifetime_ms / 1000 if lifetime_ms > 0 else None


def login_refused(profile: SecurityProfile, why: str) -> LoginRefusedError:
    """The error for a refused account; brokers may close the connection instead of answering."""
    remedy = (
        f"Renew the token in {profile.token_file}, or correct what the cluster expects of one"
        if profile.token_file
        else f"Correct user or password in {profile.declared_in}, or create the account in the cluster"
    )
    return LoginRefusedError(f"refused {_named(profile)}: {why}. {remedy}.")


def _named(profile: SecurityProfile) -> str:
    return f"the account {profile.username}" if profile.username else f"the token of {profile.token_file}"
