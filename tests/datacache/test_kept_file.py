"""What is kept in a file comes back as it was, whatever happened to the file's end."""

from __future__ import annotations

import os
import time
from hashlib import blake2b
from pathlib import Path

import pytest

from ha_core.datacache import kept_file
from ha_core.datacache.core.digest import fingerprint
from ha_core.datacache.core.held import Content
from ha_core.datacache.core.source import Row
from ha_core.datacache.kept_file import KeptFile, KeptFileError

SOURCE = "https://platform.example.org"


def content(at_us: int, **rows: int) -> Content:
    """:param rows: key → time of its version."""
    made = {key: Row(key, changed_us, {"is": [key, changed_us]}) for key, changed_us in rows.items()}
    return Content(at_us, made, fingerprint(rows.values()))


def kept(path: Path) -> Content | None:
    found = KeptFile(path, SOURCE).load()
    return None if found is None else found.content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "gw-1.users"


def test_what_was_kept_comes_back_with_its_time_and_its_age(path: Path) -> None:
    served = content(9, a=3, b=9)
    KeptFile(path, SOURCE).keep(served, time.time() - 100)

    found = KeptFile(path, SOURCE).load()

    assert found is not None
    assert found.content == served
    assert 100 <= found.age_s < 200


def test_values_of_every_shape_come_back(path: Path) -> None:
    values: list[dict[str, object]] = [
        {},
        {"a": 1},
        {"b": {"c": ["d", None]}, "a": 1.5},
        {"a": 1, "b": {}},
        {"a": True},
    ]
    rows = {str(number): Row(str(number), number, value) for number, value in enumerate(values, 1)}
    served = Content(9, rows, fingerprint(range(1, len(values) + 1)))

    KeptFile(path, SOURCE).keep(served, time.time())

    assert kept(path) == served


def test_nobody_else_can_read_it(path: Path) -> None:
    KeptFile(path, SOURCE).keep(content(9, a=9), time.time())

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


def test_later_states_are_appended_until_the_file_has_grown_and_the_newest_comes_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given
    monkeypatch.setattr(kept_file, "BLOCK_ROWS", 2)
    file = KeptFile(path, SOURCE)
    file.keep(content(3, a=1, b=2, c=3), time.time())
    inode = path.stat().st_ino
    # When
    states = [content(5, a=1, b=5), content(6, a=1, b=5, d=6), content(8, a=8, b=5, d=6, e=7)]
    seen = []
    for state in states:
        file.keep(state, time.time())
        assert kept(path) == state
        seen.append(path.stat().st_ino == inode)
    # Then
    assert seen == [True, True, False]


def test_a_process_that_goes_on_appends_to_what_it_has_found(path: Path) -> None:
    KeptFile(path, SOURCE).keep(content(3, a=1, b=3), time.time())
    inode = path.stat().st_ino
    file = KeptFile(path, SOURCE)
    file.load()

    file.keep(content(4, a=4, b=3), time.time())

    assert path.stat().st_ino == inode
    assert kept(path) == content(4, a=4, b=3)


@pytest.mark.parametrize("cut", range(1, 120, 7))
def test_a_torn_end_leaves_the_state_before(path: Path, cut: int) -> None:
    file = KeptFile(path, SOURCE)
    file.keep(content(3, a=1, b=3), time.time())
    whole = path.stat().st_size
    file.keep(content(4, a=4, b=3), time.time())
    os.truncate(path, path.stat().st_size - cut)
    assert path.stat().st_size > whole

    found = KeptFile(path, SOURCE)
    again = found.load()

    assert again is not None
    assert again.content == content(3, a=1, b=3)
    # And what is kept next is not written behind it.
    found.keep(content(5, a=5, b=3), time.time())
    assert kept(path) == content(5, a=5, b=3)


def test_whatever_byte_is_damaged_nothing_else_comes_back_than_what_was_once_kept(path: Path) -> None:
    file = KeptFile(path, SOURCE)
    first, second = content(3, a=1, b=3), content(4, a=4, b=3)
    file.keep(first, time.time())
    file.keep(second, time.time())
    whole = path.read_bytes()

    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert kept(path) in (None, first, second)


def test_a_line_that_is_missing_in_between_is_found_by_the_fingerprint(path: Path) -> None:
    file = KeptFile(path, SOURCE)
    file.keep(content(3, a=1, b=3), time.time())
    file.keep(content(4, a=4, b=3), time.time())
    lines = path.read_bytes().splitlines(keepends=True)

    path.write_bytes(b"".join(lines[:3] + lines[4:]))

    assert kept(path) is None


def test_what_was_kept_of_another_source_is_not_used(path: Path) -> None:
    KeptFile(path, SOURCE).keep(content(9, a=9), time.time())

    assert KeptFile(path, "https://another.example.org").load() is None


def test_files_beside_each_other_do_not_get_into_each_others_way(path: Path) -> None:
    # Given two that would be written by the same way if only their stems counted
    others = (path, path.with_suffix(".rules"))
    path.parent.mkdir()
    (path.parent / "gw-1.new").mkdir()

    for number, place in enumerate(others, 5):
        KeptFile(place, SOURCE).keep(content(number, a=number), time.time())

    assert [kept(place) for place in others] == [content(5, a=5), content(6, a=6)]


def test_where_nothing_can_be_written_that_is_said_and_the_next_time_all_is_written(path: Path) -> None:
    # Given a folder that is a file
    path.parent.write_text("")
    file = KeptFile(path, SOURCE)
    with pytest.raises(KeptFileError, match="cannot be written"):
        file.keep(content(3, a=3), time.time())

    path.parent.unlink()
    file.keep(content(3, a=3), time.time())

    assert kept(path) == content(3, a=3)


@pytest.mark.parametrize("said", ["[1]", "7", "null", '{"schema":1,"source":"https://platform.example.org"}'])
@pytest.mark.parametrize(
    "then", ["[2]", "{}", '{"rows":[]}', '{"fields":7,"rows":7}', '{"at_us":"x","fingerprint":"x"}']
)
def test_a_file_of_whole_blocks_that_say_something_else_is_none(path: Path, said: str, then: str) -> None:
    path.parent.mkdir(parents=True)
    lines = (f"{blake2b(text.encode(), digest_size=16).hexdigest()} {text}\n" for text in (said, then))
    path.write_text("".join(lines))

    assert kept(path) is None
    KeptFile(path, SOURCE).keep(content(9, a=3), time.time())
    assert kept(path) == content(9, a=3)
