import threading
from collections.abc import Callable, Sequence

import pytest

from ha_core.model import Lock, Operation
from ha_core.store.errors import ConflictError, FencedOffError, LockedError, StillHeldError, UnknownOperationError
from ha_core.store.store import Store
from ha_core.store.tree import Node

from .documents import entry, operation
from .sessions import Session
from .waiting import DEADLINE_S, at_once


def test_an_operation_takes_all_its_locks_and_starts_at_epoch_zero(session: Session, other: Session) -> None:
    epoch = session.store.create_operation(operation(), ["topic:orders", "user:ann"])

    assert epoch == 0
    assert other.store.read(Operation, "switch-1") == (operation(), 0)
    assert other.store.locks() == [
        Lock(key=key, operation="switch-1", by="cli:joe@ops1", since="2026-11-21T10:00:00Z")
        for key in ("topic:orders", "user:ann")
    ]


def test_an_operation_is_refused_all_its_locks_when_another_one_has_one_of_them(
    session: Session, other: Session
) -> None:
    session.store.create_operation(operation("switch-1"), ["topic:orders"])

    with pytest.raises(LockedError) as caught:
        other.store.create_operation(operation("switch-2"), ["topic:a", "topic:orders", "topic:z"])

    text = str(caught.value)
    for part in ("topic:orders", "switch-1", "cli:joe@ops1", "2026-11-21T10:00:00Z", "switchyard history switch-1"):
        assert part in text
    assert [lock.key for lock in other.store.locks()] == ["topic:orders"]
    assert other.store.read(Operation, "switch-2") is None


def test_an_unreadable_lock_still_locks(session: Session) -> None:
    session.plant("/locks/topic%3Aorders", b"{")

    with pytest.raises(LockedError, match="topic:orders") as caught:
        session.store.create_operation(operation(), ["topic:orders"])
    # And the way out names no operation: none is known
    assert "zkCli.sh delete ROOT/locks/topic%3Aorders`" in str(caught.value)
    assert "switchyard history" not in str(caught.value)
    assert [(lock.key, lock.operation) for lock in session.store.locks()] == [("topic:orders", "(unreadable)")]
    assert session.store.running() == []


def test_an_operation_id_is_used_once(session: Session, other: Session) -> None:
    session.store.create_operation(operation(), [])

    with pytest.raises(ConflictError) as caught:
        other.store.create_operation(operation(), [])

    assert caught.value.path == "/operations/switch-1"


@pytest.mark.parametrize("made", [True, False])
def test_creating_an_operation_survives_a_lost_reply(session: Session, made: bool) -> None:
    session.lose_next_reply(made)

    assert session.store.create_operation(operation(), ["topic:orders"]) == 0
    assert session.losses_left() == 0
    assert [lock.operation for lock in session.store.locks()] == ["switch-1"]


NOW = "2026-11-21T10:00:02Z"
DONE = operation().model_copy(update={"state": "succeeded"})
CALLS: dict[str, tuple[Callable[[Store], object], Callable[[Store], object], object]] = {
    "taken over": (lambda store: store.take_over("switch-1"), lambda store: store.take_over("switch-1"), 2),
    "updated": (
        lambda store: store.update_operation(DONE, 0),
        lambda store: store.read(Operation, "switch-1"),
        (DONE, 1),
    ),
    "given a history entry": (
        lambda store: store.append_history("switch-1", 0, entry("cut")),
        lambda store: [line.step for line in store.history("switch-1")],
        ["cut"],
    ),
    "unlocked": (
        lambda store: store.release_locks("switch-1", 0, NOW),
        lambda store: [lock.key for lock in store.locks()],
        ["topic:c"],
    ),
}
"""A call, what is read after it, and the result."""


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("what", CALLS)
def test_a_call_on_an_operation_has_one_effect_when_its_reply_is_lost(session: Session, what: str, made: bool) -> None:
    call, read, expected = CALLS[what]
    session.store.create_operation(operation("switch-1"), ["topic:a", "topic:b"])
    session.store.create_operation(operation("switch-2"), ["topic:c"])
    session.lose_next_reply(made)

    call(session.store)

    assert session.losses_left() == 0
    assert read(session.store) == expected


def test_taking_over_an_unknown_operation_is_refused(session: Session) -> None:
    with pytest.raises(UnknownOperationError, match="switch-9"):
        session.store.take_over("switch-9")


