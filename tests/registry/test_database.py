"""The database itself: whose it is, its tables, and what is said when it is away."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from ha_core.platform.database import Database, _write_ahead
from ha_core.platform.errors import DatabaseAwayError, InvalidError, SchemaError
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.platform.tables import METADATA

_PRINT_USERS = "print(*(one.key for one in opened.read.page('users').stored))"


def _in_another_process(url: str, statement: str) -> str:
    """Run the statement on a registry that the process opens and closes. → its output."""
    program = (
        "from ha_core.platform.kinds.users import UserEntry\n"
        "from ha_core.platform.platform import Platform\n"
        f"with Platform.open({url!r}) as opened:\n    {statement}"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_migrations_make_the_tables_that_the_code_knows(registry: Platform) -> None:
    with registry.database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_a_new_file_gets_its_tables_by_itself_and_is_for_nobody_else_to_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "platform.db"

    Platform.open(f"sqlite:///{path}").database.close()

    assert path.stat().st_mode & 0o777 == 0o600


def test_many_that_open_a_new_file_at_once_make_its_tables_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/platform.db"

    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: Platform.open(url), range(4)))

    assert [one.read.page("users").stored for one in opened] == [()] * 4


@pytest.mark.parametrize("file", ["new", "existing", "opened twice by its process"])
def test_a_change_is_seen_by_other_processes_after_one_of_them_has_closed_the_file(tmp_path: Path, file: str) -> None:
    # Given a process that holds the database open
    url = f"sqlite:///{tmp_path}/platform.db"
    if file != "new":
        Platform.open(url).database.close()
    with Platform.open(url) as held:
        assert held.read.page("users").stored == ()
        if file == "opened twice by its process":
            with Platform.open(url) as second:
                assert second.database.migrate() == ("0001", "0001")
        # When another process writes and closes, and the first one writes after it
        _in_another_process(url, "opened.create(UserEntry.read({'name': 'zoe', 'owner': 'shop'}), 'b', 'other')")
        held.create(UserEntry.read({"name": "erin", "owner": "shop"}), "a", "held open")
        # Then a third process sees both changes, and the first one too
        assert _in_another_process(url, _PRINT_USERS) == "erin zoe"
        assert [one.key for one in held.read.page("users").stored] == ["erin", "zoe"]
        assert (tmp_path / "platform.db-wal").exists()


def test_a_file_that_another_one_holds_while_its_mode_is_changed_is_waited_for(tmp_path: Path) -> None:
    # Given a new file in which somebody writes, in the mode that files have at first
    path = tmp_path / "platform.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    with ThreadPoolExecutor(1) as pool:
        # When it is opened, by one whose driver does not wait
        opening = sqlite3.connect(path, timeout=0, check_same_thread=False)
        changed = pool.submit(_write_ahead, opening)
        with pytest.raises(TimeoutError):
            changed.result(0.3)
        holder.execute("COMMIT")
        # Then its mode is changed when the other one is done
        changed.result(30)
    assert opening.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    for connection in (holder, opening):
        connection.close()


def test_a_file_that_another_one_is_about_to_fill_is_waited_for(tmp_path: Path) -> None:
    # Given a file that has SQLite's header, and a writer that has not made the tables yet
    url = f"sqlite:///{tmp_path}/platform.db"
    first = Database(url)
    with ThreadPoolExecutor(1) as pool:
        with first.writing() as connection:
            assert (tmp_path / "platform.db").stat().st_size > 0
            # When another one opens it meanwhile
            second = pool.submit(Platform.open, url)
            with pytest.raises(TimeoutError):
                second.result(0.3)
            connection.execute(text("SELECT 1"))
        # Then it makes them when its turn has come
        assert second.result(30).read.page("users").stored == ()
    first.close()


def test_tables_of_another_version_are_named_and_left_alone(url: str) -> None:
    # Given a database that a newer version has changed
    Platform.open(url).database.close()
    database = Database(url)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    # When it is opened, or is to be migrated
    # Then that is refused
    with pytest.raises(SchemaError, match="9999"):
        database.open()
    with pytest.raises(SchemaError, match="9999"):
        database.migrate()
    database.close()


def test_a_migration_that_is_done_is_done_again_without_a_change(registry: Platform) -> None:
    assert registry.database.migrate() == ("0001", "0001")


@pytest.mark.parametrize("url", ["mysql://u:s3cr3t@h/d", "no url with s3cr3t", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_are_refused_without_their_passwords(url: str) -> None:
    with pytest.raises(InvalidError) as refused:
        Database(url)

    assert "s3cr3t" not in str(refused.value)


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DatabaseAwayError, match="cannot be created"):
        Platform.open(f"sqlite:///{tmp_path}/file/platform.db")


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "platform.db"
    path.write_text("this is a text" * 100)

    with pytest.raises(DatabaseAwayError, match="not a database"):
        Platform.open(f"sqlite:///{path}")
    assert path.read_text() == "this is a text" * 100
