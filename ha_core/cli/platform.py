"""Shared by the platform's commands: database, changes, and passwords, which never come from arguments."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter

from ha_core.cli.command import CommandResult, CommandRun, DryRun, OptionGroup, Reason, operator, option
from ha_core.operations.access.caches import enforced
from ha_core.operations.engine.errors import RefusedError
from ha_core.platform import DATABASE_VARIABLE
from ha_core.present.registry import change_line, entries_page
from ha_core.store.errors import StoreError

if TYPE_CHECKING:
    from ha_core.platform.changing import Edit
    from ha_core.platform.entry import Entry
    from ha_core.platform.platform import Platform
    from ha_core.platform.stored import StoredEntry

MAX_PASSWORD_FILE = 4096
Database = Annotated[
    str | None,
    option(
        "sqlite:////PATH or postgresql://USER@HOST/NAME: the database of `switchyard platform serve`. A password "
        "belongs in the variable, or in PostgreSQL's own PGPASSFILE.",
        envvar=DATABASE_VARIABLE,
    ),
]
Version = Annotated[int | None, option("The version that the change is based on. Default: the newest.")]
PasswordFile = Annotated[Path | None, option("File with the password in its only line; - for standard input.")]


@dataclass(frozen=True)
class PageOptions(OptionGroup):
    """Options of a command that lists entries."""

    after: Annotated[str, option("Start after this key, which ends the page before.")] = ""
    limit: Annotated[int, option("Maximum number, up to 1000.")] = 1000
    database: Database = None


def named(database: str | None) -> str:
    """The given URL. There is no default: rights granted in a stray database would not be enforced by any gateway.

    :raises InvalidError: none was given.
    """
    from ha_core.platform.errors import InvalidError

    if not database:
        raise InvalidError(f"the platform's database is not configured: give --database, or set {DATABASE_VARIABLE}")
    return database


def listed(
    session: CommandRun,
    page: PageOptions,
    kind: str,
    mentioned: Mapping[str, str | None] | None = None,
    with_key: bool = False,
) -> CommandResult:
    """:param mentioned: role → name that the entries mention; None: any."""
    given = {role: name for role, name in (mentioned or {}).items() if name is not None}
    found = opened(session, page.database).read.page(kind, page.after, page.limit, given).to_json()
    return CommandResult(found, entries_page(found["items"], with_key=with_key))


def opened(session: CommandRun, database: str | None, creates: bool = False) -> Platform:
    """:param creates: create an SQLite file that does not exist; only commands that write do.
    :raises PlatformError: the database is away, has other tables, or is not configured.
    """
    from ha_core.platform.platform import Platform

    registry = Platform.open(named(database), creates)
    session.enter_context(closing(registry.database))
    return registry


@dataclass(frozen=True)
class WriteOptions(OptionGroup):
    """Options of every command that changes entries."""

    reason: Reason
    dry_run: DryRun = False
    database: Database = None

    def opened(self, session: CommandRun) -> Platform:
        """:raises PlatformError: as `opened` does."""
        return opened(session, self.database, creates=not self.dry_run)

    def create(self, session: CommandRun, registry: Platform, entry: Entry) -> CommandResult:
        """:raises StaleVersionError: it exists already."""
        return self.changed(session, registry, [registry.create(entry, operator(), self.reason, self.dry_run)])

    def made(self, session: CommandRun, registry: Platform, edits: Sequence[Edit]) -> CommandResult:
        """Make the edits in the name of the operator."""
        return self.changed(session, registry, registry.apply(edits, operator(), self.reason, self.dry_run))

    def changed(self, session: CommandRun, registry: Platform, stored: Sequence[StoredEntry]) -> CommandResult:
        """The result of a change, with whether gateways enforce it."""
        documents = [registry.read.with_before(entry) for entry in stored]
        newest = {one.kind: max(other.changed_us for other in stored if other.kind == one.kind) for one in stored}
        enforcement = [] if self.dry_run else enforcement_of(session, registry, newest)
        document: dict[str, Any] = {
            "result": "dry run" if self.dry_run else "succeeded",
            "changes": documents,
            "enforcement": enforcement,
        }
        return CommandResult(document, [*(change_line(one, self.dry_run) for one in documents), *enforcement])


@dataclass(frozen=True)
class VersionedWrite(WriteOptions):
    """Options of a command that changes an entry at a version."""

    version: Version = None

    def delete(self, session: CommandRun, kind: str, key: str) -> CommandResult:
        """:raises NotThereError: there is no such entry."""
        from ha_core.platform.changing import Edit

        registry = self.opened(session)
        at = registry.read.get(kind, key).version if self.version is None else self.version
        return self.made(session, registry, [Edit(kind, key, None, at)])

    def put(self, session: CommandRun, entry: Entry) -> CommandResult:
        """Create or replace an entry."""
        from ha_core.platform.changing import put

        registry = self.opened(session)
        stored_entry = registry.read.find(entry.KIND, entry.key)
        at = self.version if self.version is not None or stored_entry is None else stored_entry.version
        return self.made(session, registry, [put(entry, at)])


def enforcement_of(session: CommandRun, registry: Platform, newest: Mapping[str, int]) -> list[str]:
    """Whether gateways enforce changes that are already written.

    :param newest: kind → time of its newest change.
    """
    if session.connects is None:
        return ["Whether a gateway enforces it is not known: name their ZooKeeper (--zookeeper)."]
    try:
        return [*enforced(session.environment, newest, registry.read.has_change_at, registry.database.name)]
    except (StoreError, RefusedError) as error:
        return [f"Whether a gateway enforces it is not known: {error}"]


def password_of(file: Path | None) -> str:
    """Reads a password from a file, from standard input, or from a prompt, twice.

    :raises BadParameter: there is none.
    """
    if file is not None and str(file) != "-":
        try:
            with file.open(encoding="utf-8") as text:
                password = text.read(MAX_PASSWORD_FILE)
        except (OSError, UnicodeDecodeError) as error:
            raise BadParameter(f"the password file {file} cannot be read: {type(error).__name__}") from None
    elif file is not None or not sys.stdin.isatty():
        password = sys.stdin.read(MAX_PASSWORD_FILE)
    else:
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise BadParameter("the two passwords differ")
    if not (line := password.removesuffix("\n").removesuffix("\r")):
        raise BadParameter("there is no password: give it by --password-file FILE, on standard input, or when asked")
    return line
