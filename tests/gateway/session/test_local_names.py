"""Clients that are bound to a flow's target see its remote topics under the names of their sources."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.remote_topics import RemoteTopicIndex
from gateway.model.rights import Denied
from gateway.model.topology import ClusterTopology, Topology
from gateway.session.commands import AuditDenial, Saw
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import FlowId, RemoteTopicPortion, Topic, UserBindings, View
from ha_core.model.access import AccessRule, access_rule
from ha_core.plan.access.rights import Rights
from ha_core.wire import ApiKey, ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import ADD_PARTITIONS, COMMIT, OFFSETS, TXN_COMMIT, WESTS, add, commit
from tests.gateway.session.messages import FETCH, PRODUCE, fetch, fetched, moved, produce, produced
from tests.gateway.session.talk import APIS, CLUSTERS, EAST, WEST, Talk, snapshot

FLOW = RemoteTopicPortion.of(FlowId("A->B", "east-id", "west-id"), 0, {"A.orders": "orders", "A.paid": "paid"})
EAST_HAS = {"orders": {0: 1}, "paid": {0: 1}, "later": {0: 1}, "__consumer_offsets": {0: 1}}
WEST_HAS = {"A.orders": {0: 1}, "A.paid": {0: 1}, "orders": {0: 1}, "other": {0: 1}, "__consumer_offsets": {0: 1}}
HERE = Port("west", 1)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_WRITTEN = (
    "orders is A.orders to this client, and only flow A->B writes it. Write a topic of west's own as a user without "
    "local names."
)


def named(
    *topics: Topic,
    alias: str | None = "A",
    revision: int = 1,
    rules: tuple[AccessRule, ...] | None = None,
    flows: tuple[RemoteTopicPortion, ...] = (FLOW,),
    **levels: Any,
) -> Snapshot:
    """East is A, west is B, and has an `orders` of its own, too."""
    has = {"east": EAST_HAS, "west": WEST_HAS}
    found = Topology(
        {
            name: ClusterTopology(name, True, {1: ("h", 1)}, has[name], APIS, "", cluster_id=f"{name}-id")
            for name in CLUSTERS
        }
    )
    user = UserBindings(user="anonymous", local_names=alias, **({"cluster": "west"} | levels))
    view = View(
        revision,
        CLUSTERS,
        {"anonymous": user},
        {topic.name: topic for topic in topics},
        remote_topics={flow.key: flow for flow in flows},
    )
    rights = None if rules is None else Rights((), rules)
    return replace(snapshot(view, found), remote_topics=RemoteTopicIndex(flows), rights=rights)


def allow(name: str, operation: str, kind: str = "topic") -> AccessRule:
    said = {"principal": "User:anonymous", "resource_type": kind, "name": name, "operation": operation}
    return access_rule({**said, "effect": "allow"})


def audited(talk: Talk) -> list[Denied]:
    return [denied for command in talk.others if isinstance(command, AuditDenial) for denied in command.denied]


def codes(answer: dict[str, Any]) -> dict[str, int]:
    return {topic["topic"]: topic["partitions"][0]["error_code"] for topic in answer["responses"]}


def asked_topics(talk: Talk) -> list[str]:
    (request,) = talk.asked(WEST)
    return [topic.get("topic") or topic["name"] for topic in request.body["topics"]]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_remote_topic_is_read_under_its_local_name(fast: bool, version: int) -> None:
    talk = Talk(named(), HERE, fast=fast)
    for offset in (3, 4, 5):
        request = talk.forwarded(FETCH, version, fetch(("orders", 0, offset), ("other", 0, 1)), to=WEST)
        assert [topic["topic"] for topic in request.body["topics"]] == ["A.orders", "other"]
        talk.answer(WEST, request, fetched(("A.orders", 0, offset + 1, batch()), ("other", 0, 2, b"")))
        (answer,) = talk.answers()
        assert [topic["topic"] for topic in answer["responses"]] == ["orders", "other"]
        assert answer["responses"][0]["partitions"][0]["high_watermark"] == offset + 1
        assert answer["responses"][0]["partitions"][0]["records"] == batch()


def test_uses_are_reported_of_the_remote_topic() -> None:
    talk = Talk(named(), HERE)
    talk.ask(FETCH, 12, fetch(("orders", 0, 3)))

    assert [command.name for command in talk.others if isinstance(command, Saw)] == ["A.orders"]


def test_no_fetch_session_has_a_remote_topic_under_its_local_name() -> None:
    # Given a session with another topic
    talk = Talk(named(), HERE)
    request = talk.forwarded(FETCH, 12, fetch(("other", 0, 3), session=(0, 0)), to=WEST)
    talk.answer(WEST, request, fetched(("other", 0, 3, b""), session_id=7))
    assert talk.answers()[0]["session_id"] == 7
    # When
    talk.ask(FETCH, 12, fetch(("orders", 0, 3), session=(7, 1)))
    # Then the client names everything, and gets no session
    (ended,) = talk.answers()
    assert ended["error_code"] == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 3), ("other", 0, 3), session=(7, 0)), to=WEST)
    assert (request.body["session_id"], request.body["session_epoch"]) == (0, -1)
    talk.answer(WEST, request, fetched(("A.orders", 0, 3, b""), ("other", 0, 3, b"")))
    assert talk.answers()[0]["session_id"] == 0


def test_a_fetch_session_ends_when_one_of_its_topics_gets_another_meaning() -> None:
    # Given a session of west's own topic
    talk = Talk(named(alias=None), HERE)
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 3), session=(0, 0)), to=WEST)
    assert request.body["topics"][0]["topic"] == "orders"
    talk.answer(WEST, request, fetched(("orders", 0, 3, b""), session_id=7))
    talk.answers()
    # When
    talk.follow(named(revision=2))
    talk.ask(FETCH, 12, fetch(session=(7, 1)))
    # Then
    assert not talk.asked(WEST)
    assert talk.answers()[0]["error_code"] == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_long_fetch_reads_under_local_names() -> None:
    many = {f"t{number}": {0: 1} for number in range(1_200)}
    state = named()
    west = replace(state.topology.clusters["west"], topics=WEST_HAS | many)
    talk = Talk(replace(state, topology=Topology({**state.topology.clusters, "west": west})), HERE)
    request = talk.forwarded(FETCH, 12, fetch(("orders", 0, 3), *((name, 0, 0) for name in many)), to=WEST)
    assert request.body["topics"][0]["topic"] == "A.orders"

    talk.answer(WEST, request, fetched(("A.orders", 0, 3, batch()), *((name, 0, 0, b"") for name in many)))

    (answer,) = talk.answers()
    assert {topic["topic"] for topic in answer["responses"]} == {"orders", *many}


def test_a_port_of_the_source_sends_readers_to_the_copy() -> None:
    talk = Talk(named())
    talk.ask(FETCH, 12, fetch(("orders", 0, 3)))

    assert not talk.asked(EAST)
    assert codes(talk.answers()[0]) == {"orders": ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_topic_that_the_flow_does_not_copy_yet_is_not_read_at_its_source() -> None:
    talk = Talk(named())
    talk.ask(FETCH, 12, fetch(("later", 0, 3)))

    assert not talk.asked(EAST)
    assert codes(talk.answers()[0]) == {"later": ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_the_remote_topic_has_no_second_name() -> None:
    talk = Talk(named(), HERE)
    talk.ask(FETCH, 12, fetch(("A.orders", 0, 3)))

    assert not talk.asked(WEST)
    assert codes(talk.answers()[0]) == {"A.orders": DENIED}
    assert audited(talk) == [
        Denied("READ", "TOPIC", "A.orders", "A.orders is shown to this client as orders: use that name.")
    ]


@pytest.mark.parametrize("fast", [False, True])
def test_a_produce_is_refused_for_good_and_says_why(fast: bool) -> None:
    talk = Talk(named(), HERE, fast=fast)
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("other", 0, batch())))
    talk.broker_answers(WEST, produced(("other", 0, 0, 7)))

    (answer,) = talk.answers()
    found = {topic["name"]: topic["partition_responses"][0]["error_code"] for topic in answer["responses"]}
    assert found == {"orders": DENIED, "other": 0}
    assert audited(talk) == [Denied("WRITE", "TOPIC", "orders", NOT_WRITTEN)]


def test_a_transaction_gets_no_partition_under_a_local_name() -> None:
    talk = Talk(named(), HERE)
    talk.ask(ADD_PARTITIONS, 3, add(WESTS, "orders", "other"))

    assert not talk.asked(WEST)
    (answer,) = talk.answers()
    assert {
        topic["name"]: topic["results_by_partition"][0]["partition_error_code"] for topic in answer["results_by_topic"]
    } == {"orders": DENIED, "other": ErrorCode.OPERATION_NOT_ATTEMPTED}


def test_offsets_are_committed_for_the_remote_topic() -> None:
    talk = Talk(named(), HERE)
    request = talk.forwarded(COMMIT, 7, commit(), to=WEST)
    assert [topic["name"] for topic in request.body["topics"]] == ["A.orders"]

    talk.answer(
        WEST, request, {"topics": [{"name": "A.orders", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    )

    assert [topic["name"] for topic in talk.answers()[0]["topics"]] == ["orders"]


def test_a_commit_that_is_refused_names_the_clients_topics() -> None:
    talk = Talk(named(), HERE, lease=False)
    talk.ask(COMMIT, 7, commit())

    assert [topic["name"] for topic in talk.answers()[0]["topics"]] == ["orders"]


def test_offsets_are_committed_in_a_transaction_for_the_remote_topic() -> None:
    talk = Talk(named(), HERE)
    body = {
        **{name: value for name, value in commit().items() if name != "generation_id_or_member_epoch"},
        **{"transactional_id": "tx", "producer_id": WESTS, "producer_epoch": 0, "generation_id": 4},
    }
    request = talk.forwarded(TXN_COMMIT, 3, body, to=WEST)
    assert [topic["name"] for topic in request.body["topics"]] == ["A.orders"]

    talk.answer(
        WEST, request, {"topics": [{"name": "A.orders", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    )

    assert [topic["name"] for topic in talk.answers()[0]["topics"]] == ["orders"]


def committed(**offsets: int) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": name,
                "partitions": [{"partition_index": 0, "committed_offset": offset, "metadata": "", "error_code": 0}],
            }
            for name, offset in offsets.items()
        ],
        "error_code": 0,
    }


def offsets_in(answer: dict[str, Any]) -> dict[str, int]:
    return {topic["name"]: topic["partitions"][0]["committed_offset"] for topic in answer["topics"]}


def test_translated_offsets_are_found_under_the_local_name() -> None:
    talk = Talk(named(), HERE)
    wanted = {"group_id": "billing", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    request = talk.forwarded(OFFSETS, 7, wanted, to=WEST)
    assert [topic["name"] for topic in request.body["topics"]] == ["A.orders"]

    talk.answer(WEST, request, committed(**{"A.orders": 37}))

    assert offsets_in(talk.answers()[0]) == {"orders": 37}


def test_all_offsets_of_a_group_are_told_without_those_of_the_topic_that_is_not_shown() -> None:
    talk = Talk(named(), HERE)
    request = talk.forwarded(OFFSETS, 7, {"group_id": "billing", "topics": None}, to=WEST)

    talk.answer(WEST, request, committed(**{"A.orders": 37, "orders": 5, "other": 1}))

    assert offsets_in(talk.answers()[0]) == {"orders": 37, "other": 1}


def test_an_offset_of_the_source_is_not_taken_for_one_of_the_copy() -> None:
    # Given a group that only the source's cluster knows
    talk = Talk(named(), HERE)
    wanted = {"group_id": "billing", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    talk.answer(WEST, talk.forwarded(OFFSETS, 7, wanted, to=WEST), committed(**{"A.orders": -1}))
    dead = {"group_id": "billing", "group_state": "Dead", "protocol_type": "", "protocol_data": "", "members": []}
    talk.broker_answers(WEST, {"groups": [dead | {"error_code": 0}]})
    # When
    (asked,) = talk.asked(EAST)
    talk.answer(EAST, asked, committed(**{"A.orders": -1}))
    # Then
    assert [topic["name"] for topic in asked.body["topics"]] == ["A.orders"]
    assert offsets_in(talk.answers()[0]) == {"orders": -1}


def test_readers_of_the_source_may_read_its_copy_under_either_rule_and_others_may_not() -> None:
    found = {}
    for rule in ("orders", "A.orders", "other"):
        talk = Talk(named(rules=(allow(rule, "read"),)), HERE)
        talk.ask(FETCH, 12, fetch(("orders", 0, 3)))
        found[rule] = [request.body["topics"][0]["topic"] for request in talk.asked(WEST)] or codes(talk.answers()[0])

    assert found == {"orders": ["A.orders"], "A.orders": ["A.orders"], "other": {"orders": DENIED}}


def test_a_client_that_may_not_read_the_copy_does_not_learn_of_it() -> None:
    talk = Talk(named(rules=(allow("other", "read"),)), HERE)
    talk.ask(FETCH, 12, fetch(("A.orders", 0, 3)))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))

    assert {denied.why for denied in audited(talk)} == {""}


def test_a_moved_topic_keeps_its_name() -> None:
    talk = Talk(named(moved()), HERE)

    assert talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST).body["topics"][0]["topic"] == "orders"


def test_a_topic_with_a_binding_of_its_own_keeps_its_name() -> None:
    talk = Talk(named(topics={"orders": "west"}), HERE)

    assert talk.forwarded(FETCH, 12, fetch(("orders", 0, 3)), to=WEST).body["topics"][0]["topic"] == "orders"


def test_an_instance_in_the_source_reads_the_source() -> None:
    talk = Talk(named(instances={"app": "east"}))

    assert talk.forwarded(FETCH, 12, fetch(("orders", 0, 3)), to=EAST).body["topics"][0]["topic"] == "orders"


def test_a_topic_that_its_flow_has_released_has_no_local_name() -> None:
    talk = Talk(named(), HERE)
    talk.follow(named(revision=2, flows=()))

    assert talk.forwarded(FETCH, 12, fetch(("A.orders", 0, 3)), to=WEST).body["topics"][0]["topic"] == "A.orders"


def test_other_users_of_the_cluster_see_remote_topics_by_their_own_names() -> None:
    talk = Talk(named(alias=None), HERE)

    assert talk.session.client.routes("app").names is None
    assert talk.forwarded(FETCH, 12, fetch(("orders", 0, 3)), to=WEST).body["topics"][0]["topic"] == "orders"


def test_rights_by_local_names_are_the_same_object_until_something_of_them_changes() -> None:
    state = named()
    talk = Talk(state, HERE)
    before = talk.session.client.routes("app").verdicts
    talk.follow(replace(state, still_read_here={}))
    assert talk.session.client.routes("app").verdicts is before

    talk.follow(named(revision=2))
    assert talk.session.client.routes("app").verdicts is not before


def test_groups_are_judged_as_without_local_names() -> None:
    talk = Talk(named(rules=(allow("billing", "read", "group"), allow("orders", "read"))), HERE)

    assert talk.forwarded(COMMIT, 7, commit(), to=WEST).api_key == ApiKey.OFFSET_COMMIT
