"""Queries to brokers are bounded and parallel, and failures are answers."""

import time
from collections.abc import Collection, Mapping

from ha_core.kafka.facts import LogEnds, RecordTimes
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Cluster
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.sasl import SecurityProfile
from spark_jobs.broker_queries import (
    PARTITIONS_PER_REQUEST,
    GroupAsked,
    PartitionAsked,
    Reach,
    ToList,
    TopicAsked,
    list_clusters,
    read_commits,
    read_producers,
    read_topics,
)
from tests.spark_jobs.fake_fleet import FakeAdmin, fleet


def test_unreachable_cluster_is_an_answer_beside_those_of_others() -> None:
    reach = fleet({"dead": {"down": True}, "east": {"topics": {"orders": [[0, 5]]}}})

    found = list(list_clusters(reach, [ToList("dead"), ToList("east")]))

    assert [(listed.cluster, listed.what, listed.name) for listed in found] == [
        ("dead", "error", None),
        ("east", "topic", "orders"),
    ]
    assert "cannot be reached" in (found[0].error or "")


def test_a_cluster_that_is_not_registered_or_has_no_profile_here_is_an_answer() -> None:
    secret = Cluster(name="east", bootstrap="east:9092", security="secret")
    reach = Reach({"east": secret}, {"none": SecurityProfile()})

    topic_reads = list(read_topics(reach, [TopicAsked("east", "a", 1), TopicAsked("lost", "a", 1)]))

    assert [topic_read.exists for topic_read in topic_reads] == [None, None]
    assert "security profile 'secret'" in (topic_reads[0].error or "")
    assert "not registered" in (topic_reads[1].error or "")


def test_refused_topic_is_separated_from_its_neighbours() -> None:
    topics = {f"t{n}": [[0, n]] for n in range(9)}
    reach = fleet({"east": {"topics": topics, "forbidden": ["t4"]}})

    topic_reads = {
        topic_read.topic: topic_read
        for topic_read in read_topics(reach, [TopicAsked("east", name, 1) for name in topics])
    }

    assert [name for name, topic_read in topic_reads.items() if topic_read.error] == ["t4"]
    assert topic_reads["t8"].ends == [8]


def test_missing_topic_and_leaderless_partition_are_reported() -> None:
    reach = fleet({"east": {"topics": {"half": [[0, 5], None]}}})

    half, gone = read_topics(reach, [TopicAsked("east", "half", 2), TopicAsked("east", "gone", 2)])

    assert (half.exists, half.starts, half.ends) == (True, [0, None], [5, None])
    assert half.error == "no leader reports the offsets of partition 1"
    assert (gone.exists, gone.error) == (False, None)


def test_timestamps_are_read_by_partition_on_request() -> None:
    reach = fleet({"east": {"topics": {"orders": [[0, 5, 1_000, 9_000], None, [0, 7], [3, 8, 2_000, None]]}}})

    (wanted,) = read_topics(reach, [TopicAsked("east", "orders", 4)], timestamps=True)
    (unwanted,) = read_topics(reach, [TopicAsked("east", "orders", 4)])

    assert wanted.first_record_ms == [1_000, None, None, 2_000]
    assert wanted.newest_record_ms == [9_000, None, None, None]
    assert (unwanted.first_record_ms, unwanted.newest_record_ms) == ([], [])
    assert wanted.ends == unwanted.ends == [5, None, 7, 8]


class SlowDisks(FakeAdmin):
    granted_s: list[float] = []  # noqa: RUF012  # shared by all that are opened

    def record_times(
        self, ends: Mapping[Partition, LogEnds], timeout_s: float | None = None
    ) -> dict[Partition, RecordTimes]:
        assert timeout_s is not None
        SlowDisks.granted_s.append(timeout_s)
        time.sleep(min(0.7, timeout_s))
        return super().record_times(ends, timeout_s)


def slow_disks(cluster: Cluster, _profile: SecurityProfile, _timeout_s: float) -> SlowDisks:
    return SlowDisks(cluster)


def test_cluster_has_one_timeout_in_total_for_timestamps() -> None:
    # Given a cluster that takes most of the timeout for the timestamps of one request
    SlowDisks.granted_s.clear()
    topics = {f"t{n}": [[0, 5, 1, 2]] for n in range(4)}
    reach = fleet({"east": {"topics": topics}})._replace(connect=slow_disks, timeout_s=1.0)
    # When four requests are needed
    topic_reads = list(read_topics(reach, [TopicAsked("east", name, PARTITIONS_PER_REQUEST) for name in topics], True))
    # Then two of them had time to ask, and all have their ends
    assert len(SlowDisks.granted_s) == 2
    assert SlowDisks.granted_s[1] <= 0.3
    assert [topic_read.newest_record_ms for topic_read in topic_reads if topic_read.newest_record_ms != [None]] == [
        [2],
        [2],
    ]
    assert [topic_read.ends for topic_read in topic_reads] == [[5]] * 4


class Counting(FakeAdmin):
    asked: list[int] = []  # noqa: RUF012  # shared by all that are opened

    def topics(
        self, names: Collection[str] | None = None, offsets: bool = True, timeout_s: float | None = None
    ) -> dict[str, TopicDescription]:
        Counting.asked.append(len(names or ()))
        time.sleep(0.2 if self.held.get("down") else 0)
        return super().topics(names, offsets, timeout_s)


def counting(cluster: Cluster, _profile: SecurityProfile, _timeout_s: float) -> Counting:
    return Counting(cluster)


def test_requests_are_bounded_and_a_dead_cluster_is_asked_once() -> None:
    Counting.asked.clear()
    reach = fleet({"east": {"topics": {}}, "dead": {"down": True}})._replace(connect=counting)
    size = PARTITIONS_PER_REQUEST // 4
    rows = [TopicAsked(cluster, f"t{n}", size) for cluster in ("east", "dead") for n in range(40)]

    topic_reads = list(read_topics(reach, rows))

    assert len(topic_reads) == 80
    assert sum(topic_read.exists is None for topic_read in topic_reads) == 40
    assert sorted(Counting.asked) == [4] * 11, "ten requests to the live one, one to the dead one"


def test_groups_without_offsets_are_reported_too() -> None:
    groups = {"a": {"state": "Stable", "commits": [["orders", 0, 5]]}, "b": {"state": "", "commits": []}}
    reach = fleet({"east": {"groups": groups}})

    commit_reads = list(read_commits(reach, [GroupAsked("east", "a", "Stable"), GroupAsked("east", "b", "")]))

    assert [
        (commit_read.group, commit_read.live, commit_read.topic, commit_read.offset) for commit_read in commit_reads
    ] == [
        ("a", True, "orders", 5),
        ("b", False, None, None),
    ]


def test_producers_have_a_newest_record_and_old_brokers_report_none() -> None:
    reach = fleet({"new": {"producers": {"t-0": [5, 9]}}, "old": {}})

    producers_reads = list(read_producers(reach, [PartitionAsked(c, "t", p) for c in ("new", "old") for p in (0, 1)]))

    assert [(producers_read.producers, producers_read.newest_record_ms) for producers_read in producers_reads] == [
        (2, 9),
        (0, None),
        (None, None),
        (None, None),
    ]
    assert not any(producers_read.error for producers_read in producers_reads)
