"""`bindings`, `usage`: which cluster serves whom, and what users use, so that a move takes that along."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter

from ha_core import bindings_file
from ha_core.bindings_file import Declared
from ha_core.cli.command import Answer, DryRun, Reason, Session, Yes, code_of, command, option, plain
from ha_core.cli.exits import BAD_INPUT
from ha_core.operations import registry
from ha_core.operations.bindings import apply_bindings, plan_bindings, with_level
from ha_core.present.moves import single_page
from ha_core.present.page import Marked
from ha_core.present.state import bindings_page, bindings_plan_page, usage_page

_Users = Annotated[list[str] | None, Argument(metavar="[USER]…")]
_Level = Annotated[str, Argument(metavar="WHO", help="user:NAME, user:NAME+INSTANCE, …#TOPIC or …##GROUP")]


@command("bindings list", "All bindings, or those of some users.")
def list_bindings(session: Session, users: _Users = None) -> Answer:
    view = session.environment.store.load()
    chosen = {name: one for name, one in sorted(view.bindings.items()) if not users or name in users}
    document = {"revision": view.revision, "bindings": {name: plain(one) for name, one in chosen.items()}}
    return Answer(document, bindings_page(chosen.values()))


@command("bindings set", "Bind a user, instance, topic or group to a cluster; or apply a declared YAML file.")
def set_bindings(
    session: Session,
    who: Annotated[str | None, Argument(metavar="[WHO]", help="user:NAME, user:NAME+INSTANCE, …")] = None,
    cluster: Annotated[str | None, Argument(metavar="[CLUSTER]")] = None,
    file: Annotated[Path | None, option("Declared bindings (YAML).")] = None,
    reason: Reason = "set by hand",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Answer:
    if (file is None) == (who is None or cluster is None):
        raise BadParameter("give either WHO and CLUSTER, or --file FILE")
    if file is not None:
        return _change(session, bindings_file.read(file), reason, dry_run, yes)
    declared = with_level(session.environment.store.load(), who or "", cluster or "")
    return _change(session, declared, reason, dry_run, yes)


@command("bindings delete", "Remove a binding: the next coarser level decides again.")
def delete(
    session: Session, who: _Level, reason: Reason = "deleted by hand", dry_run: DryRun = False, yes: Yes = False
) -> Answer:
    return _change(session, with_level(session.environment.store.load(), who, None), reason, dry_run, yes)


@command("usage list", "Topics and groups of all users, or of some.")
def list_usage(session: Session, users: _Users = None) -> Answer:
    usage = session.environment.store.usage()
    chosen = {name: one for name, one in sorted(usage.items()) if not users or name in users}
    return Answer({"usage": {name: plain(one) for name, one in chosen.items()}}, usage_page(chosen))


@command("usage declare", "Declare topics and groups of a user before its first request shows them.")
def declare(
    session: Session,
    user: Annotated[str, Argument(metavar="USER")],
    topic: Annotated[list[str] | None, option("A topic that the user uses. Repeatable.")] = None,
    group: Annotated[list[str] | None, option("A group that the user uses. Repeatable.")] = None,
    instance: Annotated[str, option("Client id.")] = "",
) -> Answer:
    topics, groups = tuple(topic or ()), tuple(group or ())
    if not topics and not groups:
        raise BadParameter("name at least one --topic or --group")
    registry.declare_usage(session.environment, user, topics, groups, instance)
    uses = ", ".join([*topics, *(f"group {name}" for name in groups)])
    return Answer({"user": user, "topics": topics, "groups": groups}, [f"{user} uses {uses}."])


def _change(session: Session, declared: Declared, reason: str, dry_run: bool, yes: bool) -> Answer:
    plan = plan_bindings(session.environment, declared)
    if dry_run or not plan.differences:
        return Answer(plan.to_json(), bindings_plan_page(plan))
    session.out.page(bindings_plan_page(plan))
    if plan.warnings and not (yes or session.out.confirm("Apply it?")):
        error = Marked("Nothing was changed: the warnings above need --yes.", "error")
        return Answer({**plan.to_json(), "result": "refused"}, [error], BAD_INPUT)
    report = apply_bindings(session.environment, plan, reason)
    return Answer({**plan.to_json(), **report.to_json()}, single_page(report), code_of(report))
