"""The gateways' feed: complete below a time, as of a time, and equal for all readers."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ha_core.datacache.core.digest import of_rows
from ha_core.datacache.core.source import Changes, Row, check
from ha_core.platform.errors import InvalidError, StaleVersionError
from ha_core.platform.feed import DatabaseSource
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform

BY, WHY = "operator", "a test"


def content(rows: tuple[Row, ...], through_us: int) -> list[Row]:
    """Content of a cache that has read all rows."""
    newest = {row.key: row for row in rows if row.changed_us <= through_us}
    return [row for row in newest.values() if row.value is not None]


def all_of(source: DatabaseSource, limit: int) -> tuple[Row, ...]:
    rows: tuple[Row, ...] = ()
    while True:
        after_us = rows[-1].changed_us if rows else 0
        read = source.changes(after_us, limit)
        check(read, after_us, limit)  # a cache's contract with its source
        rows += read.rows
        if len(read.rows) < limit:
            return rows


def test_a_database_without_changes_has_an_empty_feed(registry: Platform) -> None:
    source = registry.source("users")

    assert source.changes(0, 10) == Changes((), 0, 0)
    assert source.digest(0) == of_rows([])


def test_versions_come_in_order_with_deletions_and_only_those_of_the_kind(registry: Platform) -> None:
    # Given a user that was made, changed and deleted, and another one
    registry.create(UserEntry(name="alice"), BY, WHY)
    registry.replace(UserEntry(name="alice", owner="shop"), 1, BY, WHY)
    registry.create(UserEntry(name="bob"), BY, WHY)
    last = registry.delete("users", "alice", 2, BY, WHY)
    # When everything is read, and then the newest change
    read = registry.source("users").changes(0, 10)
    # Then every version is there
    assert [(row.key, row.value and row.value["owner"]) for row in read.rows] == [
        ("alice", ""),
        ("alice", "shop"),
        ("bob", ""),
        ("alice", None),
    ]
    assert read.through_us == last.changed_us
    assert registry.source("users").changes(read.rows[2].changed_us, 10).rows == read.rows[3:]
    for limit in (2, 10):
        said = json.loads(registry.source("users").changes_in_json(0, limit))
        changes = registry.source("users").changes(0, limit)
        assert said == changes._asdict() | {"rows": [list(row) for row in changes.rows]}
    assert registry.source("rules").changes(0, 10) == Changes((), 0, 0)


def test_a_full_answer_goes_no_further_than_its_last_row(registry: Platform) -> None:
    for name in "abc":
        registry.create(UserEntry(name=name), BY, WHY)

    read = registry.source("users").changes(0, 2)

    assert (len(read.rows), read.through_us) == (2, read.rows[-1].changed_us)


def test_gateways_read_keys_that_are_hidden_from_people(registry: Platform) -> None:
    registry.create(UserEntry(name="alice"), BY, WHY)
    stored = registry.set_password("alice", "correct horse", BY, WHY)

    (_, row) = registry.source("users").changes(0, 10).rows

    assert row.value is not None
    assert set(row.value["scram"]) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert "salt" not in str(stored.to_json())
    assert "salt" not in repr(stored)
    assert "horse" not in str(row)


def test_the_digest_matches_the_content_at_each_time(registry: Platform) -> None:
    registry.create(UserEntry(name="alice"), BY, WHY)
    registry.create(UserEntry(name="bob"), BY, WHY)
    registry.replace(UserEntry(name="alice", owner="shop"), 1, BY, WHY)
    registry.delete("users", "bob", 1, BY, WHY)
    source = registry.source("users")
    rows = source.changes(0, 10).rows

    digests = [source.digest(row.changed_us) for row in rows]

    assert digests == [of_rows(content(rows, row.changed_us)) for row in rows]
    assert len(set(digests)) == 4
    assert source.digest(rows[-1].changed_us + 1) is None


@pytest.mark.parametrize(("after_us", "limit"), [(-1, 10), (1 << 63, 10), (0, 0), (0, 10_001)])
def test_times_and_limits_out_of_range_are_refused(registry: Platform, after_us: int, limit: int) -> None:
    with pytest.raises(InvalidError):
        registry.source("users").changes(after_us, limit)


def test_one_of_two_writers_with_an_equal_version_is_refused(registry: Platform) -> None:
    registry.create(UserEntry(name="alice"), BY, WHY)
    together = threading.Barrier(8)

    def change(number: int) -> str:
        together.wait()
        try:
            registry.replace(UserEntry(name="alice", owner=str(number)), 1, BY, WHY)
        except StaleVersionError:
            return "refused"
        return "written"

    with ThreadPoolExecutor(8) as pool:
        ended = sorted(pool.map(change, range(8)))

    assert ended == ["refused"] * 7 + ["written"]
    assert registry.read.get("users", "alice").version == 2


def test_a_reader_up_to_a_time_misses_no_change_below_it(url: str) -> None:
    # Given writers with their own connections, and a reader that continues from its last row
    with Platform.open(url) as first:
        stop = threading.Event()
        seen: list[Row] = []

        def write(writer: int) -> None:
            with Platform.open(url) as own:
                for number in range(15):
                    own.create(UserEntry(name=f"{writer}-{number}"), BY, WHY)

        def read() -> None:
            with Platform.open(url) as own:
                through_us = 0
                source = own.source("users")
                while not (last := stop.is_set()) or last:
                    got = source.changes(through_us, 7)
                    seen.extend(got.rows)
                    through_us = got.through_us
                    if last and not got.rows:
                        return

        # When they run at once
        with ThreadPoolExecutor(5) as pool:
            reader = pool.submit(read)
            for done in [pool.submit(write, writer) for writer in range(4)]:
                done.result()
            stop.set()
            reader.result()
        # Then the reader has missed nothing, and read nothing twice
        assert tuple(seen) == all_of(first.source("users"), 7)
        assert len(seen) == 60


def test_the_newest_times_show_changed_kinds_and_a_dry_run_changes_none(registry: Platform) -> None:
    # Given
    told: list[int] = []
    registry.on_change(lambda: told.append(1))
    before = registry.read.newest_us()
    assert set(before.values()) == {0}
    # When
    registry.create(UserEntry(name="alice"), BY, WHY, dry_run=True)
    made = registry.create(UserEntry(name="alice"), BY, WHY)
    # Then
    assert registry.read.newest_us() == before | {"users": made.changed_us}
    assert told == [1]
