"""`flows`: flows of a MirrorMaker 2 configuration."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.flows.configuration import configuration
from ha_core.flows.properties import read, resolve
from ha_core.present.page import Marked, Table

File = Annotated[Path, typer.Argument(metavar="FILE", help="mm2.properties, unchanged.")]


@command("flows check", "Show the flows of a file, and its keys without effect. Starts nothing.")
def check(
    session: CommandRun,
    file: File,
    like_3_9: Annotated[bool, option("Use Kafka 3.9's defaults where 4.3 has others.", "--like-3.9")] = False,
) -> CommandResult:
    found = configuration(resolve(read(file), str(file), os.environ), str(file), like_3_9=like_3_9)
    rows = [
        (
            flow.name,
            ", ".join(flow.topics.include.texts),
            flow.policy.format_remote_topic(flow.source, "TOPIC"),
            flow.begins_at,
            "committed" if flow.committed_only else "all",
            _each(flow.checkpoints_s),
            _each(flow.commit_offsets_s),
        )
        for flow in found.flows
    ]
    columns = ("flow", "topics", "copies are named", "begins", "records", "checkpoints", "group offsets")
    lines = [Marked(f"{remark.place}{remark.text}", "warning") for remark in found.remarks]
    document = {
        "clusters": {cluster.alias: list(cluster.bootstrap) for cluster in found.clusters},
        "flows": [dict(zip(columns, row, strict=True)) for row in rows],
        "remarks": [remark._asdict() for remark in found.remarks],
    }
    return CommandResult(document, (Table(columns, rows), *lines))


def _each(seconds: int | None) -> str:
    return "-" if seconds is None else f"each {seconds} s"
