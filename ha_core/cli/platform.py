"""What the platform's commands share: its database, changes, and passwords, which come by any way but arguments."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter

from ha_core.cli.command import Answer, Session, operator, option
from ha_core.present.registry import change_line
from ha_core.registry import DATABASE_VARIABLE

if TYPE_CHECKING:
    from ha_core.registry.registry import Registry
    from ha_core.registry.stored import Stored

MAX_PASSWORD_FILE = 4096
Database = Annotated[
    str | None,
    option(
        "sqlite:////PATH or postgresql://USER@HOST/NAME. Default: a file of your own. A password belongs in the "
        "variable, or in PostgreSQL's own PGPASSFILE.",
        envvar=DATABASE_VARIABLE,
    ),
]
Version = Annotated[int | None, option("The version that the change is based on. Default: the newest.")]
PasswordFile = Annotated[Path | None, option("File with the password in its only line; - for standard input.")]


def opened(session: Session, database: str | None) -> Registry:
    """:raises RegistryError: the database is away, or has other tables."""
    from ha_core.registry.database import default_url
    from ha_core.registry.registry import Registry

    registry = Registry.open(database or default_url())
    session.enter_context(closing(registry.database))
    return registry


def changed(change: Callable[[str], Stored | Sequence[Stored]], dry_run: bool) -> Answer:
    """:param change: takes who asks for it."""
    made = change(operator())
    documents = [one.to_json() for one in (made if isinstance(made, Sequence) else [made])]
    document: dict[str, Any] = {"result": "dry run" if dry_run else "succeeded", "changes": documents}
    return Answer(document, [change_line(one, dry_run) for one in documents])


def password_of(file: Path | None) -> str:
    """From a file, standard input, or whoever sits there, twice.

    :raises BadParameter: there is none.
    """
    if file is not None and str(file) != "-":
        try:
            with file.open(encoding="utf-8") as text:
                said = text.read(MAX_PASSWORD_FILE)
        except (OSError, UnicodeDecodeError) as error:
            raise BadParameter(f"the password file {file} cannot be read: {type(error).__name__}") from None
    elif file is not None or not sys.stdin.isatty():
        said = sys.stdin.read(MAX_PASSWORD_FILE)
    else:
        said = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != said:
            raise BadParameter("the two passwords differ")
    if not (one := said.removesuffix("\n").removesuffix("\r")):
        raise BadParameter("there is no password: give it by --password-file FILE, on standard input, or when asked")
    return one
