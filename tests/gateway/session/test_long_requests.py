"""Requests with many elements are decoded, judged and answered off the event loop, in their order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.model import rights as judging
from gateway.session import rights
from gateway.session.auth_state import Authenticated
from gateway.session.commands import AuditDenial, Cause
from gateway.session.fetch import handle
from gateway.session.snapshot import Port, Snapshot
from ha_core.model.access import AccessRule, access_rule
from ha_core.plan.access.rights import Rights
from ha_core.wire import ApiKey, ErrorCode
from ha_core.wire.limits import FEW
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import (
    ADD_PARTITIONS,
    COMMIT,
    EASTS,
    HEARTBEAT,
    OFFSETS,
    TXN_COMMIT,
    bound,
    errors,
    heartbeat,
    request,
)
from tests.gateway.session.crossings import BASE, CUT
from tests.gateway.session.messages import FETCH, fetch, fetched, moved, state
from tests.gateway.session.talk import EAST, WEST, Talk, snapshot, topology

MANY = FEW + 100
TOPIC_DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def all_of(resource_type: str, name: str) -> AccessRule:
    whose = {"principal": "User:anonymous", "operation": "all", "effect": "allow"}
    return access_rule({**whose, "resource_type": resource_type, "name": name})


GROUP, TRANSACTION, OWN = all_of("group", "billing"), all_of("transactional_id", "tx"), all_of("topic", "own")


def known(*rules: AccessRule) -> Snapshot:
    """The group and the transactional id are the client's, and topics by these rules."""
    led = bound("east")
    leaders = {"orders": {0: 1}, "own": {0: 1}, "__consumer_offsets": {0: 1}}
    seen = snapshot(led.view, topology(east=leaders))
    return replace(seen, rights=Rights((), (GROUP, TRANSACTION, *rules)))


def commit(names: list[str]) -> dict[str, Any]:
    offset = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [offset]} for name in names]
    return {"group_id": "billing", "generation_id_or_member_epoch": 4, "member_id": "m-1", "topics": topics}


def offsets(names: list[str]) -> dict[str, Any]:
    return {"group_id": "billing", "topics": [{"name": name, "partition_indexes": [0]} for name in names]}


def txn_commit(names: list[str]) -> dict[str, Any]:
    of_producer = {"transactional_id": "tx", "producer_id": EASTS, "producer_epoch": 0}
    topics = commit(names)["topics"]
    return {"group_id": "billing", "generation_id": 4, "member_id": "m-1", "topics": topics, **of_producer}


def add(names: list[str]) -> dict[str, Any]:
    topics = [{"name": name, "partitions": [0]} for name in names]
    return {"transactional_id": "tx", "producer_id": EASTS, "producer_epoch": 0, "topics": topics}


Made = Callable[[list[str]], dict[str, Any]]
REQUESTS = pytest.mark.parametrize(
    ("api_key", "version", "made"),
    [(COMMIT, 7, commit), (OFFSETS, 5, offsets), (TXN_COMMIT, 3, txn_commit), (ADD_PARTITIONS, 1, add)],
    ids=["OFFSET_COMMIT", "OFFSET_FETCH", "TXN_OFFSET_COMMIT", "ADD_PARTITIONS_TO_TXN"],
)


def others(count: int) -> list[str]:
    return [f"other-{number}" for number in range(count)]


def never(*_: object) -> None:
    raise AssertionError("this is for the thread beside the event loop")


