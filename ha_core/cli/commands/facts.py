"""`facts`: what is known of clusters, for the day on which one does not answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ha_core.cli.command import Answer, Cluster, Session, command, plain
from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.model import KnownGroup, KnownTopic
from ha_core.operations.last_seen import record, record_always
from ha_core.present.state import known_page


@command("facts record", "Look at the clusters now: specs and ends of topics, commits of groups.")
def record_now(
    session: Session,
    clusters: Annotated[list[str] | None, typer.Argument(metavar="[CLUSTER]…", help="Only these.")] = None,
    every: Annotated[
        float | None,
        typer.Option("--every", metavar="SECONDS", min=1.0, help="Again and again, until it is stopped."),
    ] = None,
) -> Answer:
    if every is not None:
        record_always(session.environment, every, clusters or None)
    looks = record(session.environment, clusters or None)
    failed = any(look.error for look in looks)
    return Answer({"looks": [asdict(look) for look in looks]}, code=FAILURE if failed else SUCCESS)


@command("facts show", "What is known of a topic or group in a cluster, and how old that is.")
def show(
    session: Session,
    cluster: Cluster,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Topics and groups; all.")] = None,
) -> Answer:
    environment, wanted = session.environment, names or None
    topics = environment.store.known(KnownTopic, cluster, wanted).values()
    groups = environment.store.known(KnownGroup, cluster, wanted).values()
    document = {"topics": [plain(one) for one in topics], "groups": [plain(one) for one in groups]}
    return Answer(document, known_page(cluster, topics, groups, environment.age_s))
