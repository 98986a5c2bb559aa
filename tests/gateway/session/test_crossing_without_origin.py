"""Batches that a crossing's origin appended before it died: cut 100 was proposed, and the target's log begins at 7."""

import pytest

from gateway.session.produce.split import PROPOSED_HOLD_S
from ha_core.model import Topic
from tests.gateway.session.crossings import (
    CUT,
    RAISED,
    REFUSED,
    TAKEN,
    answers,
    cut_at,
    outcome,
    plain,
    records,
    topic,
)
from tests.gateway.session.messages import PRODUCE, entry, produce, produced, state
from tests.gateway.session.talk import EAST, Talk


def without_origin(name: str, unread: str = "wait") -> Topic:
    """The origin died while the cut was proposed: another one lies above all offsets that it can have returned."""
    found = cut_at(RAISED, None, name=name)
    before, after = found.partitions[0]
    before = before.changed(known_end=CUT - 2, ignored=unread == "skip")
    return found.model_copy(update={"partitions": {0: (before, after)}})


@pytest.mark.parametrize(("unread", "said"), [("wait", TAKEN), ("skip", REFUSED)])
def test_batches_that_an_origin_appended_before_it_died_are_all_acknowledged_or_all_rewritten_in_order(
    unread: str, said: int
) -> None:
    # Given a batch that waits for its request's other topic, and one that was sent when a higher cut was served
    talk = Talk(state(topic("proposed"), cut_at(CUT, name="other")))
    data = produce(("orders", 0, records(0)), ("other", 0, records(-1, producer_id=-1)))
    first = talk.forwarded(PRODUCE, 9, {**data, "timeout_ms": 30_000}, to=EAST)
    talk.answer(EAST, first, produced(("orders", 0, TAKEN, CUT), ("other", 0, TAKEN, CUT)))
    talk.follow(state(cut_at(RAISED), cut_at(CUT, name="other"), revision=2))
    second = talk.forwarded(PRODUCE, 9, plain(records(1)), to=EAST)
    talk.answer(EAST, second, produced(("orders", 0, TAKEN, CUT + 1)))
    assert talk.answers() == []
    # When the crossing is ended without the origin
    talk.follow(state(without_origin("orders", unread), without_origin("other", unread), revision=3))
    # Then no target gets an earlier batch while a later one is reported to be in the origin
    assert [entry(answer)["error_code"] for answer in talk.answers()] == [said, said]


def test_after_a_refused_batch_no_later_one_is_acknowledged_from_a_dead_origin() -> None:
    talk = Talk(state(topic("proposed")))
    for number, wait_s in ((0, PROPOSED_HOLD_S - 1), (1, 0)):
        talk.ask(PRODUCE, 9, plain(records(number)))
        answers(talk, EAST, CUT + number)
        talk.wait(wait_s)
    # Given the state has not decided in time on the first of two
    talk.wait(1.5)
    assert outcome(talk) == [(REFUSED, -1)]

    talk.follow(state(without_origin("orders"), revision=2))

    assert outcome(talk) == [(REFUSED, -1)]
