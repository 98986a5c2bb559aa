"""Times and operations of history entries."""

from ha_core.model import Crossing, Extent, HistoryEntry, SwitchOperation, Topic
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.journal import Journal, Lap
from ha_core.operations.engine.report import partition_cuts
from tests.kit.operations import a_migration, a_switch


def held(environment: Environment) -> Journal[SwitchOperation]:
    begun = a_switch()
    return Journal(environment, begun, environment.store.create_operation(begun, ["topic:orders"]))


def clock(environment: Environment) -> None:
    """Each look at the clock is a second later."""
    ticks = iter(range(60))
    environment.now = lambda: f"2026-11-21T10:00:{next(ticks):02}.000Z"


def test_steps_under_the_fence_are_recorded_with_the_time_at_which_they_happened(
    environment: Environment,
) -> None:
    # Given three sub-steps of a window in which nothing is written
    journal = held(environment)
    clock(environment)
    for name in ("fence", "drain", "cut"):
        with journal.lap(name):
            pass
    # When they are written some seconds later
    for _ in range(7):
        environment.now()
    journal.write_pending()
    # Then each has its own time
    entries: list[HistoryEntry] = environment.store.history("switch-1")
    assert [(entry.step, entry.at[17:19]) for entry in entries] == [("fence", "00"), ("drain", "01"), ("cut", "02")]


def test_the_failure_that_led_to_an_undo_is_recorded_with_its_own_time(environment: Environment) -> None:
    journal = held(environment)
    journal.pending = [Lap("cut_over", "failed", 5.0, {}, "2026-11-21T09:59:59.000Z")]

    journal.write_pending()

    (entry,) = environment.store.history("switch-1")
    assert (entry.step, entry.outcome, entry.at) == ("cut_over", "failed", "2026-11-21T09:59:59.000Z")


def test_an_operation_reports_its_own_cuts_whatever_later_moves_did_to_the_maps() -> None:
    # Given an operation that cut at 10; since then the topic went back to east at 20, and to west again at 30
    done = a_switch(state="succeeded", evidence={"cuts": {"orders": [[0, 10, 0, 1]]}})
    now = Topic(
        name="orders",
        writer="west",
        partitions={
            0: (
                Extent(cluster="east", start=0, end=10, base=0, writer_epoch=0),
                Extent(cluster="west", start=10, end=20, base=0, writer_epoch=1),
                Extent(cluster="east", start=20, end=30, base=10, writer_epoch=2),
                Extent(cluster="west", start=30, base=10, writer_epoch=3),
            )
        },
    )
    # When its report is made
    # Then it has the cut of its own
    assert [cut.cut for cut in partition_cuts(done, {now.name: now})] == [10]


def test_an_open_crossing_reports_its_cuts_as_the_maps_have_them() -> None:
    # Given an operation, and a map with its open crossing
    ahead = a_migration(id="switch-1", state="crossing")
    crossing = Topic(
        name="orders",
        writer="east",
        partitions={
            0: (
                Extent(cluster="east", start=0, end=900, base=0, writer_epoch=0),
                Extent(cluster="west", start=900, base=0, writer_epoch=1),
            )
        },
        crossing=Crossing(operation="switch-1", state="open"),
    )
    # When its report is made
    # Then it has the cut of that map, and none of another operation's
    assert [cut.cut for cut in partition_cuts(ahead, {crossing.name: crossing})] == [900]
    other = crossing.model_copy(update={"crossing": Crossing(operation="switch-2", state="open")})
    assert partition_cuts(ahead, {other.name: other}) == ()
