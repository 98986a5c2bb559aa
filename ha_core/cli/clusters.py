"""`switchyard clusters`: which clusters exist."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.operations import registry

app = typer.Typer(help="Register, list and remove clusters.", no_args_is_help=True)
_Name = Annotated[str, typer.Argument(metavar="CLUSTER")]


@app.command("list", help="All clusters, and whether they answer.")
@connected
def list_clusters(session: Session) -> None:
    states = registry.cluster_states(session.environment)
    session.out.result({"clusters": [state.to_json() for state in states]})
    session.out.show(
        table(
            ("cluster", "bootstrap", "security", "default", "masked", "state"),
            [
                (
                    s.cluster.name,
                    s.cluster.bootstrap,
                    s.cluster.security,
                    "yes" if s.cluster.default else "",
                    f"since {s.cluster.masked.since}: {s.cluster.masked.reason}" if s.cluster.masked else "",
                    s.words,
                )
                for s in states
            ],
        )
    )


@app.command("add", help="Register a cluster, or change how it is reached.")
@connected
def add(
    session: Session,
    name: _Name,
    bootstrap: Annotated[str, typer.Option("--bootstrap", help="host:port[,host:port…]")],
    security: Annotated[str, typer.Option("--security", help="Name of a security profile.")] = "none",
    default: Annotated[
        bool | None,
        typer.Option("--default/--no-default", help="Serves identities without a binding. Unsaid: as it is."),
    ] = None,
    unprobed: Annotated[
        bool, typer.Option("--unprobed", help="Without a look at it: it is not running yet, or cannot be reached.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")] = "registered by hand",
) -> None:
    session.found_state()
    if not unprobed:
        session.out.progress(f"{name}: {registry.require_alive(session.environment, name, bootstrap, security)}")
    revision, changed = registry.add_cluster(session.environment, name, bootstrap, security, default, reason)
    session.out.result({"cluster": name, "revision": revision, "changed": changed})
    session.out.show(
        f"Cluster {name} is registered (revision {revision})." if changed else f"Cluster {name} is as said."
    )


@app.command("remove", help="Forget a cluster that nothing refers to any more.")
@connected
def remove(
    session: Session,
    name: _Name,
    force: Annotated[bool, typer.Option("--force", help="Although topics that never moved are written there.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")] = "removed by hand",
) -> None:
    revision = registry.remove_cluster(session.environment, name, reason, force)
    session.out.result({"cluster": name, "revision": revision})
    session.out.show(f"Cluster {name} is removed (revision {revision}).")
