"""LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH and DELETE_RECORDS in client offsets."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.composed.ask import Ask, ClusterUnavailableError, OneBroker
from gateway.composed.delete_records import delete_records
from gateway.composed.handlers import OK, DeletedBelow, KeepDeleted
from gateway.composed.offsets import list_offsets, offset_for_leader_epoch
from ha_core.model import Extent, Fence, Mirror, Topic, UserBindings
from ha_core.model.extent import identity
from ha_core.wire import codec
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.gateway.composed.logs import EARLIEST, HOLDS, LATEST, MAX, ask, listed, log
from tests.gateway.composed.playbook import Playbook, away, moved, only_partition, only_topic, requested, world

KEY = ApiKey.LIST_OFFSETS
UNKNOWN, NO_LEADER, NOT_LEADER = 3, 5, 6
GROWN = moved().changed(partitions={0: moved().extents(0)})
"""A topic whose other partitions were added in the writer's cluster after it was moved."""


OLD, NEW, GONE = log(0, 100, {10: 1000, 20: 2000}), log(40, 55, {42: 2600}), away("east")
"""The origin's log, the writer's, whose offset 40 is client offset 100, and an origin that does not answer."""
LISTED = {
    "the latest offset is the writer's end": (LATEST, OLD, NEW, (0, -1, 115)),
    "the latest offset before the first record of a stay is its start": (LATEST, OLD, log(0, 12), (0, -1, 100)),
    "the earliest offset is the log start of the oldest extent": (EARLIEST, log(30, 100), NEW, (0, -1, 30)),
    "an extent without records is skipped": (EARLIEST, log(100, 100), log(0, 55), (0, -1, 100)),
    "an extent whose log starts above the cut is skipped": (EARLIEST, log(250, 250), log(0, 55), (0, -1, 100)),
    "an emptied log of the writer starts at its own log start": (EARLIEST, log(100, 100), log(50, 55), (0, -1, 110)),
    "the oldest extent has a record of the time": (1500, OLD, log(40, 55, {41: 1600}), (0, 2000, 20)),
    "the new extent has a record of the time": (2500, OLD, NEW, (0, 2600, 102)),
    "records of the origin above the cut are not served": (2500, log(0, 130, {120: 2550}), NEW, (0, 2600, 102)),
    "a match below the writer's stay is the start of the stay": (2500, OLD, log(0, 55, {7: 2600}), (0, 2600, 100)),
    "a time in the future has no offset": (9999, OLD, NEW, (0, -1, -1)),
    "the old extent has the largest timestamp": (MAX, log(0, 100, {10: 5000}), NEW, (0, 5000, 10)),
    "the new extent has the largest timestamp": (MAX, OLD, NEW, (0, 2600, 102)),
    "the earliest offset is not guessed without the old cluster": (EARLIEST, GONE, NEW, (NO_LEADER, -1, -1)),
    "a time is not guessed without the old cluster": (1500, GONE, NEW, (NO_LEADER, -1, -1)),
    "the largest timestamp is not guessed without the old cluster": (MAX, GONE, NEW, (NO_LEADER, -1, -1)),
    "the latest offset does not depend on the old cluster": (LATEST, GONE, NEW, (0, -1, 115)),
}


@pytest.mark.parametrize(("timestamp", "east", "west", "expected"), LISTED.values(), ids=LISTED)
def test_offsets_of_a_moved_topic(timestamp: int, east: Any, west: Any, expected: tuple[int, int, int]) -> None:
    assert listed(timestamp, east, west) == expected


def test_the_latest_offset_honours_the_isolation_level() -> None:
    assert listed(LATEST, OLD, NEW, isolation=1) == (0, -1, 115)


def test_an_ignored_extent_is_skipped_without_asking_its_cluster() -> None:
    old, new = moved().partitions[0]
    topic = Topic(name="orders", writer="west", partitions={0: (old.changed(ignored=True), new)})

    assert listed(EARLIEST, away("east"), log(40, 55), topic) == (0, -1, 100)


