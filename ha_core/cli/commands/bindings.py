"""`bindings`, `usage`: the cluster that serves each user, and the topics and groups that a move takes along."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

from typer import Argument, BadParameter

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, Yes, code_of, command, option
from ha_core.cli.exits import BAD_INPUT
from ha_core.operations.access import bindings_file
from ha_core.operations.access.bindings import (
    apply_bindings,
    plan_bindings,
    with_client_ids,
    with_level,
    with_local_names,
    with_read,
)
from ha_core.operations.access.bindings_file import Declared
from ha_core.operations.clusters import registered
from ha_core.operations.proposal.usage import forget_usage
from ha_core.plan.access.usage_age import by_instance, churning
from ha_core.plan.move.users import widths
from ha_core.present.moves import single_page
from ha_core.present.page import Marked
from ha_core.present.state import bindings_page, bindings_plan_page, forgotten_page, usage_page, wide_users_page

_Users = Annotated[list[str] | None, Argument(metavar="[USER]…")]
_Level = Annotated[str, Argument(metavar="WHO", help="user:NAME, user:NAME+INSTANCE, …#TOPIC or …##GROUP")]

_Known = TypeVar("_Known")


@command("bindings list", "All bindings, or those of some users.")
def list_bindings(session: CommandRun, users: _Users = None) -> CommandResult:
    view = session.environment.store.load()
    listed = _of(users, view.bindings)
    return CommandResult({"revision": view.revision, "bindings": listed}, bindings_page(listed.values()))


@command("bindings set", "Bind a user, instance, topic or group to a cluster; or apply a declared YAML file.")
def set_bindings(
    session: CommandRun,
    who: Annotated[str | None, Argument(metavar="[WHO]", help="user:NAME, user:NAME+INSTANCE, …")] = None,
    cluster: Annotated[str | None, Argument(metavar="[CLUSTER]")] = None,
    file: Annotated[Path | None, option("Declared bindings (YAML).")] = None,
    read: Annotated[
        str | None, option("Read mirrored topics from the copy in this cluster, or from the nearest one: `nearest`.")
    ] = None,
    client_ids: Annotated[
        list[str] | None,
        option(
            "How to find the instance in the user's client ids: streams, connect, or a form such as "
            "'{instance}-{number}'. Repeatable; replaces the forms that were set before."
        ),
    ] = None,
    local_names: Annotated[
        str | None,
        option(
            "Show the remote topics of flows from this source (its alias), in the user's cluster, under the names of "
            "their sources. With CLUSTER, both in one revision."
        ),
    ] = None,
    reason: Reason = "set by hand",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    given = [what for what in (local_names or cluster, read, client_ids, file) if what is not None]
    if len(given) != 1 or (file is None) != (who is not None):
        raise BadParameter(
            "give WHO and CLUSTER, or WHO and --read WHERE, --client-ids FORM or [CLUSTER] --local-names ALIAS, or "
            "--file FILE"
        )
    if file is not None:
        return _change(session, bindings_file.read(file), reason, dry_run, yes)
    view = session.environment.store.load()
    if read is not None:
        declared = with_read(view, who or "", read)
    elif client_ids is not None:
        declared = with_client_ids(view, who or "", tuple(client_ids))
    elif local_names is not None:
        declared = with_local_names(view, who or "", local_names, cluster)
    else:
        declared = with_level(view, who or "", cluster or "")
    return _change(session, declared, reason, dry_run, yes)


@command("bindings delete", "Remove a binding: the next coarser level applies again.")
def delete(
    session: CommandRun,
    who: _Level,
    read: Annotated[
        bool, option("Its reading cluster: mirrored topics are read from the writer again.", "--read")
    ] = False,
    client_ids: Annotated[
        bool, option("The user's client-id forms: each whole client id is an instance again.", "--client-ids")
    ] = False,
    local_names: Annotated[
        bool, option("The user's local names: remote topics have their own names again.", "--local-names")
    ] = False,
    reason: Reason = "deleted by hand",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    view = session.environment.store.load()
    if read + client_ids + local_names > 1:
        raise BadParameter("give one of --read, --client-ids and --local-names")
    if read:
        declared = with_read(view, who, None)
    elif local_names:
        declared = with_local_names(view, who, None)
    else:
        declared = with_client_ids(view, who, ()) if client_ids else with_level(view, who, None)
    return _change(session, declared, reason, dry_run, yes)


@command("usage list", "Topics and groups of all users, or of some.")
def list_usage(session: CommandRun, users: _Users = None) -> CommandResult:
    store = session.environment.store
    chosen = _of(users, store.usage())
    churn = tuple(churning(by_instance(chosen, store.load().bindings), session.environment.now()))
    churn_json = [one._asdict() for one in churn]
    return CommandResult({"usage": chosen, "ids_made_at_each_start": churn_json}, usage_page(chosen, churn))


@command("usage wide", "Users with many topics, or with topics that many users share: a switch moves them all.")
def list_wide(session: CommandRun) -> CommandResult:
    store = session.environment.store
    wide = [width for width in widths(store.load(), store.usage()) if width.wide]
    document = {"users": [{**width._asdict(), "wide": width.wide} for width in wide]}
    return CommandResult(document, wide_users_page(wide))


@command("usage declare", "Declare topics and groups of a user before its first request shows them.")
def declare(
    session: CommandRun,
    user: Annotated[str, Argument(metavar="USER")],
    topic: Annotated[list[str] | None, option("A topic that the user uses. Repeatable.")] = None,
    group: Annotated[list[str] | None, option("A group that the user uses. Repeatable.")] = None,
    instance: Annotated[str, option("Client id.")] = "",
) -> CommandResult:
    topics, groups = tuple(topic or ()), tuple(group or ())
    if not topics and not groups:
        raise BadParameter("name at least one --topic or --group")
    registered.declare_usage(session.environment, user, topics, groups, instance)
    uses = ", ".join([*topics, *(f"group {name}" for name in groups)])
    return CommandResult({"user": user, "topics": topics, "groups": groups}, [f"{user} uses {uses}."])


@command("usage forget", "Withdraw a user's usage: all of it, or some topics, groups or one instance.")
def forget(
    session: CommandRun,
    user: Annotated[str, Argument(metavar="USER")],
    topic: Annotated[list[str] | None, option("Only this topic. Repeatable.")] = None,
    group: Annotated[list[str] | None, option("Only this group. Repeatable.")] = None,
    instance: Annotated[str | None, option("Only this client id.")] = None,
    recent: Annotated[
        bool, option("Also usage seen within the last day: the client is gone or has stopped.", "--recent")
    ] = False,
    dry_run: DryRun = False,
) -> CommandResult:
    withdrawn = forget_usage(session.environment, user, topic or (), group or (), instance, recent, dry_run)
    rows = [(sighting.what, sighting.name, sighting.use.instance) for sighting in withdrawn]
    forgotten = [{"what": what, "name": name, "instance": of} for what, name, of in rows]
    return CommandResult(
        {"user": user, "forgotten": forgotten, "dry_run": dry_run}, forgotten_page(user, rows, dry_run)
    )


def _of(users: list[str] | None, known: Mapping[str, _Known]) -> dict[str, _Known]:
    return {name: one for name, one in sorted(known.items()) if not users or name in users}


def _change(session: CommandRun, declared: Declared, reason: str, dry_run: bool, yes: bool) -> CommandResult:
    plan = plan_bindings(session.environment, declared)
    if dry_run or not plan.differences:
        return CommandResult(plan, bindings_plan_page(plan))
    session.out.page(bindings_plan_page(plan))
    if plan.warnings and not (yes or session.out.confirm("Apply it?")):
        error = Marked("Nothing was changed: the warnings above need --yes.", "error")
        return CommandResult({**plan.to_json(), "result": "refused"}, [error], BAD_INPUT)
    report = apply_bindings(session.environment, plan, reason)
    return CommandResult({**plan.to_json(), **report.to_json()}, single_page(report), code_of(report))
