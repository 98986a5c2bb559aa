"""What was decided of a request that was passed: requests that are like it go the same way (`fast_path`)."""

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
"""That are remembered of a connection: it writes to a few topics, or reads with and without news."""


Like = ProduceTemplate | SeveralTopicsProduceTemplate | FetchTemplate | SeveralTopicsFetchTemplate


class RequestPatch(Protocol):
    """What is written into a request that goes where its map says, and whose answer is patched."""

    def pending(self, request: Request) -> Passed: ...
    def write(self, buf: bytearray) -> None: ...


class CachedDecision(NamedTuple):
    """It ends with what it rests on: the snapshot (`ConnectionState.forget_verdicts`), who the client is, its fetch
    session.
    """

    like: Like
    request: Request
    entry: Entry
    topics: tuple[bytes, ...] = ()
    """That it writes to."""
    mapped: SettledTopic | None = None
    """What it writes to, where that is mapped."""
    reads: Sequence[bytes] = ()
    """That it waits for."""
    named: tuple[bytes, ...] = ()
    """Of those, the ones whose partitions it names."""
    fetch_session: FetchSession | None = None
    """To which it belongs."""
    begins: FetchSession | None = None
    """What is known of a session that begins with it: brokers have no room for all, and then each fetch begins one."""
    routes: Routes | None = None
    """Of what it reads, where that is mapped."""
    rack: tuple[int, int] = (0, 0)
    """Where its rack id begins, from its end, and how long it is."""
    waits_ms: int = 0
    """How long a fetch lets its broker wait for records."""

    def naming(self, topics: tuple[bytes, ...]) -> CachedDecision:
        """What becomes of a fetch that names these topics, of which all that was decided is known."""
        return self._replace(named=topics, reads=topics if self.fetch_session is None else self.reads)

    @property
    def names(self) -> Collection[bytes]:
        """The topics that requests like it may name."""
        like = self.like
        return like.names if isinstance(like, SeveralTopicsTemplate) else self.topics or self.named

    def replaces(self, other: CachedDecision) -> bool:
        """Whether what goes as the other one goes as this one, too. A fetch session begins with the same topics."""
        return self.like.same(other.like) and (self.begins is None or self.named == other.named)

    def leaves_out(self, other: CachedDecision) -> bool:
        """Whether the other one's topics were in its pattern if that were not full. However many of those come, it
        stays: it was made of many requests, and they of one each. What begins a fetch session is of one, too."""
        like = self.like
        if not isinstance(like, SeveralTopicsTemplate) or self.begins is not None:
            return False
        return not like.stale and like.differs_only_in_topics(other.like) and not like.takes(other.names)


class Remembering(Protocol):
    """Of a connection's state (`ConnectionState`) what is asked here."""

    fetch_session: FetchSession | None
    flows: tuple[CachedDecision, ...]


def remember(session: Remembering, flow: CachedDecision) -> None:
    """A request was passed. One with too many topics of a fetch session is not remembered: the next one ends it."""
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
    """Leaves the topics of a request out of the full pattern of one of these flows that is like it. One that has left
    out very many is forgotten, to be begun anew.

    :returns: whether that was done, and the request is not to be remembered with others.
    """
    for flow in flows:
        like = flow.like
        if isinstance(like, SeveralTopicsTemplate) and like.would_match_if_larger(request.buf, request.start, topics):
            if len(topics) > 1:  # what names one topic is remembered beside it
                like.note_miss()
            if not like.stale:
                return True
            session.flows = tuple(one for one in session.flows if one is not flow)
    return False
