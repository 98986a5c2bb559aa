"""`flows check` and `flows status`: the flows of a MirrorMaker 2 configuration."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.mirror_maker.checks import check_live, require
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.model.isolation import Isolation
from ha_core.present.flows import remark_lines
from ha_core.present.page import Table

_RECORDS = {Isolation.COMMITTED: "committed", Isolation.UNCOMMITTED: "all"}
File = Annotated[Path, typer.Argument(metavar="FILE", help="mm2.properties, unchanged.")]


@command("flows check", "Show a file's flows, and its keys without effect. Starts nothing.")
def check(
    session: CommandRun,
    file: File,
    like_3_9: Annotated[bool, option("Use Kafka 3.9's defaults where 4.3 has others.", "--like-3.9")] = False,
    live: Annotated[bool, option("Also ask the clusters.", "--live")] = False,
) -> CommandResult:
    found = FlowsFile(file, like_3_9).read()
    clusters = FlowClusters(found.clusters, str(file))
    remarks = [*found.remarks, *clusters.remarks]
    if live:
        remarks += require(check_live(found, clusters, found.flows), str(file))
    rows = [
        (
            flow.name,
            ", ".join(flow.topics.include.texts) if flow.topics.own is None else f"filter {flow.topics.own.name}",
            flow.policy.format_remote_topic(flow.source, "TOPIC"),
            flow.begins_at,
            _RECORDS[flow.isolation],
            _each(flow.checkpoints_s),
            _each(flow.commit_offsets_s),
        )
        for flow in found.flows
    ]
    columns = ("flow", "topics", "copies are named", "begins", "records", "checkpoints", "group offsets")
    document = {
        "clusters": {cluster.alias: list(cluster.bootstrap) for cluster in found.clusters},
        "flows": [dict(zip(columns, row, strict=True)) for row in rows],
        "remarks": [remark._asdict() for remark in remarks],
    }
    return CommandResult(document, (Table(columns, rows), *remark_lines(remarks)))


@command("flows status", "Show the workers that run flows, and the state of each flow.")
def status(session: CommandRun) -> CommandResult:
    states = [
        {"worker": worker.id[:8], "host": f"{worker.host}:{worker.pid}", **state}
        for worker in sorted(session.environment.store.flow_workers(), key=lambda one: one.since)
        for _, state in sorted(worker.states.items())
    ]
    columns = ("worker", "host", "flow", "topics", "partitions", "lag in records", "bytes/s", "trouble")
    rows = [
        (
            str(state["worker"]),
            str(state["host"]),
            str(state["flow"]),
            str(state["topics"]),
            ", ".join(f"{count} {name}" for name, count in sorted(state["partitions"].items())) or "-",
            "unknown" if state.get("lag_records") is None else str(state["lag_records"]),
            f"{state['bytes_s']:.0f}",
            "; ".join(_troubles(state)) or "-",
        )
        for state in states
    ]
    if not rows:
        return CommandResult(states, ("No worker runs flows with this ZooKeeper.",))
    return CommandResult(states, (Table(columns, rows),))


def _troubles(state: Mapping[str, Any]) -> Iterator[str]:
    """The reasons why parts of a flow do not work, the most serious first."""
    if state["trouble"]:
        yield str(state["trouble"])
    yield from (f"{name}: {trouble}" for name, trouble in state["duties"].items() if trouble)
    yield from (f"{one['topic']}-{one['partition']}: {one['reason']}" for one in state["worst"] if one.get("reason"))
    yield from (f"{one['topic']}: {one['reason']}" for one in state["skipped_topics"])


def _each(seconds: int | None) -> str:
    return "-" if seconds is None else f"every {seconds} s"
