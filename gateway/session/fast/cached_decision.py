"""A decision for a forwarded request, reused for similar requests (`fast_path`)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from gateway.session.auth_state import AuthState
from gateway.session.fast.produce_patch import SettledTopic
from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.pending import Passed
from gateway.session.request import Request
from gateway.session.routes import Routes
from ha_core.wire.templates import MAX_NAMES, FetchTemplate, ProduceTemplate

MAX_DECISIONS = 4
"""Per connection: it writes to topics with and without a map, or reads in a fetch session that begins now and then."""


class RequestPatch(Protocol):
    """Bytes to write into a forwarded request, and the patches of its answer."""

    def pending(self, request: Request) -> Passed: ...
    def write(self, buf: bytearray) -> None: ...


class CachedDecision(NamedTuple):
    """It is dropped with its basis: the snapshot (`DecisionCache.forget`), the user, or the fetch
    session."""

    template: ProduceTemplate | FetchTemplate
    request: Request
    auth_state: AuthState
    mapped: dict[bytes, SettledTopic] | None = None
    """Set for requests that write to one topic each, which is mapped."""
    fetch_session: FetchSession | None = None
    """The fetch session it belongs to."""
    begins: Routes | None = None
    """Set if a fetch session begins with it, on these routes: a broker without room for sessions makes each fetch begin
    one."""
    routes: Routes | None = None
    """Routes of mapped topics that it reads."""
    rack: tuple[int, int] = (0, 0)
    """Position of the rack id from the end of the request, and its length."""
    waits_ms: int = 0
    """How long a fetch lets its broker wait for records."""

    def covers(self, other: CachedDecision) -> bool:
        """True if the other one differs at most in the topics that requests may name."""
        return (
            self.template.settings == other.template.settings
            and (self.mapped is None) == (other.mapped is None)
            and self.auth_state is other.auth_state
            and self.fetch_session is other.fetch_session
            and self.begins is other.begins
            and self.routes is other.routes
        )

    def learn(self, other: CachedDecision) -> None:
        """Takes over the topics of one that it covers."""
        self.template.learn(other.template.names)
        if self.mapped is not None and other.mapped is not None:
            if len(self.mapped) >= MAX_NAMES:
                self.mapped.clear()
            for name, topic in other.mapped.items():
                self.mapped.setdefault(name, topic)


CachedDecisions = tuple[CachedDecision, ...]


def with_decision(
    decisions: CachedDecisions, decision: CachedDecision, fetch_session: FetchSession | None
) -> CachedDecisions:
    """The cached decisions of a connection with the newest one in front, which takes the place of the oldest.

    A decision that covers it learns its topics. None is cached for a fetch session with too many topics: its next fetch
    ends it.

    :param fetch_session: the connection's.
    """
    if fetch_session is not None and fetch_session.ends:
        return decisions
    for cached_decision in decisions:
        if cached_decision.covers(decision):
            cached_decision.learn(decision)
            decision = cached_decision
            break
    rest = [one for one in decisions if one is not decision and one.fetch_session in (None, fetch_session)]
    return decision, *rest[: MAX_DECISIONS - 1]


class DecisionCache:
    """Decisions of one session.

    :ivar newest_first: decisions for requests that were forwarded: similar requests are treated alike.
    """

    __slots__ = ("newest_first",)

    def __init__(self) -> None:
        self.newest_first: CachedDecisions = ()

    def forget(self) -> None:
        """Has similar requests decided anew: on another snapshot, for another user, or because their uses are reported
        again."""
        self.newest_first = ()

    def remember(self, decision: CachedDecision, fetch_session: FetchSession | None) -> None:
        """Caches the decision for a forwarded request (`with_decision`)."""
        self.newest_first = with_decision(self.newest_first, decision, fetch_session)