@REQUESTS
def test_a_long_request_is_judged_and_answered_off_the_loop_like_a_short_one_on_it(
    api_key: int, version: int, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given the answer to a short request for denied topics
    talk = Talk(known())
    talk.ask(api_key, version, made(others(3)))
    (short,) = talk.answers()
    # When a request names very many
    talk.works_later = True
    with monkeypatch.context() as patched:
        patched.setattr(rights, "Gate", never)
        patched.setattr(judging.Gate, "__init__", never)
        talk.ask(api_key, version, made(others(MANY)))
    # Then the loop has neither judged nor answered it
    assert len(talk.works) == 1
    talk.work()  # decoded and judged
    assert not talk.answers()
    talk.work()  # answered
    (long,) = talk.answers()
    assert errors(long) == errors(short)[: len(errors(short)) - 3] + MANY * [TOPIC_DENIED]
    assert long.keys() == short.keys()
    told = [command for command in talk.others if isinstance(command, AuditDenial)]
    assert [len(one.denied) for one in told] == [3, judging.MAX_TOLD]


@pytest.mark.parametrize(
    ("api_key", "version", "made"), [(COMMIT, 7, commit), (OFFSETS, 5, offsets), (TXN_COMMIT, 3, txn_commit)]
)
def test_the_allowed_part_of_a_long_request_is_forwarded_and_the_rest_is_refused(
    api_key: int, version: int, made: Made
) -> None:
    talk = Talk(known(OWN))
    asked = talk.forwarded(api_key, version, made([*others(MANY), "own"]), to=EAST)
    assert [topic["name"] for topic in asked.body["topics"]] == ["own"]
    assert asked.body.get("producer_id", 7) == 7
    talk.answer(EAST, asked, answered())
    (answer,) = talk.answers()
    assert errors(answer).count(TOPIC_DENIED) == MANY
    assert {*errors(answer)} == {0, TOPIC_DENIED}


def answered() -> dict[str, Any]:
    """A broker's answer about the topic `own`."""
    partition = {"partition_index": 0, "error_code": 0}
    return {"topics": [{"name": "own", "partitions": [partition]}]}


def test_a_request_after_a_long_one_is_answered_after_it() -> None:
    talk = Talk(known())
    talk.works_later = True
    both = [(COMMIT, 7, 1, commit(others(MANY))), (HEARTBEAT, 3, 2, heartbeat())]
    talk.versions += [(number, api_key, version) for api_key, version, number, _ in both]
    talk.send(b"".join(request(api_key, version, number, **body) for api_key, version, number, body in both))
    # Then the second one is not examined, and nothing more is read from the client
    assert talk.session.paused
    assert not talk.asked(EAST)
    assert talk.session.partial is None
    talk.work()
    talk.work()
    talk.broker_answers(EAST, {"error_code": 0})
    first, second = talk.answers()
    assert ("topics" in first, second["error_code"]) == (True, 0)


def test_a_long_request_whose_rights_change_while_it_is_judged_is_judged_again() -> None:
    talk = Talk(known(all_of("topic", "*")))
    talk.works_later = True
    talk.ask(COMMIT, 7, commit(others(MANY)))
    # When all of its topics are denied meanwhile
    talk.follow(known())
    talk.work()
    # Then none of it is forwarded, and it is judged again
    assert not talk.asked(EAST)
    talk.works_later = False
    talk.work()
    (answer,) = talk.answers()
    assert errors(answer) == MANY * [TOPIC_DENIED]
    assert not talk.asked(EAST)


def test_a_long_request_that_is_encoded_when_the_lease_is_lost_is_refused() -> None:
    talk = Talk(known(OWN))
    talk.works_later = True
    talk.ask(COMMIT, 7, commit([*others(MANY), "own"]))
    talk.work()  # decoded and judged
    talk.lease.revoke()
    talk.work()  # encoded
    assert not talk.asked(EAST)
    talk.works_later = False
    talk.work()
    talk.wait(10)
    (answer,) = talk.answers()
    assert TOPIC_DENIED in errors(answer)
    assert 0 not in errors(answer)


def test_a_fence_waits_for_a_long_request_that_is_being_encoded() -> None:
    talk = Talk(known(OWN))
    talk.works_later = True
    talk.ask(COMMIT, 7, commit([*others(MANY), "own"]))
    talk.work()  # decoded and judged
    assert talk.session.holds_back(frozenset(), frozenset({b"billing"}), 2)


def test_a_long_request_without_rules_is_forwarded_without_being_decoded() -> None:
    led = bound("east")
    talk = Talk(snapshot(led.view, topology(east={"__consumer_offsets": {0: 1}})))
    talk.works_later = True
    talk.ask(COMMIT, 7, commit(others(MANY)))
    assert not talk.works
    assert len(talk.asked(EAST)) == 1


def test_a_long_request_of_a_session_that_is_leaving_is_dropped() -> None:
    talk = Talk(known())
    talk.works_later = True
    talk.ask(COMMIT, 7, commit(others(MANY)))
    talk.take(talk.session.leave(Cause.SHUTDOWN, "", talk.now))
    talk.work()
    assert not talk.works
    assert not talk.answers()


@pytest.mark.parametrize(
    ("rules", "done"),
    [((), 0), ((), 1), ((OWN,), 1)],
    ids=["decoding", "encoding its answer", "encoding the allowed part"],
)
def test_a_long_request_that_fails_ends_its_connection_after_the_answers_before_it(
    rules: tuple[AccessRule, ...], done: int
) -> None:
    # Given a heartbeat in flight, and after it a long request
    talk = Talk(known(*rules))
    talk.works_later = True
    talk.ask(HEARTBEAT, 3, heartbeat())
    talk.ask(COMMIT, 7, commit([*others(MANY), "own"]))
    for _ in range(done):
        talk.work()
    # When its offloaded work fails
    (failed,) = talk.works
    talk.take(talk.session.unanswerable(failed.token, Cause.FAULT, "damaged", talk.now))
    assert talk.closed is None
    assert talk.session.context.shared.held.bytes == 0
    # Then the earlier one is answered first
    talk.broker_answers(EAST, {"error_code": 0})
    assert [answer["error_code"] for answer in talk.answers()] == [0]
    assert talk.cause is Cause.FAULT
    assert not talk.session.holds_back(frozenset(), frozenset({b"billing"}), 2)


def test_a_long_request_that_is_decoded_only_after_its_login_expired_is_not_executed() -> None:
    talk = Talk(known())
    talk.works_later = True
    talk.session.client.auth_state = Authenticated("alice", "PLAIN", talk.now + 10)
    talk.ask(COMMIT, 7, commit(others(MANY)))
    talk.now += 11
    talk.work()
    assert not talk.asked(EAST)
    assert not talk.answers()
    assert talk.cause is Cause.SESSION_EXPIRED


def test_a_long_request_without_room_ends_its_connection() -> None:
    talk = Talk(known(), max_held=100)
    talk.ask(COMMIT, 7, commit(others(MANY)))
    assert talk.cause is Cause.HELD_TOO_MUCH


def test_held_bytes_of_a_long_request_are_released_once_it_was_judged() -> None:
    talk = Talk(known())
    talk.ask(COMMIT, 7, commit(others(MANY)))
    assert talk.session.context.shared.held.bytes == 0


def test_a_composed_request_with_many_elements_is_decoded_off_the_loop_however_short_it_is() -> None:
    talk = Talk(known())
    names = [{"name": f"t{number}", "partition_indexes": [0]} for number in range(MANY)]
    talk.ask(ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": names})
    (compose,) = talk.questions
    assert isinstance(compose.request, bytes)


# -- fetches ----------------------------------------------------------------------------------------------------------


def reads(names: list[str], at: int = 5, session: tuple[int, int] = (0, 0)) -> dict[str, Any]:
    return fetch(*((name, 0, at) for name in names), session=session)


def test_a_long_fetch_of_denied_topics_is_answered_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(known())
    talk.works_later = True
    with monkeypatch.context() as patched:
        patched.setattr(handle, "FetchPlan", never)
        patched.setattr(handle, "merge", never)
        talk.ask(FETCH, 12, reads(others(MANY)))
        talk_judged(talk)
    assert not talk.answers()
    talk.work()
    talk.wait(10)
    (answer,) = talk.answers()
    assert errors(answer) == [0, *MANY * [TOPIC_DENIED]]
    assert talk.session.context.shared.counts.refusals == {"denied": MANY}


def talk_judged(talk: Talk) -> None:
    """Judges the only request, as the worker thread does."""
    assert len(talk.works) == 1
    talk.work()


def test_a_long_fetch_of_allowed_topics_begins_a_session_with_its_broker() -> None:
    talk = Talk(known(all_of("topic", "*")))
    asked = talk.forwarded(FETCH, 12, reads(others(MANY)), to=EAST)
    assert len(asked.body["topics"]) == MANY
    assert talk.session.fetching.fetch_session is not None
    talk.answer(EAST, asked, fetched(("other-1", 0, 6, batch(5)), session_id=9))
    assert talk.answers()[0]["session_id"] == 9
    # And the next fetch names nothing, and is forwarded without offloaded work
    talk.works_later = True
    talk.ask(FETCH, 12, reads([], session=(9, 1)))
    assert len(talk.asked(EAST)) == 1
    assert not talk.works


def lagging() -> dict[str, Any]:
    """A fetch of many topics of the port's cluster, and of one whose reader is below its cut."""
    return reads([*others(MANY), "orders"], at=CUT - 1, session=(0, -1))


def test_a_long_fetch_with_a_moved_topic_is_read_in_both_clusters_and_merged_off_the_loop() -> None:
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1))
    talk.ask(FETCH, 12, lagging())
    ((east,), (west,)) = talk.asked(EAST), talk.asked(WEST)
    assert (east.partition["fetch_offset"], len(west.body["topics"])) == (CUT - 1, MANY)
    talk.answer(EAST, east, fetched(("orders", 0, CUT + 2, batch(CUT - 1))))
    talk.works_later = True
    talk.answer(WEST, west, fetched(("other-1", 0, CUT, batch(CUT - 1))))
    assert len(talk.works) == 1
    talk.works_later = False
    talk.work()
    (answer,) = talk.answers()
    given = {response["topic"]: response["partitions"][0] for response in answer["responses"]}
    assert len(given) == MANY + 1
    assert given["orders"]["records"]
    assert given["other-1"]["records"]


