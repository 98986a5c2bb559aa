"""`users entry`: what a gateway keeps of a user's password."""

from __future__ import annotations

import getpass
import json
import sys
from typing import Annotated

from typer import Argument

from ha_core.cli.command import Answer, Session, command, option
from ha_core.operations.errors import RefusedError
from ha_core.operations.user_entries import LEAST_ITERATIONS, entry


@command("users entry", "An entry for a gateway's users file, of a password that is asked for, or comes from stdin.")
def users_entry(
    session: Session,
    user: Annotated[str, Argument(metavar="USER")],
    iterations: Annotated[int, option("More make guessing slower, and logging in, too.")] = LEAST_ITERATIONS,
) -> Answer:
    made = entry(user, _password(user), iterations)
    # Quoted as JSON, which YAML reads, whatever characters a name has.
    keys = [f"  {mechanism}: {json.dumps(key)}" for mechanism, key in made[user].items()]
    return Answer(made, [f"{json.dumps(user, ensure_ascii=False)}:", *keys])


def _password(user: str) -> str:
    """Never an argument: those are shown to everybody on the machine."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("Once more: ") != password:
        raise RefusedError("Nothing was made: the two are not the same.")
    return password
