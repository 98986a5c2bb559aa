"""The database: an SQLite file, or PostgreSQL by its URL. Transactions, and the version of its tables."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ha_core.platform.errors import DatabaseAwayError, InvalidError, SchemaError

WAIT_S = 10
"""Seconds to wait for another writer, and for an answer."""
AGAIN_S = 0.01
_LOCK = 0x53574544
"""PostgreSQL's advisory lock for changes of tables."""
_CREATING = threading.Lock()
"""Held by a thread that creates a file, until its descriptor is closed: only then may SQLite lock the file."""
_SCRIPTS = Path(__file__).parent / "migrations"


class Database:
    """Connections are opened on first use.

    :ivar name: the URL without the password.
    """

    def __init__(self, url: str) -> None:
        """:raises InvalidError: the URL is not one of a supported database."""
        parsed = _parse(url)
        self.name = parsed.render_as_string(hide_password=True)
        self._file = Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None
        try:
            self.engine = _of_postgresql(parsed) if self._file is None else _of_file(parsed)
        except ModuleNotFoundError as error:
            raise InvalidError(f"{self.name}: the package {error.name} is missing: install it") from None

    def open(self, creates: bool = True) -> None:
        """Check the tables, and create them if an SQLite file is new or empty.

        :param creates: create an SQLite file that does not exist; otherwise refuse it.
        :raises SchemaError: the tables have another version.
        """
        if self._file is not None:
            if not creates and not self._file.exists():
                raise InvalidError(
                    f"{self._file} does not exist, and is not created here: correct the path, or create it with "
                    "`switchyard platform migrate`"
                )
            _create_private(self._file)
            if self._is_empty():
                self.migrate()
        found, wanted = self.revision(), _head()
        if found != wanted:
            raise SchemaError(
                f"{self.name} has its tables in version {found or 'none'}, {wanted} is needed: "
                "run `switchyard platform migrate` with the newest version of Switchyard"
            )

    def migrate(self) -> tuple[str | None, str]:
        """Migrate the tables to this version. Returns their version before and after.

        Concurrent migrations wait for each other.
        """
        if self._file is not None:
            _create_private(self._file)
        with self.writing() as connection:
            if self._file is None:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            before = MigrationContext.configure(connection).get_current_revision()
            scripts = _config()
            scripts.attributes["connection"] = connection
            known = {one.revision for one in ScriptDirectory.from_config(scripts).walk_revisions()}
            if before is not None and before not in known:
                raise SchemaError(f"{self.name} has its tables in version {before}, {_head()} is the newest known here")
            command.upgrade(scripts, "head")
        return before, _head()

    def _is_empty(self) -> bool:
        # The size does not tell: while another process fills the file, it has a header, but no tables yet.
        with self.reading() as connection:
            return not inspect(connection).get_table_names()

    def revision(self) -> str | None:
        with self.reading() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            return MigrationContext.configure(connection).get_current_revision()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction."""
        with _named(self.name), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, kept: bool = True) -> Iterator[Connection]:
        """A write transaction, on SQLite the only one. At its end it is committed, or rolled back unless `kept`."""
        with _named(self.name), self.engine.connect() as connection:
            connection.execution_options(switchyard_writes=True)
            with connection.begin() as transaction:
                yield connection
                if not kept:
                    transaction.rollback()

    def close(self) -> None:
        self.engine.dispose()


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Translates drivers' errors: their texts may contain statements with parameters."""
    try:
        yield
    except PoolTimeoutError:
        raise DatabaseAwayError(f"{name}: all connections are in use; try again") from None
    except (OperationalError, InterfaceError) as error:
        raise DatabaseAwayError(f"{name} does not answer: {_words(error)}") from None
    except DBAPIError as error:
        # Exactly this class: SQLite raises it for a file that is no SQLite database.
        if type(error) is DatabaseError:
            raise DatabaseAwayError(f"{name} cannot be read: {_words(error)}") from None
        if error.connection_invalidated:
            raise DatabaseAwayError(f"{name} has closed the connection: {_words(error)}") from None
        raise


def _words(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())[:300]


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidError(
            "this is no URL of a supported database: write sqlite:////PATH, postgresql://USER@HOST/NAME"
        ) from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in {"sqlite", "postgresql+psycopg"}:
        raise InvalidError(f"{parsed.drivername}: write sqlite:////PATH or postgresql://USER@HOST/DATABASE")
    if parsed.drivername == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise InvalidError("an SQLite database in memory is gone with its process: name a file, sqlite:////PATH")
    return parsed


def _of_file(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": WAIT_S})

    @event.listens_for(engine, "connect")
    def opened(connection: Any, _record: Any) -> None:
        # The driver would begin transactions by itself; this one begins them explicitly.
        connection.isolation_level = None
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # SQLite refuses a reader that turns writer after another process wrote: so writers begin as writers.
        writes = connection.get_execution_options().get("switchyard_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """If several processes change the mode of a new file at once, SQLite refuses all but one without waiting."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(AGAIN_S)
        else:
            return


def _of_postgresql(url: URL) -> Engine:
    wait_ms = WAIT_S * 1000
    settings = f"-c statement_timeout={wait_ms} -c lock_timeout={wait_ms} -c idle_in_transaction_session_timeout=60000"
    return create_engine(
        url,
        pool_pre_ping=True,
        pool_timeout=WAIT_S,
        connect_args={"connect_timeout": WAIT_S, "options": settings},
    )


def _create_private(path: Path) -> None:
    """Create the file, readable by its owner only, since it has keys of passwords. An existing file is not opened.

    Closing any descriptor of a file ends all POSIX locks that the process has on it
    (https://sqlite.org/howtocorrupt.html, 2.2). Without its locks a long-lived process looks gone: the next process
    that closes the database deletes the write-ahead log under it, and the two diverge. Only SQLite itself may open an
    existing database.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _CREATING, suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise DatabaseAwayError(f"{path} cannot be created: {error.strerror}") from None


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config


def _head() -> str:
    return str(ScriptDirectory.from_config(_config()).get_current_head())
