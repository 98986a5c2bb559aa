"""The first requests of a connection: API_VERSIONS and the SASL login (`SaslServer` has the steps).

A failed login is answered, and its connection closed, a while after its token came, as brokers do
(`connection.failed.authentication.delay.ms`). So guessing takes long, and equally long whatever was wrong.
"""

import math
import re
import sys

from gateway.session.auth_state import SaslInProgress, Verifying
from gateway.session.commands import Cause, VerifyLogin
from gateway.session.pending import Ready
from gateway.session.request import Message, Request
from gateway.session.state import ConnectionState
from ha_core.wire import APIS, ApiKey, ErrorCode, RemoteProtocolError, SaslServer
from ha_core.wire.frames import frame_size
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.sasl_steps import Challenge, KeyOf, Proved, Question, Reply, UnjudgedError

TELLS_SOFTWARE = 3
"""Version of API_VERSIONS from which on clients send their software name (KIP-511)."""
_OF_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""Names and versions that brokers accept."""
_MAX_KEPT = 64
"""Longest software name or version, in characters, that is kept with the client's usage."""
MAX_SESSION_S = 365 * 86_400.0
"""Session lifetime for tokens that are valid for longer than clients can count."""
_FAILED: Message = {
    "error_code": int(ErrorCode.SASL_AUTHENTICATION_FAILED),
    "error_message": "Authentication failed: invalid credentials",
}
"""Answer to each failed login, whatever is wrong."""
_OUT_OF_TURN: Message = {"error_code": int(ErrorCode.ILLEGAL_SASL_STATE), "error_message": "SaslHandshake first"}
_RAW_TOKEN = Request.own(ApiKey.SASL_AUTHENTICATE, 0, DEFAULT_LIMITS)


