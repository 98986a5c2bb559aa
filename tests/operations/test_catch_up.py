"""The facts that a switch takes from a copy that it has caught up, compared with the copier's own account."""

from ha_core.kafka.copying import Reached
from ha_core.mirror.notes import CopyId, Note, Notes, encode
from ha_core.mirror.partition import PartitionCopy
from ha_core.mirror.progress import PAGE_RUNS, Copied, Progress, ProgressBuilder, Writer
from ha_core.model.extent import Location, identity, locate
from ha_core.operations.copies.catch_up import facts_of, has_all, lacks_pages
from ha_core.plan.mirror.held_copies import MAX_EXTENTS_AT_ONCE, fitting
from ha_core.plan.mirror.standby import switched
from tests.mirror.batches import Target, marker, records

COPY = CopyId("link-1", "orders", 0)
WRITER = Writer(900, 3)
RECORDS = 5000


def reached_after_many_transactions() -> tuple[Notes, Reached]:
    """Runs of one record and a marker; two pages of runs are in the copy log, and 3,000 runs in no page."""
    account = ProgressBuilder(Progress(WRITER, 0, 0))
    for number in range(2 * PAGE_RUNS + 600):
        account.add(Copied(2 * number, 1))
    pages, progress = account.notes()
    written: tuple[Note, ...] = (*pages, progress)
    notes = Notes(COPY, whole_map=True)
    for note in written:
        notes.add(*encode(COPY, note))
    for number in range(2 * PAGE_RUNS + 600, RECORDS):
        account.add(Copied(2 * number, 1))
    return notes, Reached(2 * RECORDS, account.progress(), {})


def test_records_in_older_pages_of_the_map_are_readable_after_the_cut() -> None:
    # Given a copy with more runs since its newest progress than the map of a partition holds by itself
    notes, reached = reached_after_many_transactions()
    assert len(notes.pages) == 2
    # When the writer changes to it
    facts = facts_of(notes, reached)
    most = fitting({("orders", 0): facts}, MAX_EXTENTS_AT_ONCE)
    after = switched(identity("a"), "a", "b", facts.runs, 2 * RECORDS, RECORDS, most, whole=facts.whole)
    # Then each record is somewhere
    assert all(isinstance(locate(after, 2 * number), Location) for number in range(RECORDS))
    assert locate(after, 0) == Location(after[0], 0)


def test_pages_that_the_copier_still_has_in_hand_are_not_looked_for_in_the_copy_log() -> None:
    # Given a copier whose newest pages are on their way to the copy log
    account = ProgressBuilder(Progress(WRITER, 0, 0))
    for number in range(PAGE_RUNS + 1):
        account.add(Copied(2 * number, 1))
    partition = PartitionCopy(account.progress())
    page, progress = partition.notes()
    reached = Reached(partition.source, partition.progress, partition.pages)
    # When the log has nothing of them, the map is whole
    assert not lacks_pages(Notes(COPY, whole_map=True), reached)
    assert facts_of(Notes(COPY, whole_map=True), reached).runs == account.progress().runs
    # And once they were acknowledged they are read there
    assert isinstance(progress, Progress)
    partition.recorded(progress)
    reached = Reached(partition.source, partition.progress, partition.pages)
    notes = Notes(COPY, whole_map=True)
    assert lacks_pages(notes, reached)
    notes.add(*encode(COPY, page))
    assert not lacks_pages(notes, reached)
    assert facts_of(notes, reached).runs == account.progress().runs


def test_a_topic_that_ends_with_a_commit_marker_can_be_switched_to_its_copy() -> None:
    # Given a copy of all that a source has: a transaction of three records, and its commit marker
    partition, target = PartitionCopy(Progress(WRITER, 0, 0)), Target(WRITER)
    transaction = records(0, range(3), producer=5, sequence=0, transactional=True)
    target.copy_all(partition, transaction + marker(3, 5, 1))
    # When the switch asks whether that is all, it is; one offset more would not be there
    reached = Reached(partition.source, partition.progress, partition.pages)
    assert has_all(reached, 4)
    assert not has_all(reached, 5)
    assert facts_of(Notes(COPY, whole_map=True), reached).mirrored == 4
    # And a copier that was taken over says nothing of it
    assert not has_all(None, 0)
