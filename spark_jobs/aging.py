"""Job `aging`: is the origin of each moved partition still needed? A verdict with evidence for every closed extent.

The rules are those of `ha_core.plan.aging`. This job brings them the facts of many clusters at once: logs and producers
of the origins, commits of all groups, earlier ends from the history. Of a cluster that cannot be asked for its groups
the last known commits are taken, if there are any.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from pydantic import TypeAdapter
from pyspark.sql import DataFrame, functions

from ha_core.model import Extent, Topic
from ha_core.model.extent import live
from ha_core.plan.aging import GONE, Commit, LogFacts, blocks, closed, without_surplus
from spark_jobs.asking import TopicAsked
from spark_jobs.folder import Folder
from spark_jobs.history import COMMITS, ENDS, LOOKS, History
from spark_jobs.questions import Questions, by_partition, groups_listed
from spark_jobs.report import MAX_ROWS, Outcome, table
from spark_jobs.rows import frame_of, map_rows

WORST_CASES = 10
EARLIER_MS = 2 * 24 * 3600 * 1000
"""How far back an earlier end is looked for."""
_PARTITION = ["topic", "partition"]
_LOG = ["cluster", *_PARTITION]
_EXTENTS: TypeAdapter[tuple[Extent, ...]] = TypeAdapter(tuple[Extent, ...])


class Closed(NamedTuple):
    """A closed extent of a map."""

    topic: str
    partition: int
    cluster: str
    term: int
    end: int
    writing: bool
    """Its cluster is the partition's writer again."""
    extents: str
    """JSON of all extents of the partition."""
    crossed_ms: int
    """When the last crossing out of the cluster ended; 0: there was none."""


class Home(NamedTuple):
    """A cluster that coordinates a group for those who are known to use it."""

    group: str
    home: str


class Judged(NamedTuple):
    """A closed extent with what was found out about it; nulls where nothing was."""

    topic: str
    partition: int
    cluster: str
    term: int
    end: int
    extents: str
    crossed_ms: int
    exists: bool | None
    """The topic, in that cluster. None: it could not be asked."""
    config: str | None
    log_start: int | None
    log_end: int | None
    earlier_end: int | None
    earlier_at_ms: int | None
    newest_record_ms: int | None
    groups: list[str] | None
    """Of the commits below the end; the next three lists belong to it."""
    coordinators: list[str] | None
    offsets: list[int] | None
    lives: list[bool] | None


class Verdict(NamedTuple):
    """`aged`: nothing speaks against dropping the extent. `end` is its exclusive end, a client offset."""

    topic: str
    partition: int
    cluster: str
    term: int
    end: int
    aged: bool
    reasons: list[str]
    """As in `ha_core.plan.aging`, each once."""
    why: str
    """The same with the evidence, for people."""
    log_start: int | None
    log_end: int | None
    newest_record_ms: int | None
    groups_below: int


def closed_extents(topics: Iterable[Topic], crossed: Mapping[tuple[str, str], int]) -> Iterator[Closed]:
    """All closed extents of all maps. `crossed` as in `ha_core.plan.aging`."""
    for topic in topics:
        for partition, extent in closed(topic):
            extents = topic.partitions[partition]
            assert extent.end is not None
            yield Closed(
                topic=topic.name,
                partition=partition,
                cluster=extent.cluster,
                term=extent.term,
                end=extent.end,
                writing=live(extents).cluster == extent.cluster,
                extents=_EXTENTS.dump_json(extents).decode(),
                crossed_ms=crossed.get((extent.cluster, topic.name), 0),
            )


def judge(now_ms: int, unasked: frozenset[str], masked: Mapping[str, str], rows: Iterable[Judged]) -> Iterator[Verdict]:
    """Applies the rules to each row.

    :param unasked: clusters of whose groups nothing is known.
    :param masked: clusters out of service, and why.
    """
    for row in rows:
        extents = _EXTENTS.validate_json(row.extents)
        extent = next(one for one in extents if one.term == row.term)
        parts = (row.groups or (), row.coordinators or (), row.offsets or (), row.lives or ())
        commits = [Commit(*one) for one in zip(*parts, strict=True)]
        found = blocks(extents, extent, _log(row), commits, now_ms, unasked, masked=masked)
        reasons: list[str] = list(dict.fromkeys(one.reason for one in found))
        why = "; ".join(one.text for one in found)
        log = (row.log_start, row.log_end, row.newest_record_ms)
        yield Verdict(*row[:5], not found, reasons, why, *log, len(commits))


def _log(row: Judged) -> LogFacts | None:
    if row.exists is False:
        return GONE
    if row.log_start is None or row.log_end is None:
        return None
    config = json.loads(row.config or "{}")
    log = LogFacts(row.log_start, row.log_end, row.earlier_end, row.newest_record_ms, config)
    return without_surplus(log, row.earlier_at_ms, row.crossed_ms)


def commits_below(ends: DataFrame, commits: DataFrame, homes: DataFrame) -> DataFrame:
    """The commits below the end of each closed extent, as lists.

    The condition is `at_home` of `ha_core.plan.aging`, as a join.
    """
    at_home = homes.groupBy("group").agg(functions.collect_set("home").alias("homes"))
    counting = (
        commits.where("offset is not null")
        .selectExpr("group", "cluster as coordinator", "topic", "partition", "offset", "live")
        .join(at_home, "group", "left")
        .where("live or homes is null or array_contains(homes, coordinator)")
    )
    lists = {"groups": "group", "coordinators": "coordinator", "offsets": "offset", "lives": "live"}
    return (
        ends.join(counting, _PARTITION)
        .where("offset < end")
        .groupBy(*_PARTITION, "end")
        .agg(*(functions.collect_list(column).alias(name) for name, column in lists.items()))
    )


