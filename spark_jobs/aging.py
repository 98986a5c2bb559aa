"""Job `aging`: finds origins of moved partitions that are no longer needed. A verdict with evidence per closed extent.

`ha_core.plan.migration.aging` has the rules and their inputs.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pydantic import TypeAdapter
from pyspark.sql import DataFrame, functions

from ha_core.model import Extent, Topic
from ha_core.model.extent import client_place
from ha_core.plan.migration.aging import Block, CommittedOffset, blocks, closed_extents, log_of
from spark_jobs import broker_queries
from spark_jobs.broker_queries import TopicAsked
from spark_jobs.folder import Folder
from spark_jobs.history import COMMITS, ENDS, LOOKS, FactHistory
from spark_jobs.patterns import matching
from spark_jobs.questions import Questions, by_partition, errors, groups_listed
from spark_jobs.report import MAX_ROWS, JobOutcome, table
from spark_jobs.rows import frame_of, with_columns

WORST_CASES = 10
EARLIER_MS = 2 * 24 * 3600 * 1000
"""How far back to look for an earlier end."""
_PARTITION = ["topic", "partition"]
_LOG = ["cluster", *_PARTITION]
_COLUMNS = (
    *("topic", "partition", "cluster", "start", "end", "aged", "reasons", "why"),
    *("log_start", "log_end", "newest_record_ms", "groups_below"),
)
"""Columns of a verdict on an extent; `end` is its exclusive end, a client offset."""
_EXTENTS: TypeAdapter[tuple[Extent, ...]] = TypeAdapter(tuple[Extent, ...])


class ClosedExtent(NamedTuple):
    """A closed extent of a map."""

    topic: str
    partition: int
    cluster: str
    start: int
    """Its first client offset, which identifies it."""
    end: int
    mapped_end: int | None
    """Physical end if the map's last extent of its cluster ends there; None: its cluster is the partition's writer
    again, or has a copy of the topic, which grows without the gateways."""
    extents: str
    """JSON of all extents of the partition."""
    crossed_ms: int
    """When the last crossing out of the cluster ended; 0: none has."""


class Homes(NamedTuple):
    """The clusters that coordinate a group for the clients known to use it."""

    group: str
    homes: list[str]


class AgingEvidence(NamedTuple):
    """Evidence about a closed extent; null where unknown."""

    partition: int
    start: int
    extents: str
    crossed_ms: int
    partitions: int | None
    """Number in the topic of the extent's cluster; 0: it does not exist. None: the cluster did not answer."""
    config: str | None
    log_start: int | None
    log_end: int | None
    looked_ms: list[int] | None
    """Times at which its end was recorded before; the next list has those ends."""
    ends: list[int] | None
    newest_record_ms: int | None
    producers_unknown: bool | None
    """True if its leader does not report its producers."""
    groups: list[str] | None
    """Groups with commits below the end, and direct groups; the next four lists belong to it."""
    coordinators: list[str] | None
    offsets: list[int] | None
    """Client offsets; those of direct groups are physical offsets of the coordinator's cluster."""
    lives: list[bool] | None
    directs: list[bool] | None


class AgingResult(NamedTuple):
    aged: bool
    """Nothing prevents dropping the extent."""
    reasons: list[str]
    """As in `ha_core.plan.migration.aging`, without duplicates."""
    why: str
    """The reasons with their evidence, for people."""
    groups_below: int


def extents_to_judge(
    topics: Iterable[Topic], crossed: Mapping[tuple[str, str], int], copies: Collection[str] = ()
) -> Iterator[ClosedExtent]:
    """All closed extents of all maps. `crossed` as in `ha_core.plan.migration.aging`.

    :param copies: keys of mirrors, `{topic}@{cluster that has the copy}`.
    """
    for topic in topics:
        for partition, extent in closed_extents(topic):
            extents = topic.partitions[partition]
            last = next(one for one in reversed(extents) if one.cluster == extent.cluster)
            assert extent.end is not None
            yield ClosedExtent(
                topic=topic.name,
                partition=partition,
                cluster=extent.cluster,
                start=extent.start,
                end=extent.end,
                mapped_end=None if f"{topic.name}@{extent.cluster}" in copies else last.physical_end,
                extents=_EXTENTS.dump_json(extents).decode(),
                crossed_ms=crossed.get((extent.cluster, topic.name), 0),
            )


