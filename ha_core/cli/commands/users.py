"""`users`: users who may log in, and entries of the gateways' users files."""

from __future__ import annotations

import getpass
import json
import sys
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, command, option
from ha_core.cli.platform import Database, PasswordFile, Version, changed, opened, password_of
from ha_core.operations.access.user_entries import LEAST_ITERATIONS, entry
from ha_core.operations.engine.errors import RefusedError
from ha_core.present.registry import entries_page

if TYPE_CHECKING:
    from ha_core.platform.stored import StoredEntry

_User = Annotated[str, Argument(metavar="USER")]
_Owner = Annotated[str | None, option("The responsible person or team.")]
_Contact = Annotated[str | None, option("How to reach the owner.")]
_Super = Annotated[bool | None, option("May do everything, regardless of rules.", "--super/--no-super")]
_Disabled = Annotated[bool | None, option("Cannot log in and may do nothing; the entry stays.", "--disabled/--enabled")]
_Groups = Annotated[list[str] | None, option("A group of users that contains it; repeatable; empty: none.", "--group")]


@command("users list", "List users: all, or those of an owner or a group.")
def list_users(
    session: CommandRun,
    owner: Annotated[str | None, option("Only users of this owner.")] = None,
    group: Annotated[str | None, option("Only members of this group of users.")] = None,
    after: Annotated[str, option("Start after this name.")] = "",
    limit: Annotated[int, option("Maximum number, up to 1000.")] = 1000,
    database: Database = None,
) -> CommandResult:
    mentioned = {role: name for role, name in (("owner", owner), ("group", group)) if name is not None}
    page = opened(session, database).read.page("users", after, limit, mentioned).to_json()
    return CommandResult(page, entries_page(page["items"]))


@command("users create", "Create a user, with a password if one is given.")
def create(
    session: CommandRun,
    user: _User,
    reason: Reason,
    owner: _Owner = None,
    contact: _Contact = None,
    super_user: _Super = None,
    groups: _Groups = None,
    password_file: PasswordFile = None,
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.kinds.users import UserEntry
    from ha_core.platform.scram import derive_all

    keys = {} if password_file is None else {"scram": derive_all(password_of(password_file))}
    made = UserEntry.read({"name": user, **_given_fields(owner, contact, super_user, groups), **keys})
    registry = opened(session, database, creates=not dry_run)
    return changed(session, registry, lambda by: registry.create(made, by, reason, dry_run), dry_run)


@command("users set", "Update only the given fields of a user.")
def set_user(
    session: CommandRun,
    user: _User,
    reason: Reason,
    owner: _Owner = None,
    contact: _Contact = None,
    super_user: _Super = None,
    groups: _Groups = None,
    disabled: _Disabled = None,
    version: Version = None,
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.kinds.users import UserEntry

    registry = opened(session, database, creates=not dry_run)
    found = registry.read.get("users", user)
    before = {} if found.entry is None else found.entry.model_dump(exclude={"scram"})
    state = {} if disabled is None else {"disabled": disabled}
    entry = UserEntry.read({**before, **_given_fields(owner, contact, super_user, groups), **state})
    at = found.version if version is None else version
    return changed(session, registry, lambda by: registry.replace(entry, at, by, reason, dry_run), dry_run)


@command("users password", "Set a password: from a file, from standard input, or from a prompt.")
def password(
    session: CommandRun,
    user: _User,
    reason: Reason,
    password_file: PasswordFile = None,
    version: Version = None,
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    registry = opened(session, database, creates=not dry_run)
    secret = password_of(password_file)

    def change(by: str) -> StoredEntry:
        return registry.set_password(user, secret, by, reason, version, dry_run=dry_run)

    return changed(session, registry, change, dry_run)


@command("users delete", "Delete a user, with the rules, quotas and instances that name only it.")
def delete(
    session: CommandRun,
    user: _User,
    reason: Reason,
    version: Version = None,
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    registry = opened(session, database, creates=not dry_run)
    at = registry.read.get("users", user).version if version is None else version
    return changed(session, registry, lambda by: registry.delete_user(user, at, by, reason, dry_run), dry_run)


@command("users entry", "Print an entry for a gateway's users file. The password comes from a prompt or stdin.")
def users_entry(
    session: CommandRun,
    user: _User,
    iterations: Annotated[int, option("More iterations slow down guessing, and logging in, too.")] = LEAST_ITERATIONS,
) -> CommandResult:
    made = entry(user, _password(user), iterations)
    # Quoted as JSON, which YAML reads: user names may contain any characters.
    keys = [f"  {mechanism}: {json.dumps(key)}" for mechanism, key in made[user].items()]
    return CommandResult(made, [f"{json.dumps(user, ensure_ascii=False)}:", *keys])


def _password(user: str) -> str:
    """Reads the password from a prompt or stdin. Every user of the machine can see arguments."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("Once more: ") != password:
        raise RefusedError("Nothing was made: the two passwords differ.")
    return password


def _given_fields(
    owner: str | None, contact: str | None, super_user: bool | None, groups: list[str] | None
) -> dict[str, object]:
    """Fields given on the command line. An empty group clears the groups."""
    named = None if groups is None else [group for group in groups if group]
    given = {"owner": owner, "contact": contact, "super_user": super_user, "groups": named}
    return {name: value for name, value in given.items() if value is not None}