def evidence(
    closed: DataFrame, topics: DataFrame, producers: DataFrame, earlier: DataFrame, below: DataFrame
) -> DataFrame:
    """`Judged` rows: each closed extent with all that was found out about it."""
    ends = by_partition(topics).withColumnsRenamed({"start": "log_start", "end": "log_end"})
    return (
        closed.join(topics.select("cluster", "topic", "exists", "config"), ["cluster", "topic"], "left")
        .join(ends, _LOG, "left")
        .join(producers.select(*_LOG, "newest_record_ms"), _LOG, "left")
        .join(earlier, _LOG, "left")
        .join(below, [*_PARTITION, "end"], "left")
    )


def read_commits(ask: Questions, history: History | None) -> tuple[DataFrame, frozenset[str]]:
    """Commits of all groups of all clusters, and the clusters of whose groups nothing is known.

    Where a cluster cannot be asked for all of them, what was known of its others at the last look is taken as well.
    """
    listed = ask.list_clusters()
    told = ask.read_commits(groups_listed(listed))
    refused = listed.select("cluster", "error").unionByName(told.select("cluster", "error"))
    troubled = [row["cluster"] for row in refused.where("error is not null").select("cluster").distinct().collect()]
    fresh = told.where("error is null").select(*COMMITS.row._fields)
    if not troubled:
        return fresh, frozenset()
    if history is None:
        return fresh, frozenset(troubled)
    looked = {row["cluster"] for row in history.last(ask.spark, LOOKS).select("cluster").collect()}
    asked = told.where("error is null").select("cluster", "group").distinct()
    older = history.last(ask.spark, COMMITS).where(functions.col("cluster").isin(troubled))
    known = older.join(asked, ["cluster", "group"], "left_anti").select(*COMMITS.row._fields)
    return fresh.unionByName(known), frozenset(troubled) - looked


def pipeline(
    ask: Questions,
    maps: Mapping[str, Topic],
    homes: Mapping[str, frozenset[str]],
    history: History | None,
    now_ms: int,
    apart_s: float,
    crossed: Mapping[tuple[str, str], int] | None = None,
) -> DataFrame:
    """`Verdict` rows of all closed extents of `maps`; earlier ends are at least `apart_s` old.

    Topics that an operation works on are left out: their extents are about to change.
    """
    spark = ask.spark
    chosen = [topic for topic in maps.values() if topic.fence is None and topic.crossing is None]
    closed_frame = frame_of(spark, Closed, closed_extents(chosen, crossed or {}))
    # The size of a request counts all partitions of a topic, wherever they were moved from.
    asked = {
        TopicAsked(extent.cluster, topic.name, len(topic.partitions)) for topic in chosen for _, extent in closed(topic)
    }
    topics = ask.read_topics(frame_of(spark, TopicAsked, sorted(asked)))
    there = by_partition(topics).select(*_LOG)
    sent_to = closed_frame.where("not writing").select(*_LOG).distinct().join(there, _LOG)
    producers = ask.read_producers(sent_to)
    commits, unasked = read_commits(ask, history)
    before_ms = now_ms - int(apart_s * 1000)
    recorded = history.read(spark, ENDS, before_ms - EARLIER_MS) if history else frame_of(spark, ENDS.row, [])
    earlier = (
        recorded.where(f"read_at_ms <= {before_ms}")
        .join(sent_to, _LOG, "left_semi")
        .groupBy(*_LOG)
        .agg(
            functions.max_by("end", "read_at_ms").alias("earlier_end"),
            functions.max("read_at_ms").alias("earlier_at_ms"),
        )
    )
    known = frame_of(spark, Home, (Home(group, one) for group, found in homes.items() for one in sorted(found)))
    below = commits_below(closed_frame.select(*_PARTITION, "end").distinct(), commits, known)
    rows = evidence(closed_frame, topics, producers, earlier, below)
    masked = {name: one.masked.reason for name, one in ask.reach.clusters.items() if one.masked is not None}
    return map_rows(rows, partial(judge, now_ms, unasked, masked), Judged, Verdict)


def report(rows: DataFrame, output: Folder, now_ms: int) -> Outcome:
    """Writes the verdicts and sums them up."""
    folder = output / "aging" / f"part=r{now_ms}"
    rows.write.mode("overwrite").parquet(folder.uri)
    written = rows.sparkSession.read.parquet(folder.uri)
    reasons = written.select(functions.explode("reasons").alias("what")).groupBy("what").count().collect()
    topics = written.groupBy("topic", "cluster").agg(
        functions.count_if("aged").alias("aged"), functions.count("*").alias("extents")
    )
    whole = topics.where("aged = extents")
    some = whole.orderBy("topic", "cluster").limit(MAX_ROWS).collect()
    worst = [
        row.asDict()
        for row in written.where("not aged")
        .orderBy(functions.size("reasons").desc(), functions.desc("groups_below"), "topic", "partition")
        .limit(MAX_ROWS)
        .collect()
    ]
    total, aged = written.count(), written.where("aged").count()
    summary = {
        "job": "aging",
        "run_ms": now_ms,
        "extents": total,
        "aged": aged,
        "reasons": {row["what"]: row["count"] for row in reasons},
        "topics_aged": whole.count(),
        "some_topics_aged": [f"{row['topic']} in {row['cluster']}" for row in some],
        "worst": worst[:WORST_CASES],
        "path": folder.uri,
    }
    shown = [(row["topic"], row["partition"], row["cluster"], ", ".join(row["reasons"]), row["why"]) for row in worst]
    title = f"{aged:,} of {total:,} closed extents have aged; what speaks against the others:"
    return Outcome(summary, table(title, ("topic", "partition", "origin", "reasons", "why"), shown, total - aged))
