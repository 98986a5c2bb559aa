"""`users`: users who may log in, and entries of the gateways' users files."""

import getpass
import json
import sys
from dataclasses import dataclass
from typing import Annotated, Any

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, OptionGroup, command, operator, option
from ha_core.cli.platform import PageOptions, PasswordFile, VersionedWrite, WriteOptions, listed, password_of
from ha_core.operations.access.user_entries import LEAST_ITERATIONS, entry
from ha_core.operations.engine.errors import RefusedError

_User = Annotated[str, Argument(metavar="USER")]
_Disabled = Annotated[bool | None, option("Cannot log in and may do nothing; the entry stays.", "--disabled/--enabled")]


@dataclass(frozen=True)
class _UserOptions(OptionGroup):
    owner: Annotated[str | None, option("The responsible person or team.")] = None
    contact: Annotated[str | None, option("How to reach the owner.")] = None
    super_user: Annotated[bool | None, option("May do everything, regardless of rules.", "--super/--no-super")] = None
    groups: Annotated[
        list[str] | None, option("A group of users that contains it; repeatable; empty: none.", "--group")
    ] = None

    def given(self) -> dict[str, Any]:
        """Fields given on the command line. An empty group clears the groups."""
        named = None if self.groups is None else [group for group in self.groups if group]
        found = {"owner": self.owner, "contact": self.contact, "super_user": self.super_user, "groups": named}
        return {name: value for name, value in found.items() if value is not None}


@command("users list", "List users: all, or those of an owner or a group.")
def list_users(
    session: CommandRun,
    page: PageOptions,
    owner: Annotated[str | None, option("Only users of this owner.")] = None,
    group: Annotated[str | None, option("Only members of this group of users.")] = None,
) -> CommandResult:
    return listed(session, page, "users", {"owner": owner, "group": group})


@command("users create", "Create a user, with a password if one is given.")
def create(
    session: CommandRun, user: _User, fields: _UserOptions, write: WriteOptions, password_file: PasswordFile = None
) -> CommandResult:
    from ha_core.platform.kinds.users import UserEntry
    from ha_core.platform.scram import derive_all

    keys = {} if password_file is None else {"scram": derive_all(password_of(password_file))}
    made = UserEntry.read({"name": user, **fields.given(), **keys})
    return write.create(session, write.opened(session), made)


@command("users set", "Update only the given fields of a user.")
def set_user(
    session: CommandRun, user: _User, fields: _UserOptions, write: VersionedWrite, disabled: _Disabled = None
) -> CommandResult:
    from ha_core.platform.changing import put

    registry = write.opened(session)
    stored_entry = registry.read.get("users", user)
    assert stored_entry.entry is not None  # `get` returns live entries only
    state = {} if disabled is None else {"disabled": disabled}
    made = stored_entry.entry.read(stored_entry.entry.fields() | fields.given() | state)
    return write.made(session, registry, [put(made, stored_entry.version if write.version is None else write.version)])


@command("users password", "Set a password: from a file, from standard input, or from a prompt.")
def password(
    session: CommandRun, user: _User, write: VersionedWrite, password_file: PasswordFile = None
) -> CommandResult:
    registry, secret = write.opened(session), password_of(password_file)
    made = registry.set_password(user, secret, operator(), write.reason, write.version, dry_run=write.dry_run)
    return write.changed(session, registry, [made])


@command("users delete", "Delete a user, with the rules, quotas and instances that name only it.")
def delete(session: CommandRun, user: _User, write: VersionedWrite) -> CommandResult:
    registry = write.opened(session)
    at = registry.read.get("users", user).version if write.version is None else write.version
    made = registry.delete_user(user, at, operator(), write.reason, write.dry_run)
    return write.changed(session, registry, made)


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
