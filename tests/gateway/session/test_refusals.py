"""Reasons for refusals: each has one name, in metrics and on the page for operators."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.session.commands import Cause
from gateway.session.produce.split import PROPOSED_HOLD_S
from gateway.session.refusal import Refusal
from gateway.session.snapshot import Port
from ha_core.model import Extent, Fence, Group, LastSequences, Mask, Topic, UserBindings
from ha_core.wire import APIS, ApiKey, ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import ADD_PARTITIONS, COMMIT, INIT, add, bound, commit
from tests.gateway.session.crossings import CUT, REFUSED, answers, outcome, plain, records, topic
from tests.gateway.session.messages import CLIENT_PID, FETCH, PRODUCE, entry, fetch, moved, produce, produced, state
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk

PAGE = Path(__file__).parents[3] / "docs/gateway.md"
FENCED = Topic(name="orders", fence=Fence(operation="op-1"))
DAMAGED = Topic(
    name="orders", writer="east", partitions={0: (Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0),)}
)


def counted(talk: Talk) -> dict[str, int]:
    return dict(talk.session.context.shared.counts.refusals)


def bound_elsewhere() -> Talk:
    known = state()
    bindings = {"anonymous": UserBindings(user="anonymous", cluster="west")}
    return Talk(replace(known, view=replace(known.view, bindings=bindings)))


def masked() -> Talk:
    known = state()
    east = CLUSTERS["east"].model_copy(update={"masked": Mask(since="t", by="me", reason="x")})
    return Talk(replace(known, view=replace(known.view, clusters=CLUSTERS | {"east": east})))


CASES: dict[str, Callable[[], Talk]] = {
    "fence": lambda: Talk(state(FENCED)),
    "lease": lambda: Talk(state(), lease=False),
    "starting": lambda: Talk(replace(state(), fresh=False)),
    "no_broker": lambda: Talk(state(), Port()),
    "masked": masked,
    "unreadable": lambda: Talk(replace(state(), unreadable=frozenset({"/topics/orders"}))),
    "elsewhere": bound_elsewhere,
}


@pytest.mark.parametrize("label", CASES)
def test_each_refused_partition_of_a_produce_is_counted_under_its_reason(label: str) -> None:
    talk = CASES[label]()

    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("orders", 1, batch())))
    talk.wait(1.0)

    assert counted(talk) == {label: 2}
    assert entry(talk.answers()[0])["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not talk.upstream


def test_refused_partitions_of_a_produce_are_counted_when_the_rest_is_forwarded() -> None:
    talk = Talk(state(FENCED))

    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("other", 0, batch())))

    assert counted(talk) == {"fence": 1}
    assert len(talk.asked(EAST)) == 1


def test_a_batch_that_waits_for_its_producers_earlier_one_has_a_reason_of_its_own() -> None:
    # Given the first of two batches was refused at a fence
    talk = Talk(state(FENCED))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=0))))
    # When the fence is lifted before the second one is read
    talk.follow(state(revision=2))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=1))))
    # Then each has its own reason
    assert counted(talk) == {"fence": 1, "order": 1}


def test_early_and_repeated_batches_after_a_cut_have_reasons_of_their_own() -> None:
    # Given a topic whose writer has just become the west, where the east had appended sequences up to 19
    last = LastSequences(name="orders", partitions={0: {CLIENT_PID: (0, 19)}}, terms={0: 1})
    talk = Talk(state(), Port("west", 1))
    talk.follow(state(moved(), sequences=last, revision=2))
    # When its producer retries a batch that the east has, and another one's second batch comes before its first
    again = batch(producer_id=CLIENT_PID, epoch=0, sequence=19)
    early = batch(producer_id=CLIENT_PID + 1, epoch=0, sequence=5)
    talk.ask(PRODUCE, 9, produce(("orders", 0, again)))
    talk.ask(PRODUCE, 9, produce(("orders", 0, early)))
    # Then each has its own reason
    assert counted(talk) == {"look_up": 1, "new_term": 1}


def test_a_record_at_an_undecided_cut_is_counted_when_it_is_finally_refused() -> None:
    # Given the origin has appended a record at a cut that is only proposed
    talk = Talk(state(topic("proposed")))
    talk.ask(PRODUCE, 9, plain(records(-1, producer_id=-1)))
    answers(talk, EAST, CUT)
    assert counted(talk) == {}
    # When the cut is not decided for too long
    talk.wait(PROPOSED_HOLD_S)
    # Then
    assert outcome(talk) == [(REFUSED, -1)]
    assert counted(talk) == {"crossing": 1}


def test_refused_partitions_of_a_fetch_are_counted_when_the_rest_is_read() -> None:
    # Given a reader at the old cluster's port of a topic that is bound to the other one, and of one that has moved
    known = state(moved())
    bindings = {"anonymous": UserBindings(user="anonymous", topics={"other": "west"})}
    talk = Talk(replace(known, view=replace(known.view, bindings=bindings)))
    # When it reads both
    talk.ask(FETCH, 12, fetch(("other", 0, 0), ("orders", 0, 5)))
    # Then one of them is counted
    assert counted(talk) == {"elsewhere": 1}
    assert len(talk.asked(EAST)) == 1


def test_a_map_without_a_writer_is_refused_to_writers_and_readers_and_ends_no_connection() -> None:
    talk = Talk(state(DAMAGED))

    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.ask(FETCH, 12, fetch(("orders", 0, 5)))

    assert counted(talk) == {"damaged": 2}
    assert talk.closed is None
    assert not talk.upstream


@pytest.mark.parametrize("port", [Port("east", 1), Port("west", 1)])
def test_a_crossing_without_an_origin_is_refused_to_writers_and_ends_no_connection(port: Port) -> None:
    # Given a topic in a crossing whose map has lost the origin's extent of one partition
    whole = topic().partitions[0]
    talk = Talk(state(topic().model_copy(update={"partitions": {0: whole[1:], 1: whole}})), port)

    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("orders", 1, batch())))

    # Then that partition is refused, and the other one is accepted by its writer
    written = [asked.body["topic_data"][0]["partition_data"] for asked in talk.asked(EAST)]
    assert [[one["index"] for one in some] for some in written] == ([[1]] if port.cluster == "east" else [])
    assert talk.closed is None
    assert counted(talk)["damaged"] == 1


def test_a_record_is_refused_and_ends_no_connection_when_its_map_is_damaged_during_a_crossing() -> None:
    # Given the origin has appended a record at a cut that is only proposed
    talk = Talk(state(topic("proposed")))
    talk.ask(PRODUCE, 9, plain(records(-1, producer_id=-1)))
    answers(talk, EAST, CUT)
    # When the map has no writer any more, for too long
    origin, target = topic().partitions[0]
    damaged = target.changed(end=CUT + 100)
    talk.follow(state(topic().model_copy(update={"partitions": {0: (origin, damaged)}}), revision=2))
    assert outcome(talk) == []
    talk.wait(PROPOSED_HOLD_S)
    # Then
    assert outcome(talk) == [(REFUSED, -1)]
    assert talk.closed is None


def test_requests_for_coordinators_are_counted_by_their_reason() -> None:
    fenced = Talk(bound("east", group=Group(name="billing", fence=Fence(operation="op-1"))))
    fenced.ask(COMMIT, 7, commit())
    assert counted(fenced) == {"fence": 1}

    elsewhere = Talk(bound("west"))
    elsewhere.ask(INIT, 4, {"transactional_id": "tx", "transaction_timeout_ms": 1})
    assert counted(elsewhere) == {"elsewhere": 1}

    foreign = Talk(bound("east"))
    foreign.ask(ADD_PARTITIONS, 3, add(12, "orders"))
    assert counted(foreign) == {"foreign_producer": 1}


def test_a_connection_that_ends_because_a_refusal_has_no_answer_has_the_reason() -> None:
    talk = Talk(state(FENCED))

    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=0))

    assert talk.closed == (Cause.REFUSED_WITHOUT_ANSWER, "produce with acks=0 was refused: an operation holds a fence")
    assert counted(talk) == {"fence": 1}


def test_duplicates_and_forwarded_batches_are_not_counted() -> None:
    talk = Talk(state(moved()), Port("west", 1))

    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.answer(WEST, talk.asked(WEST)[0], produced(("orders", 0, 0, 8)))

    assert counted(talk) == {}


def test_every_reason_has_its_own_label_and_a_line_on_the_page_for_operators() -> None:
    labels = [refusal.label for refusal in Refusal]

    assert len(set(labels)) == len(labels)
    assert [label for label in labels if f"| `{label}` |" not in PAGE.read_text()] == []


@pytest.mark.parametrize(
    ("refusal", "key", "code"),
    [
        (Refusal.FENCE, ApiKey.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Refusal.LEASE, ApiKey.JOIN_GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Refusal.ELSEWHERE, ApiKey.TXN_OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR),
        (Refusal.NO_PRODUCER_ID, ApiKey.INIT_PRODUCER_ID, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
    ids=lambda case: case.name,
)
def test_the_error_of_a_reason_is_one_that_clients_of_that_api_recover_from(
    refusal: Refusal, key: ApiKey, code: ErrorCode
) -> None:
    assert refusal.code(APIS[key]) is code


FENCED_GROUP = Group(name="billing", fence=Fence(operation="op-1"))


@pytest.mark.parametrize(
    ("key", "version", "body", "refused"),
    [
        (ApiKey.FIND_COORDINATOR, 3, {"key": "billing", "key_type": 0}, 1),
        (ApiKey.FIND_COORDINATOR, 3, {"key": "billing", "key_type": 1}, 0),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": ["billing", "other", "billing"]}, 1),
        (ApiKey.OFFSET_DELETE, 0, {"group_id": "billing", "topics": []}, 1),
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["billing"]}, 0),
    ],
    ids=lambda case: case.name if isinstance(case, ApiKey) else "",
)
def test_a_composed_answers_refusal_for_a_fence_is_counted_and_held_until_it_is_lifted(
    key: ApiKey, version: int, body: dict[str, Any], refused: int
) -> None:
    # Given a group under a fence
    talk = Talk(bound("east", group=FENCED_GROUP))
    # When it is named in a question that a fence refuses
    talk.ask(key, version, body)
    talk.composed(talk.questions[0], {})
    # Then it counts, and a client that retries at once does not do so in a loop
    assert counted(talk) == ({"fence": refused} if refused else {})
    assert len(talk.answers()) == 1 - refused
    # And the answer goes when the fence is lifted
    talk.follow(bound("east"))
    assert len(talk.answers()) == refused
