"""A decision for a forwarded request, reused for similar requests (`fast_path`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from gateway.session.auth_state import Entry
from gateway.session.fast.produce_patch import SettledTopic
from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.pending import Passed
from gateway.session.request import Request
from gateway.session.routes import Routes
from ha_core.wire.templates.several_topics import SeveralTopicsTemplate
from ha_core.wire.templates.several_topics_fetch import SeveralTopicsFetchTemplate
from ha_core.wire.templates.several_topics_produce import SeveralTopicsProduceTemplate
from ha_core.wire.templates.single_topic import FetchTemplate, ProduceTemplate

MAX_FLOWS = 4
"""Cached decisions per connection: it writes to a few topics, or reads with and without new topics."""


Like = ProduceTemplate | SeveralTopicsProduceTemplate | FetchTemplate | SeveralTopicsFetchTemplate


class RequestPatch(Protocol):
    """Bytes to write into a forwarded request, and the patches of its answer."""

    def pending(self, request: Request) -> Passed: ...
    def write(self, buf: bytearray) -> None: ...


class CachedDecision(NamedTuple):
    """It is dropped with its basis: the snapshot (`ConnectionState.forget_verdicts`), the user, or the fetch
    session."""

    like: Like
    request: Request
    entry: Entry
    topics: tuple[bytes, ...] = ()
    """Topics that it writes to."""
    mapped: SettledTopic | None = None
    """The topic that it writes to, if mapped."""
    reads: Sequence[bytes] = ()
    """Topics that it waits for."""
    named: tuple[bytes, ...] = ()
    """Topics of `reads` whose partitions it names."""
    fetch_session: FetchSession | None = None
    """The fetch session it belongs to."""
    begins: FetchSession | None = None
    """Template of a fetch session that begins with it: a broker without room for sessions makes each fetch begin
    one."""
    routes: Routes | None = None
    """Routes of mapped topics that it reads."""
    rack: tuple[int, int] = (0, 0)
    """Position of the rack id from the end of the request, and its length."""
    waits_ms: int = 0
    """How long a fetch lets its broker wait for records."""

    def naming(self, topics: tuple[bytes, ...]) -> CachedDecision:
        """The decision for a fetch that names these topics, all of which it covers."""
        return self._replace(named=topics, reads=topics if self.fetch_session is None else self.reads)

    @property
    def names(self) -> Collection[bytes]:
        """The topics that similar requests may name."""
        like = self.like
        return like.names if isinstance(like, SeveralTopicsTemplate) else self.topics or self.named

    def replaces(self, other: CachedDecision) -> bool:
        """True if requests that match the other one match this one, too. A fetch session begins with the same
        topics."""
        return self.like.same(other.like) and (self.begins is None or self.named == other.named)

    def leaves_out(self, other: CachedDecision) -> bool:
        """True if the other one's topics did not fit into its full pattern. However many of those come, this one stays:
        it was made of many requests, and each of those of one. A decision that begins a fetch session is made of one,
        too."""
        like = self.like
        if not isinstance(like, SeveralTopicsTemplate) or self.begins is not None:
            return False
        return not like.stale and like.differs_only_in_topics(other.like) and not like.takes(other.names)


class Remembering(Protocol):
    """The part of a connection's state (`ConnectionState`) that is read here."""

    fetch_session: FetchSession | None
    flows: tuple[CachedDecision, ...]


def remember(session: Remembering, flow: CachedDecision) -> None:
    """Caches the decision for a forwarded request, unless its fetch session has too many topics: its next fetch ends
    it."""
    fetch_session = session.fetch_session
    if fetch_session is not None and fetch_session.ends:
        return
    known = [one for one in session.flows if one.fetch_session in (None, fetch_session) and not flow.replaces(one)]
    if len(known) >= MAX_FLOWS:
        known.sort(key=lambda one: not one.leaves_out(flow))
        stays = known[0]
        if isinstance(stays.like, SeveralTopicsTemplate) and stays.leaves_out(flow):
            stays.like.note_miss()
    session.flows = flow, *known[: MAX_FLOWS - 1]


def leave_out(
    session: Remembering, request: Request, topics: Collection[bytes], flows: Iterable[CachedDecision]
) -> bool:
    """Leaves the topics of a request out of the full pattern of a matching flow. A flow that has left out very many is
    dropped, so that it is built again.

    :returns: True if that was done, and the request must not be cached with others.
    """
    for flow in flows:
        like = flow.like
        if isinstance(like, SeveralTopicsTemplate) and like.would_match_if_larger(request.buf, request.start, topics):
            if len(topics) > 1:  # a request that names one topic is cached beside it
                like.note_miss()
            if not like.stale:
                return True
            session.flows = tuple(one for one in session.flows if one is not flow)
    return False
