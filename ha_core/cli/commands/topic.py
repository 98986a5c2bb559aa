"""`topic`: draws the extents of a topic; `topics delete`: deletes topics in all clusters."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from rich.text import Text
from typer import Argument

from ha_core.cli.command import (
    CommandResult,
    CommandRun,
    DryRun,
    Reason,
    Yes,
    command,
    of_reports,
    option,
)
from ha_core.cli.output import COLOURS
from ha_core.model import Extent, Topic
from ha_core.model.shown import shown
from ha_core.operations.absence.given_up import end_interrupted
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.migration.topic_deletion import delete, plan_deletion
from ha_core.plan.absence.returned import dead_at_the_cut
from ha_core.plan.facts.verdict import listed
from ha_core.present.extents import end_words, widths
from ha_core.present.lifecycle import deletion_page

FILLS = "█▓▒░▚▤"


@command("topic", "Draw a topic's extents: the cluster of each range of offsets.")
def topic(session: CommandRun, name: Annotated[str, Argument(metavar="TOPIC")]) -> CommandResult:
    view = session.environment.store.load()
    found = view.topics.get(name)
    if found is not None and found.deletion is not None:
        words = f"{name}: being deleted since {found.deletion.since}, by operation {found.deletion.operation}"
        return CommandResult({"topic": name, "map": found}, [words])
    if found is None:
        holders = session.environment.clusters_with(name, view)
        if not holders:
            raise RefusedError(
                f"Topic {name} has no map and exists in no reachable cluster "
                f"({', '.join(sorted(view.clusters)) or 'none registered'}). Check the name."
            )
        words = f"{name}: never moved, passed through unchanged; exists in {', '.join(holders)}"
        return CommandResult({"topic": name, "map": None, "clusters": holders}, [words])
    session.out.show(_title(found, view.revision))
    session.out.show(draw(found) if found.partitions else "no map yet: client offsets are the cluster's own")
    document = {"topic": name, "map": found.model_dump(mode="json", by_alias=True, exclude_none=True)}
    return CommandResult(document, dead_at_the_cut(found, view.masked))


@command("topics delete", "Delete topics in all clusters, with their maps and mirrors. Their names become free.")
def delete_now(
    session: CommandRun,
    topics: Annotated[list[str], Argument(metavar="TOPIC…", help="Names; no patterns.")],
    reason: Reason,
    accept_away: Annotated[
        bool, option("Even if a cluster does not answer: the names stay taken until it does.", "--accept-away")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    if not dry_run:
        end_interrupted(session.environment, "delete")
    proposal = plan_deletion(session.environment, topics, accept_away)
    question = f"Delete {listed(proposal.topics)} with all records, for good?"
    if answer := session.judge(proposal, deletion_page(proposal), question, dry_run, yes):
        return answer
    return of_reports(delete(session.environment, topics, reason, accept_away))


def _title(topic: Topic, revision: int) -> Text:
    title = Text(shown(topic.name), style="bold")
    title.append(f"  writer {topic.writer or '(its own cluster)'}, revision {revision}", style="not bold")
    if topic.fence:
        title.append(f", FENCED by operation {topic.fence.operation}", style="bold red")
    if topic.crossing:
        words = f", crosses over ({topic.crossing.state}) for operation {topic.crossing.operation}"
        title.append(words, style="bold yellow")
    if topic.transaction_fence:
        operation = topic.transaction_fence.operation
        title.append(f", no transaction may begin: operation {operation} waits for open ones", style="bold red")
    return title


def draw(topic: Topic) -> Text:
    """One line per partition: a bar in the clusters' colours and fills, then the extents in numbers."""
    clusters = sorted({e.cluster for extents in topic.partitions.values() for e in extents} | {topic.writer or ""})
    style = {name: (COLOURS[i % len(COLOURS)], FILLS[i % len(FILLS)]) for i, name in enumerate(clusters)}
    drawing = Text()
    digits = len(str(max(topic.partitions, default=0)))
    for partition, extents in sorted(topic.partitions.items()):
        drawing.append(f"{partition:>{digits}}  ")
        drawing.append_text(_bar(extents, style))
        drawing.append("  ")
        drawing.append_text(Text(" │ ").join(_words(e, style) for e in extents))
        drawing.append("\n")
    return drawing


def _bar(extents: Sequence[Extent], style: Mapping[str, tuple[str, str]]) -> Text:
    bar = Text()
    for extent, cells in zip(extents, widths(extents), strict=True):
        colour, fill = style[extent.cluster]
        bar.append("·" * cells if extent.ignored else fill * cells, style=colour)
        bar.append("▶" if extent.end is None else "┃", style=colour if extent.end is None else "bold")
    return bar


def _words(extent: Extent, style: Mapping[str, tuple[str, str]]) -> Text:
    end = "…" if extent.end is None else str(extent.end)
    words = Text(extent.cluster, style=style[extent.cluster][0])
    words.append(f" [{extent.start}, {end}) → {extent.base} term {extent.writer_epoch}", style="default")
    if extent.ignored:
        words.append(" skipped by readers", style="dim")
    if about_end := end_words(extent):
        words.append(f" {about_end}", style="yellow" if extent.found_end is None else "bold red")
    return words
