"""`mirror verify`: compares the records of copies and sources."""

from __future__ import annotations

import secrets
from typing import Annotated

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.operations.copies.comparing import SAMPLE, compare_mirrors
from ha_core.present.comparing import compared_page


@command(
    "mirror verify", "Compare copies with their sources, record by record; exit code 6 if any differ or are missing."
)
def verify(
    session: CommandRun,
    topics: Annotated[list[str], Argument(metavar="TOPIC…", help="Names or patterns.")],
    target: Annotated[str, option("Cluster that has the copies, where a topic has several.", "--to")] = "",
    sample: Annotated[bool, option("Compare only a sample of the offset ranges.", "--sample")] = False,
    share: Annotated[float, option("Share of the ranges that a sample compares.", min=0.0, max=1.0)] = SAMPLE,
    seed: Annotated[int | None, option("Seed of the sample. Default: a new one each time.")] = None,
) -> CommandResult:
    by = secrets.randbits(31) if seed is None else seed
    found = compare_mirrors(session.environment, topics, target, share if sample else 1.0, by)
    return CommandResult(found, compared_page(found), SUCCESS if found.equal else ATTENTION)