class Login:
    """The login of one client, whose state is the client's `auth_state`."""

    __slots__ = ("_client", "_context", "_in_flight", "_intake", "_session")

    def __init__(self, session: ConnectionState) -> None:
        self._session = session
        self._context, self._client = session.context, session.client
        self._in_flight, self._intake = session.in_flight, session.intake

    def api_versions(self, request: Request) -> None:
        """Answers with the versions that every cluster supports, also before authentication (KIP-35)."""
        error = ErrorCode.NONE
        if request.api_version > APIS[ApiKey.API_VERSIONS].max_version:
            # A client newer than the gateway reads this as version 0 and asks again with one of these (KIP-511).
            request.api_version, error = 0, ErrorCode.UNSUPPORTED_VERSION
        else:
            message = request.decode()
            if request.api_version >= TELLS_SOFTWARE:
                software = message["client_software_name"], message["client_software_version"]
                if not all(map(_OF_SOFTWARE.fullmatch, software)):
                    self._in_flight.reply(request, {"error_code": int(ErrorCode.INVALID_REQUEST), "api_keys": []})
                    return
                short = all(len(part) <= _MAX_KEPT for part in software)
                self._client.software = sys.intern("/".join(software)) if short else None
        self._in_flight.reply(request, {"error_code": int(error), "api_keys": list(self._context.snapshot.apis)})

    def handshake(self, request: Request) -> None:
        """Handles the choice of a mechanism: for the first time, or to re-authenticate (KIP-368)."""
        mechanism, auth_state = request.decode()["mechanism"], self._client.auth_state
        if isinstance(auth_state, SaslInProgress):
            sasl = auth_state.sasl
        else:
            sasl = SaslServer(self._context.shared.authentication.mechanisms, self._context.shared.limits)
        error = sasl.handshake(mechanism, request.api_version)
        answer = {"error_code": int(error), "mechanisms": list(sasl.mechanisms)}
        if error is ErrorCode.ILLEGAL_SASL_STATE:
            why = "a second SaslHandshake before the first was followed by a token"
            self._end(request, answer, why, self._context.now)
            return
        self._in_flight.reply(request, answer)
        if error is ErrorCode.NONE and not isinstance(auth_state, SaslInProgress | Verifying):
            self._client.auth_state = auth_state.prove(sasl)

    def authenticate(self, request: Request) -> None:
        token, auth_state = request.decode()["auth_bytes"], self._client.auth_state
        if isinstance(auth_state, SaslInProgress):
            self._go_on(auth_state, token, request, self._context.now)
        else:
            self._end(request, _OUT_OF_TURN, "SaslAuthenticate without SaslHandshake", self._context.now)

    def raw_token(self, auth_state: SaslInProgress, buf: bytearray, pos: int, end: int) -> int:
        """Handles a bare token, as sent after a SaslHandshake of version 0 (brokers before 1.0). A refusal has no
        answer: the connection ends.

        :returns: position after the token; `pos` if the token is incomplete.
        """
        stop = pos + 4 + frame_size(buf, pos, self._context.shared.limits.max_sasl_bytes, 0)
        if stop <= end:
            self._go_on(auth_state, bytes(memoryview(buf)[pos + 4 : stop]), None, self._context.now)
            return stop
        return pos

    def verified(self, reply: Reply) -> None:
        """Continues a login after its claim was checked."""
        auth_state = self._client.auth_state
        if isinstance(auth_state, Verifying) and self._context.life.receives:
            self._client.auth_state = proving = auth_state.verified()
            self._go_on(proving, reply, auth_state.request, auth_state.since)

    def _go_on(self, auth_state: SaslInProgress, came: bytes | Reply, request: Request | None, since: float) -> None:
        """
        :param came: a token, or the result of checking a claim.
        :param request: the request to answer; None: a bare token.
        """
        sasl, authentication = auth_state.sasl, self._context.shared.authentication
        login_rate_limiter = authentication.login_rate_limiter
        try:
            if (
                isinstance(came, bytes)
                and sasl.challenged
                and not login_rate_limiter.allows(self._context.address, sasl.claimed or "", since)
            ):
                self._brake(since)
                return
            step = sasl.receive(came) if isinstance(came, bytes) else sasl.reply(came)
            while isinstance(step, Question):
                sasl.claimed = authentication.accounts.named(step)
                # Each name gets a challenge, or a limited address would learn which names it knows: the proof is
                # limited instead.
                if not isinstance(step, KeyOf) and not login_rate_limiter.allows(
                    self._context.address, sasl.claimed, self._context.now
                ):
                    self._brake(since)
                    return
                reply = authentication.accounts.reply(step)
                if reply is None:
                    self._client.auth_state = auth_state.ask(step, request, since)
                    self._context.emit(VerifyLogin(step))
                    return
                step = sasl.reply(reply)
        except UnjudgedError as unsure:
            self._leave(Cause.UNVERIFIED, str(unsure), since)
            return
        except RemoteProtocolError as wrong:
            if self._failed(sasl):
                self._leave(Cause.AUTHENTICATION_FAILED, str(wrong), since)
            else:
                self._end(request, _FAILED, str(wrong), since)
            return
        if isinstance(step, Challenge) and step.refuses and self._failed(sasl):
            self._leave(Cause.AUTHENTICATION_FAILED, "a token was refused", since)
        elif isinstance(step, Challenge):
            self._say(request, step.data)
        else:
            self._prove(auth_state, step, request, since)

    def _prove(self, auth_state: SaslInProgress, proved: Proved, request: Request | None, since: float) -> None:
        """The claim is proved. KIP-368: a connection may re-authenticate, but not as another user."""
        before, authentication = auth_state.before, self._context.shared.authentication
        mechanism = auth_state.sasl.mechanism
        if before is not None and (before.user != proved.user or before.mechanism not in (None, mechanism)):
            before_by, now_by = before.mechanism or "certificate", mechanism
            why = f"user {before.user!r} by {before_by} re-authenticates as {proved.user!r} by {now_by}"
            self._end(request, _FAILED, why, since)
            return
        good_for_s = authentication.session_s if proved.good_for_s is None else proved.good_for_s
        good_for_s = min(good_for_s, authentication.session_s)
        if not math.isinf(good_for_s):
            good_for_s = min(good_for_s, MAX_SESSION_S)
        authentication.login_rate_limiter.succeeded(self._context.address, proved.user)
        self._enter(auth_state, proved.user, self._context.now + good_for_s)
        self._say(request, proved.data, 0 if math.isinf(good_for_s) else int(good_for_s * 1000))

    def _enter(self, auth_state: SaslInProgress, user: str, expires_at: float) -> None:
        """Drops decisions that were made for another user."""
        self._client.enter(auth_state, user, expires_at)
        self._client.forget_routes()
        self._session.decisions.forget()
        self._session.fetching.forget_routes()

    def _failed(self, sasl: SaslServer) -> bool:
        """Counts a wrong claim, once. Returns True if the client gets no answer."""
        login_rate_limiter = self._context.shared.authentication.login_rate_limiter
        silent = login_rate_limiter.silent(self._context.address, self._context.now)
        if sasl.claimed is not None:  # without a claim there is no guess to count
            login_rate_limiter.failed(self._context.address, sasl.claimed, self._context.now)
            sasl.claimed = None
        return silent

    def _brake(self, since: float) -> None:
        self._leave(Cause.RATE_LIMITED, f"too many logins from {self._context.address} have failed", since)

    def _say(self, request: Request | None, data: bytes, lifetime_ms: int = 0) -> None:
        if request is not None:
            self._in_flight.reply(
                request, {"error_message": None, "auth_bytes": data, "session_lifetime_ms": lifetime_ms}
            )
        else:
            self._in_flight.queue_ready(Ready(_RAW_TOKEN, len(data).to_bytes(4, "big") + data))
            self._in_flight.flush()

    def _end(self, request: Request | None, answer: Message, detail: str, since: float) -> None:
        """Answers that the login failed, and closes, both after the delay. A bare token gets no answer."""
        if request is not None:
            self._in_flight.reply(request, answer, due_at=since + self._context.shared.authentication.delay_s)
            self._intake.leave(Cause.AUTHENTICATION_FAILED, detail)
        else:
            self._leave(Cause.AUTHENTICATION_FAILED, detail, since)

    def _leave(self, cause: Cause, detail: str, since: float) -> None:
        """Closes after the delay, without an answer."""
        self._in_flight.answer_nothing(_RAW_TOKEN, since + self._context.shared.authentication.delay_s)
        self._intake.leave(cause, detail)