def test_two_extents_in_one_cluster_are_distinguished() -> None:
    extents = (
        Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0),
        Extent(cluster="west", start=100, end=150, base=0, writer_epoch=1),
        Extent(cluster="east", start=150, end=None, base=100, writer_epoch=2),
    )
    topic = Topic(name="orders", writer="east", partitions={0: extents})
    east = log(90, 120, {95: 1000, 110: 3000})

    assert listed(EARLIEST, east, log(0, 50), topic) == (0, -1, 90)
    assert listed(LATEST, east, log(0, 50), topic) == (0, -1, 170)
    assert listed(2500, east, log(0, 50, {5: 2000}), topic) == (0, 3000, 160)
    assert listed(1500, east, log(0, 50, {5: 2000}), topic) == (0, 2000, 105)


def test_offsets_of_a_damaged_map_are_refused() -> None:
    closed = Extent(cluster="west", start=0, end=5, base=0, writer_epoch=0)
    topic = Topic(name="orders", writer="west", partitions={0: (closed,)})
    play = Playbook(list_offsets(world(west=HOLDS, topics=(topic,)), 7, ask(LATEST)))

    assert only_partition(play.result)["error_code"] == NO_LEADER


def described(*partitions: int) -> Any:
    """The answer of a cluster without the leaders of a topic: it has these partitions."""

    def answer(ask: Ask) -> dict[str, Any]:
        if ask.api_key != ApiKey.METADATA:
            return log(0, 5)(ask)  # type: ignore[no-any-return]
        found = [{"partition_index": partition, "leader_id": 1} for partition in partitions]
        return {"topics": [{"name": topic["name"], "partitions": found} for topic in ask.message["topics"]]}

    return answer


@pytest.mark.parametrize(("partition", "error"), [(77, UNKNOWN), (-1, UNKNOWN), (1, 0), (0, NO_LEADER)])
def test_a_partition_that_neither_the_map_nor_the_writer_knows_is_unknown(partition: int, error: int) -> None:
    # Given a moved topic whose map lists partition 0; the writer's cluster has partition 1, and lacks the listed one
    context = world(east={"orders": {0: 1}}, west={"orders": {}}, topics=(GROWN,), port=("west", 1))
    east, west = described(0), described(1)
    # Then nothing is concluded about the listed one
    for timestamp in (LATEST, *((EARLIEST, MAX, 1000) if partition else ())):  # the old log answers the others, too
        play = Playbook(list_offsets(context, 7, ask(timestamp, partition=partition)))
        play.answers_all({"east": east, "west": west})
        assert only_partition(play.encodes(KEY, 7))["error_code"] == error
    entry = {"partition": partition, "current_leader_epoch": -1, "leader_epoch": 0}
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    request = requested(key, 4, topics=[{"topic": "orders", "partitions": [entry]}])
    play = Playbook(offset_for_leader_epoch(context, 4, request))
    play.answers_all({"east": east, "west": west})
    assert only_partition(play.encodes(key, 4))["error_code"] == error
    if error:
        key, entry = ApiKey.DELETE_RECORDS, {"partition_index": partition, "offset": 105}
        request = requested(key, 2, topics=[{"name": "orders", "partitions": [entry]}])
        play = Playbook(delete_records(context, 2, request))
        play.answers_all({"east": east, "west": west})
        assert only_partition(play.encodes(key, 2))["error_code"] == error


def test_a_partition_is_not_unknown_while_the_writers_cluster_is_unreachable() -> None:
    context = world(east={"orders": {0: 1}}, west={"orders": {}}, topics=(GROWN,), port=("west", 1))
    play = Playbook(list_offsets(context, 7, ask(LATEST, partition=77)))
    play.answers_all({"west": away("west")})
    assert only_partition(play.encodes(KEY, 7))["error_code"] == NO_LEADER


@pytest.mark.parametrize(
    ("version", "timestamp", "error"),
    [(7, -3, 0), (6, -3, 35), (1, -3, 35), (7, -4, 35), (7, -5, 35), (7, -100, 35), (6, -2, 0), (1, -1, 0)],
)
def test_a_timestamp_that_the_version_lacks_is_unsupported(version: int, timestamp: int, error: int) -> None:
    # Given a moved topic, an unmoved one, and a missing one: a broker refuses before it looks the topic up
    context = world(east=HOLDS | {"other": {0: 1}}, west=HOLDS, topics=(moved(),), port=("east", 1))
    for topic in ("orders", "other", "nowhere"):
        play = Playbook(list_offsets(context, version, ask(timestamp, topic)))
        assert play.waits is not bool(error)
        if not play.waits:
            assert only_partition(play.encodes(KEY, version))["error_code"] == error


