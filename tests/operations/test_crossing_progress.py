"""The words for the progress of a crossing."""

from ha_core.operations.migration.crossing.ends import CrossingProgress, PartitionProgress, remaining_words
from ha_core.operations.running.settling import CrossingStatus
from tests.kit.operations import a_migration

CROSSING = a_migration(state="crossing")
SHORT = tuple(PartitionProgress("orders", number, end=5, cut=10) for number in range(3))


def test_an_open_crossing_says_how_many_partitions_have_reached_their_cuts() -> None:
    look = CrossingStatus(CROSSING, CrossingProgress(CROSSING, {"orders": "open"}, SHORT))

    assert look.words.startswith("0 of 3 partitions have reached their cuts")


def test_a_crossing_ended_by_a_barrier_says_its_result_and_not_its_progress() -> None:
    ended = CROSSING.model_copy(update={"state": "succeeded", "result": "all topics have crossed over"})
    look = CrossingStatus(ended, CrossingProgress(CROSSING, {"orders": "open"}, SHORT))

    assert look.words == "all topics have crossed over"


def test_partitions_added_during_a_crossing_are_named_with_the_command_that_moves_them() -> None:
    # Given an open crossing whose topic got three partitions
    progress = CrossingProgress(CROSSING, {"orders": "open"}, SHORT, added={"orders": (3, 4, 5)})
    # When its progress is shown
    # Then it names them, and so does its end, with the command
    assert progress.words.endswith(
        "; orders:3-5 were added in east meanwhile: clients see them when the crossing has ended, and they remain in "
        "east"
    )
    assert remaining_words(CROSSING) == ""
    ended = CROSSING.noting(remaining={"orders": (3, 4, 5)})
    assert remaining_words(ended) == (
        "3 partitions that were added meanwhile remain in east: "
        "`switchyard migrate orders:3-5 --from east --to west` brings them after"
    )
