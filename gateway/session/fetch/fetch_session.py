"""A client's fetch session with its broker (KIP-227), as far as its requests have named what is in it.

Requests name what is new, and answers what has changed. So of a partition that no request has named for hours it has
to be known that it is still read where the session reads it: in the port's cluster, under the same map.

It may name very many topics, so what is done with each of them is done once per state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gateway.session.request import text
from gateway.session.routes import Routes, newest
from ha_core.model import Topic
from ha_core.wire import ErrorCode, RemoteProtocolError
from ha_core.wire.fetch_answer import FetchShift

SESSION_ENDS = ErrorCode.INVALID_FETCH_SESSION_EPOCH
"""What a client is told that has to begin anew. It names its old session then, so that the broker, which has room for a
thousand, forgets it at once. FETCH_SESSION_ID_NOT_FOUND lets it lie there for two minutes, and in answer to the first
fetch of a session lets franz-go do without sessions for good: that broker has no room for any."""
MAX_NAME_BYTES = 249
"""Of a topic that can exist."""
MAX_TOPICS = 40_000
"""A client that names more is asked to begin anew."""


class FetchSession:
    """:ivar id: what the broker calls it, once it has told: by another name the client means another session, of which
        nobody knows here what is in it.
    :ivar topics: their names. One list, which grows with what is named: all that wait for an answer share it, and a
        client may have a hundred fetches under way that name one more each.
    :ivar mapped: whether one of them has a map: then offsets are translated.
    :ivar ends: the next fetch must be a full one: it names too many topics, or some that are read in another way now.
    :ivar routes: those of the newest state, if it is known that it stands there. A fetch under way for minutes must not
        keep the state of its time.
    """

    __slots__ = ("_cluster", "_maps", "_revision", "ends", "id", "mapped", "routes", "topics")

    def __init__(self) -> None:
        self.id: int | None = None
        self.topics: list[bytes] = []
        self.mapped = self.ends = False
        self.routes: Routes | None = None
        self._maps: dict[bytes, Topic | None] = {}
        """None: it has none, and is passed."""
        self._cluster: str | None = None
        self._revision = -1

    def add(self, names: Iterable[bytes], routes: Routes) -> None:
        """Topics that a request names."""
        maps, view = self._maps, routes.snapshot.view
        for name in names:
            if len(name) <= MAX_NAME_BYTES:
                if name not in maps:
                    self.topics.append(name)
                topic = maps[name] = view.mapped(text(name))
                self.mapped = self.mapped or topic is not None
        self.ends = self.ends or len(maps) > MAX_TOPICS
        self._cluster, self.routes = routes.port.cluster, routes

    def copy(self) -> FetchSession:
        """Another one, in which is the same; what the broker will call it nobody knows."""
        other = FetchSession()
        other.topics, other.mapped, other.ends = self.topics.copy(), self.mapped, self.ends
        other.routes, other._maps, other._cluster = self.routes, self._maps.copy(), self._cluster
        return other

    def stands(self, routes: Routes) -> bool:
        """Whether all of it is still read as it was when it was named."""
        revision = routes.snapshot.view.revision
        if revision != self._revision:
            self._revision = revision
            self.ends = self.ends or self._changed(routes)
        if self.ends or routes.closed:
            return False
        self.routes = routes
        return True

    def _changed(self, routes: Routes) -> bool:
        view, maps = routes.snapshot.view, self._maps
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
        """What is done to a partition that an answer names, as `Shifts` are asked."""
        name, partition = key
        topic = self._maps.get(name)
        if topic is None:
            if name in self._maps or len(name) > MAX_NAME_BYTES:
                return None
            live = None
        elif self.routes is not None:
            live = self.routes.live(name, partition)
        else:
            live = newest(topic, key, self._cluster)
        if live is None:
            raise RemoteProtocolError(f"a fetch session's answer names {text(name)}-{partition}, which is not in it")
        return live.shift


def once_each(verdict: Callable[[Sequence[bytes]], bool], unseen: bool) -> Callable[[Sequence[bytes]], bool]:
    """The same verdict on what requests under way read, looked for once for all that share their topics.

    :param unseen: what is said of the others when so many topics were looked at as one session may name. A client can
        have a hundred requests under way, and let each name as many: nobody else is to wait for that.
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
