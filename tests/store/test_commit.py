import json
import random

import pytest

from ha_core.model import Document, Extent, LastSequences, Operation, Topic, UnreadableDocumentError, UserBindings
from ha_core.model.extent import Extents
from ha_core.store.commits import KEPT, PRUNED_EVERY, StateChange
from ha_core.store.documents import to_bytes
from ha_core.store.errors import (
    ConflictError,
    FencedOffError,
    StoreError,
    StoreUnavailableError,
    TooLargeError,
    UnknownOperationError,
)

from .documents import binding, operation, put
from .sessions import Session
from .waiting import at_once

ANN = (UserBindings, "ann")


def test_a_new_tree_is_at_revision_zero_and_empty(session: Session) -> None:
    view = session.store.load()

    assert view.revision == 0
    assert not view.bindings


def test_a_commit_is_one_revision_and_everyone_loads_it(session: Session, other: Session) -> None:
    revision = session.store.commit(put(binding("ann"), binding("bob", "west"), Topic(name="orders", writer="east")))

    view = other.store.load()
    assert revision == view.revision == 1
    assert {user: b.cluster for user, b in view.bindings.items()} == {"ann": "east", "bob": "west"}
    assert view.topics["orders"].writer == "east"


@pytest.mark.parametrize("name", [".", "..", "a/b", "%2F", "ü#ber user", "x" * 255])
def test_a_document_is_found_by_any_name(session: Session, name: str) -> None:
    session.store.commit(put(binding(name)))

    assert session.store.read(UserBindings, name) == (binding(name), 0)
    assert set(session.store.load().bindings) == {name}


def test_reading_a_missing_document_gives_nothing(session: Session) -> None:
    assert session.store.read(UserBindings, "ann") is None


def test_version_zero_is_compared_like_any_other(session: Session, other: Session) -> None:
    session.store.commit(put(binding(cluster="east")))
    other.store.commit(put(binding(cluster="west"), at=0))

    with pytest.raises(ConflictError) as caught:
        session.store.commit(put(binding(cluster="south"), at=0))

    assert (caught.value.path, caught.value.expected, caught.value.found) == ("/bindings/ann", 0, 1)
    assert session.store.read(UserBindings, "ann") == (binding(cluster="west"), 1)


def test_a_document_that_must_not_exist_is_not_overwritten(session: Session, other: Session) -> None:
    session.store.commit(put(binding(cluster="east")))

    with pytest.raises(ConflictError) as caught:
        other.store.commit(put(binding(cluster="west")))

    assert (caught.value.expected, caught.value.found) == (None, 0)


def test_a_conflict_on_one_document_leaves_all_others_and_the_revision_alone(session: Session) -> None:
    session.store.commit(put(binding("ann")))

    with pytest.raises(ConflictError):
        session.store.commit(put(binding("bob"), binding("ann", "west")))

    view = session.store.load()
    assert view.revision == 1
    assert set(view.bindings) == {"ann"}


def test_a_delete_needs_the_version_too(session: Session) -> None:
    session.store.commit(put(binding()))
    session.store.commit(put(binding(cluster="west"), at=0))

    with pytest.raises(ConflictError):
        session.store.commit(StateChange("late", deletes=(ANN,), expected={ANN: 0}))
    session.store.commit(StateChange("right", deletes=(ANN,), expected={ANN: 1}))

    assert session.store.load().bindings == {}


@pytest.mark.parametrize("expected", [None, 1])
def test_a_guard_that_does_not_hold_stops_the_change(session: Session, expected: int | None) -> None:
    session.store.commit(put(binding("ann")))
    guarded = StateChange("guarded", puts=(binding("bob"),), expected={ANN: expected, (UserBindings, "bob"): None})

    with pytest.raises(ConflictError) as caught:
        session.store.commit(guarded)

    assert (caught.value.path, caught.value.expected, caught.value.found) == ("/bindings/ann", expected, 0)


def test_a_guard_that_holds_is_not_changed_by_the_check(session: Session) -> None:
    absent = (UserBindings, "nobody")
    session.store.commit(put(binding("ann")))

    session.store.commit(
        StateChange("guarded", puts=(binding("bob"),), expected={ANN: 0, absent: None, (UserBindings, "bob"): None})
    )

    assert session.store.read(UserBindings, "ann") == (binding("ann"), 0)
    assert session.store.read(*absent) is None


