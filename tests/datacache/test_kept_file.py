"""Content written to a file is loaded unchanged, whatever happened to the file's end."""

import json
import time
from hashlib import blake2b
from pathlib import Path

import pytest

from ha_core.datacache import cache_file
from ha_core.datacache.cache_file import CacheFile, CacheFileError
from ha_core.datacache.core import blocks, packed
from ha_core.datacache.core.digest import fingerprint
from ha_core.datacache.core.packed import rows_of
from ha_core.datacache.core.source import Row
from ha_core.datacache.core.uncommitted import Content

SOURCE = "https://platform.example.org"


def content(at_us: int, **rows: int) -> Content:
    """:param rows: key → time of its version."""
    made = rows_of(Row(key, changed_us, {"is": [key, changed_us]}) for key, changed_us in rows.items())
    return Content(at_us, made, fingerprint(rows.values()))


def kept(path: Path) -> Content | None:
    cached_content = CacheFile(path, SOURCE).load()
    return None if cached_content is None else cached_content.content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "gw-1.users"


def test_content_is_loaded_with_its_time_and_its_age(path: Path) -> None:
    served = content(9, a=3, b=9)
    CacheFile(path, SOURCE).keep(served, time.time() - 100)

    cached_content = CacheFile(path, SOURCE).load()

    assert cached_content is not None
    assert cached_content.content == served
    assert 100 <= cached_content.age_s < 200


def test_a_later_time_at_which_the_source_had_nothing_newer_is_stored_alone(path: Path) -> None:
    # Given
    file, served = CacheFile(path, SOURCE), content(9, a=3, b=9)
    file.keep(served, time.time() - 100)
    whole = path.read_bytes()
    # When
    file.keep(served, time.time() - 50)
    # Then
    cached_content = CacheFile(path, SOURCE).load()
    assert cached_content is not None
    assert 50 <= cached_content.age_s < 100
    assert path.read_bytes() == whole


def test_values_of_every_shape_come_back(path: Path) -> None:
    values: list[dict[str, object]] = [
        {},
        {"a": 1},
        {"b": {"c": ["d", None]}, "a": 1.5},
        {"a": 1, "b": {}},
        {"a": True},
    ]
    rows = rows_of(Row(str(number), number, value) for number, value in enumerate(values, 1))
    served = Content(9, rows, fingerprint(range(1, len(values) + 1)))

    CacheFile(path, SOURCE).keep(served, time.time())

    assert kept(path) == served


def test_other_users_cannot_read_the_file(path: Path) -> None:
    CacheFile(path, SOURCE).keep(content(9, a=9), time.time())

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


def test_later_states_are_appended_until_the_file_has_grown_and_the_newest_comes_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 2)
    monkeypatch.setattr(cache_file, "BLOCK_ROWS", 2)
    file = CacheFile(path, SOURCE)
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


def test_a_restarted_process_appends_to_its_file(path: Path) -> None:
    CacheFile(path, SOURCE).keep(content(3, a=1, b=3), time.time())
    inode = path.stat().st_ino
    file = CacheFile(path, SOURCE)
    file.load()

    file.keep(content(4, a=4, b=3), time.time())

    assert path.stat().st_ino == inode
    assert kept(path) == content(4, a=4, b=3)


def test_a_damaged_byte_never_loads_content_that_was_not_written(path: Path) -> None:
    file = CacheFile(path, SOURCE)
    first, second = content(3, a=1, b=3), content(4, a=4, b=3)
    file.keep(first, time.time())
    file.keep(second, time.time())
    whole = path.read_bytes()

    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert kept(path) in (None, first, second)


