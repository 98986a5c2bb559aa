"""Requests that a fence refuses are counted for their user, each once."""

from collections.abc import Mapping

from ha_core.model import ANONYMOUS, Fence, Group, Topic, UserBindings, View
from ha_core.model.gateway import FenceCost
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import COMMIT, HEARTBEAT, commit, heartbeat
from tests.gateway.session.messages import CLIENT_PID, PRODUCE, produce, state
from tests.gateway.session.talk import CLUSTERS, Talk, snapshot, topology

FENCED = Topic(name="orders", fence=Fence(operation="op-1"))


def costs(talk: Talk) -> Mapping[str, FenceCost]:
    return talk.session.context.shared.counts.fences.report(talk.now)


def test_each_refused_produce_request_counts_for_its_user_and_none_after_the_fence() -> None:
    # Given a fence
    talk = Talk(state(FENCED))
    talk.session.context.shared.counts.fences.follow({"op-1"}, talk.now)
    # When two requests are refused, and the fence is lifted a quarter of a second later
    for sequence in (5, 6):
        talk.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=sequence))))
    talk.wait(0.25)
    talk.session.context.shared.counts.fences.follow(set(), talk.now)
    talk.follow(state(revision=2))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=5))))
    # Then both count, and the user has waited from the first of them on
    assert costs(talk) == {"op-1": FenceCost(refused=2, users={ANONYMOUS: (2, 250.0)})}


def test_a_refused_request_without_a_login_counts_for_the_user_that_its_client_id_names() -> None:
    talk = Talk(state(FENCED))
    talk.session.context.shared.counts.fences.follow({"op-1"}, talk.now)

    sent = produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=5)))
    talk.ask(PRODUCE, 9, sent, client_id="HA#ann#orders")

    assert [*costs(talk)["op-1"].users] == ["ann"]


def test_a_request_to_a_topic_without_a_fence_costs_nothing() -> None:
    talk = Talk(state(FENCED))
    talk.session.context.shared.counts.fences.follow({"op-1"}, talk.now)

    talk.ask(PRODUCE, 9, produce(("other", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=0))))

    assert costs(talk) == {"op-1": FenceCost()}


def test_a_commit_of_a_fenced_group_counts_and_a_heartbeat_that_is_answered_does_not() -> None:
    fenced = Group(name="billing", fence=Fence(operation="op-1"))
    bound = UserBindings(user=ANONYMOUS, cluster="east")
    view = View(1, clusters=CLUSTERS, groups={fenced.name: fenced}, bindings={ANONYMOUS: bound})
    talk = Talk(snapshot(view, topology()))
    talk.session.context.shared.counts.fences.follow({"op-1"}, talk.now)

    talk.ask(HEARTBEAT, 3, heartbeat())
    talk.ask(COMMIT, 7, commit())

    assert {operation: cost.refused for operation, cost in costs(talk).items()} == {"op-1": 1}
