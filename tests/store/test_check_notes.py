"""Notes of checks: the first sight of a problem, by whichever host, and the newest change of the platform."""

from ha_core.model import ExpectedGateway, PlatformChange
from stack.memory_store import MemoryStore

FIRST, SECOND, LATER = "2026-11-30T10:00:00Z", "2026-11-30T10:02:00Z", "2026-11-30T10:10:00Z"
DIED = "gateway-died gateway gw-2"


def test_a_problem_keeps_the_time_of_the_first_check_that_saw_it() -> None:
    store = MemoryStore()

    assert store.note_problems("a", FIRST, {DIED}) == {DIED: FIRST}
    assert store.note_problems("a", SECOND, {DIED, "other"}) == {DIED: FIRST, "other": SECOND}
    # When it was mended meanwhile, its next time is new
    assert store.note_problems("a", SECOND, set()) == {}
    assert store.note_problems("a", SECOND, {DIED}) == {DIED: SECOND}


def test_a_host_knows_times_of_another_and_does_not_reset_them() -> None:
    store = MemoryStore()
    store.note_problems("a", FIRST, {DIED})

    assert store.note_problems("b", SECOND, {DIED}) == {DIED: FIRST}
    assert store.note_problems("b", SECOND, set()) == {}
    assert store.note_problems("a", SECOND, {DIED}) == {DIED: FIRST}


def test_times_of_checks_that_have_ended_long_ago_do_not_count() -> None:
    store = MemoryStore()
    store.note_problems("a", FIRST, {DIED})

    assert store.note_problems("b", LATER, {DIED}) == {DIED: LATER}
    assert store.note_problems("a", LATER, {DIED}) == {DIED: LATER}


def test_the_newest_change_of_a_kind_is_kept_until_it_is_forgotten() -> None:
    store = MemoryStore()
    for at_us in (7, 9, 8):
        store.note_platform_change(PlatformChange(kind="users", changed_us=at_us, by="a"))

    assert [change.changed_us for change in store.platform_changes()] == [9]
    assert store.forget_platform_change("users")
    assert not store.forget_platform_change("users")
    assert store.platform_changes() == []


def test_a_declared_gateway_stays_expected_when_it_registers_and_when_it_stops() -> None:
    store = MemoryStore()
    store.declare_gateway("gw-1")
    store.expect_gateway(ExpectedGateway(gateway="gw-1", host="h", port=1, since=FIRST))
    store.gateway_stopped("gw-1", SECOND)
    store.expect_gateway(ExpectedGateway(gateway="gw-2", host="h", port=1, since=FIRST))
    store.gateway_stopped("gw-2", SECOND)

    (kept,) = store.expected_gateways().values()
    assert (kept.gateway, kept.declared, kept.since, kept.stopped) == ("gw-1", True, FIRST, SECOND)
