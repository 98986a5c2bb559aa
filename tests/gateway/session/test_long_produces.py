"""Produce requests of very many partitions: judged and sent part by part, in the order of their connection."""

import weakref
from dataclasses import replace
from typing import Any

from gateway.session.commands import AuditDenial, BrokerLane, Cause
from gateway.session.produce.judgement import entries
from gateway.session.produce.long import PARTITIONS_OF_A_PART, LongProduce
from gateway.session.request import Request
from gateway.session.snapshot import Snapshot
from ha_core.model import Fence, Topic
from ha_core.model.access import AccessRule, access_rule
from ha_core.plan.access.rights import Rights
from ha_core.wire import ErrorCode, WireLimits, encode, encode_request, read_request_header
from ha_core.wire.limits import PARTITIONS_AT_ONCE
from tests.gateway.session.batch import batch
from tests.gateway.session.crossings import BASE, CUT, TARGET_LANE, topic
from tests.gateway.session.messages import CLIENT_PID, PRODUCE, moved, produce, produced, state
from tests.gateway.session.talk import EAST, Asked, Talk

MANY = PARTITIONS_AT_ONCE + 150
PARTS = -(-MANY // PARTITIONS_OF_A_PART)
TAKEN, LOOK_ANEW, DENIED = 0, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
VERSION = 9
Named = tuple[str, int, bytes | None]


def one_of(topic_resource: str, name: str) -> AccessRule:
    whose = {"principal": "User:anonymous", "operation": "all", "effect": "allow"}
    return access_rule({**whose, "resource_type": topic_resource, "name": name})


def may(*rules: AccessRule, seen: Snapshot | None = None) -> Snapshot:
    return replace(seen or state(), rights=Rights((), rules))


def written(count: int = MANY, sequence: int = 0) -> list[Named]:
    data = batch(producer_id=CLIENT_PID, epoch=0, sequence=sequence)
    return [("other", number, data) for number in range(count)]


def taken_by(talk: Talk, lane: BrokerLane, offset: int = 5, error: int = 0) -> list[int]:
    """Answers a broker's requests one after the other. Returns how many partitions each had."""
    counts = []
    while asked := talk.asked(lane):
        for one in asked:
            named = partitions(one)
            counts.append(len(named))
            talk.answer(lane, one, produced(*((name, number, error, offset) for name, number in named)))
    return counts


def partitions(asked: Asked) -> list[tuple[str, int]]:
    return [(one["name"], part["index"]) for one in asked.body["topic_data"] for part in one["partition_data"]]


def said(answer: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    return [(key[0].decode(), key[1], entry["error_code"], entry["base_offset"]) for key, entry in entries(answer)]


def ask(talk: Talk, named: list[Named], acks: int = -1, transactional_id: str | None = None) -> None:
    body = produce(*named, acks=acks) | {"transactional_id": transactional_id}
    talk.ask(PRODUCE, VERSION, body)


def test_a_produce_at_the_limit_of_partitions_is_sent_in_one_request() -> None:
    talk = Talk(state())
    ask(talk, written(PARTITIONS_AT_ONCE))
    assert taken_by(talk, EAST) == [PARTITIONS_AT_ONCE]


def test_a_longer_produce_is_sent_part_by_part_and_gets_one_answer() -> None:
    talk = Talk(state())
    ask(talk, written())
    # Then the broker gets the parts one after the other
    assert taken_by(talk, EAST) == [PARTITIONS_OF_A_PART] * (PARTS - 1) + [MANY - (PARTS - 1) * PARTITIONS_OF_A_PART]
    (answer,) = talk.answers()
    assert said(answer) == [("other", number, TAKEN, 5) for number in range(MANY)]
    assert len(answer["responses"]) == 1
    assert talk.session.context.shared.held.bytes == 0


def test_the_records_of_a_long_produce_arrive_as_they_were_sent() -> None:
    talk = Talk(state())
    named: list[Named] = [("other", n, batch(producer_id=CLIENT_PID, epoch=0, sequence=n)) for n in range(MANY)]
    ask(talk, named)
    came: list[Named] = []
    while asked := talk.asked(EAST):
        (one,) = asked
        assert (one.body["acks"], one.body["timeout_ms"], one.body["transactional_id"]) == (-1, 1000, None)
        came += [("other", part["index"], part["records"]) for part in one.body["topic_data"][0]["partition_data"]]
        talk.answer(EAST, one, produced(*((name, number, 0, 5) for name, number in partitions(one))))
    assert came == named


def test_a_long_produce_keeps_no_bytes_of_its_request_while_the_broker_answers_the_last_part() -> None:
    class Frame(bytearray):
        """A bytearray that can be referenced weakly."""

    frame = Frame(encode_request(PRODUCE, VERSION, 1, "app", encode(PRODUCE, VERSION, "request", produce(*written()))))
    header = read_request_header(frame, 4, len(frame))
    assert header is not None
    request = Request(header, frame, 0, len(frame), WireLimits())
    long, kept = LongProduce(request), weakref.ref(frame)
    request.forget()
    del frame

    for left in reversed(range(PARTS)):
        long.next_part()
        assert (kept() is not None) == (left > 0)


def test_a_long_produce_to_denied_topics_is_judged_over_several_turns() -> None:
    talk = Talk(may(one_of("topic", "own")))
    talk.works_later = True
    ask(talk, [*((f"other-{number}", 0, None) for number in range(MANY)), ("own", 0, None)])
    turns = 0
    while talk.works:
        refused = talk.session.context.shared.counts.refusals["denied"]
        talk.work()
        assert talk.session.context.shared.counts.refusals["denied"] - refused <= PARTITIONS_OF_A_PART
        turns += 1
        if turns == 2:  # the request was decoded, and its first part was judged
            assert talk.session.context.shared.counts.refusals["denied"] == PARTITIONS_OF_A_PART
        taken_by(talk, EAST)
    (answer,) = talk.answers()
    assert said(answer) == [*((f"other-{number}", 0, DENIED, -1) for number in range(MANY)), ("own", 0, TAKEN, 5)]
    # And the audit log gets it once
    assert len([one for one in talk.others if isinstance(one, AuditDenial)]) == 1


def test_the_next_request_after_a_long_produce_is_sent_after_its_last_part() -> None:
    talk = Talk(state())
    both = produce(*written()), produce(*written(1, sequence=1))
    talk.versions += [(number, PRODUCE, VERSION) for number in (1, 2)]
    frames = [
        encode_request(PRODUCE, VERSION, n, "app", encode(PRODUCE, VERSION, "request", b))
        for n, b in ((1, both[0]), (2, both[1]))
    ]
    talk.send(b"".join(frames))
    assert talk.session.paused
    order = []
    while asked := talk.asked(EAST):
        for one in asked:
            order.append(one.correlation_id)
            talk.answer(EAST, one, produced(*((name, number, 0, 5) for name, number in partitions(one))))
    assert order == [1] * PARTS + [2]
    assert [len(said(answer)) for answer in talk.answers()] == [MANY, 1]


def test_an_operation_waits_for_the_sent_parts_of_a_long_produce_and_the_rest_is_refused() -> None:
    # Given a long produce whose first part was sent
    talk = Talk(state())
    ask(talk, written())
    (first,) = talk.asked(EAST)
    # When the topic is fenced
    talk.follow(state(Topic(name="other", fence=Fence(operation="op-1")), revision=2))
    # Then the operation waits for that part
    assert talk.session.holds_back(frozenset({b"other"}), frozenset(), 2)
    talk.answer(EAST, first, produced(*((name, number, 0, 5) for name, number in partitions(first))))
    # And the rest is never sent
    assert not talk.asked(EAST)
    (answer,) = talk.answers()
    errors = [error for _, _, error, _ in said(answer)]
    assert errors == [TAKEN] * PARTITIONS_OF_A_PART + [LOOK_ANEW] * (MANY - PARTITIONS_OF_A_PART)
    assert not talk.session.holds_back(frozenset({b"other"}), frozenset(), 2)
    # And the refused batches must come again before later ones
    ask(talk, written(PARTITIONS_OF_A_PART + 1, sequence=1)[-1:])
    talk.wait(1)
    talk.follow(state(revision=3))
    ask(talk, written(PARTITIONS_OF_A_PART + 1, sequence=1)[-1:])
    assert not talk.asked(EAST)


def test_no_further_part_of_a_long_produce_is_sent_after_the_lease_is_lost() -> None:
    talk = Talk(state())
    ask(talk, written())
    (first,) = talk.asked(EAST)
    talk.lease.revoke()
    talk.answer(EAST, first, produced(*((name, number, 0, 5) for name, number in partitions(first))))
    assert not talk.asked(EAST)
    assert not talk.answers()  # the gateway acknowledges no write without a lease


def test_a_long_produce_with_acks_0_ends_its_connection_if_a_partition_is_refused() -> None:
    talk = Talk(may(one_of("topic", "other")))
    ask(talk, [*written(), ("denied", 0, None)], acks=0)
    asked = talk.asked(EAST)
    assert asked[0].body["acks"] == 1  # with 0 the broker could not report errors
    talk.answer(EAST, asked[0], produced(*((name, number, 0, 5) for name, number in partitions(asked[0]))))
    taken_by(talk, EAST)
    assert not talk.answers()
    assert talk.cause is Cause.REFUSED_WITHOUT_ANSWER


def test_a_long_produce_with_acks_0_gets_no_answer_and_its_connection_continues() -> None:
    talk = Talk(state())
    ask(talk, written(), acks=0)
    assert sum(taken_by(talk, EAST)) == MANY
    assert not talk.answers()
    assert talk.closed is None
    ask(talk, written(1, sequence=1))
    assert taken_by(talk, EAST) == [1]
    assert len(talk.answers()) == 1


def test_a_partition_that_two_parts_of_a_long_produce_would_repeat_is_refused_and_the_others_are_written() -> None:
    # Given a long produce whose end names a partition of its beginning again
    talk = Talk(state())
    ask(talk, [*written(), ("other", 7, batch(producer_id=CLIENT_PID, epoch=0, sequence=1))])
    # Then the broker gets all others, and neither batch of that partition
    assert sum(taken_by(talk, EAST)) == MANY - 1
    # And the client gets one answer for each partition
    (answer,) = talk.answers()
    invalid = int(ErrorCode.INVALID_REQUEST)
    assert said(answer) == [("other", n, invalid, -1) if n == 7 else ("other", n, TAKEN, 5) for n in range(MANY)]
    assert talk.closed is None


def test_no_part_of_a_long_produce_is_sent_if_its_end_is_malformed() -> None:
    talk = Talk(state())
    ask(talk, [*written(), ("other", MANY, b"short")])
    assert not talk.asked(EAST)
    assert talk.cause is Cause.MALFORMED
    assert "without exactly one complete batch" in talk.why
    assert talk.session.context.shared.held.bytes == 0


def test_a_long_produce_is_written_across_a_cut_ahead_and_to_the_port_elsewhere() -> None:
    # Given a long produce with a topic in a crossing in its first part only
    talk = Talk(state(topic()))
    record = batch(producer_id=CLIENT_PID, epoch=0, sequence=0)
    ask(talk, [("orders", 0, record), *written()])
    (first,) = talk.asked(EAST)
    outcomes = [(name, number, 0, CUT if name == "orders" else 5) for name, number in partitions(first)]
    talk.answer(EAST, first, produced(*outcomes))
    # When the origin has appended its batch at the cut
    (across,) = talk.asked(TARGET_LANE)
    assert partitions(across) == [("orders", 0)]
    assert not talk.asked(EAST)
    # And the state changes while the next part is made
    talk.works_later = True
    talk.answer(TARGET_LANE, across, produced(("orders", 0, 0, BASE + 3)))
    talk.follow(state(topic(), revision=2))
    talk.works_later = False
    talk.work()
    # Then the other parts are sent
    taken_by(talk, EAST)
    (answer,) = talk.answers()
    assert said(answer)[0] == ("orders", 0, TAKEN, CUT + 3)
    assert [one[2:] for one in said(answer)[1:]] == [(TAKEN, 5)] * MANY


def test_a_long_produce_to_a_moved_topic_is_answered_in_client_offsets() -> None:
    seen = state(moved(100, 0))
    talk = Talk(seen)
    ask(talk, [*written(), ("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=0))])
    taken_by(talk, EAST)
    talk.wait(1)
    (answer,) = talk.answers()
    assert said(answer)[-1] == ("orders", 0, LOOK_ANEW, -1)  # it was moved to west
    assert {one[2] for one in said(answer)[:-1]} == {TAKEN}


def test_a_long_produce_with_a_denied_transactional_id_is_refused_and_audited_once() -> None:
    talk = Talk(may(one_of("topic", "other")))
    data = batch(producer_id=CLIENT_PID, epoch=0, sequence=0)
    in_transaction = bytearray(data)
    in_transaction[22] |= 0b1_0000
    ask(talk, [("other", number, bytes(in_transaction)) for number in range(MANY)], transactional_id="tx")
    assert not talk.asked(EAST)
    talk.wait(1)
    (answer,) = talk.answers()
    assert {one[2] for one in said(answer)} == {int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)}
    assert len([one for one in talk.others if isinstance(one, AuditDenial)]) == 1


def test_all_parts_of_a_long_produce_are_sent_after_its_client_disconnects() -> None:
    talk = Talk(state())
    ask(talk, written())
    talk.take(talk.session.client_left(talk.now))
    assert sum(taken_by(talk, EAST)) == MANY
    assert talk.cause is Cause.CLIENT_LEFT


def test_a_long_produce_is_judged_although_it_matches_a_cached_pattern() -> None:
    # Given the cached pattern of a short produce, and its lease
    talk = Talk(state())
    ask(talk, written(2))
    taken_by(talk, EAST)
    assert talk.session.decisions.newest_first
    # When a produce of very many partitions matches it
    talk.works_later = True
    ask(talk, written(sequence=1))
    # Then a worker thread decodes it
    assert len(talk.works) == 1
    assert not talk.asked(EAST)


def test_all_unsent_parts_of_a_long_produce_are_refused_when_an_operation_fences_one_of_its_topics() -> None:
    # Given a long produce to two topics whose first part was sent
    talk = Talk(state())
    ask(talk, [*written(), ("orders", 0, None)])
    (first,) = talk.asked(EAST)
    # When the topic of its last partition is fenced
    talk.follow(state(Topic(name="orders", fence=Fence(operation="op-1")), revision=2))
    talk.answer(EAST, first, produced(*((name, number, 0, 5) for name, number in partitions(first))))
    # Then the operation waits only for that one answer
    assert not talk.asked(EAST)
    assert not talk.session.holds_back(frozenset({b"orders"}), frozenset(), 2)
    (answer,) = talk.answers()
    assert [one[2] for one in said(answer)].count(TAKEN) == PARTITIONS_OF_A_PART
    # And each partition of a produce that comes while the fence stands is judged separately
    ask(talk, [*written(sequence=1), ("orders", 0, None)])
    assert sum(taken_by(talk, EAST)) > 0
