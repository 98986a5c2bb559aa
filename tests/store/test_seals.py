"""Seals in the store: one for each ended operation, in one order, whatever ends at once."""

import threading

import pytest

from ha_core.model import HistoryEntry, Operation, Seal
from ha_core.model.seal import SealHead
from ha_core.plan.audit.seal_check import SealCheck, SealFault
from ha_core.store.errors import FencedOffError, StoreError
from ha_core.store.store import Store

from .documents import entry, operation
from .sessions import Backend, Session
from .waiting import DEADLINE_S

NOW = "2026-11-21T10:00:02Z"


def ended(store: Store, name: str, *locks: str) -> Operation:
    epoch = store.create_operation(operation(name), locks, entry("start"))
    return end(store, name, epoch)


def end(store: Store, name: str, epoch: int) -> Operation:
    done = operation(name).model_copy(update={"state": "succeeded", "ended": NOW, "result": "done"})
    store.update_operation(done, epoch)
    store.release_locks(name, epoch, NOW)
    return done


def faults(store: Store) -> list[SealFault]:
    head = store.seal_head()
    check = SealCheck(head.anchor)
    return [*check.faults(store.sealed_operations()), *check.end(head)]


def test_an_operation_is_sealed_when_it_gives_its_locks_back(session: Session, other: Session) -> None:
    ended(session.store, "switch-1", "topic:a")
    ended(other.store, "switch-2", "topic:a")

    first, second = session.store.seals()
    assert [(seal.number, seal.operation, seal.entries) for seal in (first, second)] == [
        (1, "switch-1", 1),
        (2, "switch-2", 1),
    ]
    assert second.before == first.hash
    assert session.store.seal_head() == SealHead(number=2, hash=second.hash)
    assert session.store.locks() == []
    assert faults(session.store) == []


def test_an_operation_begins_with_the_first_entry_of_its_history(session: Session) -> None:
    session.store.create_operation(operation(), ["topic:a"], entry("start"))

    session.store.append_history("switch-1", 0, entry("cut"))

    assert [one.step for one in session.store.history("switch-1")] == ["start", "cut"]


def test_locks_that_are_released_before_the_end_seal_nothing(session: Session) -> None:
    epoch = session.store.create_operation(operation(), ["topic:a"])

    session.store.release_locks("switch-1", epoch, NOW)

    assert list(session.store.seals()) == []
    assert session.store.operation_names() == {"switch-1"}


def test_a_repeated_release_seals_once(session: Session) -> None:
    ended(session.store, "switch-1")

    epoch = session.store.take_over("switch-1")
    session.store.release_locks("switch-1", epoch, NOW)

    assert [seal.operation for seal in session.store.seals()] == ["switch-1"]


def test_an_executor_that_was_taken_over_seals_nothing(session: Session, other: Session) -> None:
    stale = session.store.create_operation(operation(), ["topic:a"])
    session.store.update_operation(operation().model_copy(update={"state": "failed", "ended": NOW}), stale)
    other.store.take_over("switch-1")

    with pytest.raises(FencedOffError):
        session.store.release_locks("switch-1", stale, NOW)

    assert list(session.store.seals()) == []


@pytest.mark.parametrize("made", [True, False])
def test_a_seal_is_written_once_when_its_reply_is_lost(session: Session, made: bool) -> None:
    epoch = session.store.create_operation(operation(), ["topic:a"], entry("start"))
    session.store.update_operation(operation().model_copy(update={"state": "succeeded", "ended": NOW}), epoch)
    session.lose_next_reply(made)

    session.store.release_locks("switch-1", epoch, NOW)

    assert session.losses_left() == 0
    assert [seal.number for seal in session.store.seals()] == [1]
    assert session.store.locks() == []
    assert faults(session.store) == []