@pytest.mark.parametrize(("topic", "beside"), [("orders", 1), ("other", 0)], ids=["moved", "never moved"])
def test_a_fetch_of_many_partitions_of_one_moved_topic_is_planned_off_the_loop(topic: str, beside: int) -> None:
    extents = moved(CUT, BASE).partitions[0]
    everything = moved(CUT, BASE).changed(partitions=dict.fromkeys(range(MANY), extents))
    talk = Talk(state(everything), Port("west", 1))
    talk.works_later = True
    body = fetch((topic, 0, CUT - 1))
    (entry,) = body["topics"][0]["partitions"]
    body["topics"][0]["partitions"] = [entry | {"partition": number} for number in range(MANY)]

    talk.ask(FETCH, 12, body)

    assert len(talk.works) == beside


def test_a_long_fetchs_records_are_merged_again_when_the_map_changes_meanwhile() -> None:
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1))
    talk.ask(FETCH, 12, lagging())
    ((east,), (west,)) = talk.asked(EAST), talk.asked(WEST)
    talk.answer(EAST, east, fetched(("orders", 0, CUT + 2, batch(CUT - 1))))
    talk.works_later = True
    talk.answer(WEST, west, fetched(("other-1", 0, CUT, batch(CUT - 1))))
    # When the extent that was read has other offsets by the time the answer was merged
    orders = moved(CUT, BASE)
    old, new = orders.partitions[0]
    shifted = orders.model_copy(update={"partitions": {0: (old.changed(start=1, base=0), new)}})
    talk.follow(state(shifted, revision=2))
    talk.works_later = False
    talk.work()
    (answer,) = talk.answers()
    given = {response["topic"]: response["partitions"][0] for response in answer["responses"]}
    assert given["orders"]["records"] == b""


def test_a_long_fetch_is_planned_again_when_the_map_changes_meanwhile() -> None:
    talk = Talk(state(), Port("west", 1))
    talk.works_later = True
    talk.ask(FETCH, 12, lagging())
    talk.follow(state(moved(CUT, BASE), revision=2))
    talk.work()
    assert not talk.asked(WEST)
    talk.works_later = False
    talk.work()
    assert len(talk.asked(EAST)) == 1
