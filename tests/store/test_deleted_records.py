"""Which records clients have deleted, as gateways write it down before they tell them, and moves read it."""

from __future__ import annotations

import pytest

from ha_core.model import Fence, Topic
from ha_core.model.extent import identity
from ha_core.store.commits import Change, key_of
from ha_core.store.errors import ConflictError

from .sessions import Session

MAPPED = Topic(name="orders", writer="east", partitions={0: identity("east"), 1: identity("east")})


def commit(session: Session, topic: Topic, version: int | None) -> None:
    session.store.commit(Change(change_id=f"c{version}", puts=(topic,), expected={key_of(topic): version}))


def test_what_is_deleted_never_moves_back_and_is_no_revision(session: Session, other: Session) -> None:
    # Given what one gateway has written down
    commit(session, MAPPED, None)
    before = session.store.load().revision
    session.store.keep_deleted(MAPPED, {0: 100})
    # When another one writes down less of one partition, and something of another
    other.store.keep_deleted(MAPPED, {0: 60, 1: 7})
    # Then the most counts
    assert session.store.deleted_records(["orders", "other"]) == {("orders", 0): 100, ("orders", 1): 7}
    assert session.store.load().revision == before


def test_behind_a_fence_nothing_is_written_down_that_its_move_may_not_have_read(
    session: Session, other: Session
) -> None:
    # Given a topic that a move has fenced, as a gateway that is late does not know yet
    commit(session, MAPPED, None)
    commit(session, MAPPED.changed(fence=Fence(operation="op")), 0)
    # When it writes down what it has deleted
    with pytest.raises(ConflictError):
        other.store.keep_deleted(MAPPED, {0: 100})
    # Then its client is told to ask again, and the move has missed nothing
    assert session.store.deleted_records(["orders"]) == {}


def test_a_topic_that_is_deleted_as_a_whole_has_nothing_written_down(session: Session) -> None:
    commit(session, MAPPED, None)
    session.store.keep_deleted(MAPPED, {0: 100})
    session.store.forget_deleted(["orders", "other"])
    assert session.store.deleted_records(["orders"]) == {}
    with pytest.raises(ConflictError):
        session.store.keep_deleted(MAPPED.changed(name="gone"), {0: 100})


def test_what_is_deleted_is_lowered_only_where_nobody_has_deleted_more_meanwhile(session: Session) -> None:
    commit(session, MAPPED, None)
    session.store.keep_deleted(MAPPED, {0: 100, 1: 100})
    known = {partition: below for (_, partition), below in session.store.deleted_records(["orders"]).items()}
    session.store.keep_deleted(MAPPED, {1: 200})
    session.store.lower_deleted("orders", known, {0: 0, 1: 0})
    assert session.store.deleted_records(["orders"]) == {("orders", 0): 0, ("orders", 1): 200}


@pytest.mark.parametrize("made", [True, False])
def test_a_lost_reply_loses_nothing_of_it(session: Session, made: bool) -> None:
    commit(session, MAPPED, None)
    session.lose_next_reply(made)
    session.store.keep_deleted(MAPPED, {0: 100})
    assert session.store.deleted_records(["orders"]) == {("orders", 0): 100}
