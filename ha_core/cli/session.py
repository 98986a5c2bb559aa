"""One run of one command: what it works on and where its words go."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property

from ha_core.cli.exits import NotConfirmedError
from ha_core.cli.output import Output
from ha_core.kafka.errors import SecurityProfileError
from ha_core.operations.environment import Connection, Environment, connect
from ha_core.operations.errors import RefusedError
from ha_core.store.errors import NoStateError, StoreUnavailableError

DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
UNSET = f"Neither --zookeeper nor SWITCHYARD_ZOOKEEPER is set, so {DEFAULT_ZOOKEEPER} was asked."


class Session(ExitStack):
    """Opens the environment when it is first asked for, and closes it."""

    def __init__(self, connection: Connection, output: Output, zookeeper_named: bool) -> None:
        super().__init__()
        self.connection = connection
        self.zookeeper_named = zookeeper_named
        self.out = output

    @cached_property
    def environment(self) -> Environment:
        try:
            opened = connect(self.connection, by=operator(), progress=self.out.progress)
        except (StoreUnavailableError, NoStateError) as error:
            if self.zookeeper_named:
                raise
            raise type(error)(f"{str(error).rstrip('.')}. {UNSET}") from error
        except SecurityProfileError:
            raise
        except ValueError as error:
            raise RefusedError(f"Nothing was done: {error}. Correct --root or SWITCHYARD_ROOT.") from error
        return self.enter_context(opened)

    def found_state(self) -> None:
        """From now on a root that does not exist is made: for the command with which an installation begins."""
        self.connection = replace(self.connection, create_root=True)

    def confirm(self, yes: bool, question: str) -> None:
        """:raises NotConfirmedError: nobody has said yes, beforehand or now."""
        if not (yes or self.out.confirm(question)):
            raise NotConfirmedError


def operator() -> str:
    """Who runs this: `cli:USER@HOST`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"cli:{user}@{socket.gethostname()}"
