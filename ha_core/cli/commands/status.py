"""`status`, `history`, `topics`, `groups`, `group`, `facts`: what there is now, what was done, and what is known."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from ha_core.cli.command import Answer, Cluster, Session, command, option
from ha_core.cli.exits import ATTENTION, FAILURE, SUCCESS
from ha_core.model import KnownGroup, KnownTopic, Mirror, Operation
from ha_core.operations import registry
from ha_core.operations.caches import caches
from ha_core.operations.health import problems
from ha_core.operations.inventory import lag_of, lags, look_at_groups, overview
from ha_core.operations.last_seen import record, record_always
from ha_core.operations.mirrors import mirrors_now, synced
from ha_core.operations.notices import notices
from ha_core.present.state import (
    caches_page,
    group_page,
    groups_page,
    history_page,
    known_page,
    notices_page,
    operations_page,
    problems_page,
    status_page,
    topics_page,
)


@command("status", "Clusters, gateways, running operations and locks.")
def status(
    session: Session,
    check: Annotated[bool, option("Only what waits for a human; exit code 6 if anything does.", "--check")] = False,
) -> Answer:
    environment = session.environment
    store = environment.store
    view, states, gateways = store.load(left_out=(Mirror,)), registry.cluster_states(environment), store.gateways()
    running, locks = registry.running_operations(environment), store.locks()
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
    }
    warnings = [f"warning: {text}" for text in environment.warnings]
    if check:
        return Answer(
            document, [*problems_page(found), *notices_page(known), *warnings], ATTENTION if found else SUCCESS
        )
    page = status_page(view.revision, states, gateways, running, locks)
    followed = caches_page(caches(environment), gateways)
    return Answer(document, [*page, *followed, *problems_page(found), *notices_page(known), *warnings])


@command("history", "All operations, or every entry of one.")
def history(
    session: Session,
    operation: Annotated[str | None, Argument(metavar="OPERATION")] = None,
    limit: Annotated[int, option("How many, the newest first.", min=1, max=10_000)] = 50,
    before: Annotated[str | None, option("Only operations older than this one.", metavar="OPERATION")] = None,
) -> Answer:
    store = session.environment.store
    if operation is None:
        operations = store.operations(limit, before)
        older = [f"older ones: switchyard history --before {operations[-1].id}"] if len(operations) == limit else []
        return Answer({"operations": operations}, [*operations_page(operations), *older])
    found = registry.known_operation(session.environment, operation, Operation)
    entries = store.history(operation)
    document = {"operation": found, "history": entries}
    return Answer(document, history_page(found, entries))


@command("topics", "All topics of all clusters: where they are written, what they hold, how far readers lag.")
def topics(session: Session) -> Answer:
    found = overview(session.environment)
    return Answer(found, topics_page(found))


@command("group", "A group's committed offsets, its lag, and where the record to be read next lies.")
def group(session: Session, name: Annotated[str, Argument(metavar="GROUP")]) -> Answer:
    found = lag_of(session.environment, name)
    return Answer(found, group_page(found))


@command("groups", "All groups of all clusters with their lag.")
def groups(session: Session) -> Answer:
    view = session.environment.store.load()
    look = look_at_groups(session.environment, view)
    found = lags(session.environment, view, look)
    document = {"groups": found, "unasked": dict(look.why)}
    return Answer(document, groups_page(found, look.why))


@command("facts record", "Look at the clusters now: specs and ends of topics, commits of groups.")
def record_now(
    session: Session,
    clusters: Annotated[list[str] | None, Argument(metavar="[CLUSTER]…", help="Only these.")] = None,
    every: Annotated[float | None, option("Repeat at this interval until stopped.", metavar="SECONDS", min=1.0)] = None,
) -> Answer:
    if every is not None:
        record_always(session.environment, every, clusters or None)
    looks = record(session.environment, clusters or None)
    failed = any(look.error for look in looks)
    return Answer({"looks": looks}, code=FAILURE if failed else SUCCESS)


@command("facts show", "What is known of a topic or group in a cluster, and how old that is.")
def show(
    session: Session,
    cluster: Cluster,
    names: Annotated[list[str] | None, Argument(metavar="[NAME]…", help="Topics and groups. Default: all.")] = None,
) -> Answer:
    environment, wanted = session.environment, names or None
    topics = [*environment.store.known(KnownTopic, cluster, wanted).values()]
    groups = [*environment.store.known(KnownGroup, cluster, wanted).values()]
    document = {"topics": topics, "groups": groups}
    return Answer(document, known_page(cluster, topics, groups, environment.age_s))