def test_racing_commits_of_different_documents_each_get_their_own_revision(session: Session, other: Session) -> None:
    revisions: list[int] = []

    def commit(store: Session, user: str) -> None:
        for number in range(20):
            revisions.append(store.store.commit(put(binding(f"{user}-{number}"))))

    # When two sessions commit in two threads each
    at_once(commit, (session, "here-0"), (other, "there-0"), (session, "here-1"), (other, "there-1"))
    # Then there is a revision for each commit
    assert sorted(revisions) == list(range(1, 81))
    assert len(session.store.load().bindings) == 80


def test_exactly_one_of_two_racing_commits_of_a_document_wins(session: Session, other: Session) -> None:
    # Given a document that two sessions have read
    session.store.commit(put(binding()))
    outcomes: list[str] = []

    def commit(store: Session, cluster: str) -> None:
        try:
            store.store.commit(put(binding(cluster=cluster), at=0))
            outcomes.append(cluster)
        except ConflictError:
            outcomes.append("conflict")

    # When both replace it at once
    at_once(commit, (session, "west"), (other, "south"))
    # Then one has done so, and the other got a conflict
    winner = session.store.load().bindings["ann"].cluster
    assert sorted(outcomes) == sorted(["conflict", str(winner)])


@pytest.mark.parametrize("losses", [(True,), (False,), (False, False, True)], ids=["made", "not made", "several"])
def test_a_change_is_made_exactly_once_when_replies_are_lost(
    session: Session, other: Session, losses: tuple[bool, ...]
) -> None:
    session.store.commit(put(binding(cluster="east")))
    for made in losses:
        session.lose_next_reply(made)

    revision = session.store.commit(put(binding(cluster="west"), at=0))

    view = other.store.load()
    assert session.losses_left() == 0
    assert revision == view.revision == 2
    assert other.store.read(UserBindings, "ann") == (binding(cluster="west"), 1)


def test_a_change_already_made_by_a_dead_process_is_recognised_by_its_id(session: Session, other: Session) -> None:
    change = put(binding(), change_id="switch-1/cut")
    session.store.commit(change)
    session.store.commit(put(binding("bob")))

    assert other.store.commit(change) == 1
    assert other.store.load().revision == 2


def test_a_change_is_made_once_when_the_session_expires_before_it(session: Session) -> None:
    session.store.commit(put(binding("ann")))
    session.expire()

    assert session.store.commit(put(binding("bob"))) == 2


def test_an_executor_that_was_taken_over_cannot_commit(session: Session, other: Session) -> None:
    epoch = session.store.create_operation(operation(), [])
    newer = other.store.take_over("switch-1")

    with pytest.raises(FencedOffError) as caught:
        session.store.commit(put(binding(), fence=("switch-1", epoch)))

    assert (caught.value.epoch, caught.value.found) == (0, newer) == (0, 1)
    assert session.store.load().revision == 0
    assert other.store.commit(put(binding(), fence=("switch-1", newer))) == 1


def test_a_change_for_an_operation_that_does_not_exist_is_refused(session: Session) -> None:
    with pytest.raises(UnknownOperationError, match="switch-9"):
        session.store.commit(put(binding(), fence=("switch-9", 0)))


def test_an_operation_changes_together_with_the_state(session: Session) -> None:
    epoch = session.store.create_operation(operation(), [])
    cut = operation().model_copy(update={"state": "cut"})
    expected: dict[tuple[type[Document], str], int | None] = {ANN: None, (Operation, "switch-1"): 0}

    session.store.commit(StateChange("cut", (binding(), cut), expected=expected, operation="switch-1", epoch=epoch))

    assert session.store.read(Operation, "switch-1") == (cut, 1)


def test_a_change_too_large_for_zookeeper_is_refused_before_it_is_sent(session: Session) -> None:
    big = [UserBindings(user=f"user-{n}", instances={"i" * 200_000: "east"}) for n in range(6)]

    with pytest.raises(TooLargeError, match=r"12\d{5} bytes, ZooKeeper takes 1040000.*fewer documents"):
        session.store.commit(put(*big))

    assert session.store.load().revision == 0


def test_a_change_just_below_the_size_limit_is_made(session: Session) -> None:
    session.store.commit(put(*(UserBindings(user=f"user-{n}", instances={"i" * 205_000: "east"}) for n in range(5))))

    assert len(session.store.load().bindings) == 5


def test_long_last_sequences_are_compressed_and_come_back_whole(session: Session) -> None:
    seed = random.Random(7)
    producers = {(1 << 44) + n: (0, seed.randrange(1 << 31)) for n in range(150_000)}
    sequences = LastSequences(name="orders", partitions={0: producers})
    assert len(sequences.to_bytes()) > 1_048_576

    session.store.commit(put(sequences))

    assert session.store.load().sequences["orders"] == sequences
    assert session.store.read(LastSequences, "orders") == (sequences, 0)


