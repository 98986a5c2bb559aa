"""Rights of clients: denied elements have their error, the rest is forwarded, and nothing else is revealed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.rights import Denied
from gateway.session.commands import AuditDenial, Cause, Compose, Saw
from gateway.session.fetch.fetch_session import SESSION_ENDS
from gateway.session.lifecycle import Leaving, Over
from gateway.session.pending import Passed, Ready
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import Fence, Group, Topic, UserBindings
from ha_core.model.access import AccessRule, User, access_rule
from ha_core.plan.access.rights import Rights
from ha_core.wire import ApiKey, ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import (
    FETCH,
    LARGE,
    PRODUCE,
    fetch,
    fetched,
    half,
    moved,
    produce,
    produced,
    state,
)
from tests.gateway.session.talk import EAST, Talk

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def allow(resource_type: str, name: str, operation: str, effect: str = "allow", **more: str) -> AccessRule:
    said = {"principal": "User:anonymous", "resource_type": resource_type, "name": name, "operation": operation}
    return access_rule(said | {"effect": effect} | more)


def ruled(*rules: AccessRule, users: tuple[User, ...] = (), snapshot: Snapshot | None = None) -> Snapshot:
    return replace(snapshot or state(), rights=Rights(users, rules))


WRITES = allow("topic", "other", "write")
READS = allow("topic", "other", "read")


def outcomes(answer: dict[str, Any], partitions: str = "partition_responses") -> dict[str, int]:
    """Topic → the error of its first partition."""
    return {topic.get("name") or topic["topic"]: topic[partitions][0]["error_code"] for topic in answer["responses"]}


def audited(talk: Talk) -> list[Denied]:
    return [denied for command in talk.others if isinstance(command, AuditDenial) for denied in command.denied]


# -- produce ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [0, -1])
@pytest.mark.parametrize("fast", [False, True])
def test_the_rest_of_a_produce_is_not_written_after_its_right_was_revoked(acks: int, fast: bool) -> None:
    # Given a client in the middle of a produce
    talk = Talk(ruled(WRITES), fast=fast)
    if fast:  # treated like the one before
        talk.ask(PRODUCE, 9, produce(("other", 0, batch())))
        talk.answer(EAST, talk.asked(EAST)[0], produced(("other", 0, 0, 0)))
    rest = half(talk, ("other", 0, batch(payload=LARGE)), acks=acks)
    sent = bytes(talk.upstream[EAST])
    # When its right is revoked
    talk.follow(ruled(snapshot=state(revision=2)))
    # Then the broker gets no byte that was chosen after that
    talk.send(rest)
    assert talk.upstream[EAST] == sent
    assert isinstance(talk.session.context.life, Leaving | Over)
    assert talk.session.context.life.cause is Cause.RIGHT_LOST


def test_the_rest_of_a_produce_continues_when_other_rights_change() -> None:
    talk = Talk(ruled(WRITES))
    rest = half(talk, ("other", 0, batch(payload=LARGE)), acks=-1)
    talk.follow(ruled(WRITES, READS, snapshot=state(revision=2)))
    talk.send(rest)
    assert [request.topics for request in talk.asked(EAST)] == [["other"]]


def test_a_denied_topic_of_a_produce_has_its_error_and_the_rest_is_written() -> None:
    # Given
    talk = Talk(ruled(WRITES))
    # When
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("other", 0, batch())))
    (asked,) = talk.asked(EAST)
    talk.answer(EAST, asked, produced(("other", 0, 0, 7)))
    # Then
    assert [topic["name"] for topic in asked.body["topic_data"]] == ["other"]
    (answer,) = talk.answers()
    assert outcomes(answer) == {"orders": TOPIC_DENIED, "other": 0}
    assert audited(talk) == [Denied("WRITE", "TOPIC", "orders")]
    assert talk.session.context.shared.counts.refusals == {"denied": 1}


def test_a_topic_that_may_be_written_but_not_read_streams() -> None:
    # Given half a request of a producer that has no right to read
    talk = Talk(ruled(WRITES))
    # When
    rest = half(talk, ("other", 0, batch(payload=b"r" * 4000)), acks=1)
    # Then the half is with the broker, byte for byte
    assert talk.upstream[EAST]
    talk.send(rest)
    assert len(talk.asked(EAST)) == 1


def test_a_denied_produce_is_not_forwarded_though_only_half_of_it_has_come() -> None:
    talk = Talk(ruled(READS))

    rest = half(talk, ("other", 0, batch(payload=b"r" * 4000)), acks=1)
    talk.send(rest)

    assert not talk.upstream
    assert outcomes(talk.answers()[0]) == {"other": TOPIC_DENIED}


def test_a_denied_produce_without_an_answer_ends_the_connection_as_a_broker_does() -> None:
    talk = Talk(ruled())

    talk.ask(PRODUCE, 9, produce(("other", 0, batch()), acks=0))

    assert talk.closed is not None
    assert not talk.upstream


def test_a_batch_of_a_denied_transaction_is_not_written_even_by_users_who_may_write_its_topic() -> None:
    # Given a batch with the transactional flag
    record = bytearray(batch(producer_id=9, epoch=0, sequence=0))
    record[22] |= 0b1_0000
    talk = Talk(ruled(WRITES))
    # When
    talk.ask(PRODUCE, 9, produce(("other", 0, bytes(record))) | {"transactional_id": "till"})
    # Then
    assert outcomes(talk.answers()[0]) == {"other": ID_DENIED}
    assert audited(talk) == [Denied("WRITE", "TRANSACTIONAL_ID", "till")]


@pytest.mark.parametrize(
    "snapshot",
    [
        state(Topic(name="orders", fence=Fence(operation="op-1"))),
        state(moved()),
        replace(state(), unreadable=frozenset({"/topics/orders"})),
        replace(state(), fresh=False),
    ],
    ids=["fenced", "moved", "unreadable", "starting"],
)
def test_nothing_else_is_revealed_about_a_denied_topic(snapshot: Snapshot) -> None:
    # Given a topic about which users with the right would get some other error
    talk = Talk(ruled(snapshot=snapshot))
    # When
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.ask(FETCH, 12, fetch(("orders", 0, 5)))
    # Then the answers come at once, with equal words for all, and no use is reported
    wrote, read = talk.answers()
    assert outcomes(wrote) == outcomes(read, "partitions") == {"orders": TOPIC_DENIED}
    assert not [command for command in talk.others if isinstance(command, Saw)]


def test_denied_batches_hold_up_no_later_allowed_ones() -> None:
    # Given an idempotent producer whose first batch was denied
    talk = Talk(ruled())
    talk.ask(PRODUCE, 9, produce(("other", 0, batch(producer_id=(1 << 44) + 5, epoch=0, sequence=0))))
    # When it has got the right
    talk.follow(ruled(WRITES))
    talk.ask(PRODUCE, 9, produce(("other", 0, batch(producer_id=(1 << 44) + 5, epoch=0, sequence=1))))
    # Then
    assert len(talk.asked(EAST)) == 1


# -- fetch ------------------------------------------------------------------------------------------------------------


def test_a_denied_topic_of_a_fetch_has_its_error_and_the_rest_is_read_at_once() -> None:
    talk = Talk(ruled(READS))

    talk.ask(FETCH, 12, fetch(("orders", 0, 5), ("other", 0, 5)))
    (asked,) = talk.asked(EAST)
    talk.answer(EAST, asked, fetched(("other", 0, 9, b"")))

    assert asked.body["max_wait_ms"] == 0
    assert outcomes(talk.answers()[0], "partitions") == {"orders": TOPIC_DENIED, "other": 0}


def test_a_waiting_reader_is_answered_when_its_right_is_revoked() -> None:
    # Given two fetches of an open session, the second one waiting for records
    talk = Talk(ruled(READS))
    talk.ask(FETCH, 12, fetch(("other", 0, 5), session=(0, 0)))
    (first,) = talk.asked(EAST)
    talk.answer(EAST, first, fetched(("other", 0, 5, b""), session_id=77))
    talk.answers()
    talk.ask(FETCH, 12, fetch(session=(77, 1)))
    # When
    talk.follow(ruled())
    # Then the broker's late answer is dropped, and the session is over
    (told,) = talk.answers()
    assert told["error_code"] == SESSION_ENDS
    (waiting,) = talk.asked(EAST)
    talk.answer(EAST, waiting, fetched(("other", 0, 5, b"secret"), session_id=77))
    assert talk.answers() == []
    # And a retry is denied
    talk.ask(FETCH, 12, fetch(("other", 0, 5), session=(0, 0)))
    assert outcomes(talk.answers()[0], "partitions") == {"other": TOPIC_DENIED}


def test_a_fetch_session_does_not_outlive_the_right_to_a_topic_in_it() -> None:
    # Given a session with two topics, and nothing in flight
    talk = Talk(ruled(READS, allow("topic", "orders", "read")))
    talk.ask(FETCH, 12, fetch(("other", 0, 5), ("orders", 0, 5), session=(0, 0)))
    (first,) = talk.asked(EAST)
    talk.answer(EAST, first, fetched(("other", 0, 5, b""), session_id=77))
    talk.answers()
    # When the right to one is revoked, and the client continues without naming any
    talk.follow(ruled(READS))
    talk.ask(FETCH, 12, fetch(session=(77, 1)))
    # Then
    assert talk.answers()[0]["error_code"] == SESSION_ENDS
    assert not talk.asked(EAST)


def test_no_more_waiting_names_are_checked_at_a_change_of_rights_than_one_session_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.session.fetch.fetch_session.MAX_TOPICS", 100)
    everything = [allow("topic", "*", operation) for operation in ("read", "write")]
    # Given a client that waits for sixty topics with each of its fetches, and has written to another one
    talk = Talk(ruled(*everything))
    for number in range(3):
        talk.ask(FETCH, 12, fetch(*((f"topic-{number}-{each}", 0, 1) for each in range(60))))
    talk.ask(PRODUCE, 9, produce(("other", 0, batch())))
    # When another user is denied something
    talk.follow(ruled(*everything, allow("topic", "other", "read", "deny", principal="User:bob")))
    # Then the fetches beyond the limit are answered, and all others still wait
    assert [type(pending) for pending in talk.session.in_flight.queue] == [Passed, Ready, Ready, Passed]


def test_readers_continue_to_wait_when_other_rights_change() -> None:
    talk = Talk(ruled(READS))
    talk.ask(FETCH, 12, fetch(("other", 0, 5)))

    talk.follow(ruled(READS, allow("topic", "orders", "read")))

    assert talk.answers() == []


# -- coordinators -----------------------------------------------------------------------------------------------------

TILL = allow("group", "till", "read")
COMMIT = {
    "group_id": "till",
    "member_id": "",
    "topics": [
        {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]}
        for name in ("orders", "other")
    ],
}


def committed(answer: dict[str, Any]) -> dict[str, int]:
    return {topic["name"]: topic["partitions"][0]["error_code"] for topic in answer["topics"]}


def test_a_commit_is_forwarded_without_its_denied_part() -> None:
    # Given
    talk = Talk(ruled(READS, TILL))
    # When
    talk.ask(ApiKey.OFFSET_COMMIT, 8, COMMIT)
    (asked,) = talk.asked(EAST)
    told = {"topics": [{"name": "other", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    # Then an operation on the group waits for it, as for any other
    assert talk.session.holds_back(frozenset(), frozenset({b"till"}), since=9)
    talk.answer(EAST, asked, told)
    assert [topic["name"] for topic in asked.body["topics"]] == ["other"]
    assert committed(talk.answers()[0]) == {"orders": TOPIC_DENIED, "other": 0}


def test_a_commit_of_a_denied_group_is_denied_as_a_whole() -> None:
    talk = Talk(ruled(READS))

    talk.ask(ApiKey.OFFSET_COMMIT, 8, COMMIT)

    assert committed(talk.answers()[0]) == {"orders": GROUP_DENIED, "other": GROUP_DENIED}
    assert audited(talk) == [Denied("READ", "GROUP", "till")]


JOINS = {"group_id": "till", "session_timeout_ms": 1, "member_id": "m", "protocol_type": "", "protocols": []}
BEATS = {"group_id": "till", "generation_id": 1, "member_id": "m"}


@pytest.mark.parametrize(("key", "message"), [(ApiKey.JOIN_GROUP, JOINS), (ApiKey.HEARTBEAT, BEATS)])
def test_a_member_needs_only_its_group_and_is_forwarded_unchanged(key: ApiKey, message: dict[str, Any]) -> None:
    # Given a user who may read the group and one who may not, under any fence
    fenced = replace(state().view, groups={"till": Group(name="till", cluster="east", fence=Fence(operation="op"))})
    denied, allowed = Talk(ruled(snapshot=replace(state(), view=fenced))), Talk(ruled(TILL))
    # When
    for talk in (denied, allowed):
        talk.ask(key, 3, message)
    # Then
    assert denied.answers()[0]["error_code"] == GROUP_DENIED
    assert len(allowed.asked(EAST)) == 1


def test_all_offsets_of_a_group_are_returned_except_those_of_invisible_topics() -> None:
    # Given
    talk = Talk(ruled(READS, TILL))
    told = {
        "topics": [
            {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 5}]}
            for name in ("other", "orders")
        ]
    }
    # When
    talk.ask(ApiKey.OFFSET_FETCH, 7, {"group_id": "till", "topics": None})
    (asked,) = talk.asked(EAST)
    talk.answer(EAST, asked, told)
    # Then
    assert [topic["name"] for topic in talk.answers()[0]["topics"]] == ["other"]


PRODUCER = {"producer_id": (11 << 48) + 9, "producer_epoch": 0}
ADDS = {"transactional_id": "till", **PRODUCER, "topics": [{"name": n, "partitions": [0]} for n in ("orders", "other")]}


def test_one_denied_topic_keeps_a_transaction_from_adding_the_others() -> None:
    talk = Talk(ruled(WRITES, allow("transactional_id", "till", "write")))

    talk.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, ADDS)

    (answer,) = talk.answers()
    said = {
        topic["name"]: topic["results_by_partition"][0]["partition_error_code"] for topic in answer["results_by_topic"]
    }
    assert said == {"orders": TOPIC_DENIED, "other": ErrorCode.OPERATION_NOT_ATTEMPTED}
    assert not talk.upstream


@pytest.mark.parametrize(
    ("rules", "transactional_id", "code"),
    [
        ([], None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ([allow("cluster", "kafka-cluster", "idempotent_write")], None, 0),
        ([WRITES], None, 0),
        ([READS], None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ([WRITES, allow("topic", "*", "write", "deny")], None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ([WRITES], "till", ID_DENIED),
    ],
)
def test_a_producer_id_is_issued_only_to_users_who_may_write_something(
    rules: list[AccessRule], transactional_id: str | None, code: int
) -> None:
    talk = Talk(ruled(*rules))

    talk.ask(ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": transactional_id, "transaction_timeout_ms": 1000})

    assert talk.answers()[0]["error_code"] == code


# -- identity ---------------------------------------------------------------------------------------------------------


def test_a_client_id_that_names_another_user_grants_no_rights() -> None:
    # Given alice may write, and an anonymous client that claims to be alice, as an HA client id does
    talk = Talk(ruled(WRITES._replace(principal="User:alice")))
    # When
    talk.ask(PRODUCE, 9, produce(("other", 0, batch())), client_id="HA#alice#other")
    # Then
    assert outcomes(talk.answers()[0]) == {"other": TOPIC_DENIED}


@pytest.mark.parametrize(("address", "code"), [("10.0.0.1", None), ("10.0.0.2", TOPIC_DENIED)])
def test_a_rule_for_an_address_applies_to_clients_from_there(address: str, code: int | None) -> None:
    talk = Talk(ruled(allow("topic", "other", "write", host="10.0.0.1")), address=address)

    talk.ask(PRODUCE, 9, produce(("other", 0, batch())))

    assert bool(talk.upstream) is (code is None)


SUPER: list[Callable[[], Talk]] = [
    lambda: Talk(ruled(users=(User("anonymous", super_user=True),))),
    lambda: Talk(state()),
]


@pytest.mark.parametrize("made", SUPER, ids=["super user", "off"])
def test_nothing_is_looked_up_for_a_super_user_or_without_rules(made: Callable[[], Talk]) -> None:
    talk = made()

    talk.ask(PRODUCE, 9, produce(("other", 0, batch())))

    assert talk.session.client.routes("app").plain
    assert len(talk.asked(EAST)) == 1


def test_a_fence_on_a_denied_group_holds_no_answer_back() -> None:
    # Given a fenced group
    view = replace(state().view, groups={"till": Group(name="till", cluster="east", fence=Fence(operation="op"))})
    talk = Talk(ruled(snapshot=replace(state(), view=view)), Port())
    # When a user without the right asks for its coordinator
    talk.ask(ApiKey.FIND_COORDINATOR, 3, {"key": "till", "key_type": 0})
    # Then the delay of the answer, which a handler makes, does not reveal the fence
    (compose,) = [command for command in talk.others if isinstance(command, Compose)]
    talk.take(talk.session.answered(compose.token, {"error_code": int(GROUP_DENIED)}, talk.now))
    assert talk.answers()[0]["error_code"] == GROUP_DENIED


def test_a_bound_user_is_sent_elsewhere_only_with_a_right_to_the_topic() -> None:
    # Given a topic that is bound to another cluster
    known = state()
    bound = {"anonymous": UserBindings(user="anonymous", cluster="west")}
    talk = Talk(ruled(WRITES, snapshot=replace(known, view=replace(known.view, bindings=bound))))
    # When
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("other", 0, batch())))
    # Then
    assert outcomes(talk.answers()[0]) == {
        "orders": TOPIC_DENIED,
        "other": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
