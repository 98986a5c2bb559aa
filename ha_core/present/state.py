"""Clusters, gateways, operations and their history, migrations, topics, groups, and recorded facts."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ha_core.model import HistoryEntry, KnownGroup, KnownTopic, Operation, Usage, UserBindings
from ha_core.operations.access.bindings import BindingsPlan
from ha_core.operations.access.bindings_file import display_levels
from ha_core.operations.clusters.inventory import Overview
from ha_core.operations.clusters.registered import ClusterState
from ha_core.operations.engine.creating import JUDGED
from ha_core.operations.migration.listing import TopicMigration
from ha_core.operations.running.settling import CrossingStatus
from ha_core.plan.absence.masking import Affected
from ha_core.plan.access.usage_age import Churn
from ha_core.plan.facts.lag import GroupLag
from ha_core.plan.facts.verdict import amount, duration, listed
from ha_core.plan.move.users import Width
from ha_core.present.page import Mark, Marked, Page, Table, number

MAX_ROWS = 1_000
_STATUS: dict[str, Mark] = {"Migrating": "warning", "Migrated": "good", "Aged": "dim"}


def clusters_page(states: Collection[ClusterState]) -> Page:
    rows = [
        (
            c.name,
            c.bootstrap,
            c.security,
            "yes" if c.default else "",
            c.zone or "",
            listed(c.super_users),
            state.mask_words,
            state.words,
        )
        for c, state in ((state.cluster, state) for state in states)
    ]
    yield Table(("cluster", "bootstrap", "security", "default", "zone", "super users", "masked", "state"), rows)


def depends_lines(name: str, depends: Affected) -> Iterator[str]:
    if not depends.anything:
        yield f"Nothing that is known depends on {name}."
        return
    for thing, (one, many), what, names in (
        ("topic", ("is", "are"), "written there", depends.written),
        ("topic", ("has", "have"), "older records there", depends.older),
        ("group", ("is", "are"), "coordinated there", depends.groups),
        ("mirror", ("is", "are"), "not synced: settings, rights and groups stay as they are", depends.mirrors),
    ):
        if names:
            yield f"{amount(len(names), thing, one, many)} {what}: {listed(names)}"
    for user, uses in depends.users.items():
        yield f"user {user}: {listed(uses) or 'bound there, no use of it is known'}"


def bindings_page(bindings: Collection[UserBindings]) -> Page:
    rows = [row for user_bindings in bindings for row in display_levels(user_bindings).items()]
    yield Table(("who", "cluster"), rows) if rows else "No bindings."


def bindings_plan_page(plan: BindingsPlan) -> Page:
    for difference in plan.differences:
        yield from difference.lines()
    for warning in plan.warnings:
        yield Marked(f"warning: {warning}", "warning")
    if not plan.differences:
        yield "Nothing differs: the bindings are as declared."


def usage_page(usage: Mapping[str, Usage], churn: Collection[Churn] = ()) -> Page:
    rows = [
        (user, f"{kind} {name}", use.instance, use.how, use.since, use.last or "", use.software or "")
        for user, used in usage.items()
        for kind, things in (("topic", used.topics), ("group", used.groups))
        for name, uses in sorted(things.items())
        for use in uses
    ]
    columns = ("user", "uses", "instance", "how", "since", "last seen", "software")
    yield Table(columns, rows) if rows else "No usage is known."
    if churn:
        made = [(one.user, one.thing, one.family, one.instances) for one in churn]
        title = "client ids that change at each start: give each client a stable one"
        yield Table(("user", "uses", "ids", "of them"), made, title=title)


def forgotten_page(user: str, gone: Sequence[tuple[str, str, str]], dry_run: bool) -> Page:
    """:param gone: topic or group, its name, instance."""
    yield Table(("of user", "uses", "instance"), [(user, f"{what} {name}", instance) for what, name, instance in gone])
    yield f"{'Would withdraw' if dry_run else 'Withdrawn'}: {amount(len(gone), 'use')}."


def wide_users_page(widths: Collection[Width]) -> Page:
    rows = [
        (width.user, width.topics, width.groups, width.instances, width.shared_with, listed(width.super_user_of))
        for width in widths
    ]
    columns = ("user", "topics", "groups", "instances", "shares topics with", "super user of")
    if not rows:
        yield "No user is known to be wide."
        return
    yield Table(columns, rows)
    yield "A switch of one of them takes all of that along. Give each application a user of its own, with few rights."


def operations_page(operations: Sequence[Operation]) -> Page:
    if not operations:
        yield "No operation is in the history, or none matches."
        return
    rows = []
    for operation in operations:
        about = (listed(operation.about), *(operation.route or ("", "")))
        rows.append(
            (
                operation.id,
                operation.kind,
                operation.state,
                operation.started,
                *about,
                operation.by,
                operation.reason,
                operation.result,
            )
        )
    columns = ("operation", "kind", "state", "started", "scope", "from", "to", "by", "reason", "result")
    yield Table(columns, rows, whole=("operation",))


def history_page(entries: Collection[HistoryEntry]) -> Page:
    rows = [
        (e.at, e.epoch, e.step, e.outcome, "" if e.ms is None else f"{e.ms:.1f}", _json(_brief(e.detail)))
        for e in entries
    ]
    yield Table(("at", "epoch", "step", "outcome", "ms", "detail"), rows)


def migrations_page(migrations: Collection[TopicMigration]) -> Page:
    rows = [
        (
            migration.status.topic,
            Marked(migration.status.status, _STATUS[migration.status.status]),
            migration.status.partitions[0].origin,
            migration.status.partitions[0].target,
            migration.cut,
            migration.progress,
            "" if migration.age_s is None else age_words(migration.age_s),
            migration.operation.id if migration.operation else "",
            migration.groups,
            "; ".join(migration.blocks),
        )
        for migration in migrations
    ]
    columns = ("topic", "status", "from", "to", "cut", "progress", "age", "operation", "groups", "what blocks")
    yield Table(columns, rows, line="{0} is {1}, {5}: {9}".format)


def looks_page(looks: Collection[CrossingStatus]) -> Page:
    rows = [[*status.to_json().values()] for status in looks]
    yield Table(("operation", "state", "progress", "error"), rows) if rows else "no topic crosses over"


def topics_page(overview: Overview) -> Page:
    rows = [
        (
            topic.topic,
            topic.partitions,
            ", ".join(topic.written_in) + ("" if topic.moved else " (never moved)"),
            ", ".join(topic.older_in),
            number(topic.records),
            topic.groups,
            topic.furthest,
            number(topic.lag_records) if topic.groups else "",
        )
        for topic in overview.topics
    ]
    columns = ("topic", "partitions", "written in", "older records in", "records", "groups", "most behind", "lag")
    yield Table(columns, rows, max_rows=MAX_ROWS) if rows else "no cluster that answers has a topic"
    yield from _cannot_be_asked(overview.unasked)


def group_page(lag: GroupLag) -> Page:
    where = "; ".join(f"coordinated in {cluster}: {state}" for cluster, state in lag.coordinators.items())
    yield f"group {lag.group}, {where or 'coordinated nowhere that answers'}"
    if lag.offsets == "physical":
        yield "a direct group, which reads past the gateways: its offsets are those of the cluster that has the commit"
    rows = [
        (
            p.topic,
            p.partition,
            p.committed,
            number(p.end),
            number(p.lag_records),
            p.next,
            f"{p.coordinator} (standby)" if p.standby else p.coordinator,
            _as_of(p.age_s),
        )
        for p in lag.partitions
    ]
    columns = ("topic", "partition", "committed", "end", "lag records", "next record in", "committed in", "as of")
    if rows:
        yield Table(columns, rows)
    elif lag.unasked:
        away = listed(lag.unasked)
        yield f"what it has committed is not known: {away} cannot be asked, and nothing was recorded"
    else:
        yield "it has committed nothing"
    if lag.left_over:
        yield f"commits from before it moved away are left in {', '.join(lag.left_over)}"
    yield from _cannot_be_asked(lag.unasked)


def groups_page(lags: Sequence[GroupLag], unasked: Mapping[str, str]) -> Page:
    rows = [
        (
            lag.group,
            "; ".join(f"{cluster}: {state}" for cluster, state in lag.coordinators.items()),
            listed(sorted({p.topic for p in lag.partitions})),
            sum(not p.standby for p in lag.partitions),
            lag.offsets,
            number(lag.lag_records),
            _as_of(lag.age_s),
        )
        for lag in lags
    ]
    columns = ("group", "coordinated in", "topics", "partitions", "offsets", "lag records", "as of")
    yield Table(columns, rows, max_rows=MAX_ROWS) if rows else "no cluster that answers has a group"
    yield from _cannot_be_asked(unasked, ", its groups are as last seen")


def known_page(
    cluster: str, topics: Collection[KnownTopic], groups: Collection[KnownGroup], age_s: Callable[[str], float]
) -> Page:
    rows = [(t.name, round(age_s(t.at)), t.partitions, t.replication, _offsets(t.ends)) for t in topics]
    yield Table(("topic", "age s", "partitions", "replication", "ends"), rows, title=f"topics of {cluster}")
    commit_rows = []
    for g in groups:
        commits = "; ".join(f"{topic} {_offsets(offsets)}" for topic, offsets in sorted(g.offsets.items()))
        commit_rows.append((g.name, round(age_s(g.at)), g.state, commits))
    yield Table(("group", "age s", "state", "committed"), commit_rows, title=f"groups of {cluster}")


def age_words(seconds: float) -> str:
    for unit, length_s, next_unit, next_s in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length_s:
            return f"{seconds // length_s:.0f} {unit} {seconds % length_s // next_s:.0f} {next_unit}"
    return f"{seconds:.0f} s"


def _brief(detail: Mapping[str, object]) -> dict[str, object]:
    """Without judgements: the answers have them in words."""
    return {key: value for key, value in detail.items() if key != JUDGED}


def _json(detail: Mapping[str, object]) -> str:
    return json.dumps(detail, ensure_ascii=False) if detail else ""


def _as_of(age_s: float | None) -> str:
    return "now" if age_s is None else f"{duration(age_s)} ago"


def _cannot_be_asked(unasked: Mapping[str, str], so: str = "") -> Iterator[str]:
    yield from (f"{cluster} cannot be asked{so}: {why}" for cluster, why in unasked.items())


def _offsets(offsets: Mapping[int, int]) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))
