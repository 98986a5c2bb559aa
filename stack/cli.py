"""`switchyard stack …`: real parts on this machine, for people, demo, tests and benchmarks."""

import contextlib
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from stack.errors import StackError

app = typer.Typer(
    help="A local stack of real parts: ZooKeeper, Kafka clusters, gateways, Airflow, Spark.", no_args_is_help=True
)

Dir = Annotated[Path | None, typer.Option("--dir", help="The stack's folder; without it, the newest running stack.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PartName = Annotated[
    str,
    typer.Argument(
        help="zookeeper, zookeeper/2, cluster/east, cluster/east/1, gateway/1, airflow/scheduler, mirror/executor …"
    ),
]


def _say(text: str) -> None:
    typer.echo(text, err=True)


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except StackError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


def _find(directory: Path | None) -> Path:
    from stack import registry

    entry = registry.find(directory)
    if directory is None:
        _say(f"stack in {entry.root}")
    return entry.root


@app.command()
def up(
    cluster: Annotated[
        list[str] | None, typer.Option(help="NAME=VERSION or NAME=VERSIONxBROKERS; the first is the default cluster.")
    ] = None,
    gateways: Annotated[int, typer.Option(help="How many gateways.")] = 2,
    workers: Annotated[int, typer.Option(help="How many workers each gateway has.")] = 1,
    zookeepers: Annotated[int, typer.Option(help="How many members ZooKeeper has: 1, 3 or 5.")] = 1,
    airflow: Annotated[bool, typer.Option("--airflow", help="Airflow with the project's DAGs, too.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="A Spark master with one worker, too.")] = False,
    spark_connect: Annotated[
        bool, typer.Option("--spark-connect", help="Spark, and a Spark Connect server for interactive runs.")
    ] = False,
    mirror: Annotated[
        bool,
        typer.Option("--mirror", help="The mirror job, too: on Spark, here or on the master."),
    ] = False,
    security: Annotated[
        str, typer.Option(help="none; sasl: brokers and gateways require logins; tls: SASL over TLS.")
    ] = "none",
    platform: Annotated[
        bool,
        typer.Option("--platform", help="Run a platform, which has the users and rights; not with --security none."),
    ] = False,
    record_facts_s: Annotated[
        int,
        typer.Option(
            "--record-facts", help="Interval in seconds at which a gateway records facts of clusters; 0: never."
        ),
    ] = 60,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Its folder, which is kept; default: a new one, deleted with the stack."),
    ] = None,
    owner_pid: Annotated[int | None, typer.Option(help="End the stack with that process.")] = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay; Ctrl-C ends the stack.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start a stack, wait until each part is ready, and print all addresses."""
    from stack.launch import start
    from stack.specs import StackSpec, parse_cluster

    begun = time.monotonic()
    with _clear_errors():
        clusters = tuple(map(parse_cluster, cluster or ["east=3.9.2", "west=4.3.1"]))
        spec = StackSpec(
            *(clusters, gateways, airflow, security, spark, spark_connect, mirror, record_facts_s, platform),
            workers=workers,
            zookeepers=zookeepers,
        )
        started = start(spec, directory, owner_pid, _say)
        _say(f"ready after {time.monotonic() - begun:.1f} s")
        if as_json:
            typer.echo(json.dumps(started.document, indent=1))
        else:
            _show(started.document)
        sys.stdout.flush()
        if not foreground:
            started.detach()
            return
        try:
            started.wait()
        except KeyboardInterrupt:
            started.end()
            raise typer.Exit(130) from None


def _show(document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"stack in {document['dir']}", title_justify="left")
    for column in ("part", "what", "address"):
        table.add_column(column, overflow="fold")
    table.add_row("zookeeper", "", document["zookeeper"])
    for name, cluster in document["clusters"].items():
        table.add_row(f"cluster/{name}", f"Kafka {cluster['version']}", cluster["bootstrap"])
    for number, cluster in enumerate(document["gateways"], 1):
        table.add_row(
            f"gateway/{number}", f"{cluster['id']}, pid {cluster['pid']}", f"{cluster['bootstrap']}  {cluster['http']}"
        )
    if document["bootstrap"]:
        table.add_row("clients", "bootstrap servers", document["bootstrap"])
    for user, password in document["users"].items():
        table.add_row("user", user, f"password {password}")
    if document["tls"]:
        table.add_row("tls", "certificate of its authority", document["tls"]["ca_file"])
    if document["platform"]:
        cluster = document["platform"]
        table.add_row("platform", f"operator's token {cluster['operator_token']}", cluster["url"])
    if document["airflow"]:
        cluster = document["airflow"]
        table.add_row("airflow", f"user {cluster['user']}, password {cluster['password']}", cluster["url"])
    if document["spark"]:
        cluster = document["spark"]
        table.add_row("spark", cluster["ui"], "  ".join(filter(None, (cluster["master"], cluster["connect"]))))
    Console().print(table)
    print("to use it in a shell, paste:")
    for line in lines_to_paste(document):
        print(f"  {line}")


def lines_to_paste(document: Mapping[str, Any]) -> Iterator[str]:
    """Commands that let `switchyard` and clients of a shell find the stack, unbroken whatever the terminal's width."""
    yield f"export SWITCHYARD_ZOOKEEPER={shlex.quote(document['zookeeper'])}"
    for variable, key in (
        ("SWITCHYARD_SECURITY_FILE", "security_file"),
        ("SWITCHYARD_ZOOKEEPER_SECURITY_FILE", "zookeeper_security_file"),
        ("BOOTSTRAP", "bootstrap"),
    ):
        if document.get(key):
            yield f"export {variable}={shlex.quote(document[key])}"
    yield "switchyard status"


@app.command()
def down(
    directory: Dir = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep a temporary folder with its logs.")] = False,
) -> None:
    """End a stack with all its processes."""
    from stack.launch import down as end_stack

    with _clear_errors():
        end_stack(directory.resolve() if directory is not None else _find(None), keep)


@app.command()
def status(directory: Dir = None, as_json: AsJson = False) -> None:
    """Every part with its state, pid, port and uptime."""
    from stack import control

    with _clear_errors():
        _show_parts(control.ask(_find(directory), "status")["parts"], as_json)


def _show_parts(parts: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(parts, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in ("part", "state", "pid", "port", "uptime_s"):
        table.add_column(column)
    for part in parts:
        table.add_row(
            *("" if part[key] is None else str(part[key]) for key in ("part", "state", "pid", "port", "uptime_s"))
        )
    Console().print(table)


def _fault(do: str, text: str) -> Callable[[str, Path | None, bool], None]:
    def command(part: PartName, directory: Dir = None, as_json: AsJson = False) -> None:
        from stack import control

        with _clear_errors():
            _show_parts(control.ask(_find(directory), do, part=part)["parts"], as_json)

    command.__doc__ = text
    return command


app.command("kill")(_fault("kill", "SIGKILL a part with its workers; it stays down until `restart`."))
app.command("stop")(_fault("stop", "End a part in order; it stays down until `restart`."))
app.command("pause")(_fault("pause", "SIGSTOP a part with its workers."))
app.command("resume")(_fault("resume", "SIGCONT a paused part."))
app.command("restart")(
    _fault("restart", "End a part, start it with the same configuration and data, wait until it is ready.")
)


@app.command()
def logs(
    part: PartName,
    directory: Dir = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log.")] = False,
) -> None:
    """Print the last lines of a part's log."""
    from stack import control
    from stack.parts import matches

    with _clear_errors():
        parts = control.ask(_find(directory), "status")["parts"]
        files = dict.fromkeys(Path(one["log"]) for one in parts if matches(one["part"], part))
        if not files:
            raise StackError(f"this stack has no part {part!r}; it has {', '.join(one['part'] for one in parts)}")
        ends = {file: _tail(file, lines) for file in files if file.exists()}
        with contextlib.suppress(KeyboardInterrupt):
            while follow and any(file.exists() for file in ends):
                time.sleep(0.3)
                ends = {file: _print_from(file, offset) for file, offset in ends.items() if file.exists()}


def _tail(file: Path, lines: int) -> int:
    data = file.read_bytes()
    for line in data.decode("utf-8", "replace").splitlines()[-lines:]:
        typer.echo(line)
    return len(data)


def _print_from(file: Path, offset: int) -> int:
    with open(file, "rb") as log:
        log.seek(offset)
        data = log.read()
    typer.echo(data.decode("utf-8", "replace"), nl=False)
    return offset + len(data)
