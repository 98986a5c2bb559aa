"""`switchyard demo`."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stack.layout import PROJECT

if TYPE_CHECKING:
    from rich.console import Console

    from stack.harness import Stack

app = typer.Typer(
    help="Live clients switch from one real cluster to another and back; a topic migrates without a fence; a cluster "
    "is killed, and its clients go on at the copy. Takes some minutes."
)
FOLDER = PROJECT / ".demo"


@app.callback(invoke_without_command=True)
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the stack running afterwards.")] = False,
    report_file: Annotated[
        Path,
        typer.Option(
            "--report", help="Path of the JSON report; plots are written beside it.", show_default=".demo/report.json"
        ),
    ] = FOLDER / "report.json",
) -> None:
    """Start the stack, move live clients, migrate a topic, kill a cluster, and report the effects on clients."""
    from rich.console import Console
    from rich.text import Text

    from stack.clients.process import ClientError
    from stack.demo.airflow_api import AirflowError
    from stack.demo.report import show
    from stack.demo.story import start_stack, tell
    from stack.errors import StackError
    from stack.harness import Stack

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 140  # in a file or a pipe nothing may be cut off
    begun = time.monotonic()

    def say(text: str) -> None:
        console.print(Text(f"{time.monotonic() - begun:6.1f} s  ", style="dim") + Text(text))

    try:
        started = start_stack(say)
    except StackError as error:
        console.print(Text(f"error: {error}", style="bold red"))
        raise typer.Exit(1) from error
    kept = False
    try:
        stack = Stack(started.document)
        histories = FOLDER / stack.dir.name  # several demos may run at once
        report = tell(stack, histories, report_file.with_suffix(".png"), say)
        report.write(report_file)
        show(console, report)
        if report.sound:
            shutil.rmtree(histories, ignore_errors=True)
        else:
            console.print(Text(f"the clients' histories are in {histories}"))
        if keep:
            started.detach()
            kept = True
            _look_around(console, stack)
    except (AirflowError, ClientError, StackError) as error:
        console.print(Text(f"error: {error}", style="bold red"))
        console.print(
            Text(f"logs are in {started.root / 'logs'}" if keep else "with --keep the stack and its logs stay")
        )
        if keep:
            started.detach()
            kept = True
        raise typer.Exit(1) from error
    finally:
        if not kept:
            say("ending the stack, and its pages with it; --keep leaves everything running")
            started.end()
    sys.stdout.flush()
    print(f"report: {report_file.resolve()}", flush=True)
    raise typer.Exit(0 if report.sound else 1)


def _look_around(console: Console, stack: Stack) -> None:
    from rich.text import Text

    from stack.demo.workload import INVOICES, ORDERS, PAYMENTS

    airflow = stack.airflow
    assert airflow is not None
    lines = (
        "",
        "Everything still runs. To look around:",
        f"  Airflow          {airflow['url']}  user {airflow['user']}  password {airflow['password']}",
        f"  gateways         {stack.bootstrap}  SASL/PLAIN, user {ORDERS.user}  password {stack.users[ORDERS.user]}",
        f"  commands         export SWITCHYARD_ZOOKEEPER={stack.zookeeper}",
        f"                   export SWITCHYARD_SECURITY_FILE={stack.document['security_file']}",
        "  state            switchyard status",
        "  history          switchyard history",
        f"  extents          switchyard topic {ORDERS.topic}; switchyard topic {INVOICES.topic}",
        f"  its standby      switchyard mirrors; switchyard mirror verify {PAYMENTS.topic}",
        f"  processes, logs  switchyard stack status --dir {stack.dir}; logs in {stack.dir / 'logs'}",
        "To end it:",
        f"  switchyard stack down --dir {stack.dir}",
        "",
    )
    for line in lines:
        console.print(Text(line))
