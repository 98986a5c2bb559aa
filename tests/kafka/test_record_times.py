"""Timestamps of first and newest records: two real versions, and a scripted broker that is too old for one of them."""

import time
from collections.abc import Callable

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import LogEnds, RecordTimes, TopicSpec
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codec import decode
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.sasl import SecurityProfile
from tests.kafka.clients import settings
from tests.kafka.scripted_broker import Answer, answered, broker, header_of, listening

Fresh = Callable[[str], str]
OLD_MS = 1_000
AHEAD_MS = time.time_ns() // 1_000_000 + 30 * 60_000
"""Brokers from 4.0 on refuse more than an hour by default (KIP-1030)."""


@pytest.mark.stack
def test_first_and_newest_records_have_the_timestamps_of_the_log(
    either: Admin, account: SecurityProfile, fresh: Fresh
) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    # Given a log whose largest timestamp is in its middle, an empty one, an emptied one, and one whose largest
    # timestamp is below its start
    name, stamped = fresh("times"), fresh("stamped")
    kept = {"retention.ms": "-1"}
    either.create_topics(
        [TopicSpec(name, 4, 1, kept), TopicSpec(stamped, 1, 1, kept | {"message.timestamp.type": "LogAppendTime"})]
    )
    producer = Producer(settings(either.cluster, account))
    written = {0: (OLD_MS, OLD_MS + 1, AHEAD_MS, 5_000), 2: (OLD_MS,), 3: (AHEAD_MS, 2_000, 3_000, 2_500)}
    for partition, times in written.items():
        for at_ms in times:
            producer.produce(name, b"record", partition=partition, timestamp=at_ms)
            assert producer.flush(30) == 0  # a batch of its own
    before_ms = time.time_ns() // 1_000_000
    producer.produce(stamped, b"record", partition=0, timestamp=OLD_MS)
    assert producer.flush(30) == 0
    emptied = [TopicPartition(name, 2, 1), TopicPartition(name, 3, 1)]
    admin = AdminClient(settings(either.cluster, account))
    for deleted in admin.delete_records(emptied).values():
        deleted.result(30)
    # When they are asked for
    ends = either.ends([*((name, partition) for partition in range(4)), (stamped, 0)])
    record_times = either.record_times(ends)
    # Then they are reported where the log has them
    by_broker = record_times.pop((stamped, 0))
    assert record_times == {
        (name, 0): RecordTimes(OLD_MS, AHEAD_MS),
        (name, 1): RecordTimes(None, None),
        (name, 2): RecordTimes(None, None),
        (name, 3): RecordTimes(2_000, None),
    }
    assert by_broker.first_ms == by_broker.newest_ms
    assert by_broker.first_ms is not None
    assert before_ms - 1_000 <= by_broker.first_ms <= before_ms + 60_000


def test_a_broker_without_max_timestamp_is_asked_for_the_first_record_only() -> None:
    # Given a broker of an older version, with three of four partitions, one of them too old
    asked: list[int] = []
    said = {0: (0, OLD_MS, 3), 1: (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1, -1), 2: (0, -1, -1)}
    answer = scripted(5, asked, said)
    # When record times are asked for
    times = ask(answer, 4)
    # Then the first record is known where the broker reported it, and nothing else was requested.
    # The last partition has another leader by now
    assert times == {
        ("t", 0): RecordTimes(OLD_MS, None),
        **dict.fromkeys([("t", 1), ("t", 2), ("t", 3)], RecordTimes(None, None)),
    }
    assert asked == [0]


def test_a_broker_with_max_timestamp_is_asked_for_first_and_newest_record() -> None:
    asked: list[int] = []

    times = ask(scripted(9, asked, {0: (0, OLD_MS, 3)}), 1)

    assert times == {("t", 0): RecordTimes(OLD_MS, OLD_MS)}
    assert asked == [0, -3]


def test_a_leader_that_hangs_up_or_answers_too_late_gives_no_record_times() -> None:
    assert ask(scripted(7, [], None), 1) == {}
    assert ask(scripted(7, [], {0: (0, OLD_MS, 3)}), 1, timeout_s=0) == {}


def scripted(version: int, asked: list[int], said: dict[int, tuple[int, int, int]] | None) -> Answer:
    """A broker up to that version of LIST_OFFSETS. `said`: partition → error, timestamp, offset; None: it hangs up."""

    def answer(frame: bytes) -> bytes | None:
        if said is None:
            return None
        header = header_of(frame)
        request = decode(ApiKey.LIST_OFFSETS, header.api_version, "request", frame, header.body_at)
        (timestamp,) = {part["timestamp"] for topic in request["topics"] for part in topic["partitions"]}
        asked.append(timestamp)
        parts = [
            {"partition_index": index, "error_code": code, "timestamp": at_ms, "offset": offset}
            for index, (code, at_ms, offset) in said.items()
        ]
        return answered(frame, {"topics": [{"name": "t", "partitions": parts}]})

    return broker({ApiKey.LIST_OFFSETS: (1, version)}, answer)


def ask(leader: Answer, partitions: int, timeout_s: float = 10) -> dict[Partition, RecordTimes]:
    """Record times of `partitions` with offsets 2 to 9, led by one broker; the metadata come from another one."""
    ends = {("t", index): LogEnds(2, 9, 9, 9, 1, 5) for index in range(partitions)}
    with listening(leader) as port:
        nodes = {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": port}], "topics": []}
        knows = broker({ApiKey.METADATA: (0, 12)}, lambda frame: answered(frame, nodes))
        with (
            listening(knows) as bootstrap,
            Admin(Cluster(name="east", bootstrap=f"127.0.0.1:{bootstrap}"), NO_SECURITY, 10) as admin,
        ):
            assert admin.topics(["t"]) == {}
            return admin.record_times(ends, timeout_s)
