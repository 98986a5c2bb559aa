"""`status`, `history`: what stands in the state now, and what was done."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ha_core.cli.command import Answer, Session, command, plain
from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.operations import registry
from ha_core.operations.errors import RefusedError
from ha_core.operations.health import problems
from ha_core.present.state import history_page, operations_page, problems_page, status_page


@command("status", "Clusters, gateways, running operations and locks.")
def status(
    session: Session,
    check: Annotated[
        bool, typer.Option("--check", help="Only what waits for a human; exit code 6 if anything does.")
    ] = False,
) -> Answer:
    environment = session.environment
    store = environment.store
    view, states, gateways = store.load(), registry.cluster_states(environment), store.gateways()
    running, locks = registry.running_operations(environment), store.locks()
    found = problems(environment, view, states, gateways, running)
    document = {
        "problems": [asdict(one) for one in found],
        "revision": view.revision,
        "clusters": [state.to_json() for state in states],
        "gateways": [plain(one) for one in gateways],
        "operations": [
            {"operation": o.id, "kind": o.kind, "state": o.state, "by": o.by, "reason": o.reason} for o in running
        ],
        "locks": [plain(lock) for lock in locks],
    }
    if check:
        return Answer(document, problems_page(found), ATTENTION if found else SUCCESS)
    page = status_page(view.revision, states, gateways, running, locks)
    return Answer(document, [*page, *problems_page(found)])


@command("history", "All operations, or every entry of one.")
def history(
    session: Session,
    operation: Annotated[str | None, typer.Argument(metavar="OPERATION")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many operations, the newest.")] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="OPERATION", help="Older ones than this: the next page.")
    ] = None,
) -> Answer:
    store = session.environment.store
    if operation is None:
        operations = store.operations(limit, before)
        older = [f"older ones: switchyard history --before {operations[-1].id}"] if len(operations) == limit else []
        return Answer({"operations": [plain(one) for one in operations]}, [*operations_page(operations), *older])
    found = session.environment.operation(operation)
    if found is None:
        raise RefusedError(f"There is no operation {operation}. `switchyard history` lists them.")
    entries = store.history(operation)
    document = {"operation": plain(found), "history": [plain(entry) for entry in entries]}
    return Answer(document, history_page(found, entries))
