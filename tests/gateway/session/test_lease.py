"""No request is acknowledged that an operation may have passed by while the lease was lost."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from gateway.session.commands import AwaitLease, Cause
from gateway.session.lifecycle import Open
from gateway.session.pending import Passed
from gateway.session.snapshot import Lease, Port, Snapshot
from ha_core.model import UserBindings, View
from ha_core.model.producer import issued_id
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import COMMIT, END, commit
from tests.gateway.session.crossings import ask as cross
from tests.gateway.session.crossings import records
from tests.gateway.session.crossings import topic as crossing_topic
from tests.gateway.session.leasing import at, lose, regain
from tests.gateway.session.messages import FETCH, LARGE, PRODUCE, fetch, fetched, half, moved, produce, produced, state
from tests.gateway.session.talk import CLUSTERS, EAST, NODES, WEST, Talk, snapshot

WEST_PORT = Port("west", 1)
DELETE_GROUPS = 42


class Way(NamedTuple):
    """How a request gets its answer."""

    state: Snapshot
    port: Port
    ask: Callable[[Talk], None]
    answer: Callable[[Talk], None]


def _produce(talk: Talk) -> None:
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))


def _committed(talk: Talk) -> None:
    body = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    talk.answer(EAST, talk.asked(EAST)[0], body)


def _composed(talk: Talk) -> None:
    talk.composed(talk.questions[0], {"error_code": 0})


def _end(talk: Talk) -> None:
    body = {"transactional_id": "tx", "producer_id": issued_id(7, NODES.ids["east", 1]), "producer_epoch": 0}
    talk.ask(END, 3, {**body, "committed": True})


def _bound(cluster: str) -> Snapshot:
    bindings = {"anonymous": UserBindings(user="anonymous", cluster=cluster)}
    return snapshot(View(1, CLUSTERS, bindings), state().topology)


def _produced(node: Any) -> Callable[[Talk], None]:
    return lambda talk: talk.answer(node, talk.asked(node)[0], produced(("orders", 0, 0, 41)))


WAYS = {
    "a produce that is passed": Way(state(), Port("east", 1), _produce, _produced(EAST)),
    "a produce that is mapped": Way(state(moved()), WEST_PORT, _produce, _produced(WEST)),
    "a produce below a cut that lies ahead": Way(
        state(crossing_topic()), Port("east", 1), lambda talk: cross(talk, records(0)), _produced(EAST)
    ),
    "a commit of a group": Way(_bound("east"), Port("east", 1), lambda talk: talk.ask(COMMIT, 8, commit()), _committed),
    "the end of a transaction": Way(
        _bound("east"), Port("east", 1), _end, lambda talk: talk.answer(EAST, talk.asked(EAST)[0], {"error_code": 0})
    ),
    "the end of a transaction of another cluster": Way(_bound("west"), WEST_PORT, _end, _composed),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_request_in_flight_when_the_lease_was_lost_is_not_acknowledged_if_the_state_has_changed(name: str) -> None:
    # Given a request in flight
    way = WAYS[name]
    talk = Talk(way.state, way.port)
    way.ask(talk)
    # When the lease is lost, and the answer comes
    lose(talk)
    way.answer(talk)
    # Then the client gets no answer yet
    assert not talk.answers()
    assert talk.closed is None
    assert AwaitLease() in talk.others
    # And when the lease is regained after a change elsewhere, it never gets one: the outcome is unknown
    talk.follow(at(2, way.state))
    regain(talk)
    assert not talk.answers()
    assert talk.cause is Cause.LEASE_LOST


@pytest.mark.parametrize("name", WAYS)
def test_a_request_in_flight_when_the_lease_was_lost_is_acknowledged_if_nothing_was_published(name: str) -> None:
    # Given an answer that came while ZooKeeper was unavailable
    way = WAYS[name]
    talk = Talk(way.state, way.port)
    way.ask(talk)
    lose(talk)
    way.answer(talk)
    assert not talk.answers()
    # When the lease is regained, and the state is unchanged
    regain(talk)
    # Then no operation can have gone on without this gateway
    assert len(talk.answers()) == 1
    assert talk.closed is None


def test_an_answer_that_waits_for_another_is_sent_only_under_the_lease() -> None:
    # Given a group's request that is answered, queued after a read that is not
    talk = Talk(state())
    talk.ask(FETCH, 12, fetch(("orders", 0, 50)))
    talk.ask(DELETE_GROUPS, 2, {"groups_names": ["billing"]})
    deleted = {"results": [{"group_id": "billing", "error_code": 0}]}
    compose = talk.questions[0]
    talk.composed(compose, deleted)
    # When the lease is lost, and operations go on, before the read is answered
    lose(talk)
    talk.follow(at(2, state()))
    regain(talk)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, b"")))
    # Then the read is answered, and the other request is not
    assert len(talk.answers()) == 1
    assert talk.cause is Cause.LEASE_LOST


@pytest.mark.parametrize("acks", [0, -1])
def test_the_rest_of_a_request_is_not_forwarded_after_the_lease_was_lost(acks: int) -> None:
    # Given half of a request, a pause, and an operation meanwhile
    talk = Talk(state())
    rest = half(talk, ("orders", 0, batch(payload=LARGE)), acks=acks)
    sent = bytes(talk.upstream[EAST])
    lose(talk)
    # When its rest comes, before or after the lease is regained
    if acks:
        regain(talk)
        talk.follow(state(moved(), revision=2))
    talk.send(rest)
    # Then it is never complete, so never executed, and the client retries at the topic's present place
    assert talk.upstream[EAST] == sent
    assert not isinstance(talk.session.context.life, Open)
    assert talk.session.context.life.cause is Cause.LEASE_LOST


def test_half_of_an_answer_does_not_acknowledge() -> None:
    talk = Talk(state(), chunks=lambda data: [data[: len(data) // 2], data[len(data) // 2 :]])
    _produce(talk)
    (asked,) = talk.asked(EAST)
    talk.chunks = lambda data: [data[:9]]
    talk.answer(EAST, asked, produced(("orders", 0, 0, 41)))
    given = bytes(talk.to_client)
    lose(talk)
    buf = bytearray(b"\0" * 20)
    talk.take(talk.session.receive_upstream(EAST, buf, len(buf), talk.now))
    assert talk.to_client == given
    assert talk.session.upstreams[EAST].blocked


def test_requests_in_flight_of_a_client_that_left_are_read_without_a_lease() -> None:
    talk = Talk(state())
    _produce(talk)
    talk.take(talk.session.client_left(talk.now))
    lose(talk)
    _produced(EAST)(talk)
    assert talk.closed is not None
    assert not any(isinstance(pending, Passed) for pending in talk.session.in_flight.queue)


@pytest.mark.parametrize(("asked_at", "generation"), [(12.9, 1), (13.1, 2)])
def test_a_lease_changes_if_it_did_not_cover_the_time_between(asked_at: float, generation: int) -> None:
    # Given a lease that ran until 13
    lease = Lease()
    lease.renew(10.0, 3.0)
    assert lease.generation == 1
    assert lease.holds(12.9)
    # When ZooKeeper's next answer comes late: the time of the question counts
    assert not lease.holds(14.0)
    lease.renew(asked_at, 3.0)
    assert lease.generation == generation
    assert lease.holds(14.0)


def test_a_lease_whose_session_ended_is_lost_at_once_and_comes_back_as_another() -> None:
    lease = Lease()
    lease.renew(10.0, 3.0)
    lease.revoke()
    assert not lease.holds(10.1)
    lease.renew(10.2, 3.0)
    assert lease.generation == 2


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (19, 4, {"topics": [], "timeout_ms": 1000, "validate_only": False}),
        (20, 4, {"topic_names": ["orders"], "timeout_ms": 1000}),
        (21, 1, {"topics": [], "timeout_ms": 1000}),
        (DELETE_GROUPS, 1, {"groups_names": ["billing"]}),
    ],
    ids=["create topics", "delete topics", "delete records", "delete groups"],
)
def test_without_the_lease_no_topic_or_group_is_changed_by_a_possibly_old_map(
    api_key: int, version: int, body: dict[str, Any]
) -> None:
    talk = Talk(state(), lease=False)

    talk.ask(api_key, version, body)

    assert not talk.questions
    assert talk.cause is Cause.LEASE_LOST


def test_without_the_lease_clients_still_get_metadata() -> None:
    talk = Talk(state(), lease=False)

    talk.ask(3, 4, {"topics": [{"name": "orders"}], "allow_auto_topic_creation": False})

    assert talk.questions
