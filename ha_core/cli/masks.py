"""`switchyard mask` and `unmask`: take a cluster out of service, and put it back."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.cli.session import Session, connected
from ha_core.moves.mask import MaskOutcome, mask_cluster, unmask_cluster

_Cluster = Annotated[str, typer.Argument(metavar="CLUSTER")]
_Reason = Annotated[str, typer.Option("--reason", help="Why; kept with the cluster and in the history.")]


def add_to(app: typer.Typer) -> None:
    @app.command("mask", help="Take a cluster out of service: nothing new moves to it.")
    @connected
    def mask(session: Session, cluster: _Cluster, reason: _Reason) -> int:
        return _shown(session, mask_cluster(session.environment, cluster, reason))

    @app.command("unmask", help="Put a cluster back into service, after a health probe.")
    @connected
    def unmask(session: Session, cluster: _Cluster, reason: _Reason = "back in service") -> int:
        return _shown(session, unmask_cluster(session.environment, cluster, reason))


def _shown(session: Session, outcome: MaskOutcome) -> int:
    session.out.show(outcome.words)
    report = outcome.report
    if report is None:
        session.out.result({"operation": None, "result": "succeeded", "changed": False, "words": outcome.words})
        return SUCCESS
    session.out.result({**report.to_json(), "changed": True})
    return SUCCESS if report.result == "succeeded" else FAILURE
