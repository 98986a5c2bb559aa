"""`switchyard bindings`: which cluster serves whom."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ha_core import bindings_file
from ha_core.bindings_file import Declared, levels
from ha_core.cli.exits import BAD_INPUT, FAILURE, SUCCESS
from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.operations.bindings import BindingsPlan, apply_bindings, plan_bindings, with_level, without_level

app = typer.Typer(help="List, set and delete bindings.", no_args_is_help=True)
_Level = Annotated[str, typer.Argument(metavar="WHO", help="user:NAME, user:NAME+INSTANCE, …#TOPIC or …##GROUP")]
_Reason = Annotated[str, typer.Option("--reason", help="Kept in the history.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the difference only.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.command("list", help="All bindings, or those of some users.")
@connected
def list_bindings(
    session: Session, users: Annotated[list[str] | None, typer.Argument(metavar="[USER]…")] = None
) -> None:
    view = session.environment.store.load()
    chosen = {name: view.bindings[name] for name in sorted(view.bindings) if not users or name in users}
    session.out.result(
        {
            "revision": view.revision,
            "bindings": {
                n: b.model_dump(mode="json", exclude_none=True, exclude={"schema_"}) for n, b in chosen.items()
            },
        }
    )
    rows = [(who, cluster) for bindings in chosen.values() for who, cluster in levels(bindings).items()]
    session.out.show(table(("who", "cluster"), rows) if rows else "No bindings.")


@app.command("set", help="Bind a user, instance, topic or group to a cluster; or apply a declared YAML file.")
@connected
def set_bindings(
    session: Session,
    who: Annotated[str | None, typer.Argument(metavar="[WHO]", help="user:NAME, user:NAME+INSTANCE, …")] = None,
    cluster: Annotated[str | None, typer.Argument(metavar="[CLUSTER]")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Declared bindings (YAML).")] = None,
    reason: _Reason = "set by hand",
    dry_run: _DryRun = False,
    yes: _Yes = False,
) -> int:
    if (file is None) == (who is None or cluster is None):
        raise typer.BadParameter("give either WHO and CLUSTER, or --file FILE")
    if file is not None:
        declared = bindings_file.read(file)
    else:
        declared = with_level(session.environment.store.load(), who or "", cluster or "")
    return _change(session, declared, reason, dry_run, yes)


@app.command("delete", help="Remove a binding: what is less fine decides again.")
@connected
def delete(
    session: Session, who: _Level, reason: _Reason = "deleted by hand", dry_run: _DryRun = False, yes: _Yes = False
) -> int:
    return _change(session, without_level(session.environment.store.load(), who), reason, dry_run, yes)


def _change(session: Session, declared: Declared, reason: str, dry_run: bool, yes: bool) -> int:
    plan = plan_bindings(session.environment, declared)
    _show(session, plan)
    if dry_run or not plan.differences:
        session.out.result(plan.to_json())
        return SUCCESS
    if plan.warnings and not (yes or session.out.confirm("Apply it?")):
        session.out.error("Nothing was changed: the warnings above need --yes.")
        session.out.result({**plan.to_json(), "result": "refused"})
        return BAD_INPUT
    report = apply_bindings(session.environment, plan, reason)
    session.out.result({**plan.to_json(), **report.to_json()})
    session.out.show(f"{report.result}: revision {report.revision}{': ' + report.error if report.error else ''}")
    return SUCCESS if report.result == "succeeded" else FAILURE


def _show(session: Session, plan: BindingsPlan) -> None:
    for difference in plan.differences:
        for line in difference.lines():
            session.out.show(line)
    for warning in plan.warnings:
        session.out.show(Text("warning: ", style="yellow") + Text(warning))
    if not plan.differences:
        session.out.show("Nothing differs: the bindings are as declared.")
