"""State of one client's reading: its fetch session with its broker (KIP-227), as far as its requests have named its
partitions, and gaps that its fetches have met.

Requests name only new partitions, and answers only changed ones. So the gateway has to know that a partition which no
request has named for hours is still read from the same place: the port's cluster, under the same map. A session may
have very many topics, so each is checked once per state.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gateway.session.request import Message, text
from gateway.session.routes import Routes, open_extent_at
from ha_core.model import Topic, View
from ha_core.plan.facts.clusters import Partition
from ha_core.wire import ErrorCode, RemoteProtocolError
from ha_core.wire.fetch_answer import FetchShift

SESSION_ENDS = ErrorCode.INVALID_FETCH_SESSION_EPOCH
"""Answer that makes a client begin a new session. The client then names its old session, so that the broker, which has
room for a thousand, drops it at once. FETCH_SESSION_ID_NOT_FOUND would leave it there for two minutes, and in answer to
the first fetch of a session makes franz-go do without sessions for good, as for a broker without room."""
MAX_NAME_BYTES = 249
"""Longest name of a topic that can exist."""
MAX_TOPICS = 40_000
"""A client that names more has to begin a new session."""


class FetchSession:
    """:ivar id: the broker's id, once known: another id means another session, whose partitions this gateway does not
        know.
    :ivar topics: names of its topics. One growing list: all fetches in flight share it, and a client may have a hundred
        of them that name one more topic each.
    :ivar mapped: True if one of them has a map: offsets are translated then.
    :ivar ends: the next fetch must be a full one: there are too many topics, or some are read in another way now.
    :ivar routes: routes of the newest state, if the session is known to stand there. A fetch in flight for minutes must
        not keep its old state in memory.
    """

    __slots__ = ("_cluster", "_maps", "_revision", "ends", "id", "mapped", "routes", "topics")

    def __init__(self, unmapped: Iterable[bytes] = (), routes: Routes | None = None) -> None:
        """:param unmapped: topics that have no map on these routes."""
        self.id: int | None = None
        self._maps: dict[bytes, Topic | None] = dict.fromkeys(unmapped)
        """None: it has no map, and is forwarded unchanged."""
        self.topics: list[bytes] = list(self._maps)
        self.mapped = self.ends = False
        self.routes = routes
        self._cluster: str | None = None if routes is None else routes.port.cluster
        self._revision = -1

    def add(self, names: Iterable[bytes], routes: Routes) -> None:
        """Adds the topics that a request names."""
        maps, view = self._maps, routes.snapshot.view
        for name in names:
            if len(name) <= MAX_NAME_BYTES:
                if name not in maps:
                    self.topics.append(name)
                topic = maps[name] = view.mapped(text(name))
                self.mapped = self.mapped or topic is not None
        self.ends = self.ends or len(maps) > MAX_TOPICS
        self._cluster, self.routes = routes.port.cluster, routes

    def stands(self, routes: Routes) -> bool:
        """True if all of its topics are still read as they were when they were named."""
        revision = routes.snapshot.view.revision
        if revision != self._revision:
            self._revision = revision
            self.ends = self.ends or self._changed(routes)
        if self.ends or routes.refusal:
            return False
        self.routes = routes
        return True

    def _changed(self, routes: Routes) -> bool:
        view, maps = routes.snapshot.view, self._maps
        if routes.names is not None and routes.rename(maps):
            return True
        read_anew: dict[bytes, Topic] = {}
        for (name, then), now in zip(maps.items(), map(view.topics.get, map(text, maps)), strict=True):
            mapped = now if now is not None and (now is then or now.mapped) else None
            if mapped is then:
                continue
            if mapped is None or mapped != then:
                return True
            read_anew[name] = mapped
        maps.update(read_anew)
        return routes.reads_copies and any(
            routes.topic(name).mirror is not None for name, topic in maps.items() if topic is not None
        )

    def get(self, key: tuple[bytes, int], /) -> FetchShift | None:
        """The shift of a partition that an answer names; the interface of `Shifts`."""
        name, partition = key
        topic = self._maps.get(name)
        if topic is None:
            if name in self._maps or len(name) > MAX_NAME_BYTES:
                return None
            extent = None
        elif self.routes is not None:
            extent = self.routes.open_extent(name, partition)
        else:
            extent = open_extent_at(topic, key, self._cluster)
        if extent is None:
            raise RemoteProtocolError(f"a fetch session's answer names {text(name)}-{partition}, which is not in it")
        return extent.shift


def empty_answer(in_session: bool) -> Message:
    """The answer to a fetch after which the client fetches anew.

    :param in_session: True if the fetch belongs to a fetch session, which ends.
    """
    error = SESSION_ENDS if in_session else ErrorCode.NONE
    return {"error_code": int(error), "session_id": 0, "responses": []}


def once_each(verdict: Callable[[Sequence[bytes]], bool], unseen: bool) -> Callable[[Sequence[bytes]], bool]:
    """Caches a verdict on the topics of requests in flight, once for all that share the same list.

    :param unseen: verdict on the rest once as many topics were examined as one session may name. A client can have a
        hundred requests in flight that each name as many: other clients must not wait for that.
    """
    found: dict[int, bool] = {}
    looked_at = 0

    def of(topics: Sequence[bytes]) -> bool:
        nonlocal looked_at
        known = found.get(id(topics))
        if known is None:
            looked_at += len(topics)
            too_many = len(topics) > 0 and looked_at > max(MAX_TOPICS, len(topics))
            known = found[id(topics)] = unseen if too_many else verdict(topics)
        return known

    return of


class Gap(NamedTuple):
    """From client offset `offset` on there is no record below `next_offset`: readers continue there, as in a compacted
    log."""

    offset: int
    next_offset: int
    sure: bool = False
    """The log start was confirmed, so the reader has to see OFFSET_OUT_OF_RANGE."""


class FetchState:
    """:ivar fetch_session: the client's fetch session with the port's broker, if it has one.
    :ivar gaps: gaps by partition, where a fetch reads now.
    :ivar seen_again: the fetch session's topics are reported again with its next fetch, which does not name them.
    """

    __slots__ = ("fetch_session", "gaps", "seen_again")

    def __init__(self) -> None:
        self.fetch_session: FetchSession | None = None
        self.gaps: dict[Partition, Gap] = {}
        self.seen_again = False

    def look_again(self) -> None:
        """Has the uses of the fetch session's topics reported again."""
        self.seen_again = self.fetch_session is not None

    def leave_session(self) -> None:
        """The client has ended its fetch session, or has to begin a new one."""
        self.forget_routes()
        self.fetch_session = None

    def forget_routes(self) -> None:
        """The snapshot or the user is another one."""
        if self.fetch_session is not None:
            self.fetch_session.routes = None

    def forget_gaps(self, before: View, after: View) -> None:
        """Drops gaps of topics whose map has changed."""
        for key in tuple(self.gaps):
            then, now = before.topics.get(key[0]), after.topics.get(key[0])
            if then is not now and then != now:
                del self.gaps[key]
