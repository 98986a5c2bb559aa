"""What every command shares: connection options, output form, and one place where errors become texts and codes."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self, get_type_hints

import typer

from ha_core.cli.exits import SUCCESS
from ha_core.cli.output import Output
from ha_core.kafka.errors import SecurityProfileError
from ha_core.operations.environment import DEFAULT_ROOT, Connection, Environment, connect
from ha_core.operations.errors import RefusedError
from ha_core.store.errors import NoStateError, StoreUnavailableError

DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
_ZooKeeper = Annotated[
    str | None,
    typer.Option("--zookeeper", help="ZooKeeper hosts, host:port[,host:port…]. Environment: SWITCHYARD_ZOOKEEPER."),
]
_Root = Annotated[str | None, typer.Option("--root", help="Root node. Environment: SWITCHYARD_ROOT.")]
_Security = Annotated[
    Path | None,
    typer.Option("--security-file", help="YAML of security profiles. Environment: SWITCHYARD_SECURITY_FILE."),
]
_Json = Annotated[bool, typer.Option("--json", help="The result as JSON on standard output.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Tracebacks and the log.")]
UNSET = f"Neither --zookeeper nor SWITCHYARD_ZOOKEEPER is set, so {DEFAULT_ZOOKEEPER} was asked."
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "zookeeper": (_ZooKeeper, None),
    "root": (_Root, None),
    "security_file": (_Security, None),
    "as_json": (_Json, False),
    "debug": (_Debug, False),
}


class Session:
    """One run of one command: opens the environment when it is first asked for, and closes it."""

    def __init__(self, connection: Connection, output: Output, zookeeper_named: bool = True) -> None:
        self.connection = connection
        self.zookeeper_named = zookeeper_named
        self.out = output
        self._environment: Environment | None = None

    @property
    def environment(self) -> Environment:
        if self._environment is None:
            try:
                self._environment = connect(self.connection, by=operator(), progress=self.out.progress)
            except (StoreUnavailableError, NoStateError) as error:
                if self.zookeeper_named:
                    raise
                raise type(error)(f"{str(error).rstrip('.')}. {UNSET}") from error
            except SecurityProfileError:
                raise
            except ValueError as error:
                raise RefusedError(f"Nothing was done: {error}. Correct --root or SWITCHYARD_ROOT.") from error
        return self._environment

    def found_state(self) -> None:
        """From now on a root that does not exist is made: for the command with which an installation begins."""
        self.connection = replace(self.connection, create_root=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._environment is not None:
            self._environment.close()


def operator() -> str:
    """Who runs this: `cli:USER@HOST`."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"cli:{user}@{socket.gethostname()}"


def connected(function: Callable[..., int | None]) -> Callable[..., None]:
    """Turn `function(session, …)` into a command with the connection options.

    What it returns is the exit code (None is success). Errors end the command with one paragraph; the codes
    are in `exits`.
    """

    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True)
    own = [p.replace(annotation=hints[p.name]) for p in list(signature.parameters.values())[1:]]

    @functools.wraps(function)
    def command(**arguments: Any) -> None:
        options = {name: arguments.pop(name) for name in _OPTIONS}
        output = Output(options["as_json"])
        environ = os.environ
        security = options["security_file"] or environ.get("SWITCHYARD_SECURITY_FILE")
        zookeeper = options["zookeeper"] or environ.get("SWITCHYARD_ZOOKEEPER")
        connection = Connection(
            zookeeper=zookeeper or DEFAULT_ZOOKEEPER,
            root=options["root"] or environ.get("SWITCHYARD_ROOT", DEFAULT_ROOT),
            security_file=Path(security) if security else None,
            create_root=False,
        )
        quiet_logs(options["debug"])
        try:
            with Session(connection, output, zookeeper_named=bool(zookeeper)) as session:
                code = function(session, **arguments)
        except (typer.Exit, typer.BadParameter, KeyboardInterrupt):
            raise
        except Exception as error:
            if options["debug"]:
                raise
            from ha_core.cli.failures import failure

            text, code, data = failure(error)
            output.error(text)
            output.result({"error": text, **data})
        raise typer.Exit(code or SUCCESS)

    del command.__wrapped__  # typer would read the undecorated signature
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _OPTIONS.items()
    ]
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    command.__signature__ = inspect.Signature([*keyword, *extra])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*keyword, *extra)}
    return command


def quiet_logs(debug: bool) -> None:
    """Libraries speak only with --debug: the command's own words are its progress and its result."""
    import logging

    logging.basicConfig(level=logging.DEBUG if debug else logging.CRITICAL)