def test_a_topic_with_an_invalid_name_is_unknown() -> None:
    play = Playbook(list_offsets(world(port=("east", 1)), 7, ask(LATEST, "a b/")))
    invalid = {"topics": [{"name": "a b/", "error_code": 17, "partitions": []}]}
    play.answers({"east": invalid})
    assert only_partition(play.encodes(KEY, 7))["error_code"] == UNKNOWN


def test_partitions_of_unmoved_topics_go_to_their_leaders_in_one_batch_each() -> None:
    context = world(east={"a": {0: 1, 1: 2, 2: 1}}, port=("east", 1))
    partitions = [{"partition_index": n, "current_leader_epoch": 4, "timestamp": -1} for n in (2, 1, 0)]
    request = requested(KEY, 7, isolation_level=1, topics=[{"name": "a", "partitions": partitions}])
    play = Playbook(list_offsets(context, 7, request))

    play.asked(("east", OneBroker(1), KEY), ("east", OneBroker(2), KEY))
    first, second = play.asks
    assert only_topic(first.message)["partitions"] == [partitions[0], partitions[2]]
    assert first.message["isolation_level"] == 1

    def echo(ask: Ask) -> dict[str, Any]:
        answers = [
            {"partition_index": p["partition_index"], "offset": 5, "error_code": 74 if ask is second else 0}
            | {"leader_epoch": 4}
            for p in only_topic(ask.message)["partitions"]
        ]
        return {"topics": [{"name": "a", "partitions": answers}]}

    play.answers({"east": echo})

    answered = only_topic(play.encodes(KEY, 7))["partitions"]
    assert [(p["partition_index"], p["error_code"]) for p in answered] == [(2, 0), (1, 74), (0, 0)]
    assert {p["leader_epoch"] for p in answered} == {-1}, "no epoch is told without a topic id"


def test_the_leader_of_a_topic_that_is_seconds_old_is_looked_up_first() -> None:
    play = Playbook(list_offsets(world(port=("east", 1)), 7, ask(LATEST, "new")))

    assert [a.api_key for a in play.asks] == [ApiKey.METADATA]
    partitions = [{"partition_index": 0, "leader_id": 2}]
    play.answers({"east": {"topics": [{"name": "new", "partitions": partitions}]}})

    play.asked(("east", OneBroker(2), KEY))


@pytest.mark.parametrize(
    ("said", "down", "code"),
    [
        ({"error_code": UNKNOWN}, "", UNKNOWN),
        ({"partitions": [{"partition_index": 0, "leader_id": 2}]}, "", UNKNOWN),
        ({"error_code": UNKNOWN}, "west", NO_LEADER),
        ({"partitions": [{"partition_index": 7, "leader_id": -1}]}, "", NO_LEADER),
    ],
)
def test_unknown_partitions_and_partitions_without_a_leader_get_different_errors(
    said: Any, down: str, code: int
) -> None:
    # Given a partition with an unknown leader
    play = Playbook(list_offsets(world(port=("east", 1), down=down), 7, ask(LATEST, "new", partition=7)))
    # When the cluster reports that there is no such topic, no such partition, or no leader
    play.answers({"east": {"topics": [{"name": "new", **said}]}})
    # Then the client gets that error, unless an unreachable cluster may hold the topic
    assert only_partition(play.encodes(KEY, 7))["error_code"] == code


def test_a_client_on_a_port_of_its_former_cluster_has_to_look_up_the_leader_again() -> None:
    bound = UserBindings(user="alice", cluster="west")
    both = {"a": {0: 1}}
    play = Playbook(list_offsets(world(both, both, bindings=(bound,), port=("east", 1)), 7, ask(LATEST, "a")))

    assert only_partition(play.result)["error_code"] == NOT_LEADER


def epochs(east: Any, west: Any) -> dict[str, Any]:
    request = requested(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        topics=[{"topic": "orders", "partitions": [{"partition": 0, "current_leader_epoch": 3, "leader_epoch": 2}]}],
    )
    play = Playbook(offset_for_leader_epoch(world(HOLDS, HOLDS, topics=(moved(),)), 4, request))
    play.answers({"east": east, "west": west})
    partition: dict[str, Any] = only_partition(play.encodes(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4))
    return partition


