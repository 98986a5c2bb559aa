"""`topics`, `groups`, `group`, `facts`: topics and groups now, and as they were recorded."""

from typing import Annotated

from typer import Argument

from ha_core.cli.command import Cluster, CommandResult, CommandRun, command, option
from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.model import KnownGroup, KnownTopic
from ha_core.operations.clusters.inventory import lag_of, lags, look_at_groups, overview
from ha_core.operations.clusters.last_seen import record, record_always
from ha_core.present.state import (
    group_page,
    groups_page,
    known_page,
    topics_page,
)


@command("topics", "All topics of all clusters: writer, size, consumer lag.")
def topics(session: CommandRun) -> CommandResult:
    found = overview(session.environment)
    return CommandResult(found, topics_page(found))


@command("group", "A group's committed offsets, its lag, and the cluster of its next record.")
def group(session: CommandRun, name: Annotated[str, Argument(metavar="GROUP")]) -> CommandResult:
    lag = lag_of(session.environment, name)
    return CommandResult(lag, group_page(lag))


@command("groups", "All groups of all clusters with their lag.")
def groups(session: CommandRun) -> CommandResult:
    view = session.environment.store.load()
    look = look_at_groups(session.environment, view)
    group_lags = lags(session.environment, view, look)
    document = {"groups": group_lags, "unasked": dict(look.why)}
    return CommandResult(document, groups_page(group_lags, look.why))


@command("facts record", "Record facts of the clusters now: topics' settings and log ends, groups' commits.")
def record_now(
    session: CommandRun,
    clusters: Annotated[list[str] | None, Argument(metavar="[CLUSTER]…", help="Only these clusters.")] = None,
    every: Annotated[float | None, option("Repeat at this interval until stopped.", metavar="SECONDS", min=1.0)] = None,
) -> CommandResult:
    if every is not None:
        record_always(session.environment, every, clusters or None)
    looks = record(session.environment, clusters or None)
    failed = any(look.error for look in looks)
    return CommandResult({"looks": looks}, code=FAILURE if failed else SUCCESS)


@command("facts show", "Recorded facts of topics and groups in a cluster, and their age.")
def show(
    session: CommandRun,
    cluster: Cluster,
    names: Annotated[list[str] | None, Argument(metavar="[NAME]…", help="Topics and groups. Default: all.")] = None,
) -> CommandResult:
    environment, wanted = session.environment, names or None
    topics = [*environment.store.known(KnownTopic, cluster, wanted).values()]
    groups = [*environment.store.known(KnownGroup, cluster, wanted).values()]
    document = {"topics": topics, "groups": groups}
    return CommandResult(document, known_page(cluster, topics, groups, environment.age_s))
