"""`switchyard status`: clusters, gateways, running operations and locks on one page."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Annotated

import typer

from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.operations import registry
from ha_core.operations.health import Problem, problems


def add_to(app: typer.Typer) -> None:
    @app.command("status", help="Clusters, gateways, running operations and locks.")
    @connected
    def status(
        session: Session,
        check: Annotated[
            bool, typer.Option("--check", help="Only what waits for a human; exit code 6 if anything does.")
        ] = False,
    ) -> int:
        environment = session.environment
        store = environment.store
        view = store.load()
        states = registry.cluster_states(environment)
        gateways = store.gateways()
        running = registry.running_operations(environment)
        locks = store.locks()
        found = problems(environment, view, states, gateways, running)
        session.out.result(
            {
                "problems": [asdict(one) for one in found],
                "revision": view.revision,
                "clusters": [state.to_json() for state in states],
                "gateways": [g.model_dump(mode="json", exclude={"schema_"}) for g in gateways],
                "operations": [
                    {"operation": o.id, "kind": o.kind, "state": o.state, "by": o.by, "reason": o.reason}
                    for o in running
                ],
                "locks": [lock.model_dump(mode="json", exclude={"schema_"}) for lock in locks],
            }
        )
        out = session.out
        if check:
            _show(session, found)
            return ATTENTION if found else SUCCESS
        out.show(f"revision {view.revision}")
        out.show(
            table(
                ("cluster", "bootstrap", "state", "masked"),
                [(s.cluster.name, s.cluster.bootstrap, s.words, s.mask_words) for s in states],
                title="clusters",
            )
        )
        out.show(
            table(
                ("gateway", "bootstrap", "revision", "behind", "lease ms", "drained"),
                [
                    (
                        g.id,
                        f"{g.host}:{g.port}",
                        g.revision,
                        max(0, view.revision - g.revision),
                        g.lease_ms,
                        ", ".join(g.drained),
                    )
                    for g in gateways
                ],
                title="gateways",
            )
        )
        if running:
            out.show(
                table(
                    ("operation", "kind", "state", "by", "reason"),
                    [(o.id, o.kind, o.state, o.by, o.reason) for o in running],
                    title="running operations",
                )
            )
        if locks:
            out.show(
                table(
                    ("lock", "operation", "by", "since"),
                    [(lock.key, lock.operation, lock.by, lock.since) for lock in locks],
                    title="locks",
                )
            )
        _show(session, found)
        return SUCCESS


def _show(session: Session, found: Collection[Problem]) -> None:
    if found:
        rows = [(one.about, one.text, one.remedy) for one in found]
        session.out.show(table(("what waits for somebody", "", "what to do"), rows))
    else:
        session.out.show("nothing waits for anybody")
