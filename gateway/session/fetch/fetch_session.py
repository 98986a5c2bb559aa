"""A client's fetch session with its broker (KIP-227), as far as its requests have named what is in it.

Requests name what is new, and answers what has changed. So of a partition that no request has named for hours it has
to be known that it is still read where the session reads it: in the port's cluster, under the same map.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.session.request import text
from gateway.session.routes import Routes
from ha_core.model import Topic

MAX_NAME_BYTES = 249
"""Of a topic that can exist."""
MAX_TOPICS = 40_000
"""A client that names more is asked to begin anew."""


class FetchSession:
    """:ivar topics: by name their maps; None of one that is passed.
    :ivar mapped: whether one of them has a map: then offsets are translated.
    :ivar ends: the next fetch must be a full one: it names too many topics, or some that are read in another way now.
    """

    __slots__ = ("_revision", "ends", "mapped", "topics")

    def __init__(self) -> None:
        self.topics: dict[bytes, Topic | None] = {}
        self.mapped = self.ends = False
        self._revision = -1

    def add(self, names: Iterable[bytes], routes: Routes) -> None:
        """Topics that a request names."""
        view = routes.snapshot.view
        for name in names:
            if len(name) <= MAX_NAME_BYTES:
                topic = self.topics[name] = view.mapped(text(name))
                self.mapped = self.mapped or topic is not None
        self.ends = self.ends or len(self.topics) > MAX_TOPICS

    def copy(self) -> FetchSession:
        """Another one, in which is the same."""
        other = FetchSession()
        other.topics, other.mapped, other.ends = self.topics.copy(), self.mapped, self.ends
        return other

    def stands(self, routes: Routes) -> bool:
        """Whether all of it is still read as it was when it was named."""
        revision = routes.snapshot.view.revision
        if revision != self._revision:
            self._revision = revision
            self.ends = self.ends or any(_changed(name, then, routes) for name, then in self.topics.items())
        return not self.ends and not routes.closed


def _changed(name: bytes, then: Topic | None, routes: Routes) -> bool:
    now = routes.snapshot.view.mapped(text(name))
    if now is None or then is None:
        return now is not then
    return (now is not then and now != then) or routes.topic(name).mirror is not None
