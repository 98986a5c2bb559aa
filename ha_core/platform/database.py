"""The database: an SQLite file, or PostgreSQL by its URL; its transactions, and whether its tables fit."""

from __future__ import annotations

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
"""For another writer, and for an answer."""
AGAIN_S = 0.01
_LOCK = 0x53574544
"""PostgreSQL's advisory lock of those who change tables."""
_CREATING = threading.Lock()
"""Held by a thread that creates a file, until its descriptor is closed: another one's SQLite may lock the file then."""
_SCRIPTS = Path(__file__).parent / "migrations"


class Database:
    """Connections are made when they are first needed.

    :ivar name: its URL without the password.
    """

    def __init__(self, url: str) -> None:
        """:raises InvalidError: not the URL of a database that is known here."""
        parsed = _parse(url)
        self.name = parsed.render_as_string(hide_password=True)
        self._file = Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None
        try:
            self.engine = _of_postgresql(parsed) if self._file is None else _of_file(parsed)
        except ModuleNotFoundError as error:
            raise InvalidError(f"{self.name}: the package {error.name} is missing: install it") from None

    def open(self, creates: bool = True) -> None:
        """Check the tables, and make them where an SQLite file is new or empty.

        :param creates: an SQLite file that does not exist is made; else it is refused.
        :raises SchemaError: they are of another version.
        """
        if self._file is not None:
            if not creates and not self._file.exists():
                raise InvalidError(
                    f"{self._file} does not exist, and this makes no database: correct the path, or make it by "
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
        """Bring the tables to what this version needs. → their version before and now.

        Two that do it at once do it one after the other.
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
        # Not by its size: a file that another one is about to fill has a header first, and no tables yet.
        with self.reading() as connection:
            return not inspect(connection).get_table_names()

    def revision(self) -> str | None:
        with self.reading() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            return MigrationContext.configure(connection).get_current_revision()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads."""
        with _named(self.name), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, kept: bool = True) -> Iterator[Connection]:
        """A transaction that writes, on SQLite the only one; at its end it is committed, or, unless `kept`, undone."""
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
    """Errors of drivers as ours: their own texts may hold statements with their parameters."""
    try:
        yield
    except PoolTimeoutError:
        raise DatabaseAwayError(f"{name}: all connections are taken; try again") from None
    except (OperationalError, InterfaceError) as error:
        raise DatabaseAwayError(f"{name} does not answer: {_words(error)}") from None
    except DBAPIError as error:
        # Plain, without a kind of its own: SQLite says so of a file that is none of its own.
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
            "what was given is not the URL of a database: sqlite:////PATH, postgresql://USER@HOST/NAME"
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
        # The driver begins transactions when it likes; here each begins where ours does.
        connection.isolation_level = None
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # A reader that becomes a writer later is refused when another one wrote meanwhile: writers begin as such.
        writes = connection.get_execution_options().get("switchyard_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Of several that change the mode of a new file at once, SQLite refuses all but one without waiting for it."""
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
    """Create the file, readable by its owner only, since it holds the keys of passwords. One that exists is not opened.

    Closing any descriptor of a file ends all POSIX locks that the process has on it (https://sqlite.org/howtocorrupt.html,
    2.2). Without its locks a long-lived process looks gone: the next process that closes the database deletes the
    write-ahead log below it, and both go on with different content. Only SQLite itself may open a database that exists.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _CREATING, suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise DatabaseAwayError(f"{path} cannot be made: {error.strerror}") from None


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config


def _head() -> str:
    return str(ScriptDirectory.from_config(_config()).get_current_head())
