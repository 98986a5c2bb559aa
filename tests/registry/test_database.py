"""The database: its file mode, its tables, and errors while it is away."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from ha_core.platform.database import Database, _config, _write_ahead
from ha_core.platform.errors import DatabaseAwayError, InvalidError, SchemaError
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.platform.tables import METADATA

_PRINT_USERS = "print(*(one.key for one in opened.read.page('users').stored))"


def _in_another_process(url: str, statement: str) -> str:
    """Run the statement on a platform that the process opens and closes. Returns its output."""
    program = (
        "from ha_core.platform.kinds.users import UserEntry\n"
        "from ha_core.platform.platform import Platform\n"
        f"with Platform.open({url!r}) as opened:\n    {statement}"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_migrations_make_the_tables_of_the_code(registry: Platform) -> None:
    with registry.database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_a_new_file_gets_its_tables_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "platform.db"

    Platform.open(f"sqlite:///{path}").database.close()

    assert path.stat().st_mode & 0o777 == 0o600


def test_concurrent_openers_of_a_new_file_make_its_tables_once(tmp_path: Path) -> None:
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
                assert second.database.migrate() == ("0002", "0002")
        # When another process writes and closes, and the first one writes after it
        _in_another_process(url, "opened.create(UserEntry.read({'name': 'zoe', 'owner': 'shop'}), 'b', 'other')")
        held.create(UserEntry.read({"name": "erin", "owner": "shop"}), "a", "held open")
        # Then a third process sees both changes, and so does the first one
        assert _in_another_process(url, _PRINT_USERS) == "erin zoe"
        assert [entry.key for entry in held.read.page("users").stored] == ["erin", "zoe"]
        assert (tmp_path / "platform.db-wal").exists()


def test_opening_waits_for_a_writer_that_holds_the_file_in_its_first_mode(tmp_path: Path) -> None:
    # Given a new file with a writer, in the mode that files have at first
    path = tmp_path / "platform.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    with ThreadPoolExecutor(1) as pool:
        # When it is opened by a process whose driver does not wait
        opening = sqlite3.connect(path, timeout=0, check_same_thread=False)
        changed = pool.submit(_write_ahead, opening)
        with pytest.raises(TimeoutError):
            changed.result(0.3)
        holder.execute("COMMIT")
        # Then its mode is changed when the writer is done
        changed.result(30)
    assert opening.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    for connection in (holder, opening):
        connection.close()


def test_opening_waits_for_a_writer_that_is_creating_the_tables(tmp_path: Path) -> None:
    # Given a file with SQLite's header, and a writer that has not created the tables yet
    url = f"sqlite:///{tmp_path}/platform.db"
    first = Database(url)
    with ThreadPoolExecutor(1) as pool:
        with first.writing() as connection:
            assert (tmp_path / "platform.db").stat().st_size > 0
            # When another process opens it meanwhile
            second = pool.submit(Platform.open, url)
            with pytest.raises(TimeoutError):
                second.result(0.3)
            connection.execute(text("SELECT 1"))
        # Then it creates them on its turn
        assert second.result(30).read.page("users").stored == ()
    first.close()


def test_tables_of_another_version_are_named_and_unchanged(url: str) -> None:
    # Given a database that a newer version has changed
    Platform.open(url).database.close()
    database = Database(url)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    # When it is opened or migrated
    # Then that is refused
    with pytest.raises(SchemaError, match="9999"):
        database.open()
    with pytest.raises(SchemaError, match="9999"):
        database.migrate()
    database.close()


def test_changes_of_the_first_tables_stay_readable_without_seals_and_the_next_one_is_sealed(
    registry: Platform,
) -> None:
    # Given a database of the first version, with a user
    registry.create(UserEntry(name="ann"), "ops", "INC-1")
    with registry.database.writing() as connection:
        scripts = _config()
        scripts.attributes["connection"] = connection
        command.downgrade(scripts, "0001")
    assert registry.database.revision() == "0001"
    # When it is migrated, and another user comes
    assert registry.database.migrate() == ("0001", "0002")
    registry.create(UserEntry(name="bob"), "ops", "INC-2")
    # Then both are there, and the second has a seal
    sealed = {change.sealed.key: change.sealed for change in registry.read.changes()}
    assert sealed["ann"].seal is None
    assert sealed["bob"].seal == sealed["bob"].hash == registry.read.newest_seal()


def test_a_repeated_migration_changes_nothing(registry: Platform) -> None:
    assert registry.database.migrate() == ("0002", "0002")


@pytest.mark.parametrize("url", ["mysql://u:s3cr3t@h/d", "no url with s3cr3t", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_are_refused_without_their_passwords(url: str) -> None:
    with pytest.raises(InvalidError) as refused:
        Database(url)

    assert "s3cr3t" not in str(refused.value)


def test_a_file_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DatabaseAwayError, match="cannot be created"):
        Platform.open(f"sqlite:///{tmp_path}/file/platform.db")


def test_a_file_that_is_no_database_is_reported_as_such(tmp_path: Path) -> None:
    path = tmp_path / "platform.db"
    path.write_text("this is a text" * 100)

    with pytest.raises(DatabaseAwayError, match="not a database"):
        Platform.open(f"sqlite:///{path}")
    assert path.read_text() == "this is a text" * 100
