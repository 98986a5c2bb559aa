"""Lists of all topics, which flows ask for each few seconds: a list that has not changed is not decoded again."""

from typing import Any

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import UnsupportedByClusterError
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster
from ha_core.wire.codes import ApiKey
from tests.kafka.scripted_broker import answered, broker, listening


def topic(name: str, partitions: int) -> dict[str, Any]:
    parts = [
        {
            "error_code": 0,
            "partition_index": number,
            "leader_id": 1,
            "leader_epoch": 0,
            "replica_nodes": [1],
            "isr_nodes": [1],
            "offline_replicas": [],
        }
        for number in range(partitions)
    ]
    return {"error_code": 0, "name": name, "topic_id": bytes(15) + b"\1", "is_internal": False, "partitions": parts}


def test_list_of_topics_is_the_present_one_whether_it_changed_or_not() -> None:
    # Given a cluster with a topic
    topics = [topic("orders", 2)]

    def answer(frame: bytes) -> bytes:
        here = {"node_id": 1, "host": "127.0.0.1", "port": 1}
        return answered(frame, {"brokers": [here], "topics": topics})

    with (
        listening(broker({ApiKey.METADATA: (0, 12)}, answer)) as port,
        Admin(Cluster(name="west", bootstrap=f"127.0.0.1:{port}"), NO_SECURITY) as west,
    ):
        first = west.list_topics()
        # When nothing changed, and a caller changed its own list
        again = west.list_topics()
        again.clear()
        # Then the list is the same one
        assert west.list_topics() == first
        assert {name: listed.partitions for name, listed in first.items()} == {"orders": 2}
        # When the topic grows, and another one comes
        topics[:] = [topic("orders", 3), topic("invoices", 1)]
        # Then the list shows both
        assert {name: listed.partitions for name, listed in west.list_topics().items()} == {"orders": 3, "invoices": 1}


def test_settings_of_topics_are_only_read_for_callers_that_need_them() -> None:
    """A page of 10,000 topics read 300,000 settings, and showed no topic where that took longer than its 10 s."""

    def answer(frame: bytes) -> bytes:
        here = {"node_id": 1, "host": "127.0.0.1", "port": 1}
        return answered(frame, {"brokers": [here], "topics": [topic("orders", 2)]})

    with (
        listening(broker({ApiKey.METADATA: (0, 12)}, answer)) as port,
        Admin(Cluster(name="west", bootstrap=f"127.0.0.1:{port}"), NO_SECURITY) as west,
    ):
        assert west.topics(offsets=False, settings=False)["orders"].partitions == 2
        with pytest.raises(UnsupportedByClusterError, match="DESCRIBE_CONFIGS"):
            west.topics(offsets=False)