def test_operations_that_end_at_once_get_one_seal_each_in_one_order(backend: Backend) -> None:
    # Given four processes, each with five operations under way
    sessions = [backend.open() for _ in range(4)]
    names = {number: [f"switch-{number}-{n}" for n in range(5)] for number in range(len(sessions))}
    for number, session in enumerate(sessions):
        for name in names[number]:
            session.store.create_operation(operation(name), [f"topic:{name}"], entry("start"))
    start = threading.Barrier(len(sessions))
    failures: list[BaseException] = []

    def finish(number: int, session: Session) -> None:
        try:
            start.wait(DEADLINE_S)
            for name in names[number]:
                end(session.store, name, 0)
        except BaseException as error:
            failures.append(error)

    # When all of them end at once
    threads = [threading.Thread(target=finish, args=pair) for pair in enumerate(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S * 2)
    # Then each has its seal
    assert failures == []
    seals = list(sessions[0].store.seals())
    assert [seal.number for seal in seals] == list(range(1, 21))
    assert {seal.operation for seal in seals} == {name for some in names.values() for name in some}
    assert faults(sessions[0].store) == []


def test_tampering_with_the_tree_is_noticed(session: Session) -> None:
    for name in ("switch-1", "switch-2", "switch-3"):
        done = ended(session.store, name)
    assert faults(session.store) == []

    session.plant("/operations/switch-3", done.model_copy(update={"reason": "another"}).to_bytes())
    session.plant("/operations/switch-2/history/entry-00000001", entry("planted").to_bytes())
    session.remove("/seals/000000000001")

    assert {(fault.kind, fault.about) for fault in faults(session.store)} == {
        ("removed", "seal 2"),
        ("added", "switch-2"),
        ("changed", "switch-3"),
    }


def test_a_damaged_newest_seal_keeps_no_locks(session: Session) -> None:
    ended(session.store, "switch-1", "topic:a")
    session.plant("/seals", b"{")

    ended(session.store, "switch-2", "topic:a")

    assert session.store.locks() == []
    assert [seal.operation for seal in session.store.seals()] == ["switch-1"]
    with pytest.raises(StoreError, match="history verify"):
        session.store.seal_head()


def test_an_operation_of_an_earlier_version_is_sealed_as_it_is_found(session: Session) -> None:
    # Given an operation that ended without a seal, with a field and an entry that no model of today has
    epoch = session.store.create_operation(operation(), ["topic:a"])
    session.plant("/operations/switch-1", b'{"id":"switch-1","ended":"2026-01-01T00:00:00Z","old":true}')
    session.plant("/operations/switch-1/history/entry-00000000", b'{"step":"cut","odd":1}')
    assert epoch == 0
    # When
    made = [session.store.seal_ended("switch-1", NOW) for _ in range(2)]
    # Then
    assert made == [True, False]
    assert faults(session.store) == []


def test_a_trimmed_history_goes_on_from_its_anchor(session: Session) -> None:
    for n in range(1, 31):
        ended(session.store, f"switch-{n}")

    gone = session.store.trim_history(25)

    assert gone == [f"switch-{n}" for n in range(1, 26)]
    assert session.store.seal_head().anchor.number == 25
    assert [seal.number for seal in session.store.seals()] == list(range(26, 31))
    assert session.store.read(Operation, "switch-1") is None
    assert session.store.history("switch-1") == []
    assert faults(session.store) == []
    ended(session.store, "switch-31")
    assert faults(session.store) == []


def test_trimming_stops_at_a_damage_and_does_not_hide_it(session: Session) -> None:
    for n in range(1, 4):
        ended(session.store, f"switch-{n}")
    session.remove("/seals/000000000002")

    with pytest.raises(StoreError, match="seal 2 is missing"):
        session.store.trim_history(3)

    assert session.store.read(Operation, "switch-1") is not None
    assert [fault.kind for fault in faults(session.store)] == ["removed"]


def test_a_seal_covers_fields_that_this_version_does_not_know() -> None:
    seal = Seal(number=1, operation="a", at=NOW, entries=0, digest="d", before="b")

    again = Seal.model_validate_json(seal.to_bytes()[:-1] + b',"new":1}')

    assert again.hash != seal.hash
    assert HistoryEntry(at=NOW, epoch=0, step="s", outcome="done").by is None
