"""The command tree: the modules of `commands`, and groups that other packages add through entry points."""

import inspect
import pkgutil
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ha_core.cli import commands
from ha_core.cli.command import COMMANDS, Command
from ha_core.cli.exits import FAILURE, IN_SHORT, INTERRUPTED, TERMINATED
from ha_core.cli.output import Output

PLUGINS = "switchyard.commands"
GROUPS = {
    "bindings": "List, set and delete bindings.",
    "clusters": "Register, list and remove clusters.",
    "gateways": "Gateways that are alive, and those that are expected.",
    "facts": "Recorded facts of each cluster, for the day on which it does not answer.",
    "origins": "Clusters that were dead at a cut: they may be back, or are gone for good.",
    "usage": "List, declare and withdraw the topics and groups that users use.",
    "platform": "The database of users and rights: its tables, its service and its entries.",
    "users": "Users who may log in; entries of the gateways' users files.",
    "rights": "Rules that allow and deny.",
    "instances": "Client ids that the platform issues to clients of shared users.",
    "quotas": "Quotas in the platform.",
    "client-quotas": "Quotas that gateways enforce.",
    "drill": "Rehearsed switches there and home, and their reports.",
    "parity": "Differences of clusters that stand in for each other.",
    "onboard": "An existing fleet that comes to the gateways, and goes back.",
    "direct-groups": "Consumer groups that read past the gateways, and their places elsewhere.",
    "mirror": "Copies of topics in another cluster.",
    "mirror-client": "Questions of Kafka's MirrorClient, and MirrorMaker 2's internal topics.",
    "flows": "Flows of MirrorMaker 2's configuration.",
    "topics": "",
    "history": "All operations, or what one of them did: `history OPERATION` is `history show OPERATION`.",
}
_COMMAND = re.compile(r'^@command\(\s*"([^"]+)"', re.MULTILINE)
DEFAULTS = {"history": "show"}
"""Group → its command that runs if none of them is named."""


class DefaultGroup(TyperGroup):
    """A group whose default command needs no name, with arguments of its own."""

    default = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args[:1] and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if named else [self.default, *args])


def build(words: Sequence[str] = ()) -> typer.Typer:
    """The tree. A plug-in that fails to load reports its error when it is called; the rest works.

    :param words: of the call. If they name one of our commands, its module alone is loaded: clients may wait for a
        switch, and the modules of all commands take as long as the switch itself.
    """
    app = typer.Typer(
        name="switchyard",
        epilog=IN_SHORT,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    called = module_of(words)
    for module in [called] if called else [one.name for one in pkgutil.iter_modules(commands.__path__)]:
        import_module(f"{commands.__name__}.{module}")
    alone = {one.words: one for one in COMMANDS if one.words in GROUPS}
    groups = {name: _group(help_, alone.get(name), DEFAULTS.get(name, "")) for name, help_ in GROUPS.items()}
    for one in sorted((one for one in COMMANDS if one.words not in alone), key=lambda command: command.words):
        group, _, name = one.words.rpartition(" ")
        (groups[group] if group else app).command(name, help=one.help)(one.run)
    for name, group_app in groups.items():
        app.add_typer(group_app, name=name)
    for entry in () if called else entry_points(group=PLUGINS):
        _mount(app, entry)
    return app


def module_of(words: Sequence[str]) -> str:
    """The module of `commands` that has the command which these words call; empty: only the whole tree can tell.

    The words of commands are read in the sources: importing them is what takes long.
    """
    called = {" ".join(words[:2]), *words[:1]} - GROUPS.keys()
    for source in sorted(Path(commands.__path__[0]).glob("*.py")):
        if called.intersection(_COMMAND.findall(source.read_text("utf-8"))):
            return source.stem
    return ""


def _group(help_: str, alone: Command | None, default: str = "") -> typer.Typer:
    """:param alone: the command that runs if none of the group's commands is given.
    :param default: name of the group's command that runs then.
    """
    if default:
        return typer.Typer(help=help_, cls=type(f"{default}Group", (DefaultGroup,), {"default": default}))
    if alone is None:
        return typer.Typer(help=help_, no_args_is_help=True)
    group, run = typer.Typer(help=alone.help), alone.run

    def called(context: typer.Context, **arguments: Any) -> None:
        if context.invoked_subcommand is None:
            run(**arguments)

    signature = inspect.signature(run)
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    called.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[context, *signature.parameters.values()]
    )
    called.__annotations__ = {**run.__annotations__, "context": typer.Context}
    group.callback(invoke_without_command=True)(called)
    return group


def _version(requested: bool) -> None:
    if not requested:
        return
    try:
        typer.echo(f"switchyard {version('switchyard')}")
    except PackageNotFoundError:
        typer.echo("switchyard, version unknown: it runs from its sources and is not installed")
    raise typer.Exit


def _options(
    _shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Moves live Kafka clients and topics between clusters, without the clients noticing."""


def _mount(app: typer.Typer, entry: EntryPoint) -> None:
    try:
        plugin = entry.load()
    except Exception as error:  # a broken plug-in must not take the operator's commands down
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"

        @app.command(entry.name, help=f"(not available: {reason})", context_settings={"ignore_unknown_options": True})
        def broken(words: list[str] = typer.Argument(None, hidden=True)) -> None:  # noqa: B008  # typer's way
            Output(as_json=False).error(f"The command group {entry.name} ({entry.value}) cannot be loaded: {reason}")
            raise typer.Exit(FAILURE)

        return
    app.add_typer(plugin, name=entry.name)


def main() -> None:
    # SIGTERM becomes an exception, so that a move that waits under its fence lifts it before the process ends.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(TERMINATED))
    try:
        build(sys.argv[1:])(prog_name="switchyard")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
