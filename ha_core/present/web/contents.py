"""The contents of each page, from facts that were read before. No function here reads anything."""

from collections.abc import Collection, Iterable, Sequence
from urllib.parse import urlencode

from markupsafe import Markup

from ha_core.model import HistoryEntry, Operation, Topic
from ha_core.operations.audit.answers import Answers
from ha_core.operations.clusters.inventory import Overview
from ha_core.operations.clusters.mirrors import MirrorsNow
from ha_core.operations.migration.listing import TopicMigration
from ha_core.operations.overview.fleet import Fleet
from ha_core.plan.facts.lag import GroupLag
from ha_core.plan.facts.problem import Problem
from ha_core.plan.migration.status import Status
from ha_core.present.audit import answers_page
from ha_core.present.fleet import fleet_sections, sections_page
from ha_core.present.mirror_picture import svg
from ha_core.present.mirrors import mirrors_page
from ha_core.present.page import Page, Table
from ha_core.present.state import group_page, groups_page, history_page, migrations_page, operations_page, topics_page
from ha_core.present.status import caches_page
from ha_core.present.web.airflow import SilentPart, airflow_card
from ha_core.present.web.blocks import ITSELF, blocks, narrowed
from ha_core.present.web.drawings import cut_bar, extents_drawing
from ha_core.present.web.problems import problem_cards

_MIGRATION_FORMS = Markup(
    '<p><a href="start?dag=settle_migrations">Settle migrations …</a> '
    '<a href="start?dag=age_migrations">Age and drop old extents …</a></p>'
)


MAX_WAYS_BACK = 20
"""Links on the page; `switchyard rollback` takes any operation."""


def fleet_contents(fleet: Fleet, silent: Iterable[SilentPart] = ()) -> Markup:
    """:param silent: parts of Airflow that give no sign of life."""
    now = fleet.picture
    waits = problem_cards(now.assessment.problems, now.assessment.notices, [airflow_card(one) for one in silent])
    tables = [*sections_page(fleet_sections(fleet)), *caches_page(now.platform, now.gateways)]
    links = {"operation": "operation?id={}", "topic": "topic?name={}", "cluster": "clients?cluster={}", "page": ITSELF}
    return waits + blocks(tables, links=links) + blocks([f"revision {now.revision}"])


def migrations_contents(migrations: Sequence[TopicMigration], words: str) -> Markup:
    if not migrations:
        return Markup("<p>No topic has moved, and none moves.</p>") + _MIGRATION_FORMS
    counts = [one.status.status for one in migrations]
    states: tuple[Status, ...] = ("Migrating", "Migrated", "Aged")
    head = Markup("<p class=strong>{}</p>").format(" → ".join(f"{counts.count(state):,} {state}" for state in states))
    # Those that move, or are blocked, come first: they need an eye.
    order = sorted(migrations, key=lambda one: (states.index(one.status.status), not one.blocks, one.status.topic))
    tables = [_with_bars(block, order) for block in migrations_page(order)]
    return head + blocks(narrowed(tables, words)) + _ways_back(order) + _MIGRATION_FORMS


def _ways_back(migrations: Sequence[TopicMigration]) -> Markup:
    """A link for each operation that may be taken back: none of its partitions has crossed over yet."""
    crossing = [one for one in migrations if one.status.status == "Migrating" and one.operation is not None]
    begun = {one.operation.id for one in crossing if one.operation is not None and one.status.reached}
    ids = dict.fromkeys(one.operation.id for one in crossing if one.operation is not None)
    links = (
        Markup('<p><a href="start?{}">Roll back {} …</a></p>').format(
            urlencode({"dag": "rollback_migration", "operation": name}), name
        )
        for name in [*(name for name in ids if name not in begun)][:MAX_WAYS_BACK]
    )
    return Markup("").join(links)


def topics_contents(overview: Overview, words: str) -> Markup:
    return blocks(narrowed(topics_page(overview), words))


def groups_contents(overview: Overview, words: str) -> Markup:
    return blocks(narrowed(groups_page(overview.groups, overview.unasked), words))


def topic_contents(
    name: str, topic: Topic | None, clusters: Collection[str], groups: Sequence[GroupLag] | None
) -> Markup:
    """:param topic: its map; None: it was never moved.
    :param clusters: those that have it, if it has no map.
    :param groups: those that have committed offsets of it; None: they are not known yet.
    """
    if topic is None:
        where = ", ".join(sorted(clusters)) or "no cluster that answers"
        drawn = Markup("<p>Never moved: offsets of clients are those of the cluster. It exists in {}.</p>").format(
            where
        )
    else:
        drawn = extents_drawing(topic)
    read_by: Page = ["Its groups are being looked up …"]
    if groups is not None:
        read_by = groups_page(groups, {}) if groups else ["no group that answered has committed offsets of it"]
    return drawn + blocks(read_by) + Markup('<p><a href="history?topic={}">Its history</a></p>').format(name)


def group_contents(lag: GroupLag) -> Markup:
    return blocks(group_page(lag))


def history_contents(operations: Sequence[Operation], older: str, looked_at: int) -> Markup:
    """:param older: the address of the next page; empty: there is none."""
    more = (
        Markup('<p><a href="{}">Older operations</a> (this page has looked at {:,})</p>').format(older, looked_at)
        if older
        else Markup("")
    )
    return blocks(operations_page(operations)) + more


def operation_contents(operation: Operation, answers: Answers, entries: Collection[HistoryEntry]) -> Markup:
    lines = blocks([*answers_page(operation, answers)])
    steps = blocks(history_page(entries))
    return lines + Markup("<h2>Record</h2>") + steps


def mirrors_contents(mirrors: MirrorsNow, more: Page, away: Sequence[Problem], at: str) -> Markup:
    """:param away: clusters that do not answer and have mirrors, as problems: a banner each."""
    banner = problem_cards(away) if away else Markup("")
    drawn = Markup(svg(mirrors, at)) if mirrors.rows else Markup("")
    return banner + drawn + blocks([*mirrors_page(mirrors), *more])


def _with_bars(block: str | Table, migrations: Sequence[TopicMigration]) -> str | Table:
    if isinstance(block, str):
        return block
    rows = [[*row[:5], cut_bar(one.status), *row[5:]] for row, one in zip(block.rows, migrations, strict=True)]
    return Table([*block.columns[:5], "to its cut", *block.columns[5:]], rows, title=block.title)