def judge(against: Callable[..., tuple[Block, ...]], now_ms: int, row: AgingEvidence) -> AgingResult:
    """:param against: `blocks`, with all its facts about clusters."""
    extents = _EXTENTS.validate_json(row.extents)
    extent = next(one for one in extents if one.start == row.start)
    ends = (
        None if row.log_start is None or row.log_end is None or row.producers_unknown else (row.log_start, row.log_end)
    )
    looks = zip(row.looked_ms or (), row.ends or (), strict=True)
    config = json.loads(row.config or "{}")
    written_ms = row.newest_record_ms or 0
    log = log_of(row.partition, row.partitions, ends, config, looks, written_ms, now_ms, row.crossed_ms)
    parts = (row.groups or (), row.coordinators or (), row.offsets or (), row.lives or (), row.directs or ())
    several = (_committed(extents, *one) for one in zip(*parts, strict=True))
    commits = [one for one in several if one is not None and extent.end is not None and one.offset < extent.end]
    found = against(extents, extent, log, commits, now_ms)
    reasons: list[str] = list(dict.fromkeys(block.reason for block in found))
    return AgingResult(not found, reasons, "; ".join(block.text for block in found), len(commits))


def _committed(
    extents: Sequence[Extent], group: str, coordinator: str, offset: int, live: bool, direct: bool
) -> CommittedOffset | None:
    place = client_place(extents, coordinator, offset) if direct else offset
    return None if place is None else CommittedOffset(group, coordinator, place, live)


def commits_below(
    ends: DataFrame, commits: DataFrame, homes: DataFrame, direct_groups: Collection[str] = ()
) -> DataFrame:
    """The commits below the end of each closed extent, as lists; a join in place of `counts` of
    `ha_core.plan.migration.aging`.

    :param direct_groups: patterns. The commits of such groups come all, because their offsets are others.
    """
    direct = matching("group", direct_groups) if direct_groups else functions.lit(False)
    counting = (
        commits.where("offset is not null")
        .withColumn("direct", direct)
        .selectExpr("group", "cluster as coordinator", "topic", "partition", "offset", "live", "direct")
        .join(homes, "group", "left")
        .where("live or homes is null or array_contains(homes, coordinator)")
    )
    lists = {"groups": "group", "coordinators": "coordinator", "offsets": "offset", "lives": "live"}
    lists |= {"directs": "direct"}
    return (
        ends.join(counting, _PARTITION)
        .where("direct or offset < end")
        .groupBy(*_PARTITION, "end")
        .agg(*(functions.collect_list(column).alias(name) for name, column in lists.items()))
    )


def evidence(
    closed: DataFrame, topics: DataFrame, producers: DataFrame, earlier: DataFrame, below: DataFrame
) -> DataFrame:
    ends = by_partition(topics).withColumnsRenamed({"start": "log_start", "end": "log_end"})
    described = topics.where("exists is not null").select("cluster", "topic", "partitions", "config")
    return (
        closed.join(described, ["cluster", "topic"], "left")
        .join(ends, _LOG, "left")
        .join(producers.selectExpr(*_LOG, "newest_record_ms", "error is not null as producers_unknown"), _LOG, "left")
        .join(earlier, _LOG, "left")
        .join(below, [*_PARTITION, "end"], "left")
    )


def read_commits(
    ask: Questions, history: FactHistory | None, masked: Collection[str]
) -> tuple[DataFrame, frozenset[str], frozenset[str]]:
    """Commits of all groups of all clusters, the clusters without any known groups, and the clusters that did not
    answer for all groups, whose other commits come from the last complete look. Masked clusters are not asked.
    """
    listed = ask.list_clusters(without=masked)
    commits = ask(broker_queries.read_commits, groups_listed(listed))
    fresh = commits.where("error is null").select(*COMMITS.row._fields)
    refused = errors(listed, commits).select("cluster").distinct().collect()
    troubled = frozenset(masked).union(row["cluster"] for row in refused)
    if not troubled or history is None:
        return fresh, troubled, frozenset()
    looks = history.last(ask.spark, LOOKS).where("errors = 0")
    looked = troubled.intersection(row["cluster"] for row in looks.select("cluster").collect())
    older = history.last(ask.spark, COMMITS).where(functions.col("cluster").isin(list(troubled)))
    known = older.join(fresh.select("cluster", "group").distinct(), ["cluster", "group"], "left_anti")
    return fresh.unionByName(known.select(*COMMITS.row._fields)), troubled - looked, looked