def test_an_executor_that_was_taken_over_can_no_longer_write(session: Session, other: Session) -> None:
    # Given an executor whose operation another one has taken over
    stale = session.store.create_operation(operation(), ["topic:orders"])
    other.store.take_over("switch-1")
    # When it writes anything, it is refused
    writes: tuple[Callable[[], object], ...] = (
        lambda: session.store.update_operation(operation().model_copy(update={"state": "failed"}), stale),
        lambda: session.store.append_history("switch-1", stale, entry("late")),
        lambda: session.store.release_locks("switch-1", stale, NOW),
        lambda: session.store.hold("switch-1", stale).__enter__(),
    )
    for write in writes:
        with pytest.raises(FencedOffError, match="epoch is 1, this executor has 0"):
            write()
    # Then nothing has changed
    assert session.store.read(Operation, "switch-1") == (operation(), 0)
    assert session.store.history("switch-1") == []
    assert len(session.store.locks()) == 1


def test_a_held_operation_cannot_be_taken_over(session: Session, other: Session) -> None:
    epoch = session.store.create_operation(operation(), [])

    with session.store.hold("switch-1", epoch):
        with pytest.raises(StillHeldError, match=r"switch-1 of cli:joe@ops1 .*session 0x"):
            other.store.take_over("switch-1")
        with pytest.raises(StillHeldError), other.store.hold("switch-1", epoch):
            pass

    assert other.store.take_over("switch-1") == 1


def test_the_hold_of_an_operation_ends_with_its_session(session: Session, other: Session) -> None:
    epoch = session.store.create_operation(operation(), [])

    with session.store.hold("switch-1", epoch):
        session.expire()
        assert other.store.take_over("switch-1", wait_s=DEADLINE_S) == 1

        with pytest.raises(FencedOffError):
            session.store.append_history("switch-1", epoch, entry("late"))


def test_a_waiting_take_over_succeeds_when_the_hold_ends(session: Session, other: Session) -> None:
    # Given an operation that is held, and an executor that waits to take it over
    epoch = session.store.create_operation(operation(), [])
    epochs: list[int] = []
    waiter = threading.Thread(target=lambda: epochs.append(other.store.take_over("switch-1", wait_s=DEADLINE_S)))
    # When the hold ends, and not before
    with session.store.hold("switch-1", epoch):
        waiter.start()
        waiter.join(0.3)
        assert epochs == []
    waiter.join(DEADLINE_S)
    # Then it is taken over
    assert epochs == [1]


@pytest.mark.parametrize("made", [True, False])
def test_holding_an_operation_survives_a_lost_reply(session: Session, other: Session, made: bool) -> None:
    epoch = session.store.create_operation(operation(), [])
    session.lose_next_reply(made)

    with session.store.hold("switch-1", epoch), pytest.raises(StillHeldError):
        other.store.take_over("switch-1")

    assert session.losses_left() == 0
    assert other.store.take_over("switch-1") == 1


def test_an_error_inside_a_hold_is_raised_and_ends_the_hold(session: Session, other: Session) -> None:
    epoch = session.store.create_operation(operation(), [])

    with pytest.raises(RuntimeError, match="planted"), session.store.hold("switch-1", epoch):
        raise RuntimeError("planted")

    assert other.store.take_over("switch-1") == 1


def test_updating_an_operation_that_does_not_exist_is_refused(session: Session) -> None:
    with pytest.raises(UnknownOperationError):
        session.store.update_operation(operation("switch-9"), 0)


def test_history_entries_are_kept_in_order(session: Session) -> None:
    epoch = session.store.create_operation(operation(), [])
    for number in range(12):
        session.store.append_history("switch-1", epoch, entry(f"step-{number}"))

    assert [line.step for line in session.store.history("switch-1")] == [f"step-{n}" for n in range(12)]


def test_two_sessions_that_append_history_at_once_lose_no_entry(session: Session, other: Session) -> None:
    # Given an operation
    epoch = session.store.create_operation(operation(), [])

    def write(writer: Session, name: str) -> None:
        for number in range(15):
            writer.store.append_history("switch-1", epoch, entry(f"{name}-{number}"))

    # When two sessions append to its history at once
    at_once(write, (session, "a"), (other, "b"))
    # Then it has all entries
    assert sorted(line.step for line in session.store.history("switch-1")) == sorted(
        f"{name}-{number}" for name in "ab" for number in range(15)
    )


