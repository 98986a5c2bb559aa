"""Turns a function into a command: options, environment, output and exit code of its errors."""

import functools
import getpass
import inspect
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from ha_core.cli.exits import FAILURE, SUCCESS, UNDONE, failure, refusal_code
from ha_core.cli.output import Output
from ha_core.kafka.errors import SecurityProfileError
from ha_core.model import MoveRequest, Provenance
from ha_core.model.shown import ShownFormatter
from ha_core.operations.engine.creating import StartableProposal
from ha_core.operations.engine.environment import DEFAULT_ROOT, Environment, EnvironmentSettings, connect
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.report import BaseProposal, Report
from ha_core.operations.running import engine
from ha_core.present.moves import batches_page, report_page
from ha_core.present.page import Page
from ha_core.store.errors import NoStateError, StoreUnavailableError
from ha_core.store.store import Store

DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
UNSET = f"Neither --zookeeper nor SWITCHYARD_ZOOKEEPER is set, so {DEFAULT_ZOOKEEPER} was used."
Planned = TypeVar("Planned", bound=StartableProposal)


def option(help_: str, *names: str, **more: Any) -> Any:
    """An option. Without `names` it is named after its parameter."""
    return typer.Option(*names, help=help_, **more)


Cluster = Annotated[str, typer.Argument(metavar="CLUSTER")]
OperationId = Annotated[str, typer.Argument(metavar="OPERATION")]
Patterns = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]…", help="Names or patterns. Default: all.")]
Reason = Annotated[str, option("The reason, kept in the history.")]
WhyUndone = Annotated[str, option("The reason, kept in the history.", "--reason")]
DryRun = Annotated[bool, option("Only show the plan and its verdicts.", "--dry-run")]
Yes = Annotated[bool, option("Do not ask for confirmation.", "--yes")]
LeaveSetting = Annotated[
    list[str] | None,
    option("Topics are created without these settings of the origin: names or patterns.", metavar="NAME"),
]
DrainTimeout = Annotated[float, option("Seconds to wait for gateways to drain; after that the move is undone.")]
_ZooKeeper = Annotated[str | None, option("ZooKeeper hosts, host:port[,host:port…].", envvar="SWITCHYARD_ZOOKEEPER")]
_Security = Annotated[Path | None, option("YAML of security profiles.", envvar="SWITCHYARD_SECURITY_FILE")]
COMMON_OPTIONS: dict[str, tuple[Any, Any]] = {
    "zookeeper": (_ZooKeeper, None),
    "root": (Annotated[str, option("Root node.", envvar="SWITCHYARD_ROOT")], DEFAULT_ROOT),
    "security_file": (_Security, None),
    "as_json": (Annotated[bool, option("Print the result as JSON.", "--json")], False),
    "debug": (Annotated[bool, option("Show tracebacks and the log.", "--debug")], False),
}
"""Options that every command has: name → annotation and default."""


class OptionGroup:
    """Base of dataclasses whose fields are options that several commands share: a parameter with such a type."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command: for machines, for people, and for the calling shell."""

    document: Any
    """JSON. It may contain documents, dataclasses and objects with `to_json`."""
    page: Page = ()
    code: int = SUCCESS


class CommandRun(ExitStack):
    """One run of one command. The environment is opened on first use."""

    def __init__(self, options: dict[str, Any], output: Output) -> None:
        super().__init__()
        self.out = output
        zookeeper, root, security_file = (options[name] for name in ("zookeeper", "root", "security_file"))
        self._unset = "" if zookeeper else UNSET
        self._connection = EnvironmentSettings(zookeeper or DEFAULT_ZOOKEEPER, root, security_file, create_root=False)

    @functools.cached_property
    def environment(self) -> Environment:
        try:
            who = operator()
            opened = connect(self._connection, by=who, progress=self.out.progress)
            opened.provenance = Provenance(asked_by=who)
        except (StoreUnavailableError, NoStateError) as error:
            if not self._unset:
                raise
            raise type(error)(f"{str(error).rstrip('.')}. {self._unset}") from error
        except SecurityProfileError:
            raise
        except ValueError as error:
            raise RefusedError(f"Nothing was done: {error}. Correct --root or SWITCHYARD_ROOT.") from error
        return self.enter_context(opened)

    @property
    def opens(self) -> Callable[[], Environment] | None:
        """Opens another environment, which the caller closes. None if no ZooKeeper is given."""
        return None if self._unset else lambda: connect(self._connection, by=operator())

    @property
    def connects(self) -> Callable[[], Store] | None:
        """Opens another ZooKeeper session, which the caller closes. None if no ZooKeeper is given."""
        return None if self._unset else lambda: connect(self._connection, by=operator()).store

    def found_state(self) -> None:
        """Create the root if it does not exist: for the command with which an installation begins."""
        self._connection = replace(self._connection, create_root=True)

    def confirm(self, yes: bool, question: str) -> None:
        """:raises RefusedError: the operator has not confirmed, neither by --yes nor at the prompt."""
        if not (yes or self.out.confirm(question)):
            raise unchanged("It was not confirmed. Add --yes, or run it in a terminal.")

    def judge(
        self, proposal: BaseProposal, page: Page, question: str, dry_run: bool, yes: bool
    ) -> CommandResult | None:
        """Show a proposal and ask for confirmation. Returns the result of a dry run, or None to go on.

        :raises RefusedError: a verdict is an error, or the operator has not confirmed.
        """
        self.out.page(page)
        if dry_run:
            return CommandResult(proposal, code=refusal_code(proposal.verdicts) if proposal.refused else SUCCESS)
        if proposal.refused and not self.out.as_json:
            # The page above has the texts.
            codes = dict.fromkeys(one.code for one in proposal.verdicts if one.level == "error")
            raise unchanged(f"Refused, see above: {', '.join(codes)}.", proposal.verdicts)
        proposal.require_sound()
        self.confirm(yes, question)
        return None


