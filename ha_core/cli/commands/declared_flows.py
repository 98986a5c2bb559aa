"""`flows declare|withdraw|declared`: store flows that workers on any host run."""

from pathlib import Path
from typing import Annotated

import typer

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, code_of, command, option
from ha_core.flows.errors import FlowError
from ha_core.model.flow_declaration import MAX_DECLARED_CHARACTERS
from ha_core.operations.flows.declaring import (
    DeclaredOutcome,
    declaration_lock,
    declare,
    plan_declaration,
    require_declared,
    withdraw,
    workers_of,
)
from ha_core.operations.running import engine
from ha_core.present.flows import declared_page, declaring_page
from ha_core.present.moves import single_page

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the declaration.")]
_YAML = {".yaml", ".yml", ".json"}


@command("flows declare", "Store a file's flows for workers on any host (`mirror-maker --declared`).")
def declare_flows(
    session: CommandRun,
    name: Name,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="mm2.properties, or its keys as YAML (.yaml), nested or flat.")
    ],
    reason: Reason,
    like_3_9: Annotated[bool, option("Use Kafka 3.9's defaults where 4.3 has others.", "--like-3.9")] = False,
    unprobed: Annotated[
        bool, option("Do not ask the clusters, for example because their passwords are on other hosts.", "--unprobed")
    ] = False,
    dry_run: DryRun = False,
) -> CommandResult:
    session.found_state()
    plan = plan_declaration(
        session.environment,
        name,
        _text(file),
        reason,
        is_yaml=file.suffix.lower() in _YAML,
        like_3_9=like_3_9,
        probe=not unprobed,
    )
    session.out.page(declaring_page(plan))
    if dry_run:
        return CommandResult({"declaration": plan.to_json()})
    engine.end_interrupted(session.environment, declaration_lock(name))
    return _changed(declare(session.environment, plan), {"declaration": plan.to_json()})


@command("flows withdraw", "Delete a declaration: its workers stop its flows. Topics and copies stay.")
def withdraw_flows(session: CommandRun, name: Name, reason: Reason, dry_run: DryRun = False) -> CommandResult:
    if not dry_run:
        engine.end_interrupted(session.environment, declaration_lock(name))
    outcome = withdraw(session.environment, name, reason, dry_run)
    if dry_run:
        return CommandResult({"declaration": {"name": name}, "words": outcome.words}, [outcome.words])
    return _changed(outcome, {"declaration": {"name": name}})


@command("flows declared", "List the declarations, or show the keys of one.")
def declared(
    session: CommandRun,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name of a declaration. Default: all.")] = None,
) -> CommandResult:
    if name is not None:
        found = require_declared(session.environment, name)
        return CommandResult(found.model_dump(by_alias=True), found.text.splitlines())
    listed = [
        (one, len(workers_of(session.environment, one.name)))
        for one in sorted(session.environment.store.flow_declarations(), key=lambda one: one.name)
    ]
    document = [{**one.model_dump(exclude={"text"}, by_alias=True), "workers": count} for one, count in listed]
    return CommandResult({"declarations": document}, declared_page(listed))


def _changed(outcome: DeclaredOutcome, document: dict[str, object]) -> CommandResult:
    report = outcome.report
    if report is None:
        return CommandResult({**document, "operation": None, "changed": False}, [outcome.words])
    page = [outcome.words, *single_page(report)]
    return CommandResult({**document, **report.to_json(), "changed": True}, page, code_of(report))


def _text(file: Path) -> str:
    # Java reads properties as ISO 8859-1; YAML is UTF-8.
    encoding = "utf-8" if file.suffix.lower() in _YAML else "iso-8859-1"
    try:
        with file.open(encoding=encoding) as opened:
            text = opened.read(MAX_DECLARED_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise FlowError(f"{file} cannot be read: {error}") from None
    return text
