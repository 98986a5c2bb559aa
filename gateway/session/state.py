"""State of one client connection: its parts, each of which owns its own state and knows only parts before it."""

from gateway.session.answers import BrokerAnswers
from gateway.session.client import SessionClient
from gateway.session.commands import Cause
from gateway.session.context import SessionContext
from gateway.session.discovery import DiscoveryGate
from gateway.session.exchange import Exchanges
from gateway.session.fast.cached_decision import DecisionCache
from gateway.session.fetch.fetch_session import FetchState
from gateway.session.in_flight import RequestsInFlight
from gateway.session.intake import Intake
from gateway.session.retry_backoff import RetryBackoff
from gateway.session.seen_uses import SeenUses
from gateway.session.shared import Shared
from gateway.session.snapshot import Port, Snapshot
from gateway.session.throttling import Throttling
from gateway.session.upstream import Upstreams


class ConnectionState:
    """The parts refer to each other in one direction: a connection that has ended leaves no cycle (`gc_policy`)."""

    __slots__ = (
        "answers", "client", "context", "decisions", "discovery", "fetching", "in_flight", "intake", "seen_uses",
        "throttling", "upstreams",
    )  # fmt: skip

    def __init__(self, port: Port, shared: Shared, snapshot: Snapshot, address: str = "") -> None:
        retry_backoff = RetryBackoff(shared.remembered)
        self.context = context = SessionContext(port, shared, snapshot, address)
        self.throttling = throttling = Throttling(snapshot.quotas, shared.meters, shared.counts)
        self.client = client = SessionClient(context, throttling)
        self.seen_uses = SeenUses(context, client)
        self.decisions = DecisionCache()
        self.fetching = FetchState()
        self.discovery = DiscoveryGate(context, client)
        self.upstreams = upstreams = Upstreams(context, retry_backoff)
        self.in_flight = in_flight = RequestsInFlight(context, client, throttling, upstreams, retry_backoff)
        self.intake = Intake(context, in_flight, upstreams)
        self.answers = BrokerAnswers(context, throttling, upstreams, in_flight)

    @property
    def exchanges(self) -> Exchanges:
        """Without state of their own, so made when they are needed: they would take 60 bytes of every connection."""
        return Exchanges(self.context, self.in_flight)

    @property
    def muted(self) -> bool:
        """True if the client has to wait before its next request is read."""
        return self.throttling.muted_until > self.context.now

    def leave_if_login_expired(self) -> bool:
        """True if the login has expired. The connection then ends as at a broker, after the answers in flight."""
        if self.context.now < self.client.auth_state.expires_at:
            return False
        self.intake.leave(Cause.SESSION_EXPIRED, "the client has not re-authenticated in time")
        return True

    def look_again(self) -> None:
        """Reports all further uses again. Cached decisions are dropped, so that requests on the fast path are looked
        at once more."""
        self.seen_uses.look_again()
        self.fetching.look_again()
        self.decisions.forget()