@dataclass(frozen=True, slots=True)
class Command:
    words: str
    """The words that are typed: `undo`, or `clusters add`."""
    help: str
    run: Callable[..., None]


COMMANDS: list[Command] = []


def command(words: str, help_: str) -> Callable[[Callable[..., CommandResult]], Callable[..., CommandResult]]:
    """Make `function(session, …)` the command `words`, and add the connection options to its own.

    An error ends it with one paragraph and a code of `exits`.
    """

    def register(function: Callable[..., CommandResult]) -> Callable[..., CommandResult]:
        COMMANDS.append(Command(words, help_, _runner(function)))
        return function

    return register


def of_report(report: Report, wanted: str = "") -> CommandResult:
    """The result of an operation. If `wanted` is given, any other result is a failure."""
    if wanted:
        code = SUCCESS if report.result == wanted else FAILURE
    elif report.result == "undone":
        code = UNDONE
    else:
        code = SUCCESS if report.result in {"succeeded", "crossing"} and not report.error else FAILURE
    return CommandResult(report, report_page(report), code)


def of_reports(reports: Sequence[Report]) -> CommandResult:
    """The result of a command that is one operation, or several one after the other."""
    if len(reports) == 1:
        return of_report(reports[0])
    code = code_of(*reports)
    document = {"batches": reports, "result": "failed" if code else "succeeded"}
    return CommandResult(document, batches_page(reports, {}), code)


def carry_out(
    session: CommandRun,
    request: MoveRequest,
    plan: Callable[[Environment, MoveRequest], Planned],
    page: Callable[[Planned], Page],
    question: str,
    dry_run: bool,
    yes: bool,
) -> CommandResult:
    """Judge, show, confirm and move. An interrupted operation with an equal request is finished first."""
    environment = session.environment
    continued = engine.Continued({}) if dry_run else engine.continue_twins(environment, request)
    if continued.whole is not None:
        return of_report(continued.whole)
    with continued.before():
        proposal = plan(environment, request)
        if answer := session.judge(proposal, page(proposal), question, dry_run, yes):
            return answer
        operation = engine.start(environment, proposal, recheck=not yes)
    session.out.progress(f"operation {operation.id}")
    return of_report(engine.resume(environment, operation.id))


def code_of(*reports: Report) -> int:
    """SUCCESS if all reports have succeeded."""
    return SUCCESS if all(report.result == "succeeded" for report in reports) else FAILURE


def _runner(function: Callable[..., CommandResult]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(**arguments: Any) -> None:
        options = {name: arguments.pop(name) for name in COMMON_OPTIONS}
        output, debug = Output(options["as_json"]), options["debug"]
        # Libraries log only with --debug: otherwise the command prints its progress and its result alone.
        handler = logging.StreamHandler()
        handler.setFormatter(ShownFormatter(logging.BASIC_FORMAT))
        logging.basicConfig(level=logging.DEBUG if debug else logging.CRITICAL, handlers=[handler])
        try:
            with CommandRun(options, output) as session:
                answer = function(session, **_grouped(groups, arguments))
                output.page(answer.page)
        except (typer.Exit, typer.BadParameter, KeyboardInterrupt):
            raise
        except Exception as error:
            if debug:
                raise
            text, code, data = failure(error)
            output.error(text)
            answer = CommandResult({"error": text, **data}, code=code)
        output.result(answer.document)
        raise typer.Exit(answer.code)

    del run.__wrapped__  # typer would read the undecorated signature
    hints = get_type_hints(function, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    _, *own = inspect.signature(function).parameters.values()
    groups = {p.name: hints[p.name] for p in own if _is_group(hints[p.name])}
    parameters: list[inspect.Parameter] = []
    for p in own:
        if p.name in groups:
            parameters += _options_of(groups[p.name])
        else:
            parameters.append(p.replace(annotation=hints[p.name], kind=keyword))
    parameters += [
        inspect.Parameter(name, keyword, default=default, annotation=hint)
        for name, (hint, default) in COMMON_OPTIONS.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, OptionGroup)


def _options_of(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
        )


def _grouped(groups: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the command's function: those of a group as its dataclass."""
    made = {
        name: group(**{field.name: arguments.pop(field.name) for field in fields(group)})
        for name, group in groups.items()
    }
    return {**arguments, **made}


def operator() -> str:
    """User and host that run the command, as histories show them."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"cli:{user}@{socket.gethostname()}"
