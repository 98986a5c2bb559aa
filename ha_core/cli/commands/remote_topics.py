"""`flows topics`, `flows release`, `flows unguard`: list topics that only flows write, and let clients write there."""

import os
from collections.abc import Iterator
from typing import Annotated

import typer

from ha_core.cli.command import CommandResult, CommandRun, Yes, command, option
from ha_core.cli.commands.flows import File
from ha_core.flows.configuration import configuration
from ha_core.flows.properties import read, resolve
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.guarding import remove_remote_guards
from ha_core.model import FlowId, View
from ha_core.model.remote_topics import source_alias
from ha_core.operations.engine.errors import unchanged
from ha_core.plan.facts.verdict import listed
from ha_core.present.page import Table

Topics = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]…", help="Remote topics. Default: all.")]


@command("flows topics", "List the topics that only flows write: gateways refuse other writers.")
def topics(session: CommandRun) -> CommandResult:
    found = [
        {"flow": str(flow), "remote_topic": remote, "source": source or None}
        for flow, its in _claims(session.environment.store.load())
        for remote, source in sorted(its.items())
    ]
    if not found:
        return CommandResult(found, ("No flow has claimed a topic.",))
    columns = ("flow", "remote topic", "source")
    return CommandResult(found, (Table(columns, [tuple(str(row[key] or "-") for key in row) for row in found]),))


@command("flows release", "End a flow's claim on its remote topics: gateways then let clients write to them.")
def release(
    session: CommandRun,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="As `flows topics` shows it, or its name alone.")],
    topic: Topics = None,
    yes: Yes = False,
) -> CommandResult:
    store = session.environment.store
    claims = dict(_claims(store.load()))
    named = [known for known in claims if flow in (known.name, str(known))]
    if len(named) != 1:
        known = listed(map(str, claims)) or "none"
        why = f"{len(named)} flows have this name" if named else "no flow of this name has claimed a topic"
        raise unchanged(f"{flow}: {why}. Flows with claims: {known}.")
    (chosen,) = named
    if running := [worker for worker in store.flow_workers() if str(chosen) in worker.flows]:
        where = f"{running[0].host}:{running[0].pid}"
        raise unchanged(
            f"{chosen} runs in worker {where}, which would claim its topics again. Stop the worker or the flow first."
        )
    its = claims[chosen]
    if unknown := [name for name in topic or () if name not in its]:
        raise unchanged(f"{chosen} has not claimed {listed(unknown)}. `switchyard flows topics` lists its topics.")
    gone = sorted(topic or its)
    asked = f"Clients may write to {listed(gone)} from then on. If the flow runs again, it stops there."
    bindings, alias = store.load().bindings, source_alias(chosen.name)
    if users := sorted(user for user, its in bindings.items() if its.local_names == alias):
        asked += f" {listed(users)} see them under local names, which end: stop their consumers first."
    session.confirm(yes, asked)
    revision = store.remove_remote_topics(chosen, topic)
    words = f"{chosen} has released {listed(gone)}: gateways that follow revision {revision} let clients write there."
    return CommandResult({"flow": str(chosen), "released": gone, "revision": revision}, (words,))


@command("flows unguard", "Remove the guards of `mirror-maker --guard-remote-topics` from a file's targets.")
def unguard(
    session: CommandRun,
    file: File,
    topic: Topics = None,
    like_3_9: Annotated[bool, option("Use Kafka 3.9's defaults where 4.3 has others.", "--like-3.9")] = False,
) -> CommandResult:
    found = configuration(resolve(read(file), str(file), os.environ), str(file), like_3_9=like_3_9)
    clusters, removed = FlowClusters(found.clusters), dict[str, list[str]]()
    for target in sorted({flow.target for flow in found.flows}):
        with clusters.admin(target) as admin:
            removed[target] = remove_remote_guards(admin, topic)
    lines = [
        f"{target}: {f'removed the guards of {listed(names)}' if names else 'no topic had a guard'}."
        for target, names in removed.items()
    ]
    return CommandResult(removed, tuple(lines))


def _claims(view: View) -> Iterator[tuple[FlowId, dict[str, str]]]:
    """Yields each flow with its remote topics (remote topic → topic of the source), sorted by flow."""
    found: dict[FlowId, dict[str, str]] = {}
    for _, portion in sorted(view.remote_topics.items()):
        found.setdefault(FlowId(portion.flow, portion.source_id, portion.target_id), {}).update(portion.topics)
    return iter(sorted(found.items()))