def _mapped(partitions: int) -> Topic:
    seed = random.Random(partitions)
    cuts = {partition: seed.randrange(10**11) for partition in range(partitions)}
    extents: dict[int, Extents] = {
        partition: (
            Extent(cluster="east", start=0, end=cut, base=0, writer_epoch=0),
            Extent(cluster="west", start=cut, base=seed.randrange(10**11), writer_epoch=1),
        )
        for partition, cut in cuts.items()
    }
    return Topic(name="orders", writer="west", partitions=extents)


def test_a_map_of_a_few_partitions_is_stored_as_plain_json(session: Session) -> None:
    session.store.commit(put(_mapped(5)))

    node = session.store._tree.get("/topics/orders")

    assert node is not None
    assert json.loads(node.data)["writer"] == "west"


@pytest.mark.parametrize("partitions", [50, 10_000])
def test_a_long_map_is_stored_in_a_fourth_of_its_length_and_comes_back_whole(session: Session, partitions: int) -> None:
    topic = _mapped(partitions)

    session.store.commit(put(topic))

    node = session.store._tree.get("/topics/orders")
    assert node is not None
    assert len(node.data) < len(topic.to_bytes()) / 4
    assert session.store.load().topics["orders"] == topic
    assert session.store.read(Topic, "orders") == (topic, 0)


def test_a_long_map_that_was_stored_as_json_is_read_and_replaced(session: Session) -> None:
    topic = _mapped(50)
    session.plant("/topics/orders", topic.to_bytes())
    assert session.store.load().topics["orders"] == topic
    _, version = session.store.read(Topic, "orders") or (None, None)
    moved = topic.model_copy(update={"writer": "east"})

    session.store.commit(put(moved, at=version))

    assert session.store.load().topics["orders"] == moved


def test_a_truncated_compressed_map_is_an_error_that_names_it(session: Session) -> None:
    session.plant("/topics/orders", to_bytes(_mapped(50))[:-10])

    with pytest.raises(UnreadableDocumentError, match="/topics/orders: the compressed document is cut off"):
        session.store.load()


@pytest.mark.parametrize(
    "data", [b"\x78garbage", b"\x78", b"{", b"[]", b'{"schema":99,"user":"ann"}', b'{"user":"bob"}']
)
def test_loading_the_state_fails_on_an_unreadable_document(session: Session, data: bytes) -> None:
    session.plant("/bindings/ann", data)

    with pytest.raises(UnreadableDocumentError, match="/bindings/ann"):
        session.store.load()


def test_decompression_of_a_document_is_bounded(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ha_core.store.documents.MAX_PLAIN_BYTES", 60_000)
    producers = {(1 << 44) + n: (0, n) for n in range(10_000)}
    session.store.commit(put(LastSequences(name="orders", partitions={0: producers})))

    with pytest.raises(UnreadableDocumentError, match="more than 60000 bytes"):
        session.store.load()


def test_old_change_notes_are_pruned(session: Session) -> None:
    total = KEPT + 2 * PRUNED_EVERY
    for number in range(total):
        session.store.commit(put(binding(f"user-{number % 50}"), at=number // 50 - 1 if number >= 50 else None))

    kept = session.store._tree.children("/changes")
    assert len(kept) == KEPT
    assert max(kept) == f"change-{total:010d}"


def test_a_commit_without_a_connection_fails(session: Session) -> None:
    session.set_patience(0.5)
    session.suspend()

    with pytest.raises(StoreUnavailableError):
        session.store.commit(put(binding()))

    session.resume()


@pytest.mark.parametrize("data", [b"", b"{}", b"null"])
def test_an_unreadable_revision_is_an_error_with_a_way_out(session: Session, data: bytes) -> None:
    session.plant("/changes", data)

    with pytest.raises(StoreError, match="restore"):
        session.store.commit(put(binding()))


def test_a_change_without_expected_versions_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="no expected version of UserBindings ann"):
        StateChange("x", puts=(binding(),))


def test_a_change_with_an_operation_but_no_epoch_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="would not be fenced"):
        StateChange("x", operation="switch-1")


def test_a_change_cannot_delete_an_operation() -> None:
    with pytest.raises(ValueError, match="history stays"):
        StateChange("x", deletes=((Operation, "switch-1"),), expected={(Operation, "switch-1"): 0})


def test_a_change_cannot_write_a_document_twice() -> None:
    with pytest.raises(ValueError, match="written twice"):
        StateChange("x", puts=(binding(),), deletes=(ANN,), expected={ANN: 0})
