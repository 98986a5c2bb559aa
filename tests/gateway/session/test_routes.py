"""Routes of topics: the verdict on each topic agrees with the verdict on all of them at once."""

from itertools import product

import pytest

from gateway.model.topology import Topology
from gateway.session.routes import Routes
from gateway.session.snapshot import Port
from ha_core.model import Identity, Mirror, Topic, UserBindings, View
from ha_core.model.mirror import COPY_LOG
from ha_core.model.topic import Deletion
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, PRODUCE, entry, fetch, produce
from tests.gateway.session.talk import CLUSTERS, EAST, Talk, snapshot, topology

ONE_EACH = topology(east={"easts": {0: 1}}, west={"wests": {0: 1}})
BINDINGS = [
    None,
    UserBindings(user="app"),
    *(UserBindings(user="app", cluster=cluster) for cluster in CLUSTERS),
    *(UserBindings(user="app", instances={"one": cluster}) for cluster in CLUSTERS),
    UserBindings(user="app", cluster="west", instances={"one": "east"}),
    UserBindings(user="app", topics={"easts": "west"}),
]


@pytest.mark.parametrize(("bindings", "cluster"), list(product(BINDINGS, CLUSTERS)))
@pytest.mark.parametrize("instance", ["", "one"])
@pytest.mark.parametrize("hint", [None, "easts", "nowhere"])
def test_if_every_topic_passes_each_single_one_passes(
    bindings: UserBindings | None, cluster: str, instance: str, hint: str | None
) -> None:
    view = View(1, CLUSTERS, {"app": bindings} if bindings else {})
    routes = Routes(snapshot(view, ONE_EACH), Identity("app", instance, hint), Port(cluster, 1))

    outcomes = [routes.topic(name) for name in (b"easts", b"wests", b"nowhere")]

    if routes.plain:
        assert [(route.no_produce, route.no_fetch, route.topic) for route in outcomes] == [(None, None, None)] * 3


DELETED = Topic(name="easts", deletion=Deletion(operation="delete-1", since="2026-01-01T00:00:00Z"))
MIRROR = Mirror.of("wests", "west", "east", "link", "2026-01-01T00:00:00Z", "test")
LOGS = Mirror.of("wests", "west", "east", "link", "2026-01-01T00:00:00Z", "test", log="notes")
WITH_A_COPY_LOG = topology(east={COPY_LOG: {0: 1}})


@pytest.mark.parametrize(
    ("topic", "view", "found"),
    [
        ("easts", View(1, CLUSTERS, topics={"easts": DELETED}), ONE_EACH),
        (COPY_LOG, View(1, CLUSTERS, mirrors={MIRROR.key: MIRROR}), ONE_EACH),
        (COPY_LOG, View(1, CLUSTERS), WITH_A_COPY_LOG),
        ("notes", View(1, CLUSTERS, mirrors={LOGS.key: LOGS}), ONE_EACH),
    ],
    ids=["being deleted", "a copy log", "a copy log without mirrors", "a copy log of another name"],
)
def test_a_concealed_topic_is_unknown_to_producers_and_readers(topic: str, view: View, found: Topology) -> None:
    talk = Talk(snapshot(view, found))

    talk.ask(PRODUCE, 9, produce((topic, 0, batch())))
    talk.ask(FETCH, 12, fetch((topic, 0, 0)))
    talk.wait(1.0)

    assert EAST not in talk.upstream
    assert [entry(answer)["error_code"] for answer in talk.answers()] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_a_topic_is_requested_from_its_users_bound_cluster_though_only_another_one_is_known_to_hold_it() -> None:
    # Given a user who is bound to the east, and another one with a binding, which makes the routes not plain
    bindings = UserBindings(user="anonymous", cluster="east", topics={"other": "west"})
    talk = Talk(snapshot(View(1, CLUSTERS, {"anonymous": bindings}), ONE_EACH))
    # When the first uses a topic that only the west is known to hold: it may just have been created in the east
    talk.ask(PRODUCE, 9, produce(("wests", 0, batch())))
    talk.ask(FETCH, 12, fetch(("wests", 0, 0)))
    # Then the broker decides, as without the other binding
    assert [asked.api_key for asked in talk.asked(EAST)] == [PRODUCE, FETCH]
