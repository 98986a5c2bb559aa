"""`status`, `topics`, `groups`, `group`, `facts`: current state, recorded facts."""

from typing import Annotated

from typer import Argument

from ha_core.cli.command import Cluster, CommandResult, CommandRun, command, option
from ha_core.cli.exits import ATTENTION, FAILURE, SUCCESS
from ha_core.model import KnownGroup, KnownTopic, Mirror
from ha_core.operations.access.caches import caches
from ha_core.operations.clusters import registered
from ha_core.operations.clusters.inventory import lag_of, lags, look_at_groups, overview
from ha_core.operations.clusters.last_seen import record, record_always
from ha_core.operations.clusters.mirrors import mirrors_now, synced
from ha_core.operations.mirror.pattern_states import patterns_now
from ha_core.operations.overview.health import problems
from ha_core.operations.overview.notices import notices
from ha_core.present.state import (
    caches_page,
    group_page,
    groups_page,
    known_page,
    notices_page,
    problems_page,
    status_page,
    topics_page,
)


@command("status", "Clusters, gateways, running operations and locks.")
def status(
    session: CommandRun,
    check: Annotated[bool, option("Only problems that need an operator; exit code 6 if any.", "--check")] = False,
) -> CommandResult:
    environment = session.environment
    store = environment.store
    view, states, gateways = store.load(left_out=(Mirror,)), registered.cluster_states(environment), store.gateways()
    running, locks = registered.running_operations(environment), store.locks()
    mirrors = mirrors_now(environment)
    found = problems(environment, view, states, gateways, running)
    known = [*notices(environment, view, running, found)]
    document = {
        "problems": found,
        "notices": known,
        "warnings": environment.warnings,
        "revision": view.revision,
        "clusters": states,
        "gateways": gateways,
        "expected_gateways": [*environment.store.expected_gateways().values()],
        "operations": [
            {"operation": o.id, "kind": o.kind, "state": o.state, "by": o.by, "reason": o.reason} for o in running
        ],
        "locks": locks,
        "mirrors": mirrors.totals_json(),
        "platform": caches(environment),
        "mirror_syncs": synced(environment, mirrors.mirrors),
        "mirror_patterns": patterns_now(environment),
    }
    warnings = [f"warning: {text}" for text in environment.warnings]
    if check:
        return CommandResult(
            document, [*problems_page(found), *notices_page(known), *warnings], ATTENTION if found else SUCCESS
        )
    page = status_page(view.revision, states, gateways, running, locks)
    followed = caches_page(caches(environment), gateways)
    return CommandResult(document, [*page, *followed, *problems_page(found), *notices_page(known), *warnings])


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