def test_the_newest_operations_come_first_and_unreadable_ones_are_left_out(session: Session) -> None:
    for day in (1, 3, 2):
        session.store.create_operation(operation(f"switch-2026110{day}-100000-aa", f"2026-11-0{day}T10:00:00Z"), [])
    session.plant("/operations/spoilt-20261104-100000-aa", b"{")
    session.plant("/operations/written-by-hand", operation("written-by-hand").to_bytes())

    ids = [each.id for each in session.store.operations(2)]
    assert ids == ["switch-20261103-100000-aa", "switch-20261102-100000-aa"]
    assert [each.id for each in session.store.operations(10)] == [*ids, "switch-20261101-100000-aa", "written-by-hand"]


def test_each_page_of_operations_begins_where_the_last_one_ended(session: Session) -> None:
    # Given five operations
    names = [f"age-20261101-10000{n}-aa" for n in range(5)]
    for name in names:
        session.store.create_operation(operation(name), [])
    # When they are read two by two
    pages = [session.store.operations(2)]
    while pages[-1]:
        pages.append(session.store.operations(2, before=pages[-1][-1].id))
    # Then each is on one page, the newest first
    assert [[each.id for each in page] for page in pages] == [
        [names[4], names[3]],
        [names[2], names[1]],
        [names[0]],
        [],
    ]


def test_only_operations_that_hold_a_lock_are_read_to_find_the_running_ones(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given nineteen operations without locks, and two with some
    for n in range(20):
        epoch = session.store.create_operation(operation(f"switch-20261101-1000{n:02}-aa"), ["topic:a", "user:joe"])
        if n < 19:
            session.store.release_locks(f"switch-20261101-1000{n:02}-aa", epoch, NOW)
    session.store.create_operation(operation("age-20261101-110000-aa"), ["topic:b"])
    read: list[str] = []
    tree = session.store._tree
    get_many = tree.get_many

    def noted(paths: Sequence[str]) -> list[Node | None]:
        read.extend(paths)
        return get_many(paths)

    monkeypatch.setattr(tree, "get_many", noted)
    # When the running ones are asked for
    found = [each.id for each in session.store.running()]
    # Then the two are found, and no other was read
    assert found == ["age-20261101-110000-aa", "switch-20261101-100019-aa"]
    assert [path for path in read if path.startswith("/operations/")] == [f"/operations/{name}" for name in found]


def test_the_newest_entries_of_a_history_can_be_read_alone(session: Session) -> None:
    epoch = session.store.create_operation(operation(), [])
    for number in range(5):
        session.store.append_history("switch-1", epoch, entry(f"step-{number}"))

    assert [line.step for line in session.store.history("switch-1", newest=2)] == ["step-3", "step-4"]
    assert [line.step for line in session.store.history("switch-1", newest=9)] == [f"step-{n}" for n in range(5)]


def test_an_unknown_operation_has_no_history(session: Session) -> None:
    assert session.store.history("switch-9") == []


def test_requiring_the_epoch_fails_for_an_executor_that_was_taken_over(session: Session, other: Session) -> None:
    # Given an executor that has stood still while another one took its operation over
    session.store.create_operation(operation(), [])
    session.store.require_epoch("switch-1", 0)
    other.store.take_over("switch-1")
    # When it checks the epoch before an effect that no write fences
    # Then it gets an error
    with pytest.raises(FencedOffError):
        session.store.require_epoch("switch-1", 0)
    other.store.require_epoch("switch-1", 1)
    with pytest.raises(UnknownOperationError):
        session.store.require_epoch("switch-2", 0)


@pytest.mark.parametrize("made", [True, False])
def test_requiring_the_epoch_survives_a_lost_reply(session: Session, made: bool) -> None:
    session.store.create_operation(operation(), [])
    session.lose_next_reply(made)

    session.store.require_epoch("switch-1", 0)


def test_a_hold_is_visible_without_taking_the_operation_over(session: Session, other: Session) -> None:
    session.store.create_operation(operation(), [])

    with session.store.hold("switch-1", 0):
        assert other.store.holding("switch-1") == (0, True)
    assert other.store.holding("switch-1") == (0, False)
    assert other.store.holding("switch-2") is None
