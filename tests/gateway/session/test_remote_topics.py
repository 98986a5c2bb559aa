"""Remote topics in a session: clients read them, and only their flow writes them."""

from dataclasses import replace

import pytest

from gateway.model.remote_topics import RemoteTopicIndex
from gateway.model.rights import Denied
from gateway.model.topology import ClusterTopology, Topology
from gateway.session.commands import AuditDenial, Cause
from gateway.session.lifecycle import Leaving, Over
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import FlowId, RemoteTopicPortion, View
from ha_core.model.access import AccessRule, access_rule
from ha_core.plan.access.rights import Rights
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import ADD_PARTITIONS, EASTS, add
from tests.gateway.session.messages import FETCH, LARGE, PRODUCE, fetch, fetched, half, produce, produced
from tests.gateway.session.talk import APIS, CLUSTERS, EAST, WEST, Talk, snapshot

TOPICS = {"A.orders": {0: 1}, "orders": {0: 1}, "other": {0: 1}}
FLOW = RemoteTopicPortion.of(FlowId("A->B", "north-id", "east-id"), 0, {"A.orders": "orders"})
WHY = "A.orders is a remote topic: only flow A->B writes it, and its source is orders."
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def copied(*documents: RemoteTopicPortion, revision: int = 1, rules: tuple[AccessRule, ...] | None = None) -> Snapshot:
    """East and west have these topics each, and tell their ids."""
    found = Topology(
        {
            name: ClusterTopology(name, True, {1: ("h", 1)}, TOPICS, APIS, "", cluster_id=f"{name}-id")
            for name in CLUSTERS
        }
    )
    view = View(revision, CLUSTERS, remote_topics={document.key: document for document in documents})
    rights = None if rules is None else Rights((), rules)
    return replace(snapshot(view, found), remote_topics=RemoteTopicIndex(documents), rights=rights)


def allow(name: str, operation: str) -> AccessRule:
    said = {"principal": "User:anonymous", "resource_type": "topic", "name": name, "operation": operation}
    return access_rule({**said, "effect": "allow"})


def audited(talk: Talk) -> list[Denied]:
    return [denied for command in talk.others if isinstance(command, AuditDenial) for denied in command.denied]


@pytest.mark.parametrize("fast", [False, True])
def test_produce_to_a_remote_topic_is_refused_permanently_and_other_topics_are_written(fast: bool) -> None:
    # Given
    talk = Talk(copied(FLOW), fast=fast)
    # When
    talk.ask(PRODUCE, 9, produce(("A.orders", 0, batch()), ("other", 0, batch())))
    talk.broker_answers(EAST, produced(("other", 0, 0, 7)))
    # Then
    (answer,) = talk.answers()
    codes = {topic["name"]: topic["partition_responses"][0]["error_code"] for topic in answer["responses"]}
    assert codes == {"A.orders": DENIED, "other": 0}
    assert talk.session.context.shared.counts.refusals == {"remote_topic": 1}
    assert audited(talk) == [Denied("WRITE", "TOPIC", "A.orders", WHY)]


def test_a_topic_of_the_same_name_in_a_cluster_without_the_flow_can_be_written() -> None:
    talk = Talk(copied(FLOW), Port("west", 1))

    assert talk.forwarded(PRODUCE, 9, produce(("A.orders", 0, batch())), to=WEST).topics == ["A.orders"]


def test_a_remote_topic_is_read_like_any_other() -> None:
    talk = Talk(copied(FLOW))

    request = talk.forwarded(FETCH, 12, fetch(("A.orders", 0, 3)), to=EAST)
    talk.answer(EAST, request, fetched(("A.orders", 0, 3, b"")))

    assert talk.answers()[0]["responses"][0]["partitions"][0]["high_watermark"] == 3


def test_a_reader_of_the_source_reads_its_copy_and_other_users_do_not() -> None:
    codes = {}
    for topic in ("orders", "other"):
        talk = Talk(copied(FLOW, rules=(allow(topic, "read"),)))
        talk.ask(FETCH, 12, fetch(("A.orders", 0, 3)))
        codes[topic] = [request.body["topics"][0]["topic"] for request in talk.asked(EAST)] or talk.answers()

    assert codes["orders"] == ["A.orders"]
    ((denied,),) = [answer["responses"] for answer in codes["other"]]
    assert denied["partitions"][0]["error_code"] == DENIED


def test_a_transaction_gets_no_partition_of_a_remote_topic() -> None:
    # Given
    talk = Talk(copied(FLOW))
    # When
    talk.ask(ADD_PARTITIONS, 3, add(EASTS, "A.orders", "other"))
    # Then
    assert not talk.asked(EAST)
    (answer,) = talk.answers()
    codes = {
        topic["name"]: topic["results_by_partition"][0]["partition_error_code"] for topic in answer["results_by_topic"]
    }
    assert codes == {"A.orders": DENIED, "other": ErrorCode.OPERATION_NOT_ATTEMPTED}
    assert audited(talk) == [Denied("WRITE", "TOPIC", "A.orders", WHY)]


def test_a_split_produce_is_not_completed_after_its_topic_became_remote() -> None:
    # Given
    talk = Talk(copied())
    rest = half(talk, ("A.orders", 0, batch(payload=LARGE)), acks=-1)
    sent = bytes(talk.upstream[EAST])
    # When
    talk.follow(copied(FLOW, revision=2))
    talk.send(rest)
    # Then
    assert talk.upstream[EAST] == sent
    assert isinstance(talk.session.context.life, Leaving | Over)
    assert talk.session.context.life.cause is Cause.RIGHT_LOST


def test_clients_may_write_again_once_the_flows_claim_has_ended() -> None:
    # Given
    talk = Talk(copied(FLOW))
    talk.ask(PRODUCE, 9, produce(("A.orders", 0, batch())))
    assert not talk.asked(EAST)
    talk.answers()
    # When
    talk.follow(copied(revision=2))
    # Then
    assert talk.forwarded(PRODUCE, 9, produce(("A.orders", 0, batch())), to=EAST).topics == ["A.orders"]


def test_clients_of_a_cluster_without_flows_pay_nothing_for_remote_topics() -> None:
    talk = Talk(copied(FLOW), Port("west", 1))

    assert talk.session.client.verdicts is None
    assert talk.session.client.routes("app").plain


def test_rights_to_remote_topics_are_the_same_object_until_they_change() -> None:
    state = copied(FLOW)
    talk = Talk(state)
    before = talk.session.client.verdicts

    talk.follow(replace(state, still_read_here={}))
    assert talk.session.client.verdicts is before

    talk.follow(copied(FLOW, revision=2))
    assert talk.session.client.verdicts is not before
