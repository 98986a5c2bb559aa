"""Notes of copiers are read as they were written, and anything else is refused."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.mirror.notes import (
    CopyId,
    Note,
    NotedCopies,
    Notes,
    copy_of,
    decode,
    encode,
    key_prefix,
    log_partition,
    transactional_id,
)
from ha_core.mirror.partition import MAX_BATCHES, SLOTS
from ha_core.mirror.progress import (
    MAX_PRODUCERS,
    PAGE_RUNS,
    Copied,
    CopyDamagedError,
    Intent,
    Progress,
    RunPage,
    TopicIds,
    Writer,
)
from ha_core.model import Run

COPY = CopyId("east-west", "orders", 3)
number = st.integers(0, 1 << 62)
writers = st.builds(Writer, number, st.integers(0, 32_767))
copied = st.builds(Copied, number, st.integers(1, 1 << 20), number, st.integers(-1, 32_767), st.integers(-1, 1 << 30))
intents = st.builds(Intent, writers, number, st.lists(copied, min_size=1, max_size=80).map(tuple), st.integers(-1, 99))
runs = st.lists(st.builds(Run, number, number, st.integers(1, 99)), max_size=80).map(tuple)
progresses = st.builds(
    Progress,
    writers,
    number,
    number,
    number,
    number,
    st.integers(-1, 99),
    runs,
    st.dictionaries(number, st.tuples(st.integers(0, 9), number), max_size=80),
    st.integers(0, 99),
    st.integers(0, 99),
    st.builds(TopicIds, st.sampled_from(["", "5f" * 16]), st.sampled_from(["", "0a" * 16])),
    number,
    number,
    number,
)
pages = st.builds(RunPage, st.integers(0, 99), runs)


@given(intents | progresses | pages)
def test_a_note_is_read_as_it_was_written(note: Note) -> None:
    assert decode(*encode(COPY, note)) == (COPY, note)


@pytest.mark.parametrize("fields", [1, 2])
def test_progress_from_before_reversals_has_no_base(fields: int) -> None:
    # Given a note that lacks the last fields
    key, value = encode(COPY, Progress(Writer(7, 3), 10, 12, base=4, source_base=5))
    shorter = json.dumps(json.loads(value)[:-fields]).encode()
    # When it is read
    _, note = decode(key, shorter)
    # Then it has the given fields, and no base
    assert isinstance(note, Progress)
    assert (note.source, note.base, note.source_base) == (10, 4 if fields == 1 else 0, 0)


def test_a_progress_that_passed_nothing_is_one_that_earlier_versions_read() -> None:
    lengths = [len(json.loads(encode(COPY, Progress(Writer(7, 3), 10, 12, overtaken=n))[1])) for n in (0, 5)]
    assert lengths == [14, 15]


def test_intents_reuse_their_keys_and_a_progress_has_its_own() -> None:
    intent = Intent(Writer(7, 0), 5, (Copied(0, 1),))
    keys = [encode(COPY, intent._replace(number=5 + turn * SLOTS))[0] for turn in range(3)]
    assert len(set(keys)) == 1
    assert encode(COPY, intent._replace(number=6))[0] not in keys
    assert encode(COPY, Progress(Writer(7, 0), 0, 0))[0] not in keys


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"[]"),
        (b'["l","t",0,1]', b"{}"),
        (b'["l","t",0,1]', b"[2,[1,2],3,4,[]]"),
        (b'["l","t",0,1]', zlib.compress(b"[1,[1,2],3,4,[]]")[:-3]),
        (b'["l","t",0,"progress"]', b"[1,[1,2],3,4,[]]"),
        (b'["l","t",0,1]', b"\0\1\2"),
    ],
)
def test_invalid_note_is_named(key: bytes, value: bytes) -> None:
    with pytest.raises(CopyDamagedError, match="cannot be read"):
        decode(key, value)


def test_notes_of_a_partition_stay_in_one_log_partition() -> None:
    assert [log_partition(COPY._replace(partition=p), 16) for p in range(4)] == [2, 4, 14, 8]
    assert transactional_id(COPY) == "switchyard-copy-east-west-orders-3"


def test_map_is_assembled_from_pages_and_progress() -> None:
    pages = [RunPage(number, (Run(10 * number, number, 1),)) for number in range(3)]
    progress = Progress(Writer(7, 0), 31, 4, runs=(Run(30, 3, 1),), pages=3)
    # Given the notes in any order, a page that no progress counts yet, and an older one of the same number
    notes = Notes(COPY, whole_map=True)
    for note in (RunPage(1, ()), pages[2], progress, pages[0], pages[1], RunPage(3, (Run(99, 9, 1),))):
        notes.add(*encode(COPY, note))
    assert [run.source for run in notes.runs] == [0, 10, 20, 30]
    # Then a missing page is an error, not a hole in the map
    del notes.pages[1]
    with pytest.raises(CopyDamagedError, match="page 1"):
        _ = notes.runs


def test_a_copier_does_not_read_the_pages() -> None:
    notes = Notes(COPY)
    notes.add(encode(COPY, RunPage(0, (Run(0, 0, 1),)))[0], b"whatever")
    assert notes.pages == {}
    assert notes.runs == ()


def test_key_names_the_copy_of_a_note() -> None:
    key, _ = encode(COPY, Intent(Writer(7, 0), 5, (Copied(0, 1),)))
    assert copy_of(key) == COPY
    with pytest.raises(CopyDamagedError):
        copy_of(b"nobody")


def test_the_largest_notes_fit_into_a_log_with_small_messages() -> None:
    """`max.message.bytes` of the copy log is a megabyte by default."""
    far = 1 << 50
    batches = tuple(Copied(far + 7 * i, 3, far + i * 7919, 9, i * 7919) for i in range(MAX_BATCHES))
    runs = tuple(Run(far + 7 * i, far + 3 * i, 2) for i in range(PAGE_RUNS))
    producers = {far + i * 7919: (3, i * 7919 % 65_537) for i in range(MAX_PRODUCERS)}
    progress = Progress(Writer(far, 3), far, far, runs=runs, producers=producers)
    for note in (Intent(Writer(far, 3), far, batches), RunPage(5, runs), progress):
        assert len(encode(COPY, note)[1]) < 100_000


def test_only_copies_with_earlier_notes_need_a_log_from_its_start() -> None:
    # Given a log that was read up to offset 100, with notes of one copy
    old, new, noted = CopyId("link", "orders", 0), CopyId("link", "orders", 1), NotedCopies()
    noted.of_log("id 1")
    noted.read(0, 100, [key_prefix(old)])
    # Then another copy has none below it
    assert (noted.first(old), noted.first(new)) == (0, 100)
    # When the part above is read, then its copies are known, too
    noted.read(100, 150, [key_prefix(new)])
    assert (noted.first(new), noted.first(CopyId("link", "other", 0))) == (0, 150)
    # When a part is read that leaves a gap, then it tells nothing
    noted.read(170, 200, [])
    assert noted.first(CopyId("link", "other", 0)) == 150
    # When the log has another leader epoch, or none is known, then everything is read again
    noted.of_log("id 2")
    assert noted.first(new) == 0
    noted.of_log("")
    noted.read(0, 100, [])
    assert noted.first(new) == 0
