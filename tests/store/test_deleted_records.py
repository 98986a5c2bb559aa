"""Deletions of records, which gateways store before they acknowledge them, and which moves read."""

import pytest

from ha_core.model import Fence, Topic, UnreadableDocumentError
from ha_core.model.extent import identity
from ha_core.store.commits import StateChange, key_of
from ha_core.store.errors import ConflictError

from .sessions import Session

MAPPED = Topic(name="orders", writer="east", partitions={0: identity("east"), 1: identity("east")})


def commit(session: Session, topic: Topic, version: int | None) -> None:
    session.store.commit(StateChange(change_id=f"c{version}", puts=(topic,), expected={key_of(topic): version}))


def test_noted_deletions_never_decrease_and_make_no_revision(session: Session, other: Session) -> None:
    # Given deletions that one gateway has written down
    commit(session, MAPPED, None)
    before = session.store.load().revision
    session.store.keep_deleted(MAPPED, {0: 100})
    # When another gateway writes a lower offset for one partition, and an offset for another
    other.store.keep_deleted(MAPPED, {0: 60, 1: 7})
    # Then the highest offset of each partition counts
    assert session.store.deleted_records(["orders", "other"]) == {("orders", 0): 100, ("orders", 1): 7}
    assert session.store.load().revision == before


def test_deletions_are_not_written_down_after_a_fence_whose_move_may_have_read_already(
    session: Session, other: Session
) -> None:
    # Given a topic that a move has fenced, and a gateway that does not know of the fence yet
    commit(session, MAPPED, None)
    commit(session, MAPPED.changed(fence=Fence(operation="op")), 0)
    # When it writes down a deletion
    with pytest.raises(ConflictError):
        other.store.keep_deleted(MAPPED, {0: 100})
    # Then its client gets a retriable error, and the move has missed no deletion
    assert session.store.deleted_records(["orders"]) == {}


def test_noted_deletions_are_forgotten_with_their_topic(session: Session) -> None:
    commit(session, MAPPED, None)
    session.store.keep_deleted(MAPPED, {0: 100})
    session.store.forget_deleted(["orders", "other"])
    assert session.store.deleted_records(["orders"]) == {}
    with pytest.raises(ConflictError):
        session.store.keep_deleted(MAPPED.changed(name="gone"), {0: 100})


@pytest.mark.parametrize(
    ("data", "value"),
    [(b'{"name":"orders","schema":2,"below":{"0":100}}', "schema 2 is newer than 1"), (b"{", "EOF")],
    ids=["newer", "damaged"],
)
def test_deletions_that_this_version_cannot_read_are_an_error_with_a_way_out(
    session: Session, data: bytes, value: str
) -> None:
    session.plant("/deleted_records/orders", data)
    with pytest.raises(UnreadableDocumentError) as caught:
        session.store.deleted_records(["orders"])
    said = str(caught.value)
    for part in ("/deleted_records/orders: ", value, "version of Switchyard", "zkCli.sh delete ROOT/deleted_records/o"):
        assert part in said
    # A move of other topics goes on, and the topic's own deletion removes the document
    assert session.store.deleted_records(["other"]) == {}
    session.store.forget_deleted(["orders"])
    assert session.store.deleted_records(["orders"]) == {}


def test_a_noted_deletion_is_lowered_only_if_it_has_not_grown_meanwhile(session: Session) -> None:
    commit(session, MAPPED, None)
    session.store.keep_deleted(MAPPED, {0: 100, 1: 100})
    known = {partition: below for (_, partition), below in session.store.deleted_records(["orders"]).items()}
    session.store.keep_deleted(MAPPED, {1: 200})
    session.store.lower_deleted("orders", known, {0: 0, 1: 0})
    assert session.store.deleted_records(["orders"]) == {("orders", 0): 0, ("orders", 1): 200}


@pytest.mark.parametrize("made", [True, False])
def test_noted_deletions_survive_a_lost_reply(session: Session, made: bool) -> None:
    commit(session, MAPPED, None)
    session.lose_next_reply(made)
    session.store.keep_deleted(MAPPED, {0: 100})
    assert session.store.deleted_records(["orders"]) == {("orders", 0): 100}
