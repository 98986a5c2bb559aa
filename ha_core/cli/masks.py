"""`switchyard mask` and `unmask`: take a cluster out of service, and put it back."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.cli.session import Session, connected
from ha_core.operations.mask import MaskOutcome, depends_lines, mask_cluster, unmask_cluster, who_depends

_Cluster = Annotated[str, typer.Argument(metavar="CLUSTER")]
_Reason = Annotated[str, typer.Option("--reason", help="Why; kept with the cluster and in the history.")]


def add_to(app: typer.Typer) -> None:
    @app.command("mask", help="Take a cluster out of service: requests for it fail at once, nothing new moves to it.")
    @connected
    def mask(
        session: Session,
        cluster: _Cluster,
        reason: _Reason,
        force: Annotated[bool, typer.Option("--force", help="Although topics are written there, and stop.")] = False,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show who depends on it.")] = False,
    ) -> int:
        if dry_run:
            depends = who_depends(session.environment, cluster)
            session.out.result({"cluster": cluster, "depends": depends.to_json()})
            for line in depends_lines(cluster, depends):
                session.out.show(line)
            return SUCCESS
        return _shown(session, cluster, mask_cluster(session.environment, cluster, reason, force))

    @app.command("unmask", help="Put a cluster back into service, after a health probe.")
    @connected
    def unmask(session: Session, cluster: _Cluster, reason: _Reason = "back in service") -> int:
        return _shown(session, cluster, unmask_cluster(session.environment, cluster, reason))


def _shown(session: Session, cluster: str, outcome: MaskOutcome) -> int:
    session.out.show(outcome.words)
    report = outcome.report
    if report is None:
        session.out.result({"operation": None, "result": "succeeded", "changed": False, "words": outcome.words})
        return SUCCESS
    if outcome.depends.anything:
        for line in depends_lines(cluster, outcome.depends):
            session.out.show(line)
    session.out.result({**report.to_json(), "changed": True, "depends": outcome.depends.to_json()})
    return SUCCESS if report.result == "succeeded" else FAILURE
