"""State of one client's reading."""

from gateway.session.fetch.fetch_session import FetchSession, FetchState, Gap
from gateway.session.routes import Routes
from gateway.session.snapshot import Port
from ha_core.model import Identity, View
from tests.gateway.session.messages import moved, state
from tests.gateway.session.talk import CLUSTERS


def test_a_gap_is_forgotten_when_the_map_of_its_topic_changes() -> None:
    fetching, topic = FetchState(), moved(100, 7)
    fetching.gaps = {("orders", 0): Gap(1, 2, True), ("other", 0): Gap(3, 4, True)}
    before = View(1, CLUSTERS, topics={"orders": topic, "other": topic})
    fetching.forget_gaps(before, View(2, CLUSTERS, topics={"orders": moved(200, 7), "other": moved(100, 7)}))
    assert list(fetching.gaps) == [("other", 0)]


def test_a_fetch_session_outlives_the_routes_on_which_it_stands() -> None:
    fetching, known = FetchState(), state()
    fetching.fetch_session = session = FetchSession()
    session.routes = Routes(known, Identity("anonymous", "app"), Port("east", 1))
    fetching.look_again()
    assert fetching.seen_again
    fetching.forget_routes()
    assert fetching.fetch_session is session
    assert session.routes is None
    fetching.leave_session()
    assert fetching.fetch_session is None
