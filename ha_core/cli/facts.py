"""`switchyard facts`: what is known of clusters, for the day on which one does not answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.model import KnownGroup, KnownTopic
from ha_core.operations.last_seen import age_s, record, record_always

app = typer.Typer(help="What is known of clusters, for the day on which one does not answer.", no_args_is_help=True)


@app.command("record", help="Look at the clusters now: specs and ends of topics, commits of groups.")
@connected
def record_now(
    session: Session,
    clusters: Annotated[list[str] | None, typer.Argument(metavar="[CLUSTER]…", help="Only these.")] = None,
    every: Annotated[
        float | None,
        typer.Option("--every", metavar="SECONDS", min=1.0, help="Again and again, until it is stopped."),
    ] = None,
) -> int:
    if every is not None:
        record_always(session.environment, every, clusters or None)
    looks = record(session.environment, clusters or None)
    session.out.result({"looks": [asdict(look) for look in looks]})
    return FAILURE if any(look.error for look in looks) else SUCCESS


@app.command("show", help="What is known of a topic or group in a cluster, and how old that is.")
@connected
def show(
    session: Session,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Topics and groups; all.")] = None,
) -> None:
    environment, wanted = session.environment, names or None
    topics = environment.store.known(KnownTopic, cluster, wanted)
    groups = environment.store.known(KnownGroup, cluster, wanted)
    session.out.result(
        {
            "topics": [one.model_dump(mode="json", exclude={"schema_"}) for one in topics.values()],
            "groups": [one.model_dump(mode="json", exclude={"schema_"}) for one in groups.values()],
        }
    )
    session.out.show(
        table(
            ("topic", "age s", "partitions", "replication", "ends"),
            [
                (t.name, round(age_s(environment, t.at)), t.partitions, t.replication, _numbers(t.ends))
                for t in topics.values()
            ],
            title=f"topics of {cluster}",
        )
    )
    session.out.show(
        table(
            ("group", "age s", "state", "committed"),
            [
                (
                    g.name,
                    round(age_s(environment, g.at)),
                    g.state,
                    "; ".join(f"{topic} {_numbers(offsets)}" for topic, offsets in sorted(g.offsets.items())),
                )
                for g in groups.values()
            ],
            title=f"groups of {cluster}",
        )
    )


def _numbers(offsets: dict[int, int]) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))
