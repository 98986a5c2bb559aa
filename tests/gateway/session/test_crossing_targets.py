"""Batches that cross a cut while the target's leader is unknown or changes: the gateway looks for it, unseen by
clients.

A part of a batch that straddles the cut is read in the origin already: if it were refused, it would come a second time.
"""

from dataclasses import replace

from gateway.session.commands import Refresh
from gateway.session.produce.split import PROPOSED_HOLD_S
from tests.gateway.session.crossings import (
    BASE,
    CUT,
    REFUSED,
    SCOPE,
    TAKEN,
    TARGET_LANE,
    answer,
    answers,
    arrived,
    cut_at,
    outcome,
    plain,
    records,
    takes,
    told,
    topic,
)
from tests.gateway.session.messages import PRODUCE, produce, produced, state
from tests.gateway.session.talk import EAST, Talk, topology


def test_an_unknown_leader_of_the_target_is_awaited() -> None:
    # Given a topic that was just created in the target
    unknown = topology(east={"orders": {0: 1}})
    talk = Talk(replace(state(topic()), topology=unknown))
    talk.ask(PRODUCE, 9, plain(records(-1, 10, producer_id=-1)))
    assert takes(talk, EAST, 95) == []
    assert Refresh() in talk.others
    # When the gateway has found its leader
    talk.follow(replace(talk.session.context.snapshot, topology=state().topology))
    ((write, batch),) = arrived(talk, TARGET_LANE)
    assert batch.records_count == 10
    assert told(talk, TARGET_LANE, write, BASE) == [(TAKEN, CUT)]


def test_a_batch_whose_target_is_never_found_is_finally_refused() -> None:
    talk = Talk(replace(state(topic()), topology=topology(east={"orders": {0: 1}})))
    talk.ask(PRODUCE, 9, plain(records(0)))
    answers(talk, EAST, CUT)
    for _ in range(int(PROPOSED_HOLD_S / 0.25) - 1):
        assert outcome(talk) == []
    assert outcome(talk) == [(REFUSED, -1)]


def test_a_changed_leader_of_the_target_is_hidden_from_the_client_and_the_next_batch_waits() -> None:
    talk = Talk(state(topic()))
    for sequence in (0, 10):
        talk.ask(PRODUCE, 9, plain(records(sequence, 10)))
    for (asked, _), offset in zip(arrived(talk, EAST), (95, 105), strict=True):
        answer(talk, EAST, asked, offset)
    answers(talk, TARGET_LANE, -1, REFUSED)
    assert not talk.asked(TARGET_LANE)
    assert not talk.session.holds_back(*SCOPE, 1)
    # When it was looked up again, and found
    talk.follow(replace(talk.session.context.snapshot, topology=topology(west={"orders": {0: 2}})))
    assert outcome(talk) == []
    second = TARGET_LANE._replace(broker=2)
    for sequence, count, offset in ((0, 10, BASE), (10, 10, BASE + 10)):
        ((write, batch),) = arrived(talk, second)
        assert (batch.base_sequence, batch.records_count) == (sequence, count)
        answer(talk, second, write, offset)
    assert outcome(talk) == [(TAKEN, CUT), (TAKEN, CUT + 10)]
    assert not talk.asked(TARGET_LANE)


def test_a_batch_that_one_target_has_appended_is_not_resent_with_one_that_another_refused() -> None:
    talk = Talk(state(topic(), cut_at(CUT, "open", name="other")))
    talk.ask(PRODUCE, 9, {**produce(("orders", 0, records(0)), ("other", 0, records(0))), "timeout_ms": 30_000})
    (asked,) = talk.asked(EAST)
    talk.answer(EAST, asked, produced(("orders", 0, 0, CUT), ("other", 0, 0, CUT)))
    talk.broker_answers(TARGET_LANE, produced(("orders", 0, 0, BASE), ("other", 0, REFUSED, -1)))
    talk.wait(0.25)
    (again,) = talk.asked(TARGET_LANE)
    assert again.topics == ["other"]
    talk.answer(TARGET_LANE, again, produced(("other", 0, 0, BASE)))
    found = [p for response in talk.answers()[0]["responses"] for p in response["partition_responses"]]
    assert [(p["error_code"], p["base_offset"]) for p in found] == [(TAKEN, CUT), (TAKEN, CUT)]


def test_a_target_that_dies_breaks_no_client_connection_and_its_successor_is_asked() -> None:
    talk = Talk(state(topic()))
    talk.ask(PRODUCE, 9, plain(records(0, 10)))
    answers(talk, EAST, 95)
    ((_, first),) = arrived(talk, TARGET_LANE)
    # When its connection breaks before the answer, and the successor cannot be dialled at first
    for _ in range(3):
        talk.lose(TARGET_LANE)
        assert talk.closed is None
        assert Refresh() in talk.others
        assert outcome(talk) == []
        ((write, again),) = arrived(talk, TARGET_LANE)
        assert again == first
    # Then the batch that it may have appended is sent again unchanged
    assert told(talk, TARGET_LANE, write, BASE) == [(TAKEN, CUT)]


def test_a_batch_whose_target_does_not_come_back_is_refused_and_the_next_one_waits_for_it() -> None:
    talk = Talk(state(topic()))
    for sequence in (0, 10):
        talk.ask(PRODUCE, 9, plain(records(sequence, 10)))
    for (asked, _), offset in zip(arrived(talk, EAST), (95, 105), strict=True):
        answer(talk, EAST, asked, offset)
    found: list[tuple[int, int]] = []
    while not found:
        arrived(talk, TARGET_LANE)
        talk.lose(TARGET_LANE)
        found = outcome(talk)
    assert talk.closed is None
    assert found == [(REFUSED, -1), (REFUSED, -1)]
    assert not arrived(talk, TARGET_LANE)