FIRST_SCHEMA = b"""\
a554d6b9abad855ee1a93ea8070010c1 {"schema":1,"source":"https://platform.example.org"}
f9f1ba4704ea6cdc46a5d5d8fb9d7189 {"fields":["name","groups","scram"],"rows":[["alice",1,"alice",["tills"],\
{"SCRAM-SHA-256":{"salt":"c2FsdA==","iterations":4096}}],["bob",2,"bob",[],{}]]}
c741e1b872d2177af25b8470ce2f1eac {"fields":["name","disabled","groups"],"rows":[["carol",3,"carol",true,[]]]}
a0d35c6adde0949ad9b6388d1d4573d0 {"at_us":3,"fingerprint":"e"}
a0cb53a906b6d4ce6cc54e9ae49d485d {"gone":[["alice",5]]}
f6c750f1ed6d122308b413ebe1cc4ebc {"fields":["name","groups","scram"],"rows":[["bob",5,"bob",["ops"],{}]]}
10ca576535203a1b089e4eb000dee3aa {"at_us":5,"fingerprint":"22"}
"""


def test_a_file_of_an_older_version_is_replaced_with_one_line_in_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Given
    path.parent.mkdir()
    path.write_bytes(FIRST_SCHEMA)
    file = CacheFile(path, SOURCE)
    # When
    assert file.load() is None
    file.keep(content(9, a=9), time.time())
    # Then
    assert kept(path) == content(9, a=9)
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{path} is not used: it is of an older version")


