"""Aging on a real Spark session."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ha_core.model import Extent, Topic
from ha_core.model.cluster import Mask
from ha_core.plan.migration.aging import RESTLESS_MS, CommittedOffset, blocks, counts
from spark_jobs.aging import AgingEvidence, Homes, commits_below, extents_to_judge, judge, pipeline, report
from spark_jobs.folder import Folder
from spark_jobs.history import COMMITS, ENDS, LOOKS, CommitRow, EndRow, FactHistory, LookRow
from spark_jobs.questions import Questions
from spark_jobs.rows import frame_of
from tests.spark_jobs.fake_fleet import fleet

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.long("spark_jobs/aging.py", "ha_core/plan/migration/aging.py")
NOW_MS = 20_000 * 24 * 3600 * 1000


def moved(name: str, *clusters: str, cut: int = 100, partitions: int = 1) -> Topic:
    """A topic that was in each of `clusters` for `cut` offsets, the last of which is the writer."""
    extents = []
    for writer_epoch, cluster in enumerate(clusters):
        base = cut * sum(one == cluster for one in clusters[:writer_epoch])
        end = None if writer_epoch == len(clusters) - 1 else cut * (writer_epoch + 1)
        extents.append(Extent(cluster=cluster, start=cut * writer_epoch, end=end, base=base, writer_epoch=writer_epoch))
    return Topic(name=name, writer=clusters[-1], partitions=dict.fromkeys(range(partitions), tuple(extents)))


def judged(
    spark: SparkSession,
    tmp_path: Path,
    clusters: dict[str, dict[str, Any]],
    topics: list[Topic],
    homes: dict[str, frozenset[str]] | None = None,
    history: FactHistory | None = None,
    crossed: dict[tuple[str, str], int] | None = None,
    masked: str | None = None,
) -> dict[tuple[str, int, str, int], Row]:
    reach = fleet(clusters)
    if masked is not None:
        mask = Mask(since="2026-11-21T10:00:00Z", reason="rack fire", by="test")
        out = reach.clusters[masked].model_copy(update={"masked": mask})
        reach = reach._replace(clusters={**reach.clusters, masked: out})
    ask = Questions(spark, reach, Folder(str(tmp_path)))
    rows = pipeline(ask, {t.name: t for t in topics}, homes or {}, history, NOW_MS, crossed)
    outcome = report(rows, Folder(str(tmp_path / "out")), NOW_MS, {"moving": "operation op works on it"})
    assert outcome.summary["put_off"] == {"moving": "operation op works on it"}
    assert outcome.text.endswith("not judged: moving: operation op works on it")
    written = spark.read.parquet(outcome.summary["path"]).collect()
    found = {(one.topic, one.partition, one.cluster, one.end): one for one in written}
    assert outcome.summary["extents"] == len(found)
    assert outcome.summary["aged"] == sum(one.aged for one in found.values())
    return found


def test_every_reason_to_wait_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    # Given origins that are empty, hold records, have readers below the cut, are still written, and are gone
    names = ("done", "held", "read", "sent", "gone", "moved-copy")
    parts: dict[str, Any] = {name: [[100, 100]] for name in names if name != "gone"}
    east = {
        "topics": parts | {"held": [[40, 130]], "sent": [[130, 130]]},
        "configs": {"held": {"cleanup.policy": "compact"}},
        "producers": {"sent-0": [NOW_MS - 5_000], "done-0": [NOW_MS - 5_000]},
        "groups": {
            "old": {"state": "Empty", "commits": [["moved-copy", 0, 3], ["done", 0, 100]]},
        },
    }
    west = {
        "topics": {name: [[0, 50]] for name in names},
        "groups": {
            "live": {"state": "Stable", "commits": [["read", 0, 99], ["done", 0, 150]]},
            "idle": {"state": "Empty", "commits": [["read", 0, 0]]},
            "old": {"state": "Empty", "commits": [["moved-copy", 0, 120]]},
        },
    }
    # When they are judged; the group `old` is known to be at home in west
    topics = [moved(name, "east", "west") for name in names]
    rows = judged(spark, tmp_path, {"east": east, "west": west}, topics, {"old": frozenset({"west"})})
    # Then
    assert {topic: row.reasons for (topic, _, _, _), row in rows.items()} == {
        "done": [],
        "held": ["held"],
        "read": ["dead", "lagging"],
        "sent": ["written"],
        "gone": ["lost"],
        "moved-copy": [],
    }
    held, read = rows["held", 0, "east", 100], rows["read", 0, "east", 100]
    assert "offsets 40 to 100" in held.why
    assert read.groups_below == 2
    assert "group live at offset 99, 1 before the end (west)" in read.why


def test_an_origin_that_is_the_writer_again_is_judged_by_its_old_extent(spark: SparkSession, tmp_path: Path) -> None:
    # Given a topic that went east, west, east, and whose first stay has no records left
    held = {"topics": {"t": [[100, 400]]}, "producers": {"t-0": [NOW_MS]}}
    empty = {"topics": {"t": [[100, 100]]}, "producers": {}}

    rows = judged(spark, tmp_path, {"east": held, "west": empty}, [moved("t", "east", "west", "east")])

    assert {key[2:]: row.aged for key, row in rows.items()} == {("east", 100): True, ("west", 200): True}


def test_growth_is_measured_against_the_history_except_after_a_crossing(spark: SparkSession, tmp_path: Path) -> None:
    # Given a log that grew since an earlier look, and two that grew above their cuts, last 5 s ago
    history = FactHistory(str(tmp_path / "history"))
    rows = [EndRow("east", "t", 0, 100, end, NOW_MS - ago_ms) for ago_ms, end in ((RESTLESS_MS + 9, 100), (1_000, 120))]
    names = ("surplus", "bypassed")
    rows += [EndRow("east", name, 0, 100, 105, NOW_MS - RESTLESS_MS) for name in ("t", *names)]
    history.write(ENDS, frame_of(spark, EndRow, rows).repartition(1), NOW_MS - 1_000)
    east = {
        "topics": {name: [[120, 120]] for name in ("t", *names)},
        "producers": {f"{name}-0": [NOW_MS - 5_000] for name in names},
    }
    # When one of these had crossed over later than that, and the other earlier
    found = judged(
        spark,
        tmp_path,
        {"east": east, "west": {}},
        [moved(name, "east", "west") for name in ("t", *names)],
        history=history,
        crossed={("east", "surplus"): NOW_MS - 1_000, ("east", "bypassed"): NOW_MS - 2 * RESTLESS_MS},
    )
    # Then all but that one have a client that writes past the gateways
    assert {key[0]: row.reasons for key, row in found.items()} == {
        "t": ["written"],
        "surplus": [],
        "bypassed": ["written"],
    }
    assert "its log went from 100 to 120" in found["t", 0, "east", 100].why


def test_maps_without_closed_extents_give_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert judged(spark, tmp_path, {"east": {}}, [moved("u", "east")]) == {}


def test_masked_clusters_are_not_asked_and_errors_are_no_evidence(spark: SparkSession, tmp_path: Path) -> None:
    # Given a masked cluster that would answer, whose last look was incomplete; and a cluster that does not report its
    # producers, where one log grows above the map, and one topic was re-created with fewer partitions
    history = FactHistory(str(tmp_path / "history"))
    look = LookRow("south", True, 0, 0, 1, 1, "no leader", NOW_MS - 5_000)
    history.write_last({COMMITS: frame_of(spark, CommitRow, []), LOOKS: frame_of(spark, LookRow, [look])}, NOW_MS)
    east = {"topics": {"sent": [[130, 130]], "new": [[100, 100]], "done": [[100, 100]]}, "secret_producers": True}
    groups = {"billing": {"state": "Empty", "commits": [["done", 0, 7]]}}
    south = {"topics": {"kept": [[100, 100]]}, "groups": groups}
    topics = [*(moved(name, "east", "west") for name in ("sent", "done")), moved("kept", "south", "west")]
    topics.append(moved("new", "east", "west", partitions=2))
    # When they are judged
    rows = judged(spark, tmp_path, {"east": east, "west": {}, "south": south}, topics, history=history, masked="south")
    # Then the mask forbids dropping all of them, and missing facts those
    assert {key[:2]: row.reasons for key, row in rows.items()} == {
        ("sent", 0): ["unasked", "masked"],
        ("done", 0): ["masked"],
        ("kept", 0): ["masked"],
        ("new", 0): ["masked"],
        ("new", 1): ["lost", "masked"],
    }


def test_a_map_of_several_stays_gives_one_row_for_each_closed_extent() -> None:
    found = list(extents_to_judge([moved("t", "east", "west", "east", partitions=2)], {}))

    assert [(closed.partition, closed.cluster, closed.end, closed.start, closed.mapped_end) for closed in found] == [
        (0, "east", 100, 0, None),
        (0, "west", 200, 100, 100),
        (1, "east", 100, 0, None),
        (1, "west", 200, 100, 100),
    ]


def test_growth_of_a_copy_is_no_write_past_the_gateways() -> None:
    topic = moved("t", "east", "west")
    assert [closed.mapped_end for closed in extents_to_judge([topic], {}, {"t@west"})] == [100]
    assert [closed.mapped_end for closed in extents_to_judge([topic], {}, {"t@east"})] == [None]


def test_groups_of_a_dead_cluster_are_judged_by_their_last_known_commits(spark: SparkSession, tmp_path: Path) -> None:
    # Given a bystander that died after its groups were recorded, one of them below the cut
    history = FactHistory(str(tmp_path / "history"))
    look = LookRow("south", True, 0, 0, 1, 0, None, NOW_MS - 5_000)
    commits = [CommitRow("south", "g", True, "t", 0, 7, NOW_MS - 5_000)]
    history.write_last({COMMITS: frame_of(spark, CommitRow, commits), LOOKS: frame_of(spark, LookRow, [look])}, NOW_MS)
    clusters: dict[str, dict[str, Any]] = {
        "east": {"topics": {"t": [[100, 100]], "u": [[100, 100]]}},
        "west": {},
        "south": {"down": True},
    }
    # When topics that went from east to west are judged
    topics = [moved("t", "east", "west"), moved("u", "east", "west")]
    rows = judged(spark, tmp_path, clusters, topics, history=history)
    # Then only the topic that the group reads has to wait
    assert {key[0]: row.reasons for key, row in rows.items()} == {"t": ["lagging"], "u": []}


def test_rows_without_any_evidence_have_to_wait() -> None:
    (row,) = extents_to_judge([moved("t", "east", "west")], {})
    nothing = (None,) * 13

    result = judge(blocks, NOW_MS, AgingEvidence(0, 0, row.extents, 0, *nothing))

    assert (result.aged, result.reasons, result.groups_below) == (False, ["unasked"], 0)


def test_commits_of_direct_groups_are_physical_offsets_of_their_coordinators_cluster(spark: SparkSession) -> None:
    # Given a topic that went to west at 100, where its log began at 1,000: west's offset 40 is below that log
    extents = (
        Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0),
        Extent(cluster="west", start=100, end=None, base=1_000, writer_epoch=1),
    )
    topic = Topic(name="t", writer="west", partitions={0: extents})
    groups = {"report-1": ("east", 40), "report-2": ("west", 1_020), "report-3": ("east", 100), "till": ("west", 1_020)}
    frame = frame_of(
        spark,
        CommitRow,
        [CommitRow(cluster, group, False, "t", 0, offset, NOW_MS) for group, (cluster, offset) in groups.items()],
    )
    ends = spark.createDataFrame([("t", 0, 100)], "topic string, partition int, end bigint")
    homes = frame_of(spark, Homes, [])
    # When some of the groups are direct ones
    (below,) = commits_below(ends, frame, homes, ["report-*"]).collect()
    (row,) = extents_to_judge([topic], {})
    lists = [below[name] for name in ("groups", "coordinators", "offsets", "lives", "directs")]
    log = (0, 100, None, None, None, False)
    found = judge(blocks, NOW_MS, AgingEvidence(0, 0, row.extents, 0, 1, "{}", *log, *lists))
    # Then only the one that is below the end in east blocks the extent
    assert found.groups_below == 1
    assert "dead group report-1 at offset 40" in found.why
    assert "report-2" not in found.why


def test_job_and_command_agree_on_commits_that_count(spark: SparkSession) -> None:
    # Given groups with and without members, in clusters where they are, are not, or are not known to be at home
    homes = {"west": {"west"}, "both": {"east", "west"}}
    commits = [CommittedOffset(group, cluster, 5, live) for group, cluster, live in
               product(("west", "both", "anywhere"), ("east", "west"), (True, False))]  # fmt: skip
    rows = [
        CommitRow(commit.cluster, commit.group, commit.may_have_members, "orders", 0, commit.offset, NOW_MS)
        for commit in commits
    ]
    # When the job joins them
    (below,) = commits_below(
        spark.createDataFrame([("orders", 0, 100)], "topic string, partition int, end bigint"),
        frame_of(spark, CommitRow, rows),
        frame_of(spark, Homes, [Homes(group, sorted(found)) for group, found in homes.items()]),
    ).collect()
    # Then
    counted = zip(below["groups"], below["coordinators"], below["offsets"], below["lives"], strict=True)
    assert sorted(map(CommittedOffset._make, counted)) == sorted(commit for commit in commits if counts(commit, homes))
