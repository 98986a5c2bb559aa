"""State of one client's reading: its fetch session, and gaps that its fetches have met."""

from __future__ import annotations

from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.fetch.plan import Gap
from ha_core.model import View
from ha_core.plan.facts.clusters import Partition


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