def test_an_epoch_of_a_moved_topic_ends_at_the_client_end_so_that_no_consumer_sees_truncation() -> None:
    answer = epochs(log(), log(40, 55))

    assert (answer["error_code"], answer["leader_epoch"], answer["end_offset"]) == (0, 2, 115)


def test_an_epoch_is_not_answered_while_the_writer_is_unreachable() -> None:
    answer = epochs(log(), away("west"))

    assert (answer["error_code"], answer["leader_epoch"], answer["end_offset"]) == (NO_LEADER, -1, -1)


def deleted(offset: int, east: tuple[int, int], west: tuple[int, int]) -> tuple[dict[str, int], int, int]:
    """({cluster: offset deleted to}, error, low watermark) for logs with these starts and ends."""
    logs = {"east": list(east), "west": list(west)}
    upto: dict[str, int] = {}

    def cluster(ask: Ask) -> dict[str, Any] | ClusterUnavailableError:
        start, end = logs[ask.cluster]
        if ask.api_key == KEY:
            return log(start, end)(ask)  # type: ignore[no-any-return]
        ((partition,),) = (topic["partitions"] for topic in ask.message["topics"])
        upto[ask.cluster] = partition["offset"]
        low = max(start, partition["offset"])
        return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "low_watermark": low}]}]}

    request = requested(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": offset}]}],
        timeout_ms=1000,
    )
    play = Playbook(delete_records(world(HOLDS, HOLDS, topics=(moved(),)), 2, request))
    while play._step is not None:
        play.answers({"east": cluster, "west": cluster})
    partition = only_partition(play.encodes(ApiKey.DELETE_RECORDS, 2))
    return upto, partition["error_code"], partition["low_watermark"]


def test_nothing_is_deleted_under_a_fence_while_a_copy_may_become_the_log() -> None:
    request = requested(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 60}]}],
        timeout_ms=1000,
    )
    fenced = moved().changed(fence=Fence(operation="op"))
    play = Playbook(delete_records(world(HOLDS, HOLDS, topics=(fenced,)), 2, request))
    # Then no cluster is asked, and the client retries
    partition = only_partition(play.encodes(ApiKey.DELETE_RECORDS, 2))
    assert (partition["error_code"], partition["low_watermark"]) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


MIRROR = Mirror.of("orders", "east", "west", "l1", "2026-01-01T00:00:00Z", "test")
PINNED = Topic(name="orders", writer="east", partitions={0: identity("east"), 1: identity("east")})
COPIED = Topic(
    name="orders",
    writer="west",
    partitions={
        0: (
            Extent(cluster="west", start=0, end=100, base=1, writer_epoch=0, copied=True),
            Extent(cluster="west", start=3_000, end=None, base=101, writer_epoch=1),
        ),
        1: identity("west"),
    },
)


def deleting(topic: Topic, *mirrors: Mirror) -> Playbook:
    """The broker deletes the records of both partitions below 60, and confirms."""
    request = requested(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": "orders", "partitions": [{"partition_index": p, "offset": 60} for p in (0, 1)]}],
        timeout_ms=1000,
    )

    def answer(asked: Ask) -> Any:
        if asked.api_key == ApiKey.LIST_OFFSETS:
            return log(0, 500)(asked)
        (one,) = asked.message["topics"]
        rows = [{"partition_index": p["partition_index"], "low_watermark": p["offset"]} for p in one["partitions"]]
        return {"topics": [{"name": "orders", "partitions": rows}]}

    context = world(HOLDS, HOLDS, topics=(topic,), mirrors=mirrors)
    return Playbook(delete_records(context, 2, request)).answers_all({"east": answer, "west": answer})


def test_a_deletion_is_acknowledged_after_it_is_stored_for_the_copy() -> None:
    # Given a mirrored topic whose source has deleted records
    play = deleting(PINNED, MIRROR)
    # Then the client gets no answer before the deletion is stored
    assert play.step == KeepDeleted((DeletedBelow(PINNED, {0: 60, 1: 60}),))
    answer = only_topic(play.gives([OK]).encodes(ApiKey.DELETE_RECORDS, 2))
    assert [(p["error_code"], p["low_watermark"]) for p in answer["partitions"]] == [(0, 60), (0, 60)]