def pipeline(
    ask: Questions,
    maps: Mapping[str, Topic],
    homes: Mapping[str, frozenset[str]],
    history: FactHistory | None,
    now_ms: int,
    crossed: Mapping[tuple[str, str], int] | None = None,
    copies: Collection[str] = (),
    direct_groups: Collection[str] = (),
) -> DataFrame:
    """The verdicts on all closed extents of `maps`, which are `candidates`. `copies` as in `extents_to_judge`,
    `direct_groups` as in `commits_below`."""
    spark = ask.spark
    masked = {name: cluster.masked.reason for name, cluster in ask.reach.clusters.items() if cluster.masked is not None}
    closed_frame = frame_of(spark, ClosedExtent, extents_to_judge(maps.values(), crossed or {}, copies))
    # The size of a request counts all partitions of a topic, wherever they were moved from.
    requests = {
        TopicAsked(extent.cluster, topic.name, len(topic.partitions))
        for topic in maps.values()
        for _, extent in closed_extents(topic)
        if extent.cluster not in masked
    }
    topics = ask(broker_queries.read_topics, frame_of(spark, TopicAsked, sorted(requests)))
    there = by_partition(topics).select(*_LOG, "end")
    ended = closed_frame.select(*_LOG, "mapped_end").distinct()
    gone_on = ended.join(there, _LOG).where("end > mapped_end").select(*_LOG)
    producers = ask(broker_queries.read_producers, gone_on)
    commits, unasked, last_seen = read_commits(ask, history, masked)
    recorded = history.read(spark, ENDS, now_ms - EARLIER_MS) if history else frame_of(spark, ENDS.row, [])
    looks = recorded.join(gone_on, _LOG, "left_semi").groupBy(*_LOG)
    earlier = looks.agg(
        functions.collect_list("read_at_ms").alias("looked_ms"), functions.collect_list("end").alias("ends")
    )
    frame = frame_of(spark, Homes, (Homes(group, sorted(found)) for group, found in homes.items()))
    below = commits_below(closed_frame.select(*_PARTITION, "end").distinct(), commits, frame, direct_groups)
    rows = evidence(closed_frame, topics, producers, earlier, below)
    against = partial(blocks, unasked=unasked, masked=masked, last_seen=last_seen)
    return with_columns(rows, partial(judge, against, now_ms), AgingEvidence, AgingResult).select(*_COLUMNS)


def report(rows: DataFrame, output: Folder, now_ms: int, put_off: Mapping[str, str]) -> JobOutcome:
    """Writes the verdicts and sums them up. `put_off` has topics that were not judged, with the reason."""
    folder = output / "aging" / f"part=r{now_ms}"
    rows.write.mode("overwrite").parquet(folder.uri)
    written = rows.sparkSession.read.parquet(folder.uri)
    reasons = written.select(functions.explode("reasons").alias("what")).groupBy("what").count().collect()
    topics = written.groupBy("topic", "cluster").agg(
        functions.count_if("aged").alias("aged"), functions.count("*").alias("extents")
    )
    whole = topics.where("aged = extents")
    some = whole.orderBy("topic", "cluster").limit(MAX_ROWS).collect()
    worst_first = (functions.size("reasons").desc(), functions.desc("groups_below"), "topic", "partition")
    kept = written.where("not aged").orderBy(*worst_first).limit(MAX_ROWS).collect()
    left = sorted(put_off.items())[:MAX_ROWS]
    total, aged = written.count(), written.where("aged").count()
    summary = {
        "job": "aging",
        "run_ms": now_ms,
        "extents": total,
        "aged": aged,
        "reasons": {row["what"]: row["count"] for row in reasons},
        "topics_aged": whole.count(),
        "some_topics_aged": [f"{row['topic']} in {row['cluster']}" for row in some],
        "worst": [row.asDict() for row in kept[:WORST_CASES]],
        "put_off": dict(left),
        "path": folder.uri,
    }
    shown = [(row["topic"], row["partition"], row["cluster"], ", ".join(row["reasons"]), row["why"]) for row in kept]
    title = f"{aged:,} of {total:,} closed extents have aged; reasons against the others:"
    text = table(title, ("topic", "partition", "origin", "reasons", "why"), shown, total - aged)
    return JobOutcome(summary, "\n".join([text, *(f"not judged: {name}: {why}" for name, why in left)]))
