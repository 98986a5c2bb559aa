"""The account of a forced switch to a copy: a true one is exact, and every planted fault is found and named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from stack.history.checker import check
from stack.history.events import Acked, Event, Sent
from stack.history.history import History
from stack.history.lost_tails import ForcedLoss, account, tail_violations, what_is_left
from tests.history.failover import CUT, LOSS, READER, WEST, acked, given, recorded
from tests.history.world import TOPIC, rewrite


def found(history: History, loss: ForcedLoss = LOSS) -> set[tuple[str, str | None]]:
    result = check(what_is_left(history, loss), complete_readers=[READER, "billing"])
    return {(violation.kind, violation.value) for violation in (*result.violations, *tail_violations(history, loss))}


def test_delivered_records_are_the_acknowledged_ones_without_the_lost_tail() -> None:
    history = recorded()

    counts = account(history, LOSS, READER)

    assert (counts.acknowledged, counts.reported, counts.lost, counts.came_again, counts.delivered) == (12, 4, 3, 1, 9)
    assert counts.exact
    assert str(counts) == ("12 acknowledged - 3 lost (4 reported, 1 of them written again at the copy) = 9 delivered")
    assert found(history) == set()


def test_records_after_a_commit_that_the_standby_had_may_be_repeated() -> None:
    assert check(what_is_left(recorded(), LOSS), complete_readers=["billing"]).repeated == 1


def in_logs(history: History, cluster: str, records: dict[int, str]) -> History:
    logs = tuple(replace(dump, records=records) if dump.cluster == cluster else dump for dump in history.logs)
    return replace(history, logs=logs)


def instead(history: History, client: str, old: Event, *new: Event) -> History:
    return rewrite(history, client, next(one for one in history.clients[client] if one == old), *new)


def plus(history: History, client: str, *events: Event) -> History:
    return replace(history, clients={**history.clients, client: (*history.clients[client], *events)})


def lost_from_the_copy(history: History) -> History:
    return in_logs(history, "west", {at: value for at, value in WEST.items() if value != "p-3"})


def acknowledged_after_the_kill_and_nowhere(history: History) -> History:
    sent = Sent("p", 210.0, TOPIC, "p-12")
    return plus(history, "p", sent, Acked("p", 230.0, TOPIC, 0, CUT + 3, "p-12"))


def acknowledged_by_the_copy_and_only_in_the_tail(history: History) -> History:
    return instead(history, "p", acked(8), replace(acked(8), t=220.0, offset=CUT + 7))


def acknowledged_where_another_record_lies(history: History) -> History:
    return instead(history, "p", acked(8), replace(acked(8), offset=7))


def skipped_by_the_reader(history: History) -> History:
    return instead(history, READER, given(READER, 304.0, 4, 4))


def skipped_by_the_group(history: History) -> History:
    return instead(history, "m", given("m", 214.0, CUT + 1, 10, "billing"))


def read_from_the_tail(history: History) -> History:
    last = given(READER, 305.0, 5, 5)
    return instead(history, READER, last, last, given(READER, 305.5, 7, 7))


def appended_again_at_the_copy(history: History) -> History:
    return in_logs(history, "west", {**WEST, 11: "p-3"})


def copied_past_the_map(history: History) -> History:
    return in_logs(history, "west", {**WEST, 7: "p-6"})


def given_twice(history: History) -> History:
    delivery = given(READER, 311.0, CUT + 1, 10)
    return instead(history, READER, delivery, delivery, replace(delivery, t=311.5))


def read_again_from_before_the_known_commit(history: History) -> History:
    again = given("m", 212.0, 5, 5, "billing")
    return instead(history, "m", again, given("m", 211.0, 2, 2, "billing"), again)


def renumbered_by_the_copy(history: History) -> History:
    return in_logs(history, "west", {**WEST, 3: "p-4", 5: "p-2"})


@pytest.mark.parametrize(
    ("plant", "violation"),
    [
        (lost_from_the_copy, ("lost", "p-3")),
        (acknowledged_after_the_kill_and_nowhere, ("lost", "p-12")),
        (acknowledged_by_the_copy_and_only_in_the_tail, ("lost", "p-8")),
        (acknowledged_where_another_record_lies, ("lost", "p-8")),
        (skipped_by_the_reader, ("lost", "p-4")),
        (skipped_by_the_group, ("lost", "p-10")),
        (read_from_the_tail, ("tail delivered", "p-7")),
        (appended_again_at_the_copy, ("doubled", "p-3")),
        (copied_past_the_map, ("late append", "p-6")),
        (given_twice, ("doubled", "p-10")),
        (read_again_from_before_the_known_commit, ("redelivered", "p-2")),
        (renumbered_by_the_copy, ("renumbered", "p-4")),
    ],
)
def test_a_planted_fault_is_found_and_named(
    plant: Callable[[History], History], violation: tuple[str, str | None]
) -> None:
    assert violation in found(plant(recorded()))


@pytest.mark.parametrize(
    "plant",
    [
        skipped_by_the_reader,
        read_from_the_tail,
        acknowledged_after_the_kill_and_nowhere,
        acknowledged_by_the_copy_and_only_in_the_tail,
    ],
)
def test_an_account_with_a_record_too_many_or_too_few_is_not_exact(plant: Callable[[History], History]) -> None:
    counts = account(plant(recorded()), LOSS, READER)
    assert not counts.exact
    assert "≠" in str(counts)


def test_a_missing_record_is_not_offset_by_a_duplicate() -> None:
    counts = account(read_from_the_tail(skipped_by_the_reader(recorded())), LOSS, READER)
    assert counts.acknowledged - counts.lost == counts.delivered
    assert (counts.missing, counts.strange) == (("p-4",), ("p-7",))
    assert not counts.exact


@pytest.mark.parametrize("records", [3, 5, None])
def test_a_tail_that_is_counted_wrongly_is_named(records: int | None) -> None:
    tail = LOSS.tail.partitions[0]
    wrong = LOSS.tail.changed(partitions={0: tail.changed(records=records)})

    assert found(recorded(), replace(LOSS, tail=wrong)) == {("miscounted", None)}


def test_a_topic_whose_copy_was_not_read_is_not_accounted_for() -> None:
    history = recorded()
    with pytest.raises(ValueError, match="orders-0 in west was not read"):
        what_is_left(replace(history, logs=history.logs[:1]), LOSS)