def test_a_client_whose_deletion_cannot_be_stored_gets_a_retriable_error() -> None:
    play = deleting(PINNED, MIRROR).gives([{"error_code": ErrorCode.LEADER_NOT_AVAILABLE}])
    answer = only_topic(play.encodes(ApiKey.DELETE_RECORDS, 2))
    assert [(p["error_code"], p["low_watermark"]) for p in answer["partitions"]] == [(NO_LEADER, -1), (NO_LEADER, -1)]


def test_a_deletion_in_a_copy_that_became_the_writer_is_stored_for_the_old_cluster() -> None:
    play = deleting(COPIED)
    assert play.step == KeepDeleted((DeletedBelow(COPIED, {0: 60}),))


def test_a_deletion_in_a_topic_without_a_copy_is_not_stored() -> None:
    assert deleting(PINNED).step is None


FENCED = moved().changed(fence=Fence(operation="op"))
ELSEWHERE = moved().changed(partitions={0: (Extent(cluster="west", start=100, base=0, writer_epoch=1),)})


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        (moved(), moved(), False),
        (moved(), moved().changed(transaction_fence=Fence(operation="op")), False),
        (moved(), FENCED, True),
        (moved(), ELSEWHERE, True),
        (None, None, False),
        (None, FENCED, True),
    ],
)
def test_a_deletion_that_a_move_may_have_missed_gets_a_retriable_error(
    before: Topic | None, after: Topic | None, again: bool
) -> None:
    # Given a deletion that was sent to the leader
    asked = {"name": "orders", "partitions": [{"partition_index": 0, "offset": 60}]}
    request = requested(ApiKey.DELETE_RECORDS, 2, topics=[asked], timeout_ms=1000)
    context = world(HOLDS, HOLDS, topics=() if before is None else (before,))
    view = replace(context.view, topics={} if after is None else {"orders": after})
    play = Playbook(delete_records(replace(context, latest=lambda: view), 2, request))
    done = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "low_watermark": 60}]}]}
    log_end = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 100}]}]}
    # When a move sets its fence, or its cut, before the leader answers
    while play.waits:
        deletes = any(ask.api_key == ApiKey.DELETE_RECORDS for ask in play.asks)
        play.answers(dict.fromkeys(("east", "west"), done if deletes else log_end))
    # Then the gateway does not acknowledge the deletion
    partition = only_partition(play.encodes(ApiKey.DELETE_RECORDS, 2))
    told = (ErrorCode.LEADER_NOT_AVAILABLE, -1) if again else (0, 60)
    assert (partition["error_code"], partition["low_watermark"]) == told


DELETED = {
    "below the cut, in the old cluster only": (60, (0, 100), ({"east": 60}, 0, 60)),
    "across the cut, in both clusters": (105, (0, 100), ({"east": 100, "west": 45}, 0, 105)),
    "all, up to the end of each extent": (-1, (0, 130), ({"east": 100, "west": 55}, 0, 115)),
    "none that do not exist yet": (116, (0, 100), ({}, 1, -1)),
    "none if they are missing: the answer is the log start": (0, (30, 100), ({"east": 0}, 0, 30)),
}


@pytest.mark.parametrize(("offset", "east", "expected"), DELETED.values(), ids=DELETED)
def test_records_of_a_moved_topic_are_deleted(offset: int, east: tuple[int, int], expected: Any) -> None:
    assert deleted(offset, east, (40, 55)) == expected


@pytest.mark.parametrize("handler", [list_offsets, offset_for_leader_epoch])
def test_brokers_get_consumer_requests_whatever_replica_the_client_claims_to_be(handler: Any) -> None:
    # Given a client that claims to be broker 2, which would see the end of uncommitted records
    entry = {"partition_index": 0, "timestamp": LATEST}
    key, topic = KEY, {"name": "orders", "partitions": [entry]}
    if handler is offset_for_leader_epoch:
        key, topic = ApiKey.OFFSET_FOR_LEADER_EPOCH, {"topic": "orders", "partitions": [{"partition": 0}]}
    request = codec.decode(key, 4, "request", codec.encode(key, 4, "request", {"replica_id": 2, "topics": [topic]}))
    play = Playbook(handler(world(east=HOLDS), 4, request))
    play.message("east", replica_id=-1)