def test_a_missing_file_is_no_line_in_the_log(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert kept(path) is None
    assert caplog.records == []


KEYS = {"SCRAM-SHA-256": {"salt": "c2FsdA==", "iterations": 4096}}
CAROL = Row("carol", 3, {"name": "carol", "disabled": True, "groups": []})
STATES = [
    Content(
        3,
        rows_of(
            [
                Row("alice", 1, {"name": "alice", "groups": ["tills"], "scram": KEYS}),
                Row("bob", 2, {"name": "bob", "groups": [], "scram": {}}),
                CAROL,
            ]
        ),
        fingerprint([1, 2, 3]),
    ),
    Content(5, rows_of([CAROL, Row("bob", 5, {"name": "bob", "groups": ["ops"], "scram": {}})]), fingerprint([3, 5])),
]


def test_a_file_cut_anywhere_loads_a_written_state_or_none(path: Path) -> None:
    # Given a file with two states
    file, (first, second) = CacheFile(path, SOURCE), STATES
    for state in STATES:
        file.keep(state, time.time())
    whole = path.read_bytes()
    seen = []
    for end in range(len(whole) + 1):
        # When
        path.write_bytes(whole[:end])
        file = CacheFile(path, SOURCE)
        cached_content = file.load()
        seen.append(None if cached_content is None else cached_content.content.at_us)
        # Then
        assert cached_content is None or cached_content.content in (first, second)
        if end % 20 == 0:
            file.keep(content(9, a=9), time.time())
            assert kept(path) == content(9, a=9)
    assert list(dict.fromkeys(seen)) == [None, 3, 5]


@pytest.mark.parametrize("schema", [0, 1, 3, None, "2", [2], {"2": 2}])
def test_a_file_of_another_schema_is_not_used(path: Path, schema: object) -> None:
    CacheFile(path, SOURCE).keep(content(9, a=9), time.time())
    head, rest = path.read_bytes().split(b"\n", 1)
    said = json.dumps(json.loads(head[33:]) | {"schema": schema}).encode()
    path.write_bytes(blake2b(said, digest_size=16).hexdigest().encode() + b" " + said + b"\n" + rest)

    assert kept(path) is None


@pytest.mark.parametrize("foreign", [b"", b"\n", b"{}\n", b"\x00" * 5000, b"PAR1\n\n\n", b"[1]\n"])
def test_a_foreign_file_is_not_used(path: Path, foreign: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(foreign)

    assert kept(path) is None
    CacheFile(path, SOURCE).keep(content(9, a=9), time.time())
    assert kept(path) == content(9, a=9)


def test_a_text_of_many_rows_is_in_memory_once(path: Path) -> None:
    values: list[dict[str, object]] = [
        {"owner": "".join(["te", "am"]), "at": at} for at in (1, True, 1.0, None, "1", [1])
    ]
    rows = rows_of(Row(str(number), number, value) for number, value in enumerate(values, 1))
    CacheFile(path, SOURCE).keep(Content(9, rows, fingerprint(range(1, 7))), time.time())

    found = kept(path)

    assert found is not None
    assert [repr((found.rows[str(number)].value or {})["at"]) for number in range(1, 7)] == [
        "1", "True", "1.0", "None", "'1'", "[1]"
    ]  # fmt: skip
    assert len({id((row.value or {})["owner"]) for row in found.rows.all()}) == 1


@pytest.mark.parametrize("most", [0, 1, 1000])
def test_rows_of_many_shapes_come_back_however_few_are_remembered(
    path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given
    monkeypatch.setattr(packed, "MAX_SHAPES", most)
    monkeypatch.setattr(packed, "_shapes", {})
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 3)
    monkeypatch.setattr(blocks, "MAX_TEXTS", 7)
    rows = rows_of(
        Row(f"key-{at}", at, {f"a{at % 3}": f"text {at % 5}", "in": {"b": f"{at % 2}"}, "c": f"c{at}", "d": "same"})
        for at in range(1, 60)
    )
    first = Content(99, rows, fingerprint(range(1, 60)))
    file = CacheFile(path, SOURCE)
    # When
    file.keep(first, time.time())
    second = first.after([Row(f"key-{at}", 100 + at, {"a0": f"text {at % 5}"}) for at in range(1, 60, 2)], 200)
    file.keep(second, time.time())
    # Then
    assert kept(path) == second


def test_a_missing_line_is_found_by_the_fingerprint(path: Path) -> None:
    file = CacheFile(path, SOURCE)
    file.keep(content(3, a=1, b=3), time.time())
    file.keep(content(4, a=4, b=3), time.time())
    lines = path.read_bytes().splitlines(keepends=True)

    path.write_bytes(b"".join(lines[:3] + lines[4:]))

    assert kept(path) is None


def test_content_of_another_source_is_not_used(path: Path) -> None:
    CacheFile(path, SOURCE).keep(content(9, a=9), time.time())

    assert CacheFile(path, "https://another.example.org").load() is None


def test_files_in_one_folder_do_not_collide(path: Path) -> None:
    # Given two files whose temporary names would collide if only their stems counted
    others = (path, path.with_suffix(".rules"))
    path.parent.mkdir()
    (path.parent / "gw-1.new").mkdir()

    for number, place in enumerate(others, 5):
        CacheFile(place, SOURCE).keep(content(number, a=number), time.time())

    assert [kept(place) for place in others] == [content(5, a=5), content(6, a=6)]


def test_a_failed_write_is_reported_and_the_next_one_writes_everything(path: Path) -> None:
    # Given a folder that is a file
    path.parent.write_text("")
    file = CacheFile(path, SOURCE)
    with pytest.raises(CacheFileError, match="cannot be written"):
        file.keep(content(3, a=3), time.time())

    path.parent.unlink()
    file.keep(content(3, a=3), time.time())

    assert kept(path) == content(3, a=3)


@pytest.mark.parametrize("said", ["[1]", "7", "null", '{"schema":1,"source":"https://platform.example.org"}'])
@pytest.mark.parametrize(
    "then", ["[2]", "{}", '{"rows":[]}', '{"fields":7,"rows":7}', '{"at_us":"x","fingerprint":"x"}']
)
def test_a_file_of_undamaged_foreign_blocks_is_not_used(path: Path, said: str, then: str) -> None:
    path.parent.mkdir(parents=True)
    lines = (f"{blake2b(text.encode(), digest_size=16).hexdigest()} {text}\n" for text in (said, then))
    path.write_text("".join(lines))

    assert kept(path) is None
    CacheFile(path, SOURCE).keep(content(9, a=3), time.time())
    assert kept(path) == content(9, a=3)
