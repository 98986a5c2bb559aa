"""`flows take` and `flows give-back`: hand flows over from MirrorMaker 2 to Switchyard, and back."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.flow_config import FlowConfig
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.flow_handover import give_back_flow, take_flow
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.plan.facts.clusters import Partition
from ha_core.present.page import Marked, Table

File = Annotated[Path, typer.Argument(metavar="FILE", help="mm2.properties, unchanged.")]
Flow = Annotated[str, typer.Argument(metavar="FLOW", help="SOURCE->TARGET, by the aliases of the file.")]


@command("flows take", "Show where a stopped MirrorMaker 2's copies go on. Changes nothing without --begin.")
def take(
    session: CommandRun,
    file: File,
    flow: Flow,
    at: Annotated[
        list[str] | None, option("Go on at TOPIC-PARTITION=OFFSET of the source, without a comparison.")
    ] = None,
    begin: Annotated[bool, option("Begin these copies, as workers do by themselves.")] = False,
) -> CommandResult:
    found = FlowsFile(file).read()
    judged = take_flow(_chosen(found, flow), _clusters(found, file), dict(_places(at or ())), begin)
    columns = ("topic", "partition", "goes on at", "doubles records", "remark")
    rows = [
        (topic, str(partition), str(one.source_start), "no" if one.exact else "maybe", one.reason or "-")
        for one in judged.handed
        for topic, partition in [one.copy.source_key]
    ]
    lines = [Marked(f"{topic}-{number}: {reason}", "error") for (topic, number), reason in judged.refused.items()]
    document = {
        "handed": [dict(zip(columns, row, strict=True)) for row in rows],
        "refused": {f"{topic}-{number}": reason for (topic, number), reason in judged.refused.items()},
        "begun": begin,
    }
    page = (Table(columns, rows),) if rows else ("No copy can be taken over from MirrorMaker 2.",)
    return CommandResult(document, (*page, *lines), ATTENTION if judged.refused else SUCCESS)


@command("flows give-back", "Fence a flow's copiers, and write for MirrorMaker 2 where to go on.")
def give_back(session: CommandRun, file: File, flow: Flow) -> CommandResult:
    found = FlowsFile(file).read()
    written = give_back_flow(_chosen(found, flow), _clusters(found, file))
    rows = [(topic, str(partition), str(offset)) for (topic, partition), offset in sorted(written.items())]
    document = {f"{topic}-{partition}": offset for (topic, partition), offset in sorted(written.items())}
    page = (Table(("topic", "partition", "last copied"), rows),) if rows else ("The flow has copied nothing.",)
    return CommandResult(document, page)


def _chosen(found: Configuration, name: str) -> FlowConfig:
    for flow in found.flows:
        if flow.name == name:
            return flow
    raise FlowError(f"{name} is not one of the file's flows: {', '.join(flow.name for flow in found.flows)}")


def _clusters(found: Configuration, file: Path) -> FlowClusters:
    return FlowClusters(found.clusters, str(file))


def _places(texts: Iterable[str]) -> Iterator[tuple[Partition, int]]:
    for text in texts:
        key, _, offset = text.rpartition("=")
        topic, _, partition = key.rpartition("-")
        if not (topic and partition.isdecimal() and offset.isdecimal()):
            raise FlowError(f"--at {text} does not have the form TOPIC-PARTITION=OFFSET, such as orders-0=4711")
        yield (topic, int(partition)), int(offset)
